/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributed datasets: the batches of 1 to 3 replicas in one process and of two workers, which are threads with
 * servers on loopback. Data that cannot be divided evenly is seen whole, and all workers make as many steps. */
#include "estoc/distributed_dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "estoc/estoc.h"
#include "support/data_test.h"
#include "support/fault_loop.h"
#include "support/membership_test.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

#define WORKERS 2

/* x: float32 [n], 1, 2, ... */
static est_dataset *numbers(int n)
{
    float        values[32];
    est_tensor  *x = NULL;
    est_dataset *d;

    for (int i = 0; i < n; i++) values[i] = (float)(i + 1);
    assert_ok(est_tensor_f32(EST_SHAPE(n), values, &x));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }));
    est_tensor_free(x);
    return d;
}

static est_strategy *mirrored(int replicas)
{
    est_strategy *s = NULL;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = replicas), &s));
    return s;
}

/* Appends the values of one step: "1 2,3" for two replicas, ";" after it. */
static void put_step(est_strbuf *out, const est_tensor *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        const float *x = est_tensor_data(values[i]);

        for (int64_t k = 0; k < est_tensor_shape(values[i])->dim[0]; k++) {
            est_strbuf_printf(out, "%s%g", k > 0 ? " " : "", (double)x[k]);
        }
        est_strbuf_append(out, i + 1 < n ? "," : ";");
    }
}

/* All steps from here on, up to `max`; to be freed. */
static char *read_steps(est_distributed_iterator *it, int n_values, int max)
{
    est_strbuf               text = { 0 };
    const est_tensor *const *values;
    est_status               status = EST_OK;
    char                    *out;

    for (int i = 0; i < max && status == EST_OK; i++) {
        status = est_distributed_iterator_next(it, &values);
        if (status == EST_OK) put_step(&text, values, n_values);
    }
    if (status != EST_OUT_OF_RANGE) assert_ok(status);
    assert_ok(est_strbuf_take(&text, &out));
    return out;
}

static void expect_steps(const est_distributed_dataset *data, int n_values, const char *want)
{
    est_distributed_iterator *it = NULL;
    char                     *got;

    for (int i = 0; i < 2; i++) { /* a second iterator begins at the first batch again */
        assert_ok(est_distributed_iterator_create(data, NULL, &it));
        got = read_steps(it, n_values, 100);
        assert_string_equal(got, want);
        est_free(got);
        est_distributed_iterator_free(it);
    }
}

/* --- one process -------------------------------------------------------------------------------------------------- */

/* Ten rows in batches of four, each in parts of the same size but for the last ones, as in TensorFlow. */
TEST(dataset)
{
    static const char *const want[] = {
        "1 2 3 4;5 6 7 8;9 10;",
        "1 2,3 4;5 6,7 8;9,10;",
        "1 2,3 4,;5 6,7 8,;9,10,;",
    };

    for (int n = 1; n <= 3; n++) {
        est_strategy            *s    = mirrored(n);
        est_distributed_dataset *data = NULL;

        assert_ok(
            est_strategy_distribute_dataset(s, est_dataset_batch(numbers(10), 4, NULL), EST_AUTO_SHARD_AUTO, &data));
        est_strategy_free(s); /* needed no longer */
        assert_string_equal(est_dataset_component(est_distributed_dataset_local(data), 0)->name, "x");
        expect_steps(data, n, want[n - 1]);
        est_distributed_dataset_free(data);
    }
}

typedef struct made {
    est_input_context context;
    est_status        status; /* to be returned; EST_OK without a dataset: see forget */
    bool              forget, scalars;
    int               rows;
} made;

/* Batches of two for each replica. */
static est_status make_input(const est_input_context *context, void *user, est_dataset **out)
{
    made *m = user;

    m->context = *context;
    if (m->status != EST_OK) return est_fail(m->status, "no such rows");
    if (m->forget) return EST_OK;
    return est_dataset_finish(m->scalars ? numbers(m->rows) : est_dataset_batch(numbers(m->rows), 2, NULL), out);
}

TEST(function)
{
    made                     m    = { .rows = 7 };
    est_strategy            *s    = mirrored(3);
    est_distributed_dataset *data = NULL;

    assert_ok(est_strategy_datasets_from_function(s, make_input, &m, &data));
    assert_int_equal(m.context.mode, EST_TRAIN);
    assert_int_equal(m.context.n_pipelines, 1);
    assert_int_equal(m.context.pipeline, 0);
    assert_int_equal(m.context.num_replicas_in_sync, 3);
    assert_int_equal(m.context.seed, 1);
    assert_int_equal(m.context.job_seed, 1);
    expect_steps(data, 3, "1 2,3 4,5 6;7,,;");
    est_distributed_dataset_free(data);
    est_strategy_free(s);

    /* One replica may have elements without rows: none is ever missing. */
    m.scalars = true;
    assert_ok(est_strategy_datasets_from_function(NULL, make_input, &m, &data));
    est_distributed_dataset_free(data);
}

/* A position after any step continues there. */
TEST(positions)
{
    made                     m      = { .rows = 9 };
    est_strategy            *s      = mirrored(2);
    est_distributed_dataset *data   = NULL;
    static const char *const rest[] = { "1 2,3 4;5 6,7 8;9,;", "5 6,7 8;9,;", "9,;", "" };

    assert_ok(est_strategy_datasets_from_function(s, make_input, &m, &data));
    for (int steps = 0; steps < 4; steps++) {
        est_distributed_iterator *it = NULL, *other = NULL;
        est_tensor               *position = NULL;
        char                     *text;

        assert_ok(est_distributed_iterator_create(data, NULL, &it));
        est_free(read_steps(it, 2, steps));
        assert_ok(est_distributed_iterator_save(it, &position));
        assert_ok(est_distributed_iterator_create(data, NULL, &other));
        assert_ok(est_distributed_iterator_restore(other, position));
        text = read_steps(other, 2, 100);
        assert_string_equal(text, rest[steps]);
        est_free(text);
        est_tensor_free(position);
        est_distributed_iterator_free(it);
        est_distributed_iterator_free(other);
    }
    est_distributed_dataset_free(data);
    est_strategy_free(s);
}

static est_status ragged_row(int64_t row, int i, est_tensor **out)
{
    (void)i;
    return est_tensor_create(EST_F32, EST_SHAPE(row), out);
}

/* The empty batch of a component with splits, and of one whose width is not known. */
TEST(ragged)
{
    static const est_component component = { .name = "ids", .dtype = EST_F32, .shape = { .rank = 1, .dim = { -1 } } };
    est_strategy              *s         = mirrored(2);
    est_distributed_dataset   *data      = NULL;
    est_distributed_iterator  *it        = NULL;
    const est_tensor *const   *values;
    est_graph                 *graph = NULL;
    est_nodes                  nodes;
    est_ragged_node            ids;

    for (int padded = 0; padded < 2; padded++) {
        est_dataset *d = est_test_rows(&component, 1, 1, ragged_row, NULL);

        d = est_dataset_batch(d, 2, EST_BATCH(.rows = padded ? EST_ROWS_PADDED : EST_ROWS_RAGGED));
        assert_ok(est_strategy_distribute_dataset(s, d, EST_AUTO_SHARD_OFF, &data));
        assert_ok(est_graph_create(1, &graph));
        nodes = est_distributed_placeholders(data, graph);
        assert_int_equal(nodes.n, padded ? 2 : 4);
        ids.values = padded ? est_distributed_input(data, nodes, 1, "ids") : EST_NO_NODE;
        if (!padded) ids = est_distributed_ragged(data, nodes, 1, "ids");
        assert_int_equal(ids.values.id, nodes.data[padded ? 1 : 2].id);
        if (!padded) assert_int_equal(ids.splits.id, nodes.data[3].id);
        assert_ok(est_distributed_iterator_create(data, NULL, &it));
        assert_ok(est_distributed_iterator_next(it, &values));
        if (padded) {
            assert_int_equal(est_tensor_shape(values[0])->dim[0], 1);
            assert_int_equal(est_tensor_shape(values[1])->rank, 2);
            assert_int_equal(est_tensor_shape(values[1])->dim[0], 0);
            assert_int_equal(est_tensor_shape(values[1])->dim[1], 0);
        } else {
            assert_int_equal(est_tensor_shape(values[1])->dim[0], 2);
            assert_int_equal(est_tensor_shape(values[2])->dim[0], 0);
            assert_int_equal(est_tensor_shape(values[3])->dim[0], 1);
            assert_int_equal(*(const int64_t *)est_tensor_data(values[3]), 0);
        }
        est_distributed_iterator_free(it);
        est_distributed_dataset_free(data);
        est_graph_free(graph);
    }
    est_strategy_free(s);
}

TEST(refused)
{
    made                     m     = { .rows = 3, .scalars = true };
    est_strategy            *s     = mirrored(2);
    est_distributed_dataset *data  = NULL;
    est_graph               *graph = NULL;
    est_nodes                nodes;

    assert_int_equal(est_strategy_datasets_from_function(s, make_input, &m, &data), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "component x of a distributed dataset is a scalar: batch the dataset"));
    m = (made){ .forget = true };
    assert_int_equal(est_strategy_datasets_from_function(s, make_input, &m, &data), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "input_fn: it returned EST_OK but no dataset"));
    m = (made){ .status = EST_NOT_FOUND };
    assert_int_equal(est_strategy_datasets_from_function(s, make_input, &m, &data), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "input_fn: no such rows"));
    assert_int_equal(est_strategy_distribute_dataset(s, numbers(3), EST_AUTO_SHARD_AUTO, &data), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "batch the dataset first, with the global batch"));

    assert_ok(est_strategy_distribute_dataset(s, est_dataset_batch(numbers(3), 2, NULL), EST_AUTO_SHARD_AUTO, &data));
    for (int i = 0; i < 2; i++) {
        assert_ok(est_graph_create(1, &graph));
        nodes = est_distributed_placeholders(data, graph);
        assert_null(est_distributed_input(data, nodes, i == 0 ? 0 : 2, i == 0 ? "y" : "x").graph);
        assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), i == 0
                                                        ? "the distributed dataset has no component \"y\" that is dense"
                                                        : "an input of replica 2, and there are 2 here"));
        est_graph_free(graph);
    }
    est_distributed_dataset_free(data);
    est_strategy_free(s);
}

TEST(allocations)
{
    est_strategy *s = mirrored(2);

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_dataset              *d     = est_dataset_batch(numbers(5), 2, NULL);
        est_distributed_dataset  *data  = NULL;
        est_distributed_iterator *it    = NULL;
        est_graph                *graph = NULL;
        const est_tensor *const  *values;
        est_tensor               *position = NULL;
        est_status                status;

        assert_ok(est_graph_create(1, &graph));
        fault_arm(&f);
        status = est_strategy_distribute_dataset(s, d, EST_AUTO_SHARD_OFF, &data);
        if (status == EST_OK) (void)est_distributed_placeholders(data, graph);
        if (status == EST_OK) status = est_graph_status(graph);
        if (status == EST_OK) status = est_distributed_iterator_create(data, NULL, &it);
        for (int i = 0; i < 3 && status == EST_OK; i++) status = est_distributed_iterator_next(it, &values);
        if (status == EST_OK) status = est_distributed_iterator_save(it, &position);
        fault_check(&f, status);
        est_tensor_free(position);
        est_distributed_iterator_free(it);
        est_distributed_dataset_free(data);
        est_graph_free(graph);
    }
    est_strategy_free(s);
}

/* --- a loop ------------------------------------------------------------------------------------------------------- */

/* A weight w, of which every example x of the loss has the gradient x / batch: plain descent with rate 1 subtracts the
 * sum of all examples seen, divided by the batch. */
typedef struct loop {
    const est_distributed_dataset *data;
    est_nodes                      inputs;
    est_node                       train, count;
    int64_t                        batch;
} loop;

static est_node replica_fn(const est_replica_context *context, void *user)
{
    loop    *l = user;
    est_node w = est_weight(context->graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node x = est_distributed_input(l->data, l->inputs, context->replica, "x");

    l->train = est_minimize(est_sgd(1),
                            est_compute_average_loss(est_mul(x, est_read_variable(w)), EST_NO_NODE, l->batch), NULL);
    return est_cast(est_size(x), EST_F32);
}

static void build_loop(const est_strategy *s, est_graph *graph, loop *l)
{
    est_per_replica counts;

    l->inputs = est_distributed_placeholders(l->data, graph);
    counts    = est_strategy_run(s, graph, replica_fn, l);
    l->count  = est_strategy_reduce(s, EST_REDUCE_OP_SUM, counts, EST_NO_AXIS);
}

static est_status read_weight(est_session *session, double *out)
{
    est_tensor *w = NULL;

    EST_TRY(est_session_read(session, "w", &w));
    *out = (double)*(const float *)est_tensor_data(w);
    est_tensor_free(w);
    return EST_OK;
}

/* Makes all steps of an epoch; the examples in them, of all workers, are added to *examples. */
static est_status run_epoch(est_step *step, const loop *l, est_workers *workers, int *steps, double *examples)
{
    est_distributed_iterator *it = NULL;
    const est_tensor *const  *values;
    est_status                status;

    *steps    = 0;
    *examples = 0;
    EST_TRY(est_distributed_iterator_create(l->data, workers, &it));
    while ((status = est_distributed_iterator_next(it, &values)) == EST_OK) {
        status = est_step_run(step, values);
        if (status != EST_OK) break;
        ++*steps;
        *examples += est_step_scalar(step, 0);
    }
    est_distributed_iterator_free(it);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

TEST(mirrored_loop)
{
    for (int n = 1; n <= 3; n++) {
        est_strategy            *s       = mirrored(n);
        est_distributed_dataset *data    = NULL;
        est_graph               *graph   = NULL;
        est_session             *session = NULL;
        est_step                *step;
        loop                     l = { .batch = 4 };
        double                   examples, w;
        int                      steps;

        assert_ok(
            est_strategy_distribute_dataset(s, est_dataset_batch(numbers(10), 4, NULL), EST_AUTO_SHARD_AUTO, &data));
        l.data = data;
        assert_ok(est_graph_create(1, &graph));
        build_loop(s, graph, &l);
        assert_ok(est_graph_status(graph));
        assert_ok(est_session_create(graph, NULL, &session));
        assert_ok(est_session_init(session));
        assert_ok(est_session_prepare(session, l.inputs, EST_NODES(l.count), EST_NODES(l.train), &step));
        assert_ok(run_epoch(step, &l, NULL, &steps, &examples));
        assert_int_equal(steps, 3);
        assert_true(examples == 10);
        assert_ok(read_weight(session, &w));
        assert_true(w == -55.0 / 4);
        est_session_free(session);
        est_graph_free(graph);
        est_distributed_dataset_free(data);
        est_strategy_free(s);
    }
}

/* --- two workers -------------------------------------------------------------------------------------------------- */

#define EPOCHS 2

typedef struct worker {
    char   config[200];
    bool   divided;  /* one dataset for all; else one for each, with `rows` of its own */
    bool   recovers; /* one epoch, by steps that may be aborted */
    bool   is_lost;  /* in it, before its second step, and begins again */
    made   input;
    int    steps[EPOCHS];
    double examples[EPOCHS], w, after;
    char   error[600];
} worker;

/* What all workers compute together behind their last step finds no worker idle. */
static est_status count_after(est_session *session, const loop *l, double *out)
{
    est_feed    feeds[2];
    est_tensor *x = NULL, *count = NULL;
    est_status  status;

    EST_TRY(est_tensor_f32(EST_SHAPE(3), (const float[]){ 1, 2, 3 }, &x));
    for (int i = 0; i < 2; i++) feeds[i] = (est_feed){ l->inputs.data[i], x };
    status = est_session_run(session, (est_feeds){ feeds, 2 }, EST_NODES(l->count), EST_NO_NODES, &count);
    if (status == EST_OK) *out = (double)*(const float *)est_tensor_data(count);
    est_tensor_free(count);
    est_tensor_free(x);
    return status;
}

/* An epoch in which a worker is lost and comes back: the batches that are read are those of the step. */
static est_status run_recovering(worker *w, est_workers *workers, est_session *session, est_step *step, const loop *l,
                                 int64_t at)
{
    est_distributed_iterator *it     = NULL;
    const est_tensor *const  *values = NULL;
    est_status                status;

    EST_TRY(est_distributed_iterator_create(l->data, workers, &it));
    for (int64_t n_read = 0;;) {
        for (status = EST_OK; n_read <= at && status == EST_OK; n_read++) {
            status = est_distributed_iterator_next(it, &values);
        }
        if (status == EST_OK && w->is_lost && at == 1) status = EST_CANCELLED;
        if (status == EST_OK) {
            status = est_step_run(step, values);
            if (status == EST_OK) at++;
        }
        if (status == EST_ABORTED) status = est_workers_join(workers, session, &at);
        if (status != EST_OK) break;
    }
    est_distributed_iterator_free(it);
    if (status != EST_OUT_OF_RANGE) return status;
    w->steps[0] = (int)at;
    EST_TRY(read_weight(session, &w->w));
    return est_workers_end(workers, session, at);
}

static est_status train(worker *w, est_workers *workers, est_session *session, const loop *l)
{
    est_step *step;
    int64_t   at = 0;

    EST_TRY(est_session_init(session));
    EST_TRY(est_workers_join(workers, session, &at));
    EST_TRY(est_session_prepare(session, l->inputs, EST_NODES(l->count), EST_NODES(l->train), &step));
    if (w->recovers) return run_recovering(w, workers, session, step, l, at);
    for (int i = 0; i < EPOCHS; i++) EST_TRY(run_epoch(step, l, workers, &w->steps[i], &w->examples[i]));
    EST_TRY(count_after(session, l, &w->after));
    EST_TRY(read_weight(session, &w->w));
    return est_workers_end(workers, session, at);
}

static est_status live_with(worker *w, const est_strategy *s, est_workers *workers, est_graph *graph)
{
    est_distributed_dataset *data    = NULL;
    est_session             *session = NULL;
    loop                     l       = { .batch = 8 };
    est_status               status;

    status = w->divided ? est_strategy_distribute_dataset(s, est_dataset_batch(numbers(w->input.rows), 8, NULL),
                                                          EST_AUTO_SHARD_DATA, &data)
                        : est_strategy_datasets_from_function(s, make_input, &w->input, &data);
    if (status == EST_OK) {
        l.data = data;
        build_loop(s, graph, &l);
        status = est_session_create(graph, EST_SESSION(.threads = 1, .communicator = est_workers_communicator(workers)),
                                    &session);
    }
    if (status == EST_OK) status = train(w, workers, session, &l);
    est_session_free(session);
    est_distributed_dataset_free(data);
    return status;
}

static est_status live_once(worker *w)
{
    est_strategy *s       = NULL;
    est_workers  *workers = NULL;
    est_graph    *graph   = NULL;
    est_status    status;

    status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = 2, .cluster_json = w->config),
                                                &s);
    if (status == EST_OK) status = est_workers_create(s, EST_WORKERS(.transport = "tcp"), &workers);
    if (status == EST_OK) status = est_graph_create(1, &graph);
    if (status == EST_OK) status = live_with(w, s, workers, graph);
    est_workers_free(workers);
    est_graph_free(graph);
    est_strategy_free(s);
    return status;
}

static void live(void *user, int rank)
{
    worker    *w      = (worker *)user + rank;
    est_status status = live_once(w);

    if (status == EST_CANCELLED && w->is_lost) {
        w->is_lost = false;
        status     = live_once(w);
    }
    if (status != EST_OK) snprintf(w->error, sizeof w->error, "%s: %s", est_status_name(status), est_error_message());
}

static void run_workers(worker *w)
{
    crew c; /* only for its addresses */

    crew_make(&c, WORKERS, NULL);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(w[i].config, sizeof w[i].config,
                 "{\"cluster\": {\"worker\": [\"%s\", \"%s\"]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
                 c.addresses[0], c.addresses[1], i);
    }
    memory_communicator_run(WORKERS, live, w);
    crew_free(&c);
    for (int i = 0; i < WORKERS; i++) {
        assert_string_equal(w[i].error, "");
        assert_true(w[i].w == w[0].w);
        assert_true(w[i].recovers || w[i].after == 12);
    }
}

/* One worker has nine rows and the other has three, or one: both make the steps of the one that has more, in
 * every epoch, and every example counts once. */
TEST(uneven_workers)
{
    for (int rows = 3; rows >= 1; rows -= 2) {
        worker w[WORKERS] = { { .input.rows = 9 }, { .input.rows = rows } };

        run_workers(w);
        for (int i = 0; i < WORKERS; i++) {
            assert_int_equal(w[i].input.context.pipeline, i);
            assert_int_equal(w[i].input.context.n_pipelines, 2);
            assert_int_equal(w[i].input.context.num_replicas_in_sync, 4);
            assert_int_equal(w[i].input.context.seed, i + 1);
            for (int e = 0; e < EPOCHS; e++) {
                assert_int_equal(w[i].steps[e], 3);
                assert_true(w[i].examples[e] == 9 + rows);
            }
        }
        assert_true(w[0].w == -2 * (45.0 + rows * (rows + 1) / 2.0) / 8);
    }
}

/* Twenty rows in global batches of eight: the parts of a step are those of one batch. */
TEST(divided_among_workers)
{
    worker w[WORKERS] = { { .divided = true, .input.rows = 20 }, { .divided = true, .input.rows = 20 } };

    run_workers(w);
    for (int e = 0; e < EPOCHS; e++) {
        assert_int_equal(w[0].steps[e], 3);
        assert_int_equal(w[1].steps[e], 3);
        assert_true(w[0].examples[e] == 20);
    }
    assert_true(w[0].w == -2 * 210.0 / 8);
}

/* Whichever is lost, its examples count once: it reads over the batches of the steps that were made. */
TEST(lost_worker)
{
    for (int lost = 0; lost < WORKERS; lost++) {
        worker w[WORKERS] = { { .recovers = true, .is_lost = lost == 0, .input.rows = 9 },
                              { .recovers = true, .is_lost = lost == 1, .input.rows = 3 } };

        run_workers(w);
        for (int i = 0; i < WORKERS; i++) assert_int_equal(w[i].steps[0], 3);
        assert_true(w[0].w == -(45.0 + 6) / 8);
    }
}
