/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables whose rows are spread over tasks: the same numbers as in one piece, bit for bit, for every optimizer and
 * initializer, however rows and shards divide; where shards go; reading and writing; what is refused. All in one
 * process, without a network. */
#include "base/random.h"
#include "estoc/estoc.h"
#include "estoc/strategy.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "support/nn_test.h"

#define WIDTH 5 /* odd: shards begin anywhere in a vector register's width */
#define BATCH 16
#define STEPS 5

/* A table that is looked up, one that is gathered from by matrices of ids, one that is looked up and has a cost for all
 * of its rows, and one that is multiplied with. */
typedef struct model {
    est_graph *graph;
    int64_t    rows;
    est_node   ids, splits, square, x, loss, train, step;
} model;

static est_status build_model(est_optimizer optimizer, int64_t rows, model *m)
{
    est_ragged_node ids;
    est_node        table, weights, squares, kernel, h;

    m->rows = rows;
    EST_TRY(est_graph_create(7, &m->graph));
    m->ids    = est_placeholder(m->graph, "ids", EST_I64, EST_SHAPE(-1));
    m->splits = est_placeholder(m->graph, "splits", EST_I64, EST_SHAPE(-1));
    m->square = est_placeholder(m->graph, "square", EST_I32, EST_SHAPE(-1, 2));
    m->x      = est_placeholder(m->graph, "x", EST_F32, EST_SHAPE(-1, rows));
    table     = est_weight(m->graph, "table", EST_SHAPE(rows, WIDTH), NULL);
    weights   = est_weight(m->graph, "weights", EST_SHAPE(rows, 1),
                           EST_WEIGHT(.regularizer = est_l1_l2_regularizer(0.01, 0.02)));
    squares   = est_weight(m->graph, "squares", EST_SHAPE(rows, 2, 3), NULL);
    kernel    = est_weight(m->graph, "kernel", EST_SHAPE(rows, 3), NULL);
    ids       = (est_ragged_node){ m->ids, m->splits };
    h         = est_reduce_sum(est_embedding_bag(table, ids, EST_NO_NODE, EST_COMBINE_MEAN, 0), EST_I64S(1), true);
    h         = est_add(h, est_embedding_bag(weights, ids, EST_NO_NODE, EST_COMBINE_SUM, 0));
    h         = est_add(h, est_matmul(m->x, est_read_variable(kernel)));
    h         = est_add(h, est_reduce_sum(est_resource_gather(squares, m->square), EST_I64S(1, 2), false));
    m->loss   = est_add(est_reduce_mean(est_square(est_shift(h, -1)), EST_I64S(0, 1), false),
                        est_regularization_loss(m->graph));
    m->train  = est_minimize(optimizer, m->loss, NULL);
    m->step   = est_after(est_read_variable(est_global_step(m->graph)), m->train);
    return est_graph_status(m->graph);
}

typedef enum which_ids { MIXED, EMPTY, ONE_SHARD } which_ids; /* which ids a batch has */

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

static int64_t draw_id(const model *m, uint64_t key, uint64_t i, which_ids which)
{
    return which == ONE_SHARD ? 0 : (int64_t)(draw(key, i) % (uint64_t)m->rows);
}

/* Rows of 0 to 3 ids, some of them twice and some -1. */
static est_status make_batch(const model *m, uint64_t key, which_ids which, batch *b)
{
    int64_t ids[3 * BATCH], splits[BATCH + 1] = { 0 }, n = 0;
    int32_t square[2 * BATCH];

    memset(b, 0, sizeof *b);
    for (int r = 0; r < BATCH; r++) {
        int64_t count = which == EMPTY ? 0 : (int64_t)(draw(key, (uint64_t)r) % 4);

        for (int64_t i = 0; i < count; i++) {
            ids[n] = draw(key, (uint64_t)(2000 + n)) % 7 == 0 ? -1 : draw_id(m, key, (uint64_t)(1000 + n), which);
            n++;
        }
        splits[r + 1] = n;
    }
    for (int i = 0; i < 2 * BATCH; i++) square[i] = (int32_t)draw_id(m, key, (uint64_t)(3000 + i), which);
    EST_TRY(est_tensor_i64(EST_SHAPE(n), ids, &b->values[0]));
    EST_TRY(est_tensor_i64(EST_SHAPE(BATCH + 1), splits, &b->values[1]));
    EST_TRY(est_tensor_create_from(EST_I32, EST_SHAPE(BATCH, 2), square, &b->values[2]));
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE(BATCH, m->rows), &b->values[3]));
    est_random_fill_normal_f32(&(est_random){ key, 6, 0 }, 0, BATCH * m->rows, est_tensor_mutable_data(b->values[3]));
    return EST_OK;
}

static void free_batch(batch *b)
{
    for (int i = 0; i < 4; i++) est_tensor_free(b->values[i]);
}

/* Trains some steps, one without ids and one with those of one shard only among them, and says every loss. */
static est_status train(est_session *session, const model *m, int steps, double *losses)
{
    est_step  *step;
    est_status status;

    EST_TRY(est_session_prepare(session, EST_NODES(m->ids, m->splits, m->square, m->x), EST_NODES(m->loss, m->step),
                                EST_NODES(m->train), &step));
    status = EST_OK;
    for (int i = 0; i < steps && status == EST_OK; i++) {
        const est_tensor *feeds[4];
        batch             b;

        status = make_batch(m, (uint64_t)i + 1, i == 1 ? EMPTY : i == 3 ? ONE_SHARD : MIXED, &b);
        for (int k = 0; k < 4; k++) feeds[k] = b.values[k];
        if (status == EST_OK) status = est_step_run(step, feeds);
        if (status == EST_OK) losses[i] = est_step_scalar(step, 0);
        free_batch(&b);
    }
    return status;
}

static est_remote *spread_remote(int n_tasks, const est_partitioner *partitioner)
{
    est_remote *remote = memory_remote_create(n_tasks);

    remote->partitioner = partitioner;
    return remote;
}

static void compare_with_whole(est_optimizer optimizer, int64_t rows, int n_tasks, int n_shards, bool no_passes)
{
    est_partitioner partitioner = est_fixed_shards(n_shards);
    est_remote     *remote      = spread_remote(n_tasks, &partitioner);
    est_session    *whole = NULL, *cut = NULL;
    double          want[STEPS], got[STEPS];
    model           m;

    assert_ok(build_model(optimizer, rows, &m));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .no_passes = no_passes), &whole));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .no_passes = no_passes, .remote = remote), &cut));
    assert_ok(est_session_init(whole));
    assert_ok(est_session_init(cut));
    nn_assert_same(whole, cut);
    assert_ok(train(whole, &m, STEPS, want));
    assert_ok(train(cut, &m, STEPS, got));
    for (int i = 0; i < STEPS; i++) {
        if (want[i] != got[i]) {
            fail_msg("%d tasks, %d shards, step %d: loss %.9g instead of %.9g", n_tasks, n_shards, i, got[i], want[i]);
        }
    }
    nn_assert_same(whole, cut);
    est_session_free(whole);
    est_session_free(cut);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

TEST(every_optimizer)
{
    const est_optimizer optimizers[] = {
        est_sgd(0.1),
        est_momentum(0.1, NULL),
        est_momentum(0.1, EST_MOMENTUM(.nesterov = true)),
        est_momentum(0.1, EST_MOMENTUM(.nesterov = true, .keras = true)),
        est_adagrad(0.1, NULL),
        est_adagrad(0.1, EST_ADAGRAD(.keras = true)),
        est_adam(0.01, NULL),
        est_adam(0.01, EST_ADAM(.keras = true)),
        est_adam(0.01, EST_ADAM(.nesterov = true)),
        est_adam(0.01, EST_ADAM(.lazy = true)),
        est_rms_prop(0.01, EST_RMS_PROP(.momentum = 0.5)),
        est_rms_prop(0.01, EST_RMS_PROP(.centered = true)),
        est_rms_prop(0.01, EST_RMS_PROP(.keras = true)),
        est_rms_prop(0.01, EST_RMS_PROP(.centered = true, .keras = true)),
        est_ftrl(0.1, EST_FTRL(.l1 = 0.01, .l2 = 0.02)),
        est_ftrl(0.1, EST_FTRL(.l2_shrinkage = 0.1)),
        est_ftrl(0.1, EST_FTRL(.learning_rate_power = -0.4)),
        est_adadelta(0.5, NULL),
        est_rms_prop(0.01, EST_RMS_PROP(.keras = true, .epsilon_inside = true)),
        est_adamax(0.01, NULL),
        est_nadam(0.01, NULL),
        est_lion(0.01, NULL),
        est_with_weight_decay(est_adam(0.01, EST_ADAM(.keras = true)), 0.1, (est_strings){ 0 }),
        est_with_dense_gradients(est_momentum(0.1, EST_MOMENTUM(.nesterov = true, .keras = true))),
        est_with_dense_gradients(est_ftrl(0.1, NULL)),
    };

    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        compare_with_whole(optimizers[i], 29, 3, 4, false);
        compare_with_whole(optimizers[i], 29, 2, 3, true);
        compare_with_whole(optimizers[i], 101, 5, 7, false);
    }
}

/* Numbers that divide and that do not, fewer rows than shards, fewer tasks than shards and more. */
TEST(every_number_of_shards)
{
    for (int n_tasks = 1; n_tasks <= 5; n_tasks++) {
        for (int n_shards = 1; n_shards <= 7; n_shards++) {
            compare_with_whole(est_adagrad(0.1, NULL), 30, n_tasks, n_shards, false);
            compare_with_whole(est_ftrl(0.1, NULL), 4, n_tasks, n_shards, false);
        }
    }
    compare_with_whole(est_sgd(0.1), 1, 3, 3, false);
}

/* --- first values ------------------------------------------------------------------------------------------------- */

static est_node make_ramp(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_tensor *value;
    est_node    node;

    (void)self;
    assert_ok(est_tensor_create(dtype, shape, &value));
    for (int64_t i = 0; i < est_shape_count(&shape); i++) ((float *)est_tensor_mutable_data(value))[i] = (float)i;
    node = est_const(graph, value);
    est_tensor_free(value);
    return node;
}

/* Something that is not made row by row: what it makes is cut. */
static est_node make_transposed(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_node drawn = est_random_uniform(est_const_list(graph, EST_I64S(shape.dim[1], shape.dim[0])), dtype, 0);

    (void)self;
    return est_shift(est_transpose(drawn, EST_I64S(1, 0)), 1);
}

TEST(every_initializer)
{
    const est_initializer initializers[] = {
        est_init_zeros(),
        est_init_ones(),
        est_init_constant(0.3),
        est_init_random_uniform(-2, 3, 5),
        est_init_random_normal(1, 2, 5),
        est_init_truncated_normal(1, 2, 5),
        est_init_glorot_uniform(0),
        est_init_glorot_normal(0),
        est_init_he_uniform(0),
        est_init_he_normal(0),
        est_init_lecun_uniform(0),
        est_init_lecun_normal(0),
        est_init_variance_scaling(2, EST_FAN_OUT, EST_DRAW_NORMAL, 3),
        { .make = make_ramp },
        { .make = make_transposed },
    };
    est_partitioner partitioner = est_fixed_shards(4);
    est_remote     *remote      = spread_remote(3, &partitioner);
    est_session    *whole = NULL, *cut = NULL;
    est_graph      *graph;

    assert_ok(est_graph_create(3, &graph));
    for (size_t i = 0; i < sizeof initializers / sizeof initializers[0]; i++) {
        (void)est_weight(graph, "w", EST_SHAPE(1003, 3), EST_WEIGHT(.initializer = initializers[i]));
        if (initializers[i].make == make_ramp) continue;
        (void)est_weight(graph, "d", EST_SHAPE(7, 3), EST_WEIGHT(.initializer = initializers[i], .dtype = EST_F64));
    }
    est_node integers = est_variable(graph, "integers", EST_I64, EST_SHAPE(1003));
    est_variable_initializer(integers, est_random_uniform_int(est_const_list(graph, EST_I64S(1003)),
                                                              est_scalar(graph, EST_I64, 5),
                                                              est_scalar(graph, EST_I64, 5000), 0));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1), &whole));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &cut));
    assert_ok(est_session_init(whole));
    memory_remote_reset(remote);
    assert_ok(est_session_init(cut));
    /* only what is cut travels: two values of make_transposed */
    assert_in_range(memory_remote_bytes(remote), 1, 1003 * 3 * sizeof(float) + 7 * 3 * sizeof(double));
    nn_assert_same(whole, cut);
    est_session_free(whole);
    est_session_free(cut);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* --- where shards go ---------------------------------------------------------------------------------------------- */

TEST(placement)
{
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = spread_remote(3, &partitioner);
    est_session    *session     = NULL;
    est_store      *store;
    const est_var  *table, *slot;
    int             seen = 0;
    model           m;

    assert_ok(build_model(est_adagrad(0.1, NULL), 29, &m));
    for (int again = 0; again < 2; again++) { /* the second session finds what the first has made */
        assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
        assert_ok(est_session_store(session, &store));
        table = est_store_find(store, "table");
        slot  = est_store_find(store, "table/Adagrad");
        assert_true(table->elsewhere);
        assert_int_equal(table->task, -1);
        assert_int_equal(table->n_shards, 3);
        assert_int_equal(slot->n_shards, 3);
        for (int i = 0; i < 3; i++) {
            char name[32];

            snprintf(name, sizeof name, "table/part_%d", i);
            assert_string_equal(table->shards[i]->name, name);
            assert_ptr_equal(table->shards[i]->whole, table);
            assert_ptr_equal(est_store_find(store, name), table->shards[i]);
            assert_int_equal(table->shards[i]->first_row, i * 10);
            assert_int_equal(table->shards[i]->value.shape.dim[0], i == 2 ? 9 : 10);
            assert_int_equal(slot->shards[i]->task, table->shards[i]->task);
            seen |= 1 << table->shards[i]->task;
            if (again)
                assert_non_null(
                    est_store_find(est_host_store(memory_remote_host(remote, table->shards[i]->task)), name));
        }
        assert_int_equal(seen, 7); /* each at another task */
        assert_int_equal(est_store_find(store, "global_step")->n_shards, 0);
        if (!again) assert_ok(est_session_init(session));
        est_session_free(session);
    }
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

/* Loads that differ do not bring two shards of one variable to one task. */
TEST(shards_stay_apart)
{
    est_partitioner partitioner = est_min_size_partitioner(4000, 0);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_store      *store;
    const est_var  *table;

    assert_ok(est_graph_create(1, &graph));
    (void)est_weight(graph, "scalars", EST_SHAPE(1, 100000), NULL); /* one row: in one piece */
    (void)est_weight(graph, "table", EST_SHAPE(1000, 4), NULL);
    (void)est_weight(graph, "small", EST_SHAPE(1000), NULL);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_store(session, &store));
    table = est_store_find(store, "table");
    assert_int_equal(table->n_shards, 2);
    assert_int_not_equal(table->shards[0]->task, table->shards[1]->task);
    assert_int_equal(est_store_find(store, "scalars")->n_shards, 0);
    assert_int_equal(est_store_find(store, "small")->n_shards, 0);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* Pinned, local and dynamic variables, and such as are used with others of other rows, stay in one piece. */
TEST(in_one_piece)
{
    est_partitioner partitioner = est_fixed_shards(2);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_store      *store;
    est_node        local;

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:ps/task:1");
    (void)est_weight(graph, "pinned", EST_SHAPE(10), NULL);
    est_graph_device(graph, NULL);
    local = est_variable(graph, "local", EST_F32, EST_SHAPE(10));
    est_graph_collect(graph, "local_variables", local);
    (void)est_row_variable(graph, "dynamic", EST_SHAPE(100, 2), &(est_row_policy){ 0 });
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_store(session, &store));
    assert_int_equal(est_store_find(store, "pinned")->task, 1);
    for (int i = 0; i < est_store_size(store); i++) assert_int_equal(est_store_at(store, i)->n_shards, 0);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* Variables of different rows that one operation touches are not spread: shard by shard they would not fit. */
TEST(unlike)
{
    est_partitioner partitioner = est_fixed_shards(2);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_store      *store;
    est_node        w[4];

    assert_ok(est_graph_create(1, &graph));
    w[0] = est_variable(graph, "a", EST_F32, EST_SHAPE(10));
    w[1] = est_variable(graph, "b", EST_F32, EST_SHAPE(4));
    w[2] = est_variable(graph, "c", EST_F32, EST_SHAPE(10));
    (void)est_concat(EST_NODES(w[0], w[1]), 0);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_store(session, &store));
    assert_int_equal(est_store_find(store, "a")->n_shards, 0);
    assert_int_equal(est_store_find(store, "a")->task, est_store_find(store, "b")->task);
    assert_int_equal(est_store_find(store, "c")->n_shards, 2);
    w[3] = est_variable(graph, "d", EST_F32, EST_SHAPE(4));
    (void)est_concat(EST_NODES(w[2], w[3]), 0);
    assert_int_equal(est_session_store(session, &store), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "'d' is used with 'c', whose rows are spread over tasks"));
    est_session_free(session);
    est_graph_free(graph);
    memory_remote_free(remote);
}

/* Where a device string says, when what is used with it is spread already. */
TEST(pinned_too_late)
{
    est_partitioner partitioner = est_fixed_shards(2);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_store      *store;
    est_node        w, late;

    assert_ok(est_graph_create(1, &graph));
    w = est_variable(graph, "w", EST_F32, EST_SHAPE(10));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    est_graph_device(graph, "/job:ps/task:1");
    late = est_variable(graph, "late", EST_F32, EST_SHAPE(10));
    (void)est_concat(EST_NODES(w, late), 0);
    assert_int_equal(est_session_store(session, &store), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "'late' is to be at ps:1, but what is used with it is spread"));
    est_session_free(session);
    est_graph_free(graph);
    memory_remote_free(remote);
}

/* A slot that is made after the session joins its variable, shard by shard. */
TEST(graph_that_grows)
{
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_store      *store;
    est_node        w, train;

    assert_ok(est_graph_create(1, &graph));
    w = est_weight(graph, "w", EST_SHAPE(10, 2), EST_WEIGHT(.initializer = est_init_ones()));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    train = est_minimize(est_adagrad(0.1, NULL), est_sum(est_square(est_read_variable(w))), NULL);
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(train), NULL));
    assert_ok(est_session_store(session, &store));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(est_store_find(store, "w/Adagrad")->shards[i]->task,
                         est_store_find(store, "w")->shards[i]->task);
    }
    (void)est_variable(graph, "w/part_1", EST_F32, EST_SHAPE(3, 2));
    assert_int_equal(est_session_init(session), EST_ALREADY_EXISTS);
    assert_non_null(strstr(est_error_message(), "'w/part_1' has the name of a shard of 'w'"));
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* As many messages as without shards: one exchange for values, one for gradients, and a third for the step's count at
 * one of several tasks. Of tables only the rows of the batch travel. */
TEST(messages_a_step)
{
    est_partitioner partitioner = est_fixed_shards(0);

    for (int n_tasks = 1; n_tasks <= 3; n_tasks++) {
        est_remote  *remote  = spread_remote(n_tasks, &partitioner);
        est_session *session = NULL;
        est_graph   *graph;
        est_node     ids, table, train;
        est_step    *step;
        est_tensor  *feed  = NULL;
        int          total = 0;

        assert_ok(est_graph_create(7, &graph));
        ids     = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1));
        table   = est_weight(graph, "table", EST_SHAPE(4000, WIDTH), NULL);
        train   = est_minimize(est_adagrad(0.1, NULL), est_sum(est_square(est_resource_gather(table, ids))), NULL);
        session = nn_session(graph, remote);
        assert_ok(est_session_prepare(session, EST_NODES(ids), EST_NO_NODES, EST_NODES(train), &step));
        memory_remote_reset(remote);
        assert_ok(est_tensor_i64(EST_SHAPE(5), (const int64_t[]){ 3999, 0, 1500, 0, 2500 }, &feed));
        assert_ok(est_step_run(step, (const est_tensor *const[]){ feed }));
        for (int t = 0; t < n_tasks; t++) total += memory_remote_starts(remote, t);
        assert_int_equal(total, n_tasks == 1 ? 2 : 2 * n_tasks + 1);
        assert_in_range(memory_remote_bytes(remote), 1, 4 * (2 * sizeof(int64_t) + 2 * WIDTH * sizeof(float)));
        est_tensor_free(feed);
        est_session_free(session);
        memory_remote_free(remote);
        est_graph_free(graph);
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

TEST(read_and_write)
{
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_node        w, first, ready;
    est_tensor     *in = NULL, *out = NULL;
    int64_t         values[7 * 2];

    for (int i = 0; i < 14; i++) values[i] = 100 + i;
    assert_ok(est_graph_create(1, &graph));
    w     = est_variable(graph, "w", EST_I64, EST_SHAPE(7, 2));
    ready = est_variable_is_initialized(w);
    first = est_read_variable(w);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_int_equal(est_session_read(session, "w", &out), EST_FAILED_PRECONDITION);
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(ready), EST_NO_NODES, &out));
    assert_false(*(const bool *)est_tensor_data(out));
    est_tensor_free(out);
    assert_ok(est_tensor_i64(EST_SHAPE(7, 2), values, &in));
    assert_ok(est_session_write(session, "w", in));
    assert_ok(est_session_read(session, "w", &out));
    assert_memory_equal(est_tensor_data(out), values, sizeof values);
    est_tensor_free(out);
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(first), EST_NO_NODES, &out));
    assert_memory_equal(est_tensor_data(out), values, sizeof values);
    est_tensor_free(out);
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(ready), EST_NO_NODES, &out));
    assert_true(*(const bool *)est_tensor_data(out));
    est_tensor_free(out);
    est_tensor_free(in);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* A variable of which one task lost its shard has no value as a whole. */
TEST(a_shard_without_a_value)
{
    est_partitioner partitioner = est_fixed_shards(2);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_store      *store;
    const est_var  *w;

    assert_ok(est_graph_create(1, &graph));
    (void)est_weight(graph, "w", EST_SHAPE(7, 2), NULL);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_store(session, &store));
    w = est_store_find(store, "w");
    assert_ok(est_session_look(session));
    assert_true(w->initialized);
    est_store_find(est_host_store(memory_remote_host(remote, w->shards[0]->task)), "w/part_0")->initialized = false;
    assert_ok(est_session_look(session));
    assert_false(w->initialized);
    assert_false(w->shards[0]->initialized);
    assert_true(w->shards[1]->initialized);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* Tasks that have the variable in other shards, as of a job that was started with another partitioner. */
TEST(other_shards_are_there)
{
    est_partitioner two = est_fixed_shards(2), three = est_fixed_shards(3);
    est_remote     *remote  = spread_remote(2, &two);
    est_session    *session = NULL;
    est_graph      *graph;
    est_node        read;
    est_tensor     *out = NULL;

    assert_ok(est_graph_create(1, &graph));
    read = est_read_variable(est_weight(graph, "w", EST_SHAPE(7, 2), NULL));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    est_session_free(session);
    remote->partitioner = &three;
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_int_equal(est_session_read(session, "w", &out), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "'w/part_0' is float32 [4,2] at ps:0, expected as float32 [3,2]"));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(read), EST_NO_NODES, &out), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "variable 'w/part_0' is float32 [4,2], asked for as float32 [3,2]"));
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* Updates that no optimizer makes: whole values added, scattered scalars, indices of rank 2 and 0. */
TEST(updates_by_hand)
{
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *whole = NULL, *cut = NULL;
    est_graph      *graph;
    est_node        w, ids, rows, updates[6];

    assert_ok(est_graph_create(1, &graph));
    w          = est_weight(graph, "w", EST_SHAPE(7, 2), NULL);
    ids        = est_const_ints(graph, EST_I32, EST_I64S(6, 0, 3, 6));
    rows       = est_random_normal(est_const_list(graph, EST_I64S(4, 2)), EST_F32, 0);
    updates[0] = est_assign_add(w, est_random_normal(est_const_list(graph, EST_I64S(7, 2)), EST_F32, 0));
    updates[1] = est_assign_sub(w, est_scale(est_read_variable(w), 0.25));
    updates[2] = est_scatter_add(w, ids, rows);
    updates[3] = est_scatter_update(w, ids, est_scalar(graph, EST_F32, 3));
    updates[4] = est_scatter_sub(w, est_reshape(ids, EST_I64S(2, 2)), est_reshape(rows, EST_I64S(2, 2, 2)));
    updates[5] = est_scatter_add(w, est_scalar(graph, EST_I64, 4),
                                 est_const_f32(graph, EST_SHAPE(2), (const float[]){ 1, 2 }));
    assert_ok(est_graph_status(graph));
    whole = nn_session(graph, NULL);
    cut   = nn_session(graph, remote);
    for (int i = 0; i < 6; i++) {
        assert_ok(est_session_run(whole, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(updates[i]), NULL));
        assert_ok(est_session_run(cut, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(updates[i]), NULL));
        assert_true(nn_is_same(whole, cut, "w"));
    }
    est_session_free(whole);
    est_session_free(cut);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* What is waited for is waited for at every task: reads after an update see all of it. */
TEST(order)
{
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = spread_remote(3, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_node        w, add, before, after, rows;
    est_tensor     *out[3];

    assert_ok(est_graph_create(1, &graph));
    w      = est_weight(graph, "w", EST_SHAPE(5), EST_WEIGHT(.initializer = est_init_ones()));
    before = est_read_variable(w);
    add    = est_assign_add(w, est_fill(est_const_list(graph, EST_I64S(5)), est_scalar(graph, EST_F32, 2)));
    after  = est_after(est_read_variable(w), add);
    rows   = est_after(est_resource_gather(w, est_const_ints(graph, EST_I64, EST_I64S(4, 0, 4))), add);
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(before, after, rows), EST_NO_NODES, out));
    for (int i = 0; i < 5; i++) {
        assert_true(((const float *)est_tensor_data(out[0]))[i] == 1);
        assert_true(((const float *)est_tensor_data(out[1]))[i] == 3);
        if (i < 3) assert_true(((const float *)est_tensor_data(out[2]))[i] == 3);
    }
    for (int i = 0; i < 3; i++) est_tensor_free(out[i]);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* An id that the table does not have is an error that names the table, not one of its shards. */
TEST(ids_out_of_range)
{
    est_partitioner partitioner = est_fixed_shards(3);
    est_remote     *remote      = spread_remote(2, &partitioner);
    est_session    *session     = NULL;
    est_graph      *graph;
    est_node        table, rows, update;
    est_tensor     *out = NULL;

    assert_ok(est_graph_create(1, &graph));
    table  = est_weight(graph, "table", EST_SHAPE(10, 2), NULL);
    rows   = est_resource_gather(table, est_const_ints(graph, EST_I64, EST_I64S(3, 10, 3)));
    update = est_scatter_add(table, est_const_ints(graph, EST_I32, EST_I64S(1, -2)), est_scalar(graph, EST_F32, 1));
    assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(rows), EST_NO_NODES, &out), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "= 10 is not a row of variable 'table': rows are 0 to 9"));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(update), NULL),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "= -2 is not a row of variable 'table'"));
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(graph);
}

/* --- memory that runs out ----------------------------------------------------------------------------------------- */

/* A session over a graph that has all that is rewritten, and a step of it. */
static est_status run_once(est_graph *graph, est_remote *remote, est_node loss, est_node update)
{
    est_session *session = NULL;
    est_tensor  *out     = NULL;
    est_status   status  = est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session);

    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_session_run(session, EST_NO_FEEDS, EST_NODES(loss), EST_NODES(update), &out);
    if (status == EST_OK) est_tensor_free(out);
    est_session_free(session);
    return status;
}

TEST(every_allocation_fails_once)
{
    est_partitioner partitioner = est_fixed_shards(2);
    est_graph      *graph;
    est_node        w, loss, update;
    assert_ok(est_graph_create(1, &graph));
    w      = est_weight(graph, "w", EST_SHAPE(3, 2), EST_WEIGHT(.initializer = { .make = make_ramp }));
    loss   = est_sum(est_square(est_resource_gather(w, est_const_ints(graph, EST_I64, EST_I64S(2, 0)))));
    loss   = est_add(loss, est_sum(est_read_variable(w)));
    update = est_scatter_add(w, est_const_ints(graph, EST_I64, EST_I64S(1, 2)), est_scalar(graph, EST_F32, 1));
    update = est_after(est_assign_sub(w, est_random_normal(est_const_list(graph, EST_I64S(3, 2)), EST_F32, 0)), update);
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 99) {
        est_remote *remote = spread_remote(2, &partitioner);
        est_status  status;

        fault_arm(&f);
        status = run_once(graph, remote, loss, update);
        fault_check(&f, status);
        memory_remote_free(remote);
    }
    est_graph_free(graph);
}
