/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that are cut into tasks: the same numbers as in one piece, bit for bit; where variables go; how many messages a
 * step costs and how many bytes; what is refused. All in one process, without a network. */
#include "base/random.h"
#include "estoc/estoc.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/far_device.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "support/nn_test.h"

#define ROWS  4000
#define WIDTH 8
#define BATCH 32

/* A small wide & deep model over ragged ids. */
typedef struct model {
    est_graph *graph;
    est_node   ids, splits, x, y, loss, train, step;
} model;

static model make_model(est_optimizer optimizer)
{
    model           m = { 0 };
    est_node        deep, wide, h, table, weights;
    est_ragged_node ids;

    assert_ok(est_graph_create(7, &m.graph));
    m.ids    = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.splits = est_placeholder(m.graph, "splits", EST_I64, EST_SHAPE(-1));
    m.x      = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    m.y      = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    table    = est_weight(m.graph, "table", EST_SHAPE(ROWS, WIDTH), NULL);
    weights  = est_weight(m.graph, "weights", EST_SHAPE(ROWS, 1), NULL);
    ids      = (est_ragged_node){ m.ids, m.splits };
    deep     = est_embedding_bag(table, ids, EST_NO_NODE, EST_COMBINE_MEAN, 0);
    wide     = est_embedding_bag(weights, ids, EST_NO_NODE, EST_COMBINE_SUM, 0);
    h        = est_dense(est_concat(EST_NODES(deep, m.x), 1), 16, EST_DENSE(.activation = est_relu, .name = "hidden"));
    h        = est_add(est_dense(h, 1, EST_DENSE(.name = "logits")), wide);
    m.loss   = est_reduce_mean(est_square(est_sub(h, m.y)), EST_I64S(0, 1), false);
    m.train  = est_minimize(optimizer, m.loss, NULL);
    m.step   = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

typedef struct batch {
    est_tensor *values[4];
} batch;

static uint64_t draw(uint64_t key, uint64_t i)
{
    uint64_t x = (key + 1) * UINT64_C(0x9E3779B97F4A7C15) + i * UINT64_C(0xD1B54A32D192ED03);

    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ x >> 32;
}

/* Rows of 0 to 3 ids, some of them twice and some -1. */
static batch make_batch(uint64_t key)
{
    batch   b;
    int64_t ids[3 * BATCH], splits[BATCH + 1] = { 0 }, n = 0;

    for (int r = 0; r < BATCH; r++) {
        int64_t count = (int64_t)(draw(key, (uint64_t)r) % 4);

        for (int64_t i = 0; i < count; i++) {
            uint64_t drawn = draw(key, (uint64_t)(1000 + n));
            ids[n++]       = drawn % 17 == 0 ? -1 : (int64_t)(drawn % 97 * 41 % ROWS);
        }
        splits[r + 1] = n;
    }
    assert_ok(est_tensor_i64(EST_SHAPE(n), ids, &b.values[0]));
    assert_ok(est_tensor_i64(EST_SHAPE(BATCH + 1), splits, &b.values[1]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(BATCH, 4), &b.values[2]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(BATCH, 1), &b.values[3]));
    est_random_fill_normal_f32(&(est_random){ key, 6, 0 }, 0, BATCH * 4, est_tensor_mutable_data(b.values[2]));
    est_random_fill_normal_f32(&(est_random){ key, 7, 0 }, 0, BATCH, est_tensor_mutable_data(b.values[3]));
    return b;
}

static void free_batch(batch *b)
{
    for (int i = 0; i < 4; i++) est_tensor_free(b->values[i]);
}

/* Trains `steps` steps and says every loss. */
static void train(est_session *session, const model *m, int steps, double *losses)
{
    est_step *step;

    assert_ok(est_session_prepare(session, EST_NODES(m->ids, m->splits, m->x, m->y), EST_NODES(m->loss, m->step),
                                  EST_NODES(m->train), &step));
    for (int i = 0; i < steps; i++) {
        batch             b = make_batch((uint64_t)i + 1);
        const est_tensor *feeds[4];

        for (int k = 0; k < 4; k++) feeds[k] = b.values[k];
        assert_ok(est_step_run(step, feeds));
        losses[i] = est_step_scalar(step, 0);
        assert_int_equal(est_step_scalar(step, 1), i + 1);
        free_batch(&b);
    }
}

#define STEPS 12

static void compare_with_whole(est_optimizer optimizer, int n_tasks, bool no_passes)
{
    model        m      = make_model(optimizer);
    est_remote  *remote = memory_remote_create(n_tasks);
    est_session *whole = NULL, *cut = NULL;
    double       want[STEPS], got[STEPS];

    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .no_passes = no_passes), &whole));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .no_passes = no_passes, .remote = remote), &cut));
    assert_ok(est_session_init(whole));
    assert_ok(est_session_init(cut));
    assert_true(nn_is_same(whole, cut, "table"));
    train(whole, &m, STEPS, want);
    train(cut, &m, STEPS, got);
    for (int i = 0; i < STEPS; i++) {
        if (want[i] != got[i]) fail_msg("%d tasks, step %d: loss %.9g instead of %.9g", n_tasks, i, got[i], want[i]);
    }
    nn_assert_same(whole, cut);
    est_session_free(whole);
    est_session_free(cut);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

TEST(same_numbers)
{
    for (int n = 1; n <= 4; n++) {
        compare_with_whole(est_sgd(0.1), n, false);
        compare_with_whole(est_adagrad(0.1, NULL), n, false);
        compare_with_whole(est_adam(0.01, NULL), n, false);
        compare_with_whole(est_ftrl(0.1, NULL), n, false);
        compare_with_whole(est_momentum(0.1, NULL), n, true);
    }
}

/* Batches in the memory of a device, of which tasks need a part: that is sent from a copy on the host. */
TEST(resident_batches)
{
    model        m;
    est_remote  *remote;
    est_session *session;
    est_step    *step;
    double       want[STEPS];

    if (!est_far_device_is_used()) skip();
    m       = make_model(est_adagrad(0.1, NULL));
    remote  = memory_remote_create(2);
    session = nn_session(m.graph, remote);
    train(session, &m, STEPS, want);
    est_session_free(session);
    memory_remote_free(remote);
    remote  = memory_remote_create(2);
    session = nn_session(m.graph, remote);
    assert_ok(est_session_prepare(session, EST_NODES(m.ids, m.splits, m.x, m.y), EST_NODES(m.loss), EST_NODES(m.train),
                                  &step));
    for (int i = 0; i < STEPS; i++) {
        batch             b = make_batch((uint64_t)i + 1);
        est_tensor       *there[4];
        const est_tensor *feeds[4];

        for (int k = 0; k < 4; k++) {
            assert_ok(est_tensor_to_device(b.values[k], "/gpu:0", &there[k]));
            feeds[k] = there[k];
        }
        assert_ok(est_step_run(step, feeds));
        assert_true(est_step_scalar(step, 0) == want[i]);
        for (int k = 0; k < 4; k++) est_tensor_free(there[k]);
        free_batch(&b);
    }
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

/* One exchange for values and one for gradients with one task; with several a third for the step's count, at one of
 * them. */
TEST(messages_a_step)
{
    for (int n_tasks = 1; n_tasks <= 3; n_tasks++) {
        model        m       = make_model(est_adagrad(0.1, NULL));
        est_remote  *remote  = memory_remote_create(n_tasks);
        est_session *session = nn_session(m.graph, remote);
        double       losses[STEPS];
        int          total = 0;

        train(session, &m, 1, losses);
        memory_remote_reset(remote);
        est_session_free(session);
        assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
        {
            est_tensor *zero = NULL;
            assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 0 }, &zero));
            assert_ok(est_session_write(session, "global_step", zero));
            est_tensor_free(zero);
        }
        train(session, &m, STEPS, losses);
        for (int t = 0; t < n_tasks; t++) total += memory_remote_starts(remote, t);
        assert_int_equal(total, STEPS * (n_tasks == 1 ? 2 : 2 * n_tasks + 1));
        /* far less than the table, which has ROWS rows: a batch has at most 96 ids, each asked for once */
        assert_true(memory_remote_bytes(remote) < STEPS * 20000);
        est_session_free(session);
        memory_remote_free(remote);
        est_graph_free(m.graph);
    }
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

#define LAYERS 6
#define UNITS  256 /* a kernel of UNITS x UNITS is 256 KB */

/* Layers whose gradients are ready one after the other, the last layer's first. */
static model make_deep(est_optimizer optimizer, int units)
{
    model    m = { 0 };
    est_node h;

    assert_ok(est_graph_create(7, &m.graph));
    m.ids    = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.splits = est_placeholder(m.graph, "splits", EST_I64, EST_SHAPE(-1));
    m.x      = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    m.y      = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    h        = m.x;
    for (int i = 0; i < LAYERS; i++) h = est_dense(h, units, EST_DENSE(.activation = est_relu));
    h       = est_dense(h, 1, EST_DENSE(.name = "logits"));
    m.loss  = est_reduce_mean(est_square(est_sub(h, m.y)), EST_I64S(0, 1), false);
    m.train = est_minimize(optimizer, m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static void compare_deep(est_optimizer optimizer, int n_tasks)
{
    model        m      = make_deep(optimizer, UNITS);
    est_remote  *remote = memory_remote_create(n_tasks);
    est_session *whole = NULL, *cut = NULL;
    double       want[STEPS], got[STEPS];

    whole = nn_session(m.graph, NULL);
    cut   = nn_session(m.graph, remote);
    train(whole, &m, STEPS, want);
    train(cut, &m, STEPS, got);
    assert_memory_equal(want, got, sizeof want);
    nn_assert_same(whole, cut);
    est_session_free(whole);
    est_session_free(cut);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

/* Adam's powers are read by all pieces and written by the rest. */
TEST(pieces_same_numbers)
{
    for (int n = 1; n <= 2; n++) {
        compare_deep(est_adagrad(0.01, NULL), n);
        compare_deep(est_adam(0.001, NULL), n);
    }
}

/* Bytes that the updates of a step are sent before the last gradient has been computed, and after; *n_sent: in how many
 * messages. */
static void measure_overlap(est_step *step, size_t *before, size_t *after, int *n_sent)
{
    const est_plan *plan     = est_step_plan(step);
    int32_t         computed = 0;

    *before = *after = 0;
    *n_sent          = 0;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const est_op *op = plan->items[plan->steps[i]].call.node->op;
        if (op != &est_op_start && op != &est_op_finish) computed = i;
    }
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const est_call *call = &plan->items[plan->steps[i]].call;
        if (call->node->op != &est_op_start || strstr(call->node->name, "/phase_3/") == NULL) continue;
        for (int k = 0; k < call->n_in; k++) {
            *(i < computed ? before : after) += (size_t)call->in[k]->count * est_dtype_size(call->in[k]->dtype);
        }
        ++*n_sent;
    }
}

/* Most gradients leave during the backward pass, in a handful of messages; small ones wait for each other. */
TEST(pieces_overlap)
{
    EST_CPU_ONLY(); /* a device computes all gradients before any of them leaves it */
    for (int large = 0; large < 2; large++) {
        model        m       = make_deep(est_adagrad(0.1, NULL), large ? UNITS : 16);
        est_remote  *remote  = memory_remote_create(1);
        est_session *session = nn_session(m.graph, remote);
        est_step    *step    = NULL;
        batch        b       = make_batch(1);
        size_t       before, after;
        int          n_sent;

        assert_ok(est_session_prepare(session, EST_NODES(m.x, m.y), EST_NODES(m.loss), EST_NODES(m.train), &step));
        memory_remote_reset(remote);
        assert_ok(est_step_run(step, (const est_tensor *[]){ b.values[2], b.values[3] }));
        measure_overlap(step, &before, &after, &n_sent);
        assert_int_equal(memory_remote_starts(remote, 0), 1 + n_sent);
        if (large) {
            assert_true(n_sent > 2 && n_sent <= 5);
            assert_true(before > 2 * after);
        } else {
            assert_int_equal(n_sent, 1);
            assert_int_equal(before, 0);
        }
        free_batch(&b);
        est_session_free(session);
        memory_remote_free(remote);
        est_graph_free(m.graph);
    }
}

/* Of tables only rows travel, also where the update moves every row. */
TEST(rows_travel)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        model        m       = make_model(lazy ? est_adam(0.1, EST_ADAM(.lazy = true)) : est_adam(0.1, NULL));
        est_remote  *remote  = memory_remote_create(1);
        est_session *session = nn_session(m.graph, remote);
        est_step    *step    = NULL;
        batch        b       = make_batch(1);
        size_t       before, after;
        int          n_sent;

        assert_ok(est_session_prepare(session, EST_NODES(m.ids, m.splits, m.x, m.y), EST_NODES(m.loss),
                                      EST_NODES(m.train), &step));
        assert_ok(est_step_run(step, (const est_tensor *const *)b.values));
        measure_overlap(step, &before, &after, &n_sent);
        assert_true(before + after < sizeof(float) * ROWS * WIDTH);
        free_batch(&b);
        est_session_free(session);
        memory_remote_free(remote);
        est_graph_free(m.graph);
    }
}

/* The rest gets the old value of what a piece has written: b becomes a as it was. */
TEST(pieces_and_reads)
{
    est_remote  *remote  = memory_remote_create(1);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     a, b, x, early, late;
    est_tensor  *feed = NULL, *out = NULL;
    int64_t      n = 100000;

    assert_ok(est_graph_create(1, &graph));
    a     = est_weight(graph, "a", EST_SHAPE(n), EST_WEIGHT(.initializer = est_init_ones()));
    b     = est_weight(graph, "b", EST_SHAPE(n), EST_WEIGHT(.initializer = est_init_zeros()));
    x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(n));
    early = est_assign(a, est_mul(x, est_read_variable(b)));
    late  = est_tanh(est_tanh(est_mul(x, est_read_variable(b))));
    est_graph_device(graph, "/job:ps/task:0");
    late = est_add(est_read_variable(a), late);
    est_graph_device(graph, NULL);
    late = est_assign(b, est_after(late, early));
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n), &feed));
    memset(est_tensor_mutable_data(feed), 0, est_tensor_bytes(feed));
    assert_ok(est_session_run(session, EST_FEEDS({ x, feed }), EST_NO_NODES, EST_NODES(early, late), NULL));
    assert_ok(est_session_read(session, "b", &out));
    assert_true(((const float *)est_tensor_data(out))[n - 1] == 1);
    est_tensor_free(out);
    est_tensor_free(feed);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* What a variable had before a step is what a later phase gets, too, though the variable was written since. */
TEST(old_value_in_later_phase)
{
    est_remote  *remote  = memory_remote_create(1);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     a, x, early, seen, late;
    est_tensor  *feed = NULL, *out = NULL;

    assert_ok(est_graph_create(1, &graph));
    a     = est_weight(graph, "a", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
    x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(2));
    early = est_assign(a, x);
    seen  = est_tanh(est_after(est_read_variable(a), early)); /* here, of what the task answers */
    est_graph_device(graph, "/job:ps/task:0");
    late = est_add(est_read_variable(a), seen);
    est_graph_device(graph, NULL);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(2), &feed));
    memset(est_tensor_mutable_data(feed), 0, est_tensor_bytes(feed));
    assert_ok(est_session_run(session, EST_FEEDS({ x, feed }), EST_NODES(late), EST_NODES(early), &out));
    assert_true(((const float *)est_tensor_data(out))[0] == 1); /* 1 + tanh(0) */
    est_tensor_free(out);
    est_tensor_free(feed);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* Every allocation of preparing such a step fails once; it is said, nothing is lost, and the step can be prepared
 * afterwards. */
TEST(pieces_without_memory)
{
    model        m       = make_deep(est_adagrad(0.1, NULL), UNITS);
    est_remote  *remote  = memory_remote_create(1);
    est_session *session = NULL;
    est_step    *step    = NULL;
    batch        b       = make_batch(1);
    size_t       before, after;
    int          n_sent;
    session = nn_session(m.graph, remote);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = est_session_prepare(session, EST_NODES(m.x, m.y), EST_NODES(m.loss), EST_NODES(m.train), &step);
        fault_check(&f, status);
    }
    assert_ok(est_step_run(step, (const est_tensor *[]){ b.values[2], b.values[3] }));
    measure_overlap(step, &before, &after, &n_sent);
    assert_true(before > 2 * after || est_far_device_is_used());
    free_batch(&b);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

/* --- values that are used where they came ------------------------------------------------------------------------- */

/* A pulled value takes no memory of the step, also under another shape, and lies elsewhere in every run. */
TEST(pulled_in_place)
{
    est_remote  *remote  = memory_remote_create(1);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     a, row, sum;
    est_step    *step = NULL;
    int64_t      n    = 300;

    assert_ok(est_graph_create(1, &graph));
    a   = est_weight(graph, "a", EST_SHAPE(n, n), EST_WEIGHT(.initializer = est_init_ones()));
    row = est_reshape(est_read_variable(a), EST_I64S(n * n));
    sum = est_reduce_sum(est_square(row), EST_I64S(0), false);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NODES(sum, row), EST_NO_NODES, &step));
    for (int i = 1; i <= 3; i++) {
        const est_view *kept;
        est_tensor     *value = NULL;

        assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n, n), &value));
        for (int64_t k = 0; k < n * n; k++) ((float *)est_tensor_mutable_data(value))[k] = (float)i;
        assert_ok(est_session_write(session, "a", value));
        assert_ok(est_step_run(step, NULL));
        assert_true(est_step_scalar(step, 0) == (double)(n * n * i * i));
        kept = est_plan_fetch(est_step_plan(step), 1);
        assert_memory_equal(kept->data, est_tensor_data(value), est_tensor_bytes(value));
        est_tensor_free(value);
    }
    assert_true(est_step_slab_bytes(step) < 2 * (size_t)(n * n) * sizeof(float)); /* the squares, and some scratch */
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* --- rows for keys ------------------------------------------------------------------------------------------------ */

static model make_dynamic(est_optimizer optimizer)
{
    est_row_policy policy = { .draw        = { .distribution = EST_ROW_NORMAL, .b = 1, .seed = 3 },
                              .admit_after = 2,
                              .max_age     = 5 };
    model          m      = { 0 };
    est_node       table, rows, logits;

    assert_ok(est_graph_create(7, &m.graph));
    m.ids    = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.splits = est_placeholder(m.graph, "splits", EST_I64, EST_SHAPE(-1));
    m.x      = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    m.y      = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    table    = est_row_variable(m.graph, "table", EST_SHAPE(300, WIDTH), &policy);
    est_graph_collect(m.graph, "trainable_variables", table);
    rows    = est_find_rows(table, m.ids);
    logits  = est_embedding_bag(table, (est_ragged_node){ rows, m.splits }, EST_NO_NODE, EST_COMBINE_SUM, 0);
    logits  = est_dense(est_concat(EST_NODES(logits, m.x), 1), 1, EST_DENSE(.name = "logits"));
    m.loss  = est_reduce_mean(est_square(est_sub(logits, m.y)), EST_I64S(0, 1), false);
    m.train = est_minimize(optimizer, m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

/* Keys are seen, admitted and forgotten at the task that has them as they are in one process, and a second session over
 * the tasks goes on where the first ended. */
TEST(dynamic)
{
    for (int n_tasks = 1; n_tasks <= 3; n_tasks++) {
        for (int adam = 0; adam < 2; adam++) {
            model        m      = make_dynamic(adam ? est_adam(0.01, EST_ADAM(.lazy = true)) : est_adagrad(0.1, NULL));
            est_remote  *remote = memory_remote_create(n_tasks);
            est_session *whole = NULL, *cut = NULL;
            double       want[STEPS], got[STEPS];

            whole = nn_session(m.graph, NULL);
            cut   = nn_session(m.graph, remote);
            train(whole, &m, STEPS, want);
            train(cut, &m, STEPS, got);
            assert_memory_equal(want, got, sizeof want);
            est_session_free(cut);
            cut = NULL;
            cut = nn_session(m.graph, remote); /* what has a value keeps it */
            nn_assert_same(whole, cut);
            est_session_free(whole);
            est_session_free(cut);
            memory_remote_free(remote);
            est_graph_free(m.graph);
        }
    }
}

/* At another task a step that trains an embedding looks it up once, all others as often as they like. */
TEST(dynamic_looked_up_twice)
{
    est_row_policy policy  = { .draw = { .distribution = EST_ROW_NORMAL, .b = 1, .seed = 3 }, .admit_after = 1 };
    est_remote    *remote  = memory_remote_create(1);
    est_session   *session = NULL;
    est_graph     *graph;
    est_node       table, rows[2], values[2], train;
    est_step      *step = NULL;
    est_tensor    *one = NULL, *out[2] = { NULL, NULL };

    assert_ok(est_graph_create(1, &graph));
    table = est_row_variable(graph, "table", EST_SHAPE(10, 2), &policy);
    for (int i = 0; i < 2; i++) {
        est_node key = est_const_i64(graph, EST_SHAPE(3),
                                     i == 0 ? (const int64_t[]){ 5, 6, 7 } : (const int64_t[]){ 7, 7, 5 });

        rows[i]   = est_named(est_find_rows(table, key), i == 0 ? "first" : "second");
        values[i] = est_resource_gather(table, rows[i]);
    }
    train = est_scatter_add(table, rows[0],
                            est_const_f32(graph, EST_SHAPE(3, 2), (const float[6]){ 1, 2, 3, 4, 5, 6 }));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(train), NULL));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(values[1]), EST_NO_NODES, &one));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(values[0], values[1]), EST_NO_NODES, out));
    assert_memory_equal(est_tensor_data(out[1]), est_tensor_data(one), est_tensor_bytes(one));
    assert_memory_equal(est_tensor_data(out[1]), (const float *)est_tensor_data(out[0]) + 4, 2 * sizeof(float));
    assert_memory_equal((const float *)est_tensor_data(out[1]) + 4, est_tensor_data(out[0]), 2 * sizeof(float));
    assert_int_equal(est_session_prepare(session, EST_NO_NODES, EST_NODES(values[1]), EST_NODES(train), &step),
                     EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "'first' and 'second' look up keys of the dynamic embedding 'table'"));
    est_tensor_free(one);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* --- where things go ---------------------------------------------------------------------------------------------- */

/* The table and its slots on one task, everything else on the other: as even as it gets. */
TEST(placement_by_size)
{
    model        m       = make_model(est_adagrad(0.1, NULL));
    est_remote  *remote  = memory_remote_create(2);
    est_session *session = NULL;
    est_store   *store;

    assert_ok(est_session_create(m.graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_store(session, &store));
    assert_true(est_store_find(store, "table")->elsewhere);
    assert_int_equal(est_store_find(store, "table")->task, 0);
    assert_int_equal(est_store_find(store, "table/Adagrad")->task, 0);
    assert_int_equal(est_store_find(store, "weights")->task, 1);
    assert_int_equal(est_store_find(store, "weights/Adagrad")->task, 1);
    assert_int_equal(est_store_find(store, "hidden/kernel")->task, 1);
    assert_null(est_store_find(store, "table")->value.data);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

TEST(pinned)
{
    est_remote  *remote  = memory_remote_create(2);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     a, b, here, sum;
    est_store   *store;
    est_tensor  *out = NULL;

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:ps/task:1");
    a = est_weight(graph, "a", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, "/job:ps/task:0/device:CPU:0");
    b = est_weight(graph, "b", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, "/job:worker/task:0");
    here = est_weight(graph, "here", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, "/job:ps/task:0");
    sum = est_add(est_add(est_read_variable(a), est_read_variable(b)), est_read_variable(here)); /* runs there */
    est_graph_device(graph, NULL);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_store(session, &store));
    assert_int_equal(est_store_find(store, "a")->task, 1);
    assert_int_equal(est_store_find(store, "b")->task, 0);
    assert_false(est_store_find(store, "here")->elsewhere);
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(sum), EST_NO_NODES, &out));
    assert_true(((const float *)est_tensor_data(out))[0] == 3);
    est_tensor_free(out);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

TEST(refused)
{
    est_remote  *remote  = memory_remote_create(2);
    est_session *session = NULL;
    est_graph   *graph;

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:ps/task:7");
    (void)est_weight(graph, "lost", EST_SHAPE(2), NULL);
    assert_int_equal(est_session_create(graph, EST_SESSION(.remote = remote), &session), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "'lost' is pinned to \"/job:ps/task:7\""));
    est_graph_free(graph);
    memory_remote_free(remote);
}

/* An id that the table does not have is an error of the task that has the table. */
TEST(errors_come_back)
{
    est_remote  *remote  = memory_remote_create(1);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     table, rows;
    est_tensor  *out = NULL;

    assert_ok(est_graph_create(1, &graph));
    table = est_weight(graph, "table", EST_SHAPE(10, 2), NULL);
    rows  = est_resource_gather(table, est_const_ints(graph, EST_I64, EST_I64S(3, 11, 3)));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(rows), EST_NO_NODES, &out),
                     EST_FAILED_PRECONDITION); /* no value yet */
    assert_ok(est_session_init(session));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(rows), EST_NO_NODES, &out), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "11"));
    est_session_free(session);
    est_graph_free(graph);
    memory_remote_free(remote);
}

/* A constant that waits for something of the step is here, after it: what it waits for runs where its variable is,
 * once, and not where the constant is used. */
TEST(constant_after)
{
    est_remote  *remote  = memory_remote_create(3);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     a, b, update, add, seven;
    est_tensor  *out = NULL;

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:ps/task:1");
    a = est_weight(graph, "a", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, "/job:ps/task:2");
    b = est_weight(graph, "b", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, NULL);
    update = est_assign_add(a, est_const_f32(graph, EST_SHAPE(1), (const float[]){ 1 }));
    add    = est_assign_add(b, est_after(est_const_f32(graph, EST_SHAPE(1), (const float[]){ 10 }), update));
    seven  = est_after(est_scalar(graph, EST_I64, 7), add); /* nobody else asks for the updates */
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(est_add(seven, seven)), EST_NO_NODES, &out));
    assert_int_equal(*(const int64_t *)est_tensor_data(out), 14);
    est_tensor_free(out);
    assert_ok(est_session_read(session, "a", &out));
    assert_true(*(const float *)est_tensor_data(out) == 2);
    est_tensor_free(out);
    assert_ok(est_session_read(session, "b", &out));
    assert_true(*(const float *)est_tensor_data(out) == 11);
    est_tensor_free(out);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* What crosses two tasks is sent once to each task that needs it, and what is fetched is returned as well (C7). */
TEST(direct)
{
    est_remote  *remote  = memory_remote_create(2);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     x, first, second, third;

    assert_ok(est_graph_create(1, &graph));
    x = est_placeholder(graph, "x", EST_F32, EST_SHAPE(4));
    est_graph_device(graph, "/job:ps/task:0");
    first = est_square(x);
    est_graph_device(graph, "/job:ps/task:1");
    second = est_add(first, est_square(first));
    est_graph_device(graph, "/job:ps/task:0");
    third = est_mul(second, first); /* made here in an earlier phase: sent by ps:0 to itself */
    assert_ok(est_graph_status(graph));
    remote->direct = true;
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_step  *step = NULL;
        est_status status;

        assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
        fault_arm(&f);
        status = est_session_prepare(session, EST_NODES(x), EST_NODES(first, third), EST_NO_NODES, &step);
        fault_check(&f, status);
        if (status == EST_OK) {
            const est_plan    *plan = est_step_plan(step);
            const est_segment *s    = plan->segments;

            assert_int_equal(plan->n_segments, 3);
            assert_int_equal(s[0].n_in, 1); /* x comes from here; the square is fetched, and needed by both tasks */
            assert_int_equal(s[0].n_out, 1);
            assert_int_equal(s[0].n_sends, 2);
            assert_true(s[0].sends[0].task == 0 && s[0].sends[1].task == 1);
            assert_true(s[0].sends[0].output == 0 && s[0].sends[1].output == 0);
            assert_true(s[1].task == 1 && s[1].n_in == 0 && s[1].io.n_feeds == 1 && s[1].n_out == 0);
            assert_int_equal(s[1].edges[0], s[0].sends[1].edge);
            assert_int_equal(s[1].n_sends, 1);
            assert_true(s[2].task == 0 && s[2].n_in == 0 && s[2].io.n_feeds == 2 && s[2].n_out == 1);
            assert_int_equal(s[2].n_sends, 0);
        }
        est_session_free(session);
        session = NULL;
    }
    memory_remote_free(remote);
    est_graph_free(graph);
}
