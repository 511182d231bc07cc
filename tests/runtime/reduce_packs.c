/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are reduced across workers: n workers with their parts of a batch learn what one learns from the whole,
 * whatever the parts; nothing is written before all has met; what travels first. Workers are threads of this process,
 * without a network. */
#include "base/random.h"
#include "estoc/estoc.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/far_device.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

#define ROWS    50
#define BATCH   24
#define STEPS   12
#define WORKERS 4

/* A table and two layers; the reductions are built by hand, as est_apply_gradients of a strategy does. */
typedef struct model {
    est_graph *graph;
    est_node   ids, x, y, weight, loss, train, extra;
} model;

static est_node weight_of(est_node x)
{
    return est_cast(est_strided_slice(est_shape_of(x), EST_I64S(0), EST_I64S(1), EST_I64S(1),
                                      (est_strided_slice_options){ .shrink_axis_mask = 1 }),
                    EST_F32);
}

static model make_model(est_optimizer optimizer)
{
    model        m = { 0 };
    est_node     table, h, local;
    est_nodes    variables;
    est_node     copy[16];
    est_gradient gradients[16];

    assert_ok(est_graph_create(7, &m.graph));
    m.ids     = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.x       = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    m.y       = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    m.weight  = weight_of(m.x);
    table     = est_weight(m.graph, "table", EST_SHAPE(ROWS, 3), NULL);
    h         = est_concat(EST_NODES(est_resource_gather(table, m.ids), m.x), 1);
    h         = est_dense(h, 16, EST_DENSE(.activation = est_tanh, .name = "hidden"));
    h         = est_dense(h, 1, EST_DENSE(.name = "logits"));
    local     = est_reduce_mean(est_square(est_sub(h, m.y)), EST_I64S(0, 1), false);
    m.extra   = est_reduce_mean(h, EST_I64S(0, 1), false);
    variables = est_trainable_variables(m.graph);
    for (int i = 0; i < variables.n; i++) copy[i] = variables.data[i];
    variables.data = copy;
    est_compute_gradients(local, variables, gradients, NULL);
    for (int i = 0; i < variables.n; i++) {
        if (gradients[i].indices.graph != NULL) {
            gradients[i] = est_reduce_rows_across(est_dedup(gradients[i]), m.weight, true);
        } else {
            gradients[i].values = est_reduce_across(gradients[i].values, m.weight, true);
        }
    }
    m.loss  = est_reduce_across(local, m.weight, true);
    m.train = est_apply_gradients(optimizer, variables, gradients, NULL);
    assert_ok(est_graph_status(m.graph));
    return m;
}

/* Row i of the data of a step. */
static void make_row(int step, int i, int64_t *id, float x[4], float *y)
{
    uint64_t draw = (uint64_t)(step * BATCH + i + 1) * UINT64_C(0x9E3779B97F4A7C15);

    *id = (int64_t)(draw >> 20) % ROWS;
    *y  = 0;
    for (int k = 0; k < 4; k++) {
        x[k] = (float)((draw >> (8 * k)) & 255) / 128 - 1;
        *y += x[k] * (float)(k + 1) / 4;
    }
}

typedef struct batch {
    est_tensor *values[3];
} batch;

static batch make_batch(int step, int begin, int end)
{
    batch   b;
    int64_t ids[BATCH];
    float   x[BATCH][4], y[BATCH];
    int     n = end - begin;

    for (int i = 0; i < n; i++) make_row(step, begin + i, &ids[i], x[i], &y[i]);
    assert_ok(est_tensor_create_from(EST_I64, EST_SHAPE(n), ids, &b.values[0]));
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(n, 4), x, &b.values[1]));
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(n, 1), y, &b.values[2]));
    return b;
}

static void free_batch(batch *b)
{
    for (int i = 0; i < 3; i++) est_tensor_free(b->values[i]);
}

/* What a training came to. */
typedef struct outcome {
    double      loss[STEPS];
    est_tensor *table, *kernel;
} outcome;

typedef struct job {
    memory_communicator *communicator;
    est_optimizer        optimizer;
    const int           *cut;        /* [n + 1]: which rows of a batch each worker has */
    bool                 extra_of_0; /* worker 0 fetches more than the others */
    outcome              out[WORKERS];
} job;

static void train(void *user, int rank)
{
    job         *j = user;
    model        m = make_model(j->optimizer);
    est_session *session;
    outcome     *out = &j->out[rank];

    assert_ok(est_session_create(
        m.graph,
        EST_SESSION(.threads      = 1,
                    .communicator = j->communicator != NULL ? memory_communicator_of(j->communicator, rank) : NULL),
        &session));
    assert_ok(est_session_init(session));
    for (int step = 0; step < STEPS; step++) {
        batch       b      = make_batch(step, j->cut[rank], j->cut[rank + 1]);
        est_tensor *got[2] = { 0 };
        bool        extra  = j->extra_of_0 && rank == 0 && step % 3 == 0;

        assert_ok(est_session_run(session,
                                  EST_FEEDS({ m.ids, b.values[0] }, { m.x, b.values[1] }, { m.y, b.values[2] }),
                                  extra ? EST_NODES(m.extra, m.loss) : EST_NODES(m.loss), EST_NODES(m.train), got));
        out->loss[step] = (double)*(const float *)est_tensor_data(got[extra]);
        est_tensor_free(got[0]);
        est_tensor_free(got[1]);
        free_batch(&b);
    }
    assert_ok(est_session_read(session, "table", &out->table));
    assert_ok(est_session_read(session, "hidden/kernel", &out->kernel));
    est_session_free(session);
    est_graph_free(m.graph);
}

static void free_outcome(outcome *o)
{
    est_tensor_free(o->table);
    est_tensor_free(o->kernel);
}

static void assert_close(const est_tensor *got, const est_tensor *want)
{
    const float *a = est_tensor_data(got), *b = est_tensor_data(want);

    assert_int_equal(est_tensor_count(got), est_tensor_count(want));
    for (int64_t i = 0; i < est_tensor_count(got); i++) assert_near((double)a[i], (double)b[i], 2e-5);
}

static void assert_same_bits(const est_tensor *a, const est_tensor *b)
{
    assert_memory_equal(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a));
}

/* n workers, cut so, against one with everything. Sums of 24 terms in another order: some units in the last place a
 * step. */
static void check_cut(est_optimizer optimizer, int n, const int *cut, size_t bytes_per_pack, bool extra)
{
    job one  = { .optimizer = optimizer, .cut = (const int[]){ 0, BATCH } };
    job many = {
        .optimizer = optimizer, .cut = cut, .communicator = memory_communicator_create(n), .extra_of_0 = extra
    };

    for (int i = 0; i < n; i++) memory_communicator_of(many.communicator, i)->bytes_per_pack = bytes_per_pack;
    train(&one, 0);
    memory_communicator_run(n, train, &many);
    for (int i = 0; i < n; i++) {
        for (int step = 0; step < STEPS; step++) assert_near(many.out[i].loss[step], one.out[0].loss[step], 2e-5);
        assert_close(many.out[i].table, one.out[0].table);
        assert_close(many.out[i].kernel, one.out[0].kernel);
        assert_same_bits(many.out[i].table, many.out[0].table);
        assert_same_bits(many.out[i].kernel, many.out[0].kernel);
    }
    free_outcome(&one.out[0]);
    for (int i = 0; i < n; i++) free_outcome(&many.out[i]);
    memory_communicator_free(many.communicator);
}

TEST(parts_of_a_batch)
{
    check_cut(est_sgd(0.1), 2, (const int[]){ 0, 12, 24 }, 0, false);
    check_cut(est_adagrad(0.1, NULL), 4, (const int[]){ 0, 6, 12, 18, 24 }, 0, false);
    check_cut(est_adagrad(0.1, NULL), 3, (const int[]){ 0, 1, 17, 24 }, 0, false);
    check_cut(est_momentum(0.05, NULL), 1, (const int[]){ 0, 24 }, 0, false);
}

/* A worker without rows has gradients that are no numbers: means of nothing. */
TEST(worker_without_examples)
{
    check_cut(est_adagrad(0.1, NULL), 3, (const int[]){ 0, 0, 17, 24 }, 0, false);
    check_cut(est_adagrad(0.1, NULL), 2, (const int[]){ 0, 24, 24 }, 0, false);
}

/* R1: what one worker fetches beside does not change what is reduced. */
TEST(fetches_of_one)
{
    check_cut(est_adagrad(0.1, NULL), 2, (const int[]){ 0, 12, 24 }, 0, true);
    check_cut(est_adagrad(0.1, NULL), 2, (const int[]){ 0, 12, 24 }, 100, true);
}

/* Small packs: the gradient of the last layer, which comes first, is under way before the first layer's is computed. */
TEST(packs_leave_early)
{
    model                m            = make_model(est_sgd(0.1));
    memory_communicator *communicator = memory_communicator_create(1);
    est_session         *session;
    est_step            *step;
    est_plan            *plan;
    int                  first_begin = -1, last_product = -1, n_begins = 0, first_end = -1, first_write = -1;

    EST_CPU_ONLY();
    memory_communicator_of(communicator, 0)->bytes_per_pack = 16;
    assert_ok(est_session_create(
        m.graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(communicator, 0)), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_prepare(session, EST_NODES(m.ids, m.x, m.y), EST_NODES(m.loss), EST_NODES(m.train), &step));
    plan = est_step_plan(step);
    for (int k = 0; k < plan->n_items; k++) {
        const est_op *op = plan->items[k].call.node->op;

        if (strcmp(op->name, "EstReduceBegin") == 0 && first_begin < 0) first_begin = k;
        if (strcmp(op->name, "EstReduceBegin") == 0) n_begins++;
        if (strstr(op->name, "MatMul") != NULL) last_product = k;
        if (strstr(op->name, "End") != NULL && first_end < 0) first_end = k;
        if (op->writes != 0 && first_write < 0) first_write = k;
    }
    assert_true(n_begins >= 3);
    assert_true(first_begin >= 0 && first_begin < last_product);
    assert_true(last_product < first_end && first_end < first_write);
    est_session_free(session);
    est_graph_free(m.graph);
    memory_communicator_free(communicator);
}

/* --- steps that fail ---------------------------------------------------------------------------------------------- */

typedef struct broken_job {
    memory_communicator *communicator;
    int                  rows;
    est_status           status[WORKERS];
    bool                 unchanged[WORKERS], again[WORKERS];
} broken_job;

static bool same_tensor(const est_tensor *a, const est_tensor *b)
{
    return memcmp(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a)) == 0;
}

static void run_broken(void *user, int rank)
{
    broken_job  *j = user;
    model        m = make_model(est_adagrad(0.1, NULL));
    batch        b = make_batch(0, 0, j->rows);
    est_session *session;
    est_tensor  *before[2], *after[2], *loss = NULL;

    assert_ok(est_session_create(
        m.graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(j->communicator, rank)), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_read(session, "table", &before[0]));
    assert_ok(est_session_read(session, "logits/bias", &before[1]));
    j->status[rank] = est_session_run(session,
                                      EST_FEEDS({ m.ids, b.values[0] }, { m.x, b.values[1] }, { m.y, b.values[2] }),
                                      EST_NODES(m.loss), EST_NODES(m.train), &loss);
    est_tensor_free(loss);
    assert_ok(est_session_read(session, "table", &after[0]));
    assert_ok(est_session_read(session, "logits/bias", &after[1]));
    j->unchanged[rank] = same_tensor(before[0], after[0]) && same_tensor(before[1], after[1]);
    for (int i = 0; i < 2; i++) est_tensor_free(before[i]);
    for (int i = 0; i < 2; i++) est_tensor_free(after[i]);
    free_batch(&b);
    est_session_free(session);
    est_graph_free(m.graph);
}

/* R2: whichever of the operations of a step fails, no variable was written. */
TEST(lost_worker)
{
    for (int number = 0; number < 8; number++) {
        broken_job j = { .communicator = memory_communicator_create(2), .rows = 8 };
        int        begun;

        for (int i = 0; i < 2; i++) memory_communicator_of(j.communicator, i)->bytes_per_pack = 16;
        memory_communicator_break(j.communicator, number);
        memory_communicator_run(2, run_broken, &j);
        begun = memory_communicator_begun(j.communicator, 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(j.status[i], number < begun ? EST_ABORTED : EST_OK);
            assert_int_equal(j.unchanged[i], number < begun);
        }
        memory_communicator_free(j.communicator);
    }
}

/* --- a fault of one ----------------------------------------------------------------------------------------------- */

typedef struct fault_job {
    memory_communicator *communicator;
    est_status           status[2];
    char                 text[2][300];
} fault_job;

/* The second worker looks up a row that there is not. */
static void run_fault(void *user, int rank)
{
    fault_job   *j = user;
    est_graph   *graph;
    est_session *session;
    est_node     weight, x, table, fetches[2];
    est_tensor  *got[2] = { 0 };

    assert_ok(est_graph_create(3, &graph));
    weight     = est_scalar(graph, EST_F32, 1);
    x          = est_scalar(graph, EST_F32, 2);
    table      = est_weight(graph, "table", EST_SHAPE(4, 1), NULL);
    fetches[0] = est_reduce_across(x, weight, true);
    fetches[1] = est_reduce_across(
        est_reduce_sum(est_resource_gather(table, est_const_i64(graph, EST_SHAPE(1), &(int64_t){ rank == 1 ? 9 : 0 })),
                       EST_I64S(0, 1), false),
        weight, true);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(j->communicator, rank)), &session));
    assert_ok(est_session_init(session));
    j->status[rank] = est_session_run(session, EST_NO_FEEDS, (est_nodes){ fetches, 2 }, EST_NO_NODES, got);
    snprintf(j->text[rank], sizeof j->text[rank], "%s", est_error_message());
    for (int i = 0; i < 2; i++) est_tensor_free(got[i]);
    est_session_free(session);
    est_graph_free(graph);
}

/* The others learn at once why, and wait for nobody. */
TEST(fault_of_one)
{
    for (size_t bytes_per_pack = 0; bytes_per_pack < 2; bytes_per_pack++) { /* 1: it has begun a pack before */
        fault_job j = { .communicator = memory_communicator_create(2) };

        for (int i = 0; i < 2; i++) memory_communicator_of(j.communicator, i)->bytes_per_pack = bytes_per_pack;
        memory_communicator_run(2, run_fault, &j);
        if (!est_far_device_is_used()) { /* whose order is by level: what fails comes before the exchange */
            assert_int_equal(memory_communicator_begun(j.communicator, 1), (int)bytes_per_pack);
        }
        assert_int_equal(j.status[1], EST_INVALID_ARGUMENT);
        assert_int_equal(j.status[0], EST_ABORTED);
        if (strstr(j.text[0], "9") == NULL || strstr(j.text[0], "table") == NULL) fail_msg("%s", j.text[0]);
        memory_communicator_free(j.communicator);
    }
}

/* All see the same, and nothing changes: it is the end when all are idle, and else only a step without examples. */
TEST(nobody_has_examples)
{
    for (int idle = 0; idle <= 3; idle++) {
        broken_job j = { .communicator = memory_communicator_create(3), .rows = 0 };

        for (int i = 0; i < 3; i++) memory_communicator_of(j.communicator, i)->idle = i < idle;
        memory_communicator_run(3, run_broken, &j);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(j.status[i], EST_OUT_OF_RANGE);
            assert_true(j.unchanged[i]);
            assert_int_equal(memory_communicator_of(j.communicator, i)->ended, idle == 3);
            assert_int_equal(memory_communicator_of(j.communicator, i)->empty, idle < 3);
        }
        memory_communicator_free(j.communicator);
    }
}

/* --- single values ------------------------------------------------------------------------------------------------ */

static est_node filled(est_graph *graph, int32_t rows, int32_t cols, double value)
{
    return est_fill(est_const_i32(graph, EST_SHAPE(2), (const int32_t[]){ rows, cols }),
                    est_scalar(graph, EST_F32, value));
}

typedef struct values_job {
    memory_communicator *communicator;
    double               sum, mean, twice, count;
    int                  n_gathered, n_rows, begin;
    double               gathered[8];
    int64_t              rows[8];
} values_job;

static void run_values(void *user, int rank)
{
    values_job  *jobs = user, *j = &jobs[rank];
    est_graph   *graph;
    est_session *session;
    est_node     value, weight, sum, mean, twice, count, gathered, rows_in;
    est_gradient rows;
    est_tensor  *got[8];
    int32_t      index[2] = { rank, 1 };

    assert_ok(est_graph_create(3, &graph));
    value    = est_scalar(graph, EST_F32, 10 * (rank + 1));
    weight   = est_scalar(graph, EST_F32, rank + 1);
    sum      = est_reduce_across(value, weight, false);
    mean     = est_reduce_across(value, weight, true);
    twice    = est_reduce_across(est_mul(mean, est_scalar(graph, EST_F32, 2)), weight, false); /* waits for the mean */
    count    = est_reduce_across(est_scalar(graph, EST_I64, (double)((int64_t)1 << 50)), weight, false);
    gathered = est_gather_across(filled(graph, rank + 1, 2, rank));
    rows_in  = filled(graph, 2, 1, 1);
    rows.values  = rows_in;
    rows.indices = est_const_i32(graph, EST_SHAPE(2), index);
    rows         = est_reduce_rows_across(rows, weight, false);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(jobs->communicator, rank)), &session));
    assert_ok(est_session_run(
        session, EST_NO_FEEDS,
        EST_NODES(sum, mean, twice, count, gathered, rows.indices, rows.values, est_output(gathered, 1)), EST_NO_NODES,
        got));
    j->begin      = (int)nn_element(got[7], 0);
    j->sum        = nn_element(got[0], 0);
    j->mean       = nn_element(got[1], 0);
    j->twice      = nn_element(got[2], 0);
    j->count      = nn_element(got[3], 0);
    j->n_gathered = (int)est_tensor_count(got[4]);
    for (int i = 0; i < j->n_gathered; i++) j->gathered[i] = nn_element(got[4], i);
    j->n_rows = (int)est_tensor_count(got[5]);
    for (int i = 0; i < j->n_rows; i++) {
        j->rows[i] = (int64_t)nn_element(got[5], i) * 100 + (int64_t)nn_element(got[6], i);
    }
    for (int i = 0; i < 8; i++) est_tensor_free(got[i]);
    est_session_free(session);
    est_graph_free(graph);
}

TEST(values)
{
    values_job jobs[2] = { { .communicator = memory_communicator_create(2) } };

    memory_communicator_run(2, run_values, jobs);
    for (int i = 0; i < 2; i++) {
        assert_near(jobs[i].sum, 30, 0);
        assert_near(jobs[i].mean, 50.0 / 3, 1e-6);
        assert_near(jobs[i].twice, 200.0 / 3, 1e-6);
        assert_true(jobs[i].count == 2 * (double)((int64_t)1 << 50));
        assert_int_equal(jobs[i].n_gathered, 6);
        assert_int_equal(jobs[i].begin, i); /* the first has one row */
        for (int k = 0; k < 6; k++) assert_near(jobs[i].gathered[k], k < 2 ? 0 : 1, 0);
        assert_int_equal(jobs[i].n_rows, 2); /* 0 and 1 of the first, 1 twice of the second */
        assert_int_equal(jobs[i].rows[0], 0 * 100 + 1);
        assert_int_equal(jobs[i].rows[1], 1 * 100 + 3);
    }
    memory_communicator_free(jobs[0].communicator);
}

/* --- what is gathered --------------------------------------------------------------------------------------------- */

typedef struct widths_job {
    memory_communicator *communicator;
    est_dtype            dtypes[3];
    int32_t              rows[3], cols[3];
    est_status           status[3];
    char                 text[3][300];
    int                  n[3], width[3], begin[3];
} widths_job;

static void run_widths(void *user, int rank)
{
    widths_job  *j = user;
    est_graph   *graph;
    est_session *session;
    est_node     in, shape, gathered;
    est_tensor  *got[2] = { 0 }, *value = NULL;

    assert_ok(est_graph_create(3, &graph));
    shape    = est_placeholder(graph, "shape", EST_I32, EST_SHAPE(2)); /* what the graph cannot know */
    in       = est_fill(shape, est_scalar(graph, j->dtypes[rank], rank + 1));
    gathered = est_gather_across(in);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(j->communicator, rank)), &session));
    assert_ok(est_tensor_create_from(EST_I32, EST_SHAPE(2), (const int32_t[]){ j->rows[rank], j->cols[rank] }, &value));
    j->status[rank] = est_session_run(session, EST_FEEDS({ shape, value }),
                                      EST_NODES(gathered, est_output(gathered, 1)), EST_NO_NODES, got);
    est_tensor_free(value);
    snprintf(j->text[rank], sizeof j->text[rank], "%s", est_error_message());
    if (j->status[rank] == EST_OK) {
        j->n[rank]     = (int)est_tensor_shape(got[0])->dim[0];
        j->width[rank] = (int)est_tensor_shape(got[0])->dim[1];
        j->begin[rank] = (int)nn_element(got[1], 0);
    }
    for (int i = 0; i < 2; i++) est_tensor_free(got[i]);
    est_session_free(session);
    est_graph_free(graph);
}

/* Rows of different widths, or dtypes, are refused by all, also when the bytes would add up. */
TEST(gathered_widths)
{
    static const struct {
        est_dtype   dtypes[2];
        int32_t     rows[2], cols[2];
        const char *text;
    } cases[] = {
        { { EST_F32, EST_F32 }, { 2, 2 }, { 2, 3 }, "float32 [?,2] of worker 0 and of float32 [?,3] of worker 1" },
        { { EST_F32, EST_F32 }, { 1, 2 }, { 4, 2 }, "float32 [?,4] of worker 0 and of float32 [?,2] of worker 1" },
        { { EST_F32, EST_I32 }, { 1, 1 }, { 2, 2 }, "float32 [?,2]" },
        { { EST_F32, EST_I64 }, { 1, 1 }, { 2, 1 }, "int64 [?,1]" },
    };

    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        widths_job j = { .communicator = memory_communicator_create(2) };

        memcpy(j.dtypes, cases[k].dtypes, sizeof cases[k].dtypes);
        memcpy(j.rows, cases[k].rows, sizeof cases[k].rows);
        memcpy(j.cols, cases[k].cols, sizeof cases[k].cols);
        memory_communicator_run(2, run_widths, &j);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(j.status[i], EST_INVALID_ARGUMENT);
            if (strstr(j.text[i], cases[k].text) == NULL) fail_msg("%s", j.text[i]);
        }
        memory_communicator_free(j.communicator);
    }
}

/* A worker without a batch has no rows, and does not know how wide those of others are. */
TEST(gathered_nothing)
{
    widths_job j = { .communicator = memory_communicator_create(3),
                     .dtypes       = { EST_F32, EST_F32, EST_F32 },
                     .rows         = { 2, 0, 1 },
                     .cols         = { 3, 0, 3 } };

    memory_communicator_run(3, run_widths, &j);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(j.status[i], EST_OK);
        assert_true(j.n[i] == 3 && j.width[i] == 3 && j.begin[i] == (i == 0 ? 0 : 2));
    }
    memory_communicator_free(j.communicator);
}

/* --- rows of several tables --------------------------------------------------------------------------------------- */

#define TABLES 3

typedef struct tables_job {
    memory_communicator *communicator;
    int                  begins;               /* EstRowsBegin in the plan */
    int                  n[TABLES];            /* rows of all workers */
    double               values[TABLES][4][3]; /* by index and column, after the second run */
} tables_job;

/* Table t has t + 1 columns. A worker brings the rows rank and 3 of each, by int32 and int64 in turn, times 10 to the
 * t; of the last table row 3 twice. */
static est_gradient rows_of_table(est_graph *graph, int t, int rank)
{
    int32_t      narrow[] = { rank, 3, 3 };
    int64_t      wide[]   = { rank, 3 };
    int          n        = t == TABLES - 1 ? 3 : 2;
    est_gradient rows     = { .values = filled(graph, n, t + 1, 1) };

    for (int i = 0; i < t; i++) rows.values = est_mul(rows.values, est_scalar(graph, EST_F32, 10));
    rows.indices = t % 2 == 0 ? est_const_i32(graph, EST_SHAPE(n), narrow) : est_const_i64(graph, EST_SHAPE(n), wide);
    return rows;
}

static int count_begins(est_step *step)
{
    const est_plan *plan = est_step_plan(step);
    int             n    = 0;

    for (int k = 0; k < plan->n_items; k++) n += strcmp(plan->items[k].call.node->op->name, "EstRowsBegin") == 0;
    return n;
}

static void run_tables(void *user, int rank)
{
    tables_job  *jobs = user, *j = &jobs[rank];
    est_graph   *graph;
    est_session *session;
    est_step    *step;
    est_node     weight, fetches[2 * TABLES];

    assert_ok(est_graph_create(3, &graph));
    weight = est_scalar(graph, EST_F32, rank + 1);
    for (int t = 0; t < TABLES; t++) {
        est_gradient all = est_reduce_rows_across(rows_of_table(graph, t, rank), weight, true);

        fetches[t]          = all.indices;
        fetches[TABLES + t] = all.values;
    }
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(jobs->communicator, rank)), &session));
    assert_ok(est_session_prepare(session, EST_NO_NODES, (est_nodes){ fetches, 2 * TABLES }, EST_NO_NODES, &step));
    j->begins = count_begins(step);
    for (int run = 0; run < 2; run++) assert_ok(est_step_run(step, NULL));
    for (int t = 0; t < TABLES; t++) {
        const void  *indices = est_step_data(step, t);
        const float *values  = est_step_data(step, TABLES + t);

        j->n[t] = (int)est_step_shape(step, t)->dim[0];
        for (int i = 0; i < j->n[t]; i++) {
            int64_t index = t % 2 == 0 ? ((const int32_t *)indices)[i] : ((const int64_t *)indices)[i];

            for (int c = 0; c <= t; c++) j->values[t][index][c] = (double)values[i * (t + 1) + c];
        }
    }
    est_session_free(session);
    est_graph_free(graph);
}

/* Weights are 1 and 2: the means of rows 0, 1 and 3 are 1/3, 2/3 and 1 times what is brought. */
static void check_tables(size_t bytes_per_pack, int begins)
{
    tables_job jobs[2] = { { .communicator = memory_communicator_create(2) } };

    for (int i = 0; i < 2; i++) memory_communicator_of(jobs->communicator, i)->bytes_per_pack = bytes_per_pack;
    memory_communicator_run(2, run_tables, jobs);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(jobs[i].begins, begins);
        for (int t = 0; t < TABLES; t++) {
            double brought = t == 0 ? 1 : t == 1 ? 10 : 100;

            assert_int_equal(jobs[i].n[t], 3);
            for (int c = 0; c <= t; c++) {
                assert_near(jobs[i].values[t][0][c], brought / 3, 1e-5);
                assert_near(jobs[i].values[t][1][c], brought * 2 / 3, 1e-5);
                assert_near(jobs[i].values[t][3][c], t == TABLES - 1 ? 2 * brought : brought, 1e-5);
            }
        }
    }
    memory_communicator_free(jobs[0].communicator);
}

/* In one pack, or in one each where packs are small. */
TEST(tables_share_a_pack)
{
    check_tables(0, 1);
    check_tables(15, TABLES);
}

/* --- a worker without a batch ------------------------------------------------------------------------------------- */

/* How the second value comes about: of the first one as it met; with a weight of its own that is the first one's; or of
 * a variable that is written with the first one and that no gradient's way leads to. */
typedef enum second_kind { OF_THE_FIRST, OWN_WEIGHT, OF_A_VARIABLE, JUST_THE_FIRST, N_SECONDS } second_kind;

typedef struct idle_job {
    memory_communicator *communicator;
    second_kind          kind;
    double               second[2], variable[2];
    int                  begun[2];
} idle_job;

static est_node second_value(second_kind kind, est_node first, est_node x, est_node v)
{
    est_node written;

    if (kind == JUST_THE_FIRST) return first;
    if (kind == OF_THE_FIRST) return est_mul(first, x);
    if (kind == OWN_WEIGHT) return est_scale(x, 3);
    written = est_assign_add(v, first);
    return est_scale(est_after(est_identity(x), written), 3);
}

/* Rank 0 has a batch of x = 3, rank 1 has none and feeds the inputs of the reductions. */
static void run_idle(void *user, int rank)
{
    idle_job    *j = user;
    est_graph   *graph;
    est_session *session;
    est_node     x, w, v, total, first, second;
    est_tensor  *got = NULL, *variable, *values[2], *zero;
    est_node     inputs[8];
    est_feed     feeds[8];
    int          n = 2;

    assert_ok(est_graph_create(3, &graph));
    x      = est_placeholder(graph, "x", EST_F32, EST_SHAPE_SCALAR);
    w      = est_placeholder(graph, "w", EST_F32, EST_SHAPE_SCALAR);
    v      = est_weight(graph, "v", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    total  = est_add_n(EST_NODES(w, w));
    first  = est_reduce_across(est_mul(x, x), total, true);
    second = est_reduce_across(second_value(j->kind, first, x, v),
                               j->kind == OWN_WEIGHT ? est_add_n(EST_NODES(w, w)) : total, true);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(j->communicator, rank)), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 0 }, &zero));
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 3 }, &values[0]));
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 1 }, &values[1]));
    feeds[0] = (est_feed){ x, values[0] };
    feeds[1] = (est_feed){ w, values[1] };
    if (rank == 1) {
        n = est_reduce_inputs(graph, inputs, 8);
        for (int i = 0; i < n; i++) feeds[i] = (est_feed){ inputs[i], zero };
    }
    assert_ok(est_session_run(session, (est_feeds){ feeds, n }, EST_NODES(second), EST_NO_NODES, &got));
    assert_ok(est_session_read(session, "v", &variable));
    j->second[rank]   = nn_element(got, 0);
    j->variable[rank] = nn_element(variable, 0);
    j->begun[rank]    = memory_communicator_begun(j->communicator, rank);
    est_tensor_free(got);
    est_tensor_free(variable);
    est_tensor_free(zero);
    for (int i = 0; i < 2; i++) est_tensor_free(values[i]);
    est_session_free(session);
    est_graph_free(graph);
}

/* R1, whatever of the step is hidden behind what it feeds. */
TEST(worker_without_batch)
{
    static const struct {
        double second, variable;
        int    begun;
    } want[N_SECONDS] = { [OF_THE_FIRST]   = { 27, 0, 2 },
                          [OWN_WEIGHT]     = { 9, 0, 1 },
                          [OF_A_VARIABLE]  = { 9, 9, 2 },
                          [JUST_THE_FIRST] = { 9, 0, 2 } };

    for (int kind = 0; kind < N_SECONDS; kind++) {
        idle_job j = { .communicator = memory_communicator_create(2), .kind = (second_kind)kind };

        memory_communicator_run(2, run_idle, &j);
        for (int i = 0; i < 2; i++) {
            assert_near(j.second[i], want[kind].second, 0);
            assert_near(j.variable[i], want[kind].variable, 0);
            assert_int_equal(j.begun[i], want[kind].begun);
        }
        memory_communicator_free(j.communicator);
    }
}

/* --- rows beside integers ----------------------------------------------------------------------------------------- */

typedef struct rows_job {
    memory_communicator *communicator;
    double               row[2];
} rows_job;

static void run_rows(void *user, int rank)
{
    rows_job    *j = user;
    est_graph   *graph;
    est_session *session;
    est_node     weight, count;
    est_gradient rows;
    est_tensor  *got[2];

    assert_ok(est_graph_create(3, &graph));
    weight = est_scalar(graph, EST_F32, 4);
    count  = est_reduce_across(est_scalar(graph, EST_I64, 1), weight, false);
    rows   = (est_gradient){ .values  = filled(graph, 1, 1, 6),
                             .indices = est_const_i32(graph, EST_SHAPE(1), &(int32_t){ 7 }) };
    rows   = est_reduce_rows_across(rows, weight, true);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(j->communicator, rank)), &session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(rows.values, count), EST_NO_NODES, got));
    j->row[rank] = nn_element(got[0], 0);
    for (int i = 0; i < 2; i++) est_tensor_free(got[i]);
    est_session_free(session);
    est_graph_free(graph);
}

/* The mean of rows is one of examples, although a count of workers has the same weight. */
TEST(rows_beside_integers)
{
    rows_job j = { .communicator = memory_communicator_create(2) };

    memory_communicator_run(2, run_rows, &j);
    for (int i = 0; i < 2; i++) assert_near(j.row[i], 6, 0);
    memory_communicator_free(j.communicator);
}

/* --- images ------------------------------------------------------------------------------------------------------- */

typedef struct image_job {
    memory_communicator *communicator;
    est_status           status[2];
    char                 changed[2][64]; /* a variable that a step that failed has changed; "": none */
} image_job;

/* Convolution, pooling and a product, whose updates the planner would rather make at once. */
static void run_images(void *user, int rank)
{
    image_job   *j = user;
    est_graph   *graph;
    est_session *session;
    est_node     x, y, h, loss, train, weight;
    est_nodes    list;
    est_node     variables[16];
    est_gradient gradients[16];
    est_tensor  *before[64], *images, *labels;
    float        pixels[4 * 28 * 28];
    int64_t      classes[4] = { 0, 1, 2, 1 };
    int          n;

    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++)
        pixels[i] = (float)((i * 31 + (size_t)rank) % 17) / 17;
    assert_ok(est_graph_create(5, &graph));
    x      = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 28, 28, 1));
    y      = est_placeholder(graph, "y", EST_I64, EST_SHAPE(-1));
    weight = weight_of(x);
    h      = est_max_pool2d(est_conv2d_layer(x, 32, 3, EST_CONV2D(.activation = est_relu)), 2, NULL);
    h      = est_dense(est_flatten(h), 16, EST_DENSE(.activation = est_relu));
    h      = est_dense(h, 3, NULL);
    loss   = est_mean(est_sparse_softmax_xent(h, y));
    list   = est_trainable_variables(graph);
    for (n = 0; n < list.n; n++) variables[n] = list.data[n];
    est_compute_gradients(loss, (est_nodes){ variables, n }, gradients, NULL);
    for (int i = 0; i < n; i++) gradients[i].values = est_reduce_across(gradients[i].values, weight, true);
    train = est_apply_gradients(est_adam(0.01, NULL), (est_nodes){ variables, n }, gradients, NULL);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(j->communicator, rank)), &session));
    assert_ok(est_session_init(session));
    for (int i = 0; i < est_session_variables(session); i++) {
        assert_ok(est_session_read(session, est_session_variable(session, i), &before[i]));
    }
    assert_ok(est_tensor_f32(EST_SHAPE(4, 28, 28, 1), pixels, &images));
    assert_ok(est_tensor_i64(EST_SHAPE(4), classes, &labels));
    j->status[rank] = est_session_run(session, EST_FEEDS({ x, images }, { y, labels }), EST_NO_NODES, EST_NODES(train),
                                      NULL);
    for (int i = 0; i < est_session_variables(session); i++) {
        est_tensor *after;

        assert_ok(est_session_read(session, est_session_variable(session, i), &after));
        if (!same_tensor(before[i], after)) {
            snprintf(j->changed[rank], sizeof j->changed[rank], "%s", est_session_variable(session, i));
        }
        est_tensor_free(after);
        est_tensor_free(before[i]);
    }
    est_tensor_free(images);
    est_tensor_free(labels);
    est_session_free(session);
    est_graph_free(graph);
}

TEST(lost_worker_of_images)
{
    for (int number = 0; number < 2; number++) {
        image_job j = { .communicator = memory_communicator_create(2) };

        for (int i = 0; i < 2; i++) memory_communicator_of(j.communicator, i)->bytes_per_pack = 1000;
        memory_communicator_break(j.communicator, number);
        memory_communicator_run(2, run_images, &j);
        assert_true(memory_communicator_begun(j.communicator, 0) > number);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(j.status[i], EST_ABORTED);
            assert_string_equal(j.changed[i], "");
        }
        memory_communicator_free(j.communicator);
    }
}
