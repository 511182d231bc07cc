/* SPDX-License-Identifier: Apache-2.0
 *
 * See nn_test.h. */
#include "support/nn_test.h"

#include "base/alloc.h"
#include "base/file.h"

nn_test nn_begin(uint64_t seed)
{
    nn_test t = { 0 };

    assert_ok(est_graph_create(seed, &t.graph));
    return t;
}

void nn_ready(nn_test *t)
{
    assert_ok(est_graph_status(t->graph));
    t->session = nn_session(t->graph, NULL);
}

est_session *nn_session(est_graph *graph, struct est_remote *remote)
{
    est_session *session = NULL;

    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    assert_ok(est_session_init(session));
    return session;
}

bool nn_is_same(est_session *a, est_session *b, const char *name)
{
    est_tensor *x = NULL, *y = NULL;
    bool        same;

    assert_ok(est_session_read(a, name, &x));
    assert_ok(est_session_read(b, name, &y));
    assert_true(est_shape_equal(est_tensor_shape(x), est_tensor_shape(y)));
    same = memcmp(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x)) == 0;
    est_tensor_free(x);
    est_tensor_free(y);
    return same;
}

void nn_assert_same(est_session *a, est_session *b)
{
    assert_int_equal(est_session_variables(a), est_session_variables(b));
    for (int i = 0; i < est_session_variables(a); i++) {
        const char *name = est_session_variable(a, i);

        if (!nn_is_same(a, b, name)) fail_msg("'%s' differs", name);
    }
}

double nn_difference(est_session *a, est_session *b)
{
    double most = 0;

    assert_int_equal(est_session_variables(a), est_session_variables(b));
    for (int i = 0; i < est_session_variables(a); i++) {
        const char *name = est_session_variable(a, i);
        est_tensor *x, *y;

        assert_ok(est_session_read(a, name, &x));
        assert_ok(est_session_read(b, name, &y));
        for (int64_t k = 0; est_tensor_dtype(x) == EST_F32 && k < est_tensor_count(x); k++) {
            double d = fabs((double)((const float *)est_tensor_data(x))[k] - ((const float *)est_tensor_data(y))[k]);
            if (!(d <= most)) most = d;
        }
        est_tensor_free(x);
        est_tensor_free(y);
    }
    return most;
}

est_json *nn_golden(const char *name)
{
    char      path[512], *bytes = NULL;
    size_t    size = 0;
    est_json *root = NULL;

    snprintf(path, sizeof path, "%s/tests/golden/%s", EST_SOURCE_DIR, name);
    assert_ok(est_file_read(path, &bytes, &size));
    assert_ok(est_json_parse(bytes, size, path, &root));
    est_free(bytes);
    return root;
}

void nn_end(nn_test *t)
{
    est_session_free(t->session);
    est_graph_free(t->graph);
}

double nn_element(const est_tensor *tensor, int64_t i)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: return ((const float *)data)[i];
    case EST_F64: return ((const double *)data)[i];
    case EST_I32: return ((const int32_t *)data)[i];
    case EST_I64: return (double)((const int64_t *)data)[i];
    case EST_BOOL: return ((const uint8_t *)data)[i];
    default: fail_msg("no number"); return 0;
    }
}

int64_t nn_fetch(nn_test *t, est_node node, double *out, int64_t n)
{
    est_tensor *value = NULL;
    int64_t     count;

    assert_ok(est_session_run(t->session, EST_NO_FEEDS, EST_NODES(node), (est_nodes){ 0 }, &value));
    count = est_tensor_count(value);
    for (int64_t i = 0; i < count && i < n; i++) out[i] = nn_element(value, i);
    est_tensor_free(value);
    return count;
}

double nn_scalar(nn_test *t, est_node node)
{
    double value = NAN;

    assert_int_equal(nn_fetch(t, node, &value, 1), 1);
    return value;
}

void nn_run(nn_test *t, est_node target)
{
    assert_ok(est_session_run(t->session, EST_NO_FEEDS, (est_nodes){ 0 }, EST_NODES(target), NULL));
}

int64_t nn_read(nn_test *t, const char *name, double *out, int64_t n)
{
    est_tensor *value = NULL;
    int64_t     count;

    assert_ok(est_session_read(t->session, name, &value));
    count = est_tensor_count(value);
    for (int64_t i = 0; i < count && i < n; i++) out[i] = nn_element(value, i);
    est_tensor_free(value);
    return count;
}

est_node nn_const(est_graph *graph, est_shape shape, const double *values)
{
    float   few[256];
    int64_t n = est_shape_count(&shape);

    assert_true(n <= 256);
    for (int64_t i = 0; i < n; i++) few[i] = (float)values[i];
    return est_const_f32(graph, shape, few);
}
