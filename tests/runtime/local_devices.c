/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with devices that run by themselves, against sessions on the CPU: two far devices. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "estoc/estoc.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/far_device.h"
#include "support/log_test.h"
#include "support/nn_test.h"
#include "support/test.h"

#define ROWS  12
#define UNITS 5

typedef struct small_model {
    est_graph   *graph;
    est_session *session;
    est_node     x, ids, loss, train;
    est_step    *step;
} small_model;

static int64_t table_columns = 4; /* of make_model */

/* A table, two layers, dropout, Adagrad: dense and sparse updates, and integers on the host. */
static small_model make_model(const est_session_options *options, const char *table_device)
{
    small_model m = { 0 };
    est_node    table, h;

    assert_ok(est_graph_create(7, &m.graph));
    m.x   = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 3));
    m.ids = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    est_graph_device(m.graph, table_device);
    table = est_weight(m.graph, "table", EST_SHAPE(ROWS, table_columns), NULL);
    est_graph_device(m.graph, NULL);
    h       = est_concat(EST_NODES(m.x, est_resource_gather(table, m.ids)), 1);
    h       = est_dense(h, UNITS, EST_DENSE(.activation = est_relu));
    h       = est_dropout(h, 0.25, 3);
    m.loss  = est_mean(est_square(est_dense(h, 1, NULL)));
    m.train = est_minimize(est_adagrad(0.1, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    assert_ok(est_session_create(m.graph, options, &m.session));
    assert_ok(est_session_init(m.session));
    assert_ok(est_session_prepare(m.session, EST_NODES(m.x, m.ids), EST_NODES(m.loss), EST_NODES(m.train), &m.step));
    return m;
}

static void free_model(small_model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
}

/* A step with a batch that depends on `seed`; bad: with an id that the table does not have. */
static est_status run_batch(const small_model *m, int64_t rows, int seed, bool bad)
{
    est_tensor *feeds[2];
    est_status  status;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(rows, 3), &feeds[0]));
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(rows), &feeds[1]));
    for (int64_t i = 0; i < rows * 3; i++) {
        ((float *)est_tensor_mutable_data(feeds[0]))[i] = (float)((i * 7 + seed * 3) % 11) / 11 - 0.5f;
    }
    for (int64_t i = 0; i < rows; i++) ((int64_t *)est_tensor_mutable_data(feeds[1]))[i] = (i * 5 + seed) % ROWS;
    if (bad) ((int64_t *)est_tensor_mutable_data(feeds[1]))[rows - 1] = ROWS + 3;
    status = est_step_run(m->step, (const est_tensor *const *)feeds);
    est_tensor_free(feeds[0]);
    est_tensor_free(feeds[1]);
    return status;
}

static void assert_same_variables(const small_model *a, const small_model *b)
{
    assert_int_equal(est_session_variables(a->session), est_session_variables(b->session));
    for (int i = 0; i < est_session_variables(a->session); i++) {
        const char *name = est_session_variable(a->session, i);
        est_tensor *x, *y;

        assert_string_equal(name, est_session_variable(b->session, i));
        assert_ok(est_session_read(a->session, name, &x));
        assert_ok(est_session_read(b->session, name, &y));
        assert_memory_equal(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x));
        est_tensor_free(x);
        est_tensor_free(y);
    }
}

static void assert_nothing_left(void)
{
    est_far_counts now = est_far_device_counts();

    assert_int_equal(now.opened, 0);
    assert_int_equal(now.blocks, 0);
}

TEST(trains_as_the_cpu_does)
{
    small_model here = make_model(EST_SESSION(.devices = EST_STRINGS("/cpu:0"), .threads = 1), NULL),
                far  = make_model(NULL, NULL);
    est_far_counts before, after;

    for (int s = 0; s < 30; s++) {
        assert_ok(run_batch(&here, 4 + s % 3, s, false));
        assert_ok(run_batch(&far, 4 + s % 3, s, false));
        assert_true(est_step_scalar(here.step, 0) == est_step_scalar(far.step, 0));
    }
    assert_same_variables(&here, &far);
    before = est_far_device_counts();
    for (int s = 0; s < 30; s++) assert_ok(run_batch(&far, 4 + s % 3, s, false));
    after = est_far_device_counts();
    assert_true(after.replayed > before.replayed && after.launched > before.launched);
    assert_int_equal(after.recorded, before.recorded); /* shapes that were seen before */
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

/* 67 columns become 68 on a device: sums are made in another order, but no row or column of zeros is left anywhere. */
TEST(trains_with_columns_of_zeros)
{
    small_model here, far;
    est_tensor *kernel;

    table_columns = 64;
    here          = make_model(EST_SESSION(.devices = EST_STRINGS("/cpu:0")), NULL);
    far           = make_model(NULL, NULL);
    table_columns = 4;
    for (int s = 0; s < 30; s++) {
        double expected;

        assert_ok(run_batch(&here, 4 + s % 3, s, false));
        assert_ok(run_batch(&far, 4 + s % 3, s, false));
        expected = est_step_scalar(here.step, 0);
        assert_true(fabs(est_step_scalar(far.step, 0) - expected) <= 1e-5 * fabs(expected) + 1e-7);
    }
    assert_ok(est_session_read(far.session, "dense/kernel", &kernel));
    assert_int_equal(est_tensor_shape(kernel)->dim[0], 67);
    est_tensor_free(kernel);
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

/* The host has the table, a device the layers; or two devices. */
TEST(variables_in_several_places)
{
    static const char *const places[] = { "/cpu:0", "/gpu:1" };

    for (int p = 0; p < 2; p++) {
        small_model here = make_model(EST_SESSION(.devices = EST_STRINGS("/cpu:0")), NULL);
        small_model far  = make_model(EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), places[p]);

        for (int s = 0; s < 10; s++) {
            assert_ok(run_batch(&here, 4 + s % 3, s, false));
            assert_ok(run_batch(&far, 4 + s % 3, s, false));
            assert_true(est_step_scalar(here.step, 0) == est_step_scalar(far.step, 0));
        }
        assert_same_variables(&here, &far);
        free_model(&here);
        free_model(&far);
        assert_nothing_left();
    }
}

TEST(a_step_that_fails_changes_nothing)
{
    small_model here = make_model(EST_SESSION(.devices = EST_STRINGS("/cpu:0")), NULL), far = make_model(NULL, NULL);
    char        text[1024];

    assert_int_equal(run_batch(&here, 6, 1, true), EST_INVALID_ARGUMENT);
    snprintf(text, sizeof text, "%s", est_error_message());
    assert_int_equal(run_batch(&far, 6, 1, true), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), text);
    assert_same_variables(&here, &far);
    assert_ok(run_batch(&here, 6, 2, false));
    assert_ok(run_batch(&far, 6, 2, false));
    assert_true(est_step_scalar(here.step, 0) == est_step_scalar(far.step, 0));
    assert_same_variables(&here, &far);
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

TEST(placement)
{
    est_graph        *g;
    est_session      *s;
    est_node          a, b, sum, shape;
    est_tensor       *out[2];
    est_variable_part part;

    assert_ok(est_graph_create(1, &g));
    est_graph_device(g, "/device:GPU:1");
    a = est_weight(g, "a", EST_SHAPE(4), EST_WEIGHT(.initializer = est_init_constant(2)));
    est_graph_device(g, "/cpu:0");
    b = est_weight(g, "b", EST_SHAPE(4), EST_WEIGHT(.initializer = est_init_constant(3)));
    est_graph_device(g, NULL);
    sum   = est_named(est_add(est_read_variable(a), est_read_variable(b)), "sum");
    shape = est_named(est_cast(sum, EST_I64), "whole");
    log_keep(EST_LOG_INFO);
    assert_ok(est_session_create(
        g, EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:1"), .log_device_placement = true), &s));
    assert_ok(est_session_init(s));
    assert_ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(sum, shape), EST_NO_NODES, out));
    log_release();
    log_expect("info sum: (AddV2): /job:localhost/replica:0/task:0/device:GPU:0");
    log_expect("info whole: (Cast): /job:localhost/replica:0/task:0/device:CPU:0"); /* integers may be a shape */
    log_expect("info a: (VarHandleOp): /job:localhost/replica:0/task:0/device:GPU:1");
    assert_true(((const float *)est_tensor_data(out[0]))[3] == 5 && ((const int64_t *)est_tensor_data(out[1]))[3] == 5);
    assert_ok(est_session_variable_part(s, "a", 0, &part));
    assert_string_equal(part.device, "/job:localhost/replica:0/task:0/device:GPU:1");
    assert_ok(est_session_variable_part(s, "b", 0, &part));
    assert_string_equal(part.device, "/job:localhost/replica:0/task:0/device:CPU:0");
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

TEST(hard_placement)
{
    est_graph   *g;
    est_session *s;
    est_node     x, text, whole, drawn;
    est_tensor  *out, *both[2];

    assert_ok(est_graph_create(1, &g));
    x = est_const_f32(g, EST_SHAPE(2), (const float[]){ 1, 2 });
    est_graph_device(g, "/device:GPU:0");
    text  = est_named(est_as_string(x), "text");
    whole = est_cast(est_add(x, x), EST_I64);
    drawn = est_read_variable(
        est_weight(g, "w", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_random_uniform(1, 2, 5))));
    x = est_named(est_neg(x), "far");
    est_graph_device(g, "/device:GPU:7");
    x = est_named(est_neg(x), "nowhere");
    assert_ok(est_session_create(g, NULL, &s)); /* soft: the CPU does what others cannot */
    assert_ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(x), EST_NODES(text), &out));
    est_tensor_free(out);
    est_session_free(s);
    assert_ok(est_session_create(g, EST_SESSION(.no_soft_placement = true, .no_passes = true), &s));
    assert_ok(est_session_init(s)); /* the host draws and makes integers for all devices */
    assert_ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(whole, drawn), EST_NO_NODES, both));
    assert_true(((const int64_t *)est_tensor_data(both[0]))[1] == 4 &&
                ((const float *)est_tensor_data(both[1]))[0] >= 1);
    est_tensor_free(both[0]);
    est_tensor_free(both[1]);
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NODES(x), EST_NO_NODES, &out), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "Cannot assign a device for operation nowhere"));
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(text), NULL), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "Cannot assign a device for operation text"));
    est_session_free(s);
    assert_int_equal(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:5")), &s), EST_NOT_FOUND);
    assert_int_equal(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:1", "/gpu:1")), &s),
                     EST_INVALID_ARGUMENT);
    est_graph_free(g);
    assert_nothing_left();
}

/* A shape that the host computes from a feed: its value decides the shapes on the device. */
TEST(shapes_from_the_host)
{
    est_graph   *g;
    est_session *s;
    est_node     x, shape, y;

    assert_ok(est_graph_create(1, &g));
    x     = est_placeholder(g, "x", EST_F32, EST_SHAPE(12));
    shape = est_placeholder(g, "shape", EST_I32, EST_SHAPE(2));
    y     = est_mul(est_reshape_to(x, shape), est_reshape_to(x, shape));
    assert_ok(est_session_create(g, NULL, &s));
    for (int i = 0; i < 6; i++) {
        int32_t     dims[2] = { i % 2 == 0 ? 3 : 6, i % 2 == 0 ? 4 : 2 };
        float       values[12];
        est_tensor *feed, *to, *out;

        for (int k = 0; k < 12; k++) values[k] = (float)(k + i);
        assert_ok(est_tensor_f32(EST_SHAPE(12), values, &feed));
        assert_ok(est_tensor_create_from(EST_I32, EST_SHAPE(2), dims, &to));
        assert_ok(est_session_run(s, EST_FEEDS({ x, feed }, { shape, to }), EST_NODES(y), EST_NO_NODES, &out));
        assert_int_equal(est_tensor_shape(out)->dim[0], dims[0]);
        assert_true(((const float *)est_tensor_data(out))[11] == (float)((11 + i) * (11 + i)));
        est_tensor_free(feed);
        est_tensor_free(to);
        est_tensor_free(out);
    }
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

TEST(check_numerics_names_the_node)
{
    est_graph   *g;
    est_session *s;
    est_node     x, y;
    est_tensor  *feed, *out;

    assert_ok(est_graph_create(1, &g));
    x = est_placeholder(g, "x", EST_F32, EST_SHAPE(2));
    y = est_neg(est_named(est_log(x), "logarithm"));
    assert_ok(est_session_create(g, EST_SESSION(.check_numerics = true), &s));
    assert_ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 1, 0 }, &feed));
    assert_int_equal(est_session_run(s, EST_FEEDS({ x, feed }), EST_NODES(y), EST_NO_NODES, &out),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "logarithm"));
    assert_non_null(strstr(est_error_message(), "output 0 has -inf at element 1"));
    est_tensor_free(feed);
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

/* Memory is taken as it is needed, up to a limit. */
TEST(memory_limit)
{
    est_graph   *g;
    est_session *s;
    est_tensor  *out;
    est_node     w, large;

    assert_ok(est_graph_create(3, &g));
    w     = est_weight(g, "w", EST_SHAPE(1000, 100), NULL);
    large = est_mean(est_matmul(est_exp(est_random_uniform(est_const_list(g, EST_I64S(3000, 1000)), EST_F32, 1)),
                                est_read_variable(w)));
    assert_int_equal(est_session_create(g, EST_SESSION(.device_memory_limit = -1), &s), EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_create(g, EST_SESSION(.device_memory_limit = 100000), &s), EST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(est_error_message(), "no memory left on the device GPU:0 for variable 'w' (400000 bytes)"));
    assert_ok(est_session_create(g, EST_SESSION(.device_memory_limit = 16 << 20), &s));
    assert_ok(est_session_init(s));
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NODES(large), (est_nodes){ 0 }, &out),
                     EST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(est_error_message(), "no memory left on the device GPU:0 for a step of these shapes"));
    est_session_free(s);
    assert_ok(est_session_create(g, EST_SESSION(.device_memory_limit = (int64_t)1 << 30), &s));
    assert_ok(est_session_init(s));
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

/* --- a device without some kernels -------------------------------------------------------------------------------- */

static const est_kernel *all_but_adagrad(const est_op *op)
{
    return strcmp(op->name, "ResourceApplyAdagrad") == 0 ? NULL : op->cpu;
}

static est_device limited;

/* The graph grows after its variables were made: one that is updated by what the device cannot run moves to the host,
 * with its value, unless a step uses it already. */
TEST(variable_moves_to_the_host)
{
    for (int prepared = 0; prepared < 2; prepared++) {
        est_graph        *g;
        est_session      *s;
        est_node          w, loss, train;
        est_step         *step;
        est_tensor       *before, *after;
        est_variable_part part;

        assert_ok(est_graph_create(3, &g));
        w    = est_weight(g, "w", EST_SHAPE(4), NULL);
        loss = est_mean(est_square(est_read_variable(w)));
        assert_ok(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:2")), &s));
        assert_ok(est_session_init(s));
        assert_ok(est_session_variable_part(s, "w", 0, &part));
        assert_string_equal(part.device, "/job:localhost/replica:0/task:0/device:GPU:2");
        assert_ok(est_session_read(s, "w", &before));
        if (prepared) assert_ok(est_session_prepare(s, EST_NO_NODES, EST_NODES(loss), EST_NO_NODES, &step));
        train = est_minimize(est_adagrad(0.1, NULL), loss, NULL);
        if (prepared) {
            assert_int_equal(est_session_init(s), EST_OK);
            assert_int_equal(est_session_prepare(s, EST_NO_NODES, EST_NO_NODES, EST_NODES(train), &step),
                             EST_UNIMPLEMENTED);
        } else {
            assert_ok(est_session_init(s));
            assert_ok(est_session_variable_part(s, "w", 0, &part));
            assert_string_equal(part.device, "/job:localhost/replica:0/task:0/device:CPU:0");
            assert_ok(est_session_read(s, "w", &after));
            assert_memory_equal(est_tensor_data(before), est_tensor_data(after), est_tensor_bytes(before));
            est_tensor_free(after);
            assert_ok(est_session_prepare(s, EST_NO_NODES, EST_NODES(loss), EST_NODES(train), &step));
            assert_ok(est_step_run(step, NULL));
        }
        est_tensor_free(before);
        est_session_free(s);
        est_graph_free(g);
    }
    assert_nothing_left();
}

/* --- a device that fails when it is told to ----------------------------------------------------------------------- */

static est_device      second; /* GPU:1 */
static est_device_runs second_runs;
static int             replays_left = -1; /* the replay after so many fails; below 0: none does */
static bool            copy_in_fails;     /* after a part of the value */

static est_status replay_or_fail(est_queue *queue, est_recording *recording)
{
    if (replays_left >= 0 && replays_left-- == 0) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a replay");
    return est_far_devices[1]->runs->replay(queue, recording);
}

static est_status copy_in_or_fail(const est_device *device, void *to, const void *from, size_t bytes)
{
    assert_ok(est_far_devices[1]->copy_in(device, to, from, copy_in_fails ? bytes / 2 : bytes));
    return copy_in_fails ? est_fail(EST_INTERNAL, "copy_in was told to fail") : EST_OK;
}

/* --- variables on several devices --------------------------------------------------------------------------------- */

typedef struct copied {
    est_graph   *graph;
    est_session *session;
    est_node     w, x[2], y[2], train;
} copied;

/* w -= 0.5 (w x0 + w x1), each product on a device of its own; they meet on the host. */
static copied make_copied(const char *update_device)
{
    copied   c = { 0 };
    est_node sum;

    assert_ok(est_graph_create(1, &c.graph));
    est_graph_device(c.graph, "/device:GPU:*");
    c.w = est_weight(c.graph, "w", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_random_uniform(1, 2, 5)));
    for (int i = 0; i < 2; i++) {
        est_graph_device(c.graph, i == 0 ? "/device:GPU:0" : "/device:GPU:1");
        c.x[i] = est_placeholder(c.graph, "x", EST_F32, EST_SHAPE(3));
        c.y[i] = est_mul(est_read_variable(c.w), c.x[i]);
    }
    est_graph_device(c.graph, "/cpu:0");
    sum = est_add_n(EST_NODES(c.y[0], c.y[1]));
    est_graph_device(c.graph, update_device);
    c.train = est_group(c.graph, EST_NODES(est_assign_sub(c.w, est_scale(sum, 0.5))));
    est_graph_device(c.graph, NULL);
    assert_ok(est_graph_status(c.graph));
    assert_ok(est_session_create(c.graph, EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &c.session));
    assert_ok(est_session_init(c.session));
    return c;
}

static void free_copied(copied *c)
{
    est_session_free(c->session);
    est_graph_free(c->graph);
    assert_nothing_left();
}

static const est_var *variable(est_session *session, const char *name)
{
    est_store *store;

    assert_ok(est_session_store(session, &store));
    return est_store_find(store, name);
}

static void assert_equal_copies(est_session *session, const char *name, float first)
{
    const est_var *var = variable(session, name);
    float          values[2][3];

    assert_int_equal(var->n_copies, 1);
    assert_ok(est_var_get(var, NULL, 0, 3, values[0]));
    assert_ok(est_var_get(var->copies[0], NULL, 0, 3, values[1]));
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    if (first != 0) assert_true(values[0][0] == first);
}

/* The starts and ends of a plan's segments, in order: 's', 'f', and 'o' between for what the host computes. */
static void list_ends(est_step *step, char *out)
{
    const est_plan *plan = est_step_plan(step);
    int             n    = 0;

    for (int32_t i = 0; i < plan->n_steps; i++) {
        const est_op *op = plan->items[plan->steps[i]].call.node->op;
        char          c  = op == &est_op_start ? 's' : op == &est_op_finish ? 'f' : 'o';

        if (n == 0 || out[n - 1] != c || c != 'o') out[n++] = c;
        assert_true(n < 15);
    }
    out[n] = '\0';
}

static void train_copied(const copied *c, est_step *step, float x0, float x1)
{
    est_tensor *x[2];

    for (int i = 0; i < 2; i++) {
        float value = i == 0 ? x0 : x1;

        assert_ok(est_tensor_f32(EST_SHAPE(3), (const float[]){ value, value, value }, &x[i]));
    }
    assert_ok(est_step_run(step, (const est_tensor *const *)x));
    est_tensor_free(x[0]);
    est_tensor_free(x[1]);
    assert_equal_copies(c->session, "w", 0);
}

/* Both devices compute at the same time, and their copies stay equal, also through what the host writes. */
TEST(copies)
{
    copied      c    = make_copied("/device:GPU:*");
    est_step   *step = NULL;
    est_tensor *value, *y[2];
    char        ends[16];

    assert_equal_copies(c.session, "w", 0);
    assert_int_equal(est_session_variables(c.session), 1);
    assert_ok(est_session_prepare(c.session, EST_NODES(c.x[0], c.x[1]), EST_NO_NODES, EST_NODES(c.train), &step));
    train_copied(&c, step, 0.25f, 0.5f);
    list_ends(step, ends);
    assert_string_equal(ends, "ssffossff");
    assert_ok(est_tensor_f32(EST_SHAPE(3), (const float[]){ 4, 5, 6 }, &value));
    assert_ok(est_session_write(c.session, "w", value));
    assert_equal_copies(c.session, "w", 4);
    train_copied(&c, step, 1, 0.5f);
    assert_equal_copies(c.session, "w", 1);
    assert_ok(est_session_run(c.session, EST_FEEDS({ c.x[0], value }, { c.x[1], value }), EST_NODES(c.y[0], c.y[1]),
                              EST_NO_NODES, y));
    assert_true(((const float *)est_tensor_data(y[1]))[0] == 4);
    for (int i = 0; i < 2; i++) est_tensor_free(y[i]);
    est_tensor_free(value);
    free_copied(&c);
}

/* The first device has made its update when the second cannot begin: from the next step on they are equal again. */
TEST(copies_after_a_failure)
{
    copied      c = make_copied("/device:GPU:*");
    est_step   *step;
    est_tensor *x, *value;

    assert_ok(est_session_prepare(c.session, EST_NODES(c.x[0], c.x[1]), EST_NO_NODES, EST_NODES(c.train), &step));
    train_copied(&c, step, 0.25f, 0.5f);
    assert_ok(est_tensor_f32(EST_SHAPE(3), (const float[]){ 0.5f, 0.25f, 1 }, &x));
    replays_left = 1;
    assert_int_equal(est_step_run(step, (const est_tensor *const[]){ x, x }), EST_RESOURCE_EXHAUSTED);
    assert_int_equal(replays_left, -1);
    copy_in_fails = true; /* while they are made equal */
    assert_int_equal(est_step_run(step, (const est_tensor *const[]){ x, x }), EST_INTERNAL);
    copy_in_fails = false;
    train_copied(&c, step, 0.25f, 0.5f);

    assert_ok(est_tensor_f32(EST_SHAPE(3), (const float[]){ 4, 5, 6 }, &value));
    copy_in_fails = true;
    assert_int_equal(est_session_write(c.session, "w", value), EST_INTERNAL);
    copy_in_fails = false;
    train_copied(&c, step, 0.25f, 0.5f);
    est_tensor_free(x);
    est_tensor_free(value);
    free_copied(&c);
}

/* What is pinned to one device and writes a variable has it to itself. */
TEST(no_copies)
{
    copied c = make_copied("/device:GPU:1");

    assert_int_equal(variable(c.session, "w")->n_copies, 0);
    free_copied(&c);
}

static void assert_value(est_session *session, const char *name, float expected)
{
    est_tensor *value;

    assert_ok(est_session_read(session, name, &value));
    assert_true(((const float *)est_tensor_data(value))[0] == expected);
    est_tensor_free(value);
}

/* A momentum of something that has it to itself is not on several devices either, or both would be updated twice. */
TEST(variables_of_one_update_are_alike)
{
    est_graph   *g;
    est_session *s;
    est_node     w, clip, train;

    assert_ok(est_graph_create(1, &g));
    est_graph_device(g, "/device:GPU:*");
    w = est_weight(g, "w", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_constant(2)));
    est_graph_device(g, "/device:GPU:0");
    clip = est_assign(w, est_minimum(est_read_variable(w), est_scalar(g, EST_F32, 8)));
    est_graph_device(g, "/device:GPU:*");
    train = est_minimize(est_momentum(0.25, EST_MOMENTUM(.momentum = 0.5)), est_sum(est_read_variable(w)), NULL);
    est_graph_device(g, NULL);
    assert_ok(est_graph_status(g));
    assert_ok(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &s));
    assert_ok(est_session_init(s));
    assert_ok(est_session_run(s, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(train), NULL));
    assert_value(s, "w", 1.75f);
    assert_ok(est_session_run(s, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(clip), NULL));
    assert_value(s, "w", 1.75f);
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

/* The graph grows by slots that cannot be as their variable is, which is on both devices. */
TEST(variables_of_one_update_that_are_not_alike)
{
    est_graph   *g;
    est_session *s;
    est_node     w, m, one, train;

    assert_ok(est_graph_create(1, &g));
    est_graph_device(g, "/device:GPU:*");
    w = est_weight(g, "w", EST_SHAPE(3), NULL);
    assert_ok(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &s));
    assert_ok(est_session_init(s));
    assert_equal_copies(s, "w", 0);
    est_graph_device(g, "/device:GPU:0");
    m = est_weight(g, "m", EST_SHAPE(3), NULL);
    est_graph_device(g, NULL);
    one   = est_scalar(g, EST_F32, 1);
    train = est_build(g, &est_op_apply_momentum, EST_NODES(w, m, one, est_read_variable(w), one),
                      EST_ATTRS(est_attr_type("T", EST_F32)));
    assert_ok(est_graph_status(g));
    assert_ok(est_session_init(s));
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(train), NULL), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "which was made on several; pin both alike"));
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

TEST(copy_of_a_name_that_is_taken)
{
    est_graph   *g;
    est_session *s;

    assert_ok(est_graph_create(1, &g));
    (void)est_weight(g, "w/replica_1", EST_SHAPE(3), NULL);
    est_graph_device(g, "/device:GPU:*");
    (void)est_weight(g, "w", EST_SHAPE(3), NULL);
    assert_int_equal(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &s),
                     EST_ALREADY_EXISTS);
    assert_string_equal(est_error_message(), "a copy of variable 'w' is called 'w/replica_1', and so is a variable");
    est_graph_free(g);
    assert_nothing_left();
}

/* All devices that a variable is on have to run what touches it. */
TEST(copies_move_to_the_host)
{
    est_graph   *g;
    est_session *s;
    est_node     w, train;
    est_tensor  *before, *after;

    assert_ok(est_graph_create(3, &g));
    est_graph_device(g, "/device:GPU:*");
    w = est_weight(g, "w", EST_SHAPE(3), NULL);
    est_graph_device(g, NULL);
    assert_ok(est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/gpu:0", "/gpu:2")), &s));
    assert_ok(est_session_init(s));
    assert_equal_copies(s, "w", 0);
    assert_ok(est_session_read(s, "w", &before));
    train = est_minimize(est_adagrad(0.1, NULL), est_mean(est_square(est_read_variable(w))), NULL);
    assert_ok(est_session_init(s));
    assert_int_equal(variable(s, "w")->n_copies, 0);
    assert_ok(est_session_read(s, "w", &after));
    assert_memory_equal(est_tensor_data(before), est_tensor_data(after), est_tensor_bytes(before));
    assert_ok(est_session_run(s, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(train), NULL));
    est_tensor_free(before);
    est_tensor_free(after);
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

int main(void)
{
    limited            = *est_far_devices[0];
    limited.number     = 2;
    limited.kernels    = all_but_adagrad;
    second             = *est_far_devices[1];
    second_runs        = *second.runs;
    second.runs        = &second_runs;
    second.copy_in     = copy_in_or_fail;
    second_runs.replay = replay_or_fail;
    est_devices_use((const est_device *const[]){ est_far_devices[0], &second, &limited }, 3);
    return est_test_run(NULL, NULL);
}
