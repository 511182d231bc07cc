/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are drawn when they are first touched: the same bits as of a session that fills its variables at once,
 * whoever touches them and in whatever order; who touches rows leaves the others waiting; memory is that of rows
 * touched. */
#include "kernels/lazy_rows.h"

#include <pthread.h>

#include "base/alloc.h"
#include "estoc/strategy.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "runtime/store_files.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "support/sanitized.h"
#include "train/saver_test.h"

#define ROWS  60013 /* no multiple of a block */
#define WIDTH 5     /* odd: rows begin anywhere in a group of random numbers */

/* --- sessions ----------------------------------------------------------------------------------------------------- */

/* The session that is the measure fills its variables. */
static est_session *open_session(est_graph *graph, bool at_once)
{
    est_session *session;

    assert_ok(est_session_create(graph, EST_SESSION(.threads = 2, .no_passes = at_once), &session));
    assert_ok(est_session_init(session));
    return session;
}

static est_var *find(est_session *session, const char *name)
{
    est_store *store;

    assert_ok(est_session_store(session, &store));
    return est_store_find(store, name);
}

/* Runs a step that feeds one tensor and fetches one node. */
static est_tensor *fetch(est_session *session, est_node feed, est_tensor *value, est_node node)
{
    est_step   *step;
    est_tensor *out;

    assert_ok(
        est_session_prepare(session, (est_nodes){ &feed, value != NULL }, EST_NODES(node), (est_nodes){ 0 }, &step));
    assert_ok(est_step_run(step, (const est_tensor *const[]){ value }));
    assert_ok(est_tensor_create_from(est_node_dtype(node), *est_step_shape(step, 0), est_step_data(step, 0), &out));
    est_step_free(step);
    return out;
}

static void run_target(est_session *session, est_node target)
{
    est_step *step;

    assert_ok(est_session_prepare(session, (est_nodes){ 0 }, (est_nodes){ 0 }, EST_NODES(target), &step));
    assert_ok(est_step_run(step, NULL));
    est_step_free(step);
}

static est_graph *new_graph(void)
{
    est_graph *graph;

    assert_ok(est_graph_create(11, &graph));
    return graph;
}

/* A table of the truncated normal distribution. */
static est_node add_table(est_graph *graph)
{
    return est_weight(graph, "table", EST_SHAPE(ROWS, WIDTH),
                      EST_WEIGHT(.initializer = est_init_truncated_normal(0.1, 0.3, 0)));
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Written by a program rather than by one of our initializers: numbers first, and a zero that is added. */
static est_node make_by_hand(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_node drawn = est_random_uniform(est_const_list(graph, (est_i64s){ shape.dim, shape.rank }), dtype, 0);

    (void)self;
    return est_add(est_scalar(graph, dtype, 0), est_mul(est_scalar(graph, dtype, -3), drawn));
}

static void compare_initializer(est_initializer initializer, est_dtype dtype, est_shape shape)
{
    est_graph   *graph    = new_graph();
    est_node     variable = est_variable(graph, "v", dtype, shape);
    est_session *waits, *whole;

    est_variable_initializer(variable, est_initial_value(initializer, graph, dtype, shape));
    waits = open_session(graph, false);
    whole = open_session(graph, true);
    assert_true(est_lazy_wait(find(waits, "v")));
    assert_false(est_lazy_wait(find(whole, "v")));
    assert_true(nn_is_same(waits, whole, "v"));
    assert_true(est_lazy_wait(find(waits, "v"))); /* a copy was made of it */
    est_lazy_draw_all(find(waits, "v"), est_session_pool(waits));
    assert_false(est_lazy_wait(find(waits, "v")));
    assert_true(nn_is_same(waits, whole, "v"));
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

TEST(every_initializer)
{
    const est_initializer initializers[] = {
        est_init_zeros(),
        est_init_constant(-0.0),
        est_init_constant(0.1),
        est_init_random_uniform(-2, 3, 5),
        est_init_random_uniform(0, 1, 0),
        est_init_random_normal(1, 2, 5),
        est_init_random_normal(0, 1, 0),
        est_init_truncated_normal(1, 2, 5),
        est_init_truncated_normal(0, 0.01, 0),
        est_init_glorot_uniform(0),
        est_init_he_normal(3),
        { .make = make_by_hand },
    };

    for (size_t i = 0; i < sizeof initializers / sizeof initializers[0]; i++) {
        compare_initializer(initializers[i], EST_F32, EST_SHAPE(ROWS, WIDTH));
        compare_initializer(initializers[i], EST_F64, EST_SHAPE(131101));
        compare_initializer(initializers[i], EST_F32, EST_SHAPE(1031, 3, 87)); /* a row is larger than a block */
    }
}

/* Small ones, integers and what no row can be drawn of alone are filled. */
TEST(what_does_not_wait)
{
    est_graph   *graph = new_graph();
    est_node     small = est_variable(graph, "small", EST_F32, EST_SHAPE(1000));
    est_node     whole = est_variable(graph, "whole", EST_I64, EST_SHAPE(ROWS, WIDTH));
    est_node     sums  = est_variable(graph, "sums", EST_F32, EST_SHAPE(600, 600)), drawn;
    est_session *session, *other;

    est_variable_initializer(small, est_initial_value(est_init_ones(), graph, EST_F32, EST_SHAPE(1000)));
    est_variable_initializer(whole, est_initial_value(est_init_ones(), graph, EST_I64, EST_SHAPE(ROWS, WIDTH)));
    drawn = est_random_uniform(est_const_list(graph, EST_I64S(600, 600)), EST_F32, 0);
    est_variable_initializer(sums, est_matmul(drawn, drawn));
    session = open_session(graph, false);
    other   = open_session(graph, true);
    assert_false(est_lazy_wait(find(session, "small")));
    assert_false(est_lazy_wait(find(session, "whole")));
    assert_false(est_lazy_wait(find(session, "sums")));
    nn_assert_same(session, other);
    est_session_free(session);
    est_session_free(other);
    est_graph_free(graph);
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

/* Around the edges of blocks and of words of marks, some of them twice. */
static const int64_t rows_asked[] = { 0, 7, 8, 9, 767, 768, 7, ROWS - 1, 1024, 1023, 0, ROWS - 2, 30000 };

#define ASKED (sizeof rows_asked / sizeof rows_asked[0])

static est_tensor *asked(est_dtype dtype)
{
    est_tensor *ids;

    assert_ok(est_tensor_create(dtype, EST_SHAPE(ASKED), &ids));
    for (size_t i = 0; i < ASKED; i++) {
        if (dtype == EST_I64) ((int64_t *)est_tensor_mutable_data(ids))[i] = rows_asked[i];
        if (dtype == EST_I32) ((int32_t *)est_tensor_mutable_data(ids))[i] = (int32_t)rows_asked[i];
    }
    return ids;
}

static void compare_rows(est_dtype dtype)
{
    est_graph   *graph = new_graph();
    est_node     ids   = est_placeholder(graph, "ids", dtype, EST_SHAPE(-1));
    est_node     rows  = est_resource_gather(add_table(graph), ids);
    est_session *waits = open_session(graph, false), *whole = open_session(graph, true);
    est_tensor  *numbers = asked(dtype), *got = fetch(waits, ids, numbers, rows);
    est_tensor  *want = fetch(whole, ids, numbers, rows);

    assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
    assert_true(est_lazy_wait(find(waits, "table")));
    nn_assert_same(waits, whole);
    est_tensor_free(numbers);
    est_tensor_free(got);
    est_tensor_free(want);
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

TEST(gather)
{
    compare_rows(EST_I64);
    compare_rows(EST_I32);
}

/* Who reads all of it sees all of it. */
TEST(dense_read)
{
    est_graph   *graph = new_graph();
    est_node     all   = est_read_variable(add_table(graph));
    est_session *waits = open_session(graph, false), *whole = open_session(graph, true);
    est_tensor  *got = fetch(waits, EST_NO_NODE, NULL, all), *want = fetch(whole, EST_NO_NODE, NULL, all);

    assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
    assert_false(est_lazy_wait(find(waits, "table")));
    nn_assert_same(waits, whole);
    est_tensor_free(got);
    est_tensor_free(want);
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

/* --- writers ------------------------------------------------------------------------------------------------------ */

/* A table that is looked up in bags, one of single rows, and one with rows of at most some length. */
static est_node build_model(est_graph *graph, est_optimizer optimizer, est_node *ids, est_node *splits)
{
    est_ragged_node ragged;
    est_node h, narrow = est_weight(graph, "narrow", EST_SHAPE(5 * ROWS), EST_WEIGHT(.initializer = est_init_zeros()));
    est_node shrunk = est_weight(graph, "shrunk", EST_SHAPE(ROWS, 16), NULL);

    *ids    = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1));
    *splits = est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1));
    ragged  = (est_ragged_node){ *ids, *splits };
    h       = est_concat(EST_NODES(est_embedding_bag(add_table(graph), ragged, EST_NO_NODE, EST_COMBINE_MEAN, 0),
                                   est_embedding_bag(shrunk, ragged, EST_NO_NODE, EST_COMBINE_SUM, 0.001)),
                         1);
    h       = est_add(est_mean(est_square(est_shift(h, -1))),
                      est_mean(est_square(
                          est_shift(est_resource_gather(narrow, est_maximum(*ids, est_scalar(graph, EST_I64, 0))), -1))));
    return est_minimize(optimizer, h, NULL);
}

/* Three steps with one id that is none and ids that come again. */
static void train(est_session *session, est_node ids, est_node splits, est_node target)
{
    static const int64_t ends[]   = { 0, 3, 3, 8, ASKED };
    est_tensor          *feeds[2] = { asked(EST_I64) };
    est_step            *step;

    assert_ok(est_tensor_i64(EST_SHAPE(5), ends, &feeds[1]));
    assert_ok(est_session_prepare(session, EST_NODES(ids, splits), (est_nodes){ 0 }, EST_NODES(target), &step));
    for (int i = 0; i < 3; i++) {
        int64_t *id = est_tensor_mutable_data(feeds[0]);

        id[2] = i == 1 ? -1 : 4000 * i;
        assert_ok(est_step_run(step, (const est_tensor *const *)feeds));
    }
    est_step_free(step);
    est_tensor_free(feeds[0]);
    est_tensor_free(feeds[1]);
}

/* The same steps in a session whose rows were all drawn before. */
static void compare_training(est_optimizer optimizer)
{
    est_graph   *graph = new_graph();
    est_node     ids, splits, target = build_model(graph, optimizer, &ids, &splits);
    est_session *waits = open_session(graph, false), *whole = open_session(graph, false);

    for (int i = 0; i < est_session_variables(whole); i++) {
        est_lazy_draw_all(find(whole, est_session_variable(whole, i)), est_session_pool(whole));
    }
    train(waits, ids, splits, target);
    train(whole, ids, splits, target);
    for (int i = 0; i < est_session_variables(waits); i++) {
        const est_var *var = find(waits, est_session_variable(waits, i));

        assert_int_equal(est_lazy_wait(var), var->value.count >= ROWS); /* tables and their slots */
    }
    nn_assert_same(waits, whole);
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

TEST(every_sparse_update)
{
    compare_training(est_sgd(0.1));
    compare_training(est_momentum(0.1, NULL));
    compare_training(est_momentum(0.1, EST_MOMENTUM(.nesterov = true, .keras = true)));
    compare_training(est_adagrad(0.1, NULL));
    compare_training(est_adagrad(0.1, EST_ADAGRAD(.keras = true)));
    compare_training(est_adam(0.01, EST_ADAM(.lazy = true)));
    compare_training(est_rms_prop(0.01, EST_RMS_PROP(.momentum = 0.5)));
    compare_training(est_rms_prop(0.01, EST_RMS_PROP(.centered = true)));
    compare_training(est_ftrl(0.1, EST_FTRL(.l1 = 0.01, .l2 = 0.02)));
    compare_training(est_ftrl(0.1, EST_FTRL(.l2_shrinkage = 0.1)));
    compare_training(est_adadelta(0.5, NULL));
}

/* Adam changes every row of its slots. */
TEST(dense_update)
{
    est_graph   *graph = new_graph();
    est_node     table = add_table(graph), ids = est_const_list(graph, EST_I64S(3, 4, ROWS - 1));
    est_node     loss   = est_mean(est_square(est_resource_gather(table, ids)));
    est_node     target = est_minimize(est_adam(0.1, NULL), loss, NULL);
    est_session *waits = open_session(graph, false), *whole = open_session(graph, true);

    run_target(waits, target);
    run_target(whole, target);
    nn_assert_same(waits, whole);
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

TEST(scatter)
{
    est_graph   *graph = new_graph();
    est_node     table = add_table(graph), ids = est_const_list(graph, EST_I64S(3, 4, ROWS - 1, 3));
    est_node     ones = est_fill(est_const_list(graph, EST_I64S(4, WIDTH)), est_scalar(graph, EST_F32, 1));
    est_node     add = est_scatter_add(table, ids, ones), update = est_scatter_update(table, est_shift(ids, -1), ones);
    est_session *waits = open_session(graph, false), *whole = open_session(graph, true);

    run_target(waits, add);
    run_target(whole, add);
    run_target(waits, update);
    run_target(whole, update);
    assert_true(est_lazy_wait(find(waits, "table")));
    nn_assert_same(waits, whole);
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

/* What is assigned as a whole is what is there, before and after rows were touched. */
TEST(overwritten)
{
    est_graph   *graph = new_graph();
    est_node     table = add_table(graph), shape = est_const_list(graph, EST_I64S(ROWS, WIDTH));
    est_node     ids = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1)), rows = est_resource_gather(table, ids);
    est_node     fill   = est_assign(table, est_fill(shape, est_scalar(graph, EST_F32, 3)));
    est_node     random = est_assign(table, est_random_uniform(shape, EST_F32, 0));
    est_node     sum    = est_assign_add(table, est_fill(shape, est_scalar(graph, EST_F32, 2)));
    est_session *waits = NULL, *whole = NULL;
    est_tensor  *numbers = asked(EST_I64), *value;

    for (int i = 0; i < 6; i++) {
        const est_node targets[] = { fill, random, sum };

        waits = open_session(graph, false);
        whole = open_session(graph, true);
        est_tensor_free(fetch(waits, ids, numbers, rows));
        est_tensor_free(fetch(whole, ids, numbers, rows));
        if (i < 3) {
            run_target(waits, targets[i]);
            run_target(whole, targets[i]);
        } else {
            assert_ok(est_session_read(waits, "table", &value));
            ((float *)est_tensor_mutable_data(value))[77] = 5;
            assert_ok(est_session_write(waits, "table", value));
            assert_ok(est_session_write(whole, "table", value));
            est_tensor_free(value);
        }
        assert_false(est_lazy_wait(find(waits, "table")));
        value = fetch(waits, ids, numbers, rows);
        est_tensor_free(value);
        nn_assert_same(waits, whole);
        est_session_free(waits);
        est_session_free(whole);
    }
    est_tensor_free(numbers);
    est_graph_free(graph);
}

/* A first value that the same step reads is there when it does. */
TEST(read_in_the_same_step)
{
    est_graph   *graph  = new_graph();
    est_node     table  = est_variable(graph, "table", EST_F32, EST_SHAPE(ROWS, WIDTH));
    est_node     draw   = est_random_uniform(est_const_list(graph, EST_I64S(ROWS, WIDTH)), EST_F32, 0);
    est_node     assign = est_assign(table, draw), all = est_after(est_read_variable(table), assign);
    est_session *fused, *plain;

    assert_ok(est_session_create(graph, EST_SESSION(.threads = 2), &fused));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 2, .no_passes = true), &plain));
    for (int i = 0; i < 2; i++) {
        est_tensor *got = fetch(fused, EST_NO_NODE, NULL, all), *want = fetch(plain, EST_NO_NODE, NULL, all);

        assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
        est_tensor_free(got);
        est_tensor_free(want);
    }
    est_session_free(fused);
    est_session_free(plain);
    est_graph_free(graph);
}

/* A variable that is drawn again has its new values at once. */
TEST(drawn_again)
{
    est_graph   *graph  = new_graph();
    est_node     table  = est_variable(graph, "table", EST_F32, EST_SHAPE(ROWS, WIDTH));
    est_node     draw   = est_random_uniform(est_const_list(graph, EST_I64S(ROWS, WIDTH)), EST_F32, 0);
    est_node     assign = est_assign(table, draw);
    est_session *fused, *plain;

    assert_ok(est_session_create(graph, EST_SESSION(.threads = 2), &fused));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 2, .no_passes = true), &plain));
    for (int i = 0; i < 3; i++) {
        run_target(fused, assign);
        run_target(plain, assign);
        assert_int_equal(est_lazy_wait(find(fused, "table")), i == 0);
        nn_assert_same(fused, plain);
    }
    est_session_free(fused);
    est_session_free(plain);
    est_graph_free(graph);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* What was saved is what would have been drawn; saving draws nothing; what is restored is not drawn over. */
TEST(save_and_restore)
{
    est_graph   *graph = new_graph();
    est_node     ids, splits, target = build_model(graph, est_adagrad(0.1, NULL), &ids, &splits);
    est_session *waits = open_session(graph, false), *restored = open_session(graph, false);
    est_saver   *saver;
    char         path[EST_CHECKPOINT_PATH_MAX];

    assert_ok(est_saver_create(est_test_root, NULL, &saver));
    train(waits, ids, splits, target);
    assert_ok(est_saver_save(saver, waits, 3, NULL, path));
    assert_true(est_lazy_wait(find(waits, "table")));
    assert_ok(est_saver_restore(saver, restored, NULL, NULL));
    assert_false(est_lazy_wait(find(restored, "table")));
    nn_assert_same(waits, restored);
    train(waits, ids, splits, target);
    train(restored, ids, splits, target);
    nn_assert_same(waits, restored);
    est_saver_free(saver);
    est_session_free(waits);
    est_session_free(restored);
    est_graph_free(graph);
}

typedef struct writer {
    pthread_t     thread;
    est_snapshot *snapshot;
    char          prefix[128];
} writer;

static void *write_snapshot(void *arg)
{
    writer *w = arg;

    return est_snapshot_write(w->snapshot, w->prefix) == EST_OK ? w : NULL;
}

/* Restores the snapshot into another session. */
static void restore(est_session *session, const char *prefix)
{
    est_store      *store;
    est_store_entry entries[64];
    int             n = est_session_variables(session);
    est_bundle     *bundle;

    assert_in_range(n, 1, 64);
    assert_ok(est_session_store(session, &store));
    for (int i = 0; i < n; i++) {
        const char *name = est_session_variable(session, i);

        entries[i] = est_store_entry_of(store, find(session, name), name);
    }
    assert_ok(est_bundle_open(prefix, &bundle));
    assert_ok(est_store_restore(store, bundle, entries, n));
    est_bundle_close(bundle);
}

static est_snapshot *take_snapshot(est_session *session)
{
    est_store      *store;
    est_store_entry entries[64];
    est_snapshot   *snapshot;
    int             n = est_session_variables(session);

    assert_in_range(n, 1, 64);
    assert_ok(est_session_store(session, &store));
    for (int i = 0; i < n; i++) {
        const char *name = est_session_variable(session, i);

        entries[i] = est_store_entry_of(store, find(session, name), name);
    }
    assert_ok(est_store_snapshot(store, entries, n, &snapshot));
    return snapshot;
}

/* A snapshot does not follow the variables, which the optimizer changes before it is written, and while it is. Rows
 * wait on where they did. */
static void compare_snapshot(est_optimizer optimizer, bool by_rows)
{
    est_graph   *graph = new_graph();
    est_node     ids, splits, target = build_model(graph, optimizer, &ids, &splits);
    est_session *waits = open_session(graph, false), *other = open_session(graph, false);
    writer       w;
    void        *written;

    snprintf(w.prefix, sizeof w.prefix, "%s/snapshot", est_test_root);
    train(waits, ids, splits, target);
    train(other, ids, splits, target);
    w.snapshot = take_snapshot(waits);
    if (by_rows) train(waits, ids, splits, target); /* else more changes than is kept without a writer */
    assert_int_equal(pthread_create(&w.thread, NULL, write_snapshot, &w), 0);
    train(waits, ids, splits, target);
    pthread_join(w.thread, &written);
    assert_non_null(written);
    est_snapshot_free(w.snapshot);
    assert_int_equal(est_lazy_wait(find(waits, "table")), by_rows);
    restore(waits, w.prefix);
    nn_assert_same(waits, other);
    est_session_free(waits);
    est_session_free(other);
    est_graph_free(graph);
}

TEST(snapshot)
{
    compare_snapshot(est_sgd(0.1), true);
    compare_snapshot(est_momentum(0.1, NULL), true);
    compare_snapshot(est_momentum(0.1, EST_MOMENTUM(.nesterov = true, .keras = true)), true);
    compare_snapshot(est_adagrad(0.1, NULL), true);
    compare_snapshot(est_adam(0.01, EST_ADAM(.lazy = true)), true);
    compare_snapshot(est_rms_prop(0.01, EST_RMS_PROP(.centered = true)), true);
    compare_snapshot(est_ftrl(0.1, EST_FTRL(.l2_shrinkage = 0.1)), true);
    compare_snapshot(est_adadelta(0.5, NULL), true);
    compare_snapshot(est_adam(0.01, NULL), false);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

/* A shard draws its rows of the whole, at the task that has it. */
TEST(shards)
{
    est_graph      *graph = new_graph();
    est_node        ids, splits, target = build_model(graph, est_adagrad(0.1, NULL), &ids, &splits);
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = memory_remote_create(2);
    est_session    *cut, *whole = open_session(graph, false);
    int             waiting = 0;

    remote->partitioner = &partitioner;
    cut                 = nn_session(graph, remote);
    nn_assert_same(whole, cut);
    train(whole, ids, splits, target);
    train(cut, ids, splits, target);
    for (int task = 0; task < 2; task++) {
        const est_store *store = est_host_store(memory_remote_host(remote, task));

        for (int i = 0; i < est_store_size(store); i++) waiting += est_lazy_wait(est_store_at(store, i));
    }
    assert_int_equal(waiting, 2 * 3); /* of "shrunk" and its slot: shards of the others are small */
    nn_assert_same(whole, cut);
    est_session_free(cut);
    est_session_free(whole);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

#define THREADS 4
#define IDS     4000

typedef struct toucher {
    est_var *var;
    int      thread;
} toucher;

/* Each asks for the rows that all others ask for, in its own order, and adds to those that are its own. */
static void *touch(void *arg)
{
    const toucher *t = arg;
    int64_t        ids[IDS];
    est_view       view = { ids, EST_I64, EST_SHAPE(IDS), IDS };

    for (int64_t i = 0; i < IDS; i++) ids[i] = (i * 17 + t->thread * 1001) % IDS * 15;
    for (int at = 0; at < IDS; at += 100) {
        view.data  = ids + at;
        view.count = 100;
        est_lazy_draw(t->var, NULL, &view);
        for (int i = at; i < at + 100; i++) {
            if (ids[i] / 15 % THREADS == t->thread) ((float *)t->var->value.data)[ids[i] * WIDTH] += 1;
        }
    }
    return NULL;
}

/* A row that was changed is not drawn again. */
TEST(threads)
{
    est_graph   *graph = new_graph();
    est_session *waits, *whole;
    pthread_t    threads[THREADS];
    toucher      touchers[THREADS];

    (void)add_table(graph);
    waits = open_session(graph, false);
    whole = open_session(graph, true);
    for (int i = 0; i < THREADS; i++) {
        touchers[i] = (toucher){ find(waits, "table"), i };
        assert_int_equal(pthread_create(&threads[i], NULL, touch, &touchers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int64_t i = 0; i < IDS; i++) ((float *)find(whole, "table")->value.data)[i * 15 * WIDTH] += 1;
    assert_true(est_lazy_wait(find(waits, "table")));
    nn_assert_same(waits, whole);
    est_session_free(waits);
    est_session_free(whole);
    est_graph_free(graph);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static int64_t resident_bytes(void)
{
    long  size, resident;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* 640 MB and a slot as large, of which 100 rows are used. The address sanitizer has memory of its own beside all of
 * it. */
TEST(memory_of_rows_touched)
{
    static const int64_t most   = (EST_TEST_SANITIZED ? INT64_C(512) : INT64_C(32)) << 20;
    est_graph           *graph  = new_graph();
    est_node             table  = est_weight(graph, "big", EST_SHAPE(10000000, 16), NULL);
    est_node             ids    = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1));
    est_node             loss   = est_mean(est_resource_gather(table, ids)), target;
    int64_t              before = resident_bytes(), many[100];
    est_session         *session;
    est_step            *step;
    est_tensor          *feed;

    target  = est_minimize(est_adagrad(0.1, NULL), loss, NULL);
    session = open_session(graph, false);
    for (int64_t i = 0; i < 100; i++) many[i] = i * 99991;
    assert_ok(est_tensor_i64(EST_SHAPE(100), many, &feed));
    assert_ok(est_session_prepare(session, EST_NODES(ids), (est_nodes){ 0 }, EST_NODES(target), &step));
    assert_ok(est_step_run(step, (const est_tensor *const[]){ feed }));
    if (resident_bytes() - before > most) {
        fail_msg("%lld MB are resident", (long long)(resident_bytes() - before) >> 20);
    }
    est_step_free(step);
    est_tensor_free(feed);
    est_session_free(session);
    est_graph_free(graph);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static est_status live(est_graph *graph, est_saver *saver)
{
    est_session    *session = NULL;
    est_status      status  = est_session_create(graph, EST_SESSION(.threads = 1), &session);
    est_snapshot   *snapshot;
    est_store      *store = NULL;
    est_store_entry entry;
    char            path[EST_CHECKPOINT_PATH_MAX];

    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_saver_save(saver, session, 1, NULL, path);
    if (status == EST_OK) status = est_session_store(session, &store);
    if (status == EST_OK) {
        entry  = est_store_entry_of(store, est_store_find(store, "table"), "table");
        status = est_store_snapshot(store, &entry, 1, &snapshot);
        if (status == EST_OK) est_snapshot_free(snapshot);
    }
    est_session_free(session);
    return status;
}

TEST(failed_allocations)
{
    est_graph *graph = new_graph();
    est_saver *saver;

    (void)add_table(graph);
    assert_ok(est_saver_create(est_test_root, NULL, &saver));
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 20) {
        fault_arm(&f);
        fault_check_lenient(&f, live(graph, saver));
    }
    est_saver_free(saver);
    est_graph_free(graph);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
