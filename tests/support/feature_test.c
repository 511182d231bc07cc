/* SPDX-License-Identifier: Apache-2.0
 *
 * See feature_test.h. */
#include "support/feature_test.h"

feature_test feature_begin(void)
{
    feature_test t = { .nn = nn_begin(1), .columns = est_columns_create() };

    assert_non_null(t.columns);
    return t;
}

void feature_end(feature_test *t)
{
    for (int i = 0; i < t->n; i++) {
        est_tensor_free(t->features[i].values);
        est_tensor_free(t->features[i].splits);
    }
    nn_end(&t->nn);
    est_columns_free(t->columns);
}

static est_feature find(void *user, const char *name)
{
    feature_test *t = user;

    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->features[i].name, name) == 0) return t->features[i].feature;
    }
    return (est_feature){ 0 };
}

est_features feature_features(feature_test *t)
{
    return (est_features){ .graph = t->nn.graph, .find = find, .user = t };
}

/* A placeholder that does not know how many rows there will be. */
static void add(feature_test *t, const char *name, est_dtype dtype, est_shape shape, est_tensor *values)
{
    assert_true(t->n < FEATURES_MAX);
    if (shape.rank > 0) shape.dim[0] = -1;
    t->features[t->n].name           = name;
    t->features[t->n].values         = values;
    t->features[t->n].feature.values = est_placeholder(t->nn.graph, NULL, dtype, shape);
    t->n++;
}

void feature_f32(feature_test *t, const char *name, est_shape shape, const float *values)
{
    est_tensor *tensor = NULL;

    assert_ok(est_tensor_f32(shape, values, &tensor));
    add(t, name, EST_F32, shape, tensor);
}

void feature_i64(feature_test *t, const char *name, est_shape shape, const int64_t *values)
{
    est_tensor *tensor = NULL;

    assert_ok(est_tensor_i64(shape, values, &tensor));
    add(t, name, EST_I64, shape, tensor);
}

void feature_strings(feature_test *t, const char *name, est_shape shape, const char *const *values)
{
    est_tensor *tensor = NULL;

    assert_ok(est_tensor_create(EST_STRING, shape, &tensor));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        assert_ok(est_tensor_set_string(tensor, i, values[i], strlen(values[i])));
    }
    add(t, name, EST_STRING, shape, tensor);
}

void feature_rows(feature_test *t, const char *name, int n, const int64_t *splits)
{
    assert_string_equal(t->features[t->n - 1].name, name);
    assert_ok(est_tensor_i64(EST_SHAPE(n + 1), splits, &t->features[t->n - 1].splits));
    t->features[t->n - 1].feature.splits = est_placeholder(t->nn.graph, NULL, EST_I64, EST_SHAPE(-1));
}

void feature_ready(feature_test *t)
{
    nn_ready(&t->nn);
}

static est_status run(feature_test *t, est_node node, est_tensor **out)
{
    est_feed feeds[2 * FEATURES_MAX];
    int      n = 0;

    for (int i = 0; i < t->n; i++) {
        feeds[n++] = (est_feed){ t->features[i].feature.values, t->features[i].values };
        if (t->features[i].splits != NULL)
            feeds[n++] = (est_feed){ t->features[i].feature.splits, t->features[i].splits };
    }
    return est_session_run(t->nn.session, (est_feeds){ feeds, n }, EST_NODES(node), EST_NO_NODES, out);
}

int64_t feature_fetch(feature_test *t, est_node node, double *out, int64_t n)
{
    est_tensor *value = NULL;
    int64_t     count;

    assert_ok(run(t, node, &value));
    count = est_tensor_count(value);
    for (int64_t i = 0; i < count && i < n; i++) out[i] = nn_element(value, i);
    est_tensor_free(value);
    return count;
}

void feature_fails(feature_test *t, est_node node, const char *text)
{
    est_tensor *value = NULL;

    if (run(t, node, &value) == EST_OK) fail_msg("the run must fail with: %s", text);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
}

void feature_set(feature_test *t, const char *variable, est_shape shape, const float *values)
{
    est_tensor *tensor = NULL;

    assert_ok(est_tensor_f32(shape, values, &tensor));
    assert_ok(est_session_write(t->nn.session, variable, tensor));
    est_tensor_free(tensor);
}

void feature_expect_values(feature_test *t, est_node node, const double *want, int64_t n)
{
    double got[256];

    assert_true(n <= 256);
    assert_int_equal(feature_fetch(t, node, got, n), n);
    for (int64_t i = 0; i < n; i++) {
        if (fabs(got[i] - want[i]) > 1e-6 * fmax(1, fabs(want[i]))) {
            fail_msg("element %d is %.9g, expected %.9g", (int)i, got[i], want[i]);
        }
    }
}

static void expect_error(est_status status, const char *text)
{
    if (status == EST_OK) fail_msg("nothing failed; expected: %s", text);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
}

void feature_bad_column(feature_test *t, const char *text)
{
    expect_error(est_columns_status(t->columns), text);
    est_columns_free(t->columns);
    t->columns = est_columns_create();
    assert_non_null(t->columns);
}

void feature_bad_graph(feature_test *t, const char *text)
{
    expect_error(est_graph_status(t->nn.graph), text);
}
