/* SPDX-License-Identifier: Apache-2.0
 *
 * The job of a coordinator that tests disturb. */
#include "support/coordinator_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "estoc/coordinator.h"
#include "estoc/estoc.h"
#include "support/cluster_job.h"
#include "support/test.h"

#define CALLS_MAX   (COORDINATOR_EPOCHS * COORDINATOR_CALLS)
#define BURST       20 /* calls that are scheduled at once */
#define BURST_NS    (EST_NS_PER_SEC / 50)
#define SAVE_EACH   150 /* calls */
#define ROWS        32
#define COLUMNS     64
#define EXAMPLES    1000 /* of an evaluation */
#define LONELY_SECS 20   /* a server that was started again after the end of the job ends so long after it */

typedef struct job_model {
    est_graph *graph;
    est_node   x, y, call, train, applied[COORDINATOR_PS];
    est_node   value; /* of evaluations */
    est_metric mean, count;
} job_model;

/* --- the model ---------------------------------------------------------------------------------------------------- */

static est_node make_table(est_graph *graph, int ps)
{
    char     name[32], device[32];
    est_node table;

    snprintf(name, sizeof name, "applied_%d", ps);
    snprintf(device, sizeof device, "/job:ps/task:%d", ps);
    est_graph_device(graph, device);
    table = est_weight(graph, name, EST_SHAPE(CALLS_MAX, 1),
                       EST_WEIGHT(.initializer = est_init_zeros(), .frozen = true));
    est_graph_device(graph, NULL);
    return table;
}

static job_model make_model(void)
{
    job_model m = { 0 };
    est_node  one, count;

    assert_int_equal(est_graph_create(7, &m.graph), EST_OK);
    m.x    = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, COLUMNS));
    m.y    = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    m.call = est_placeholder(m.graph, "call", EST_I64, EST_SHAPE(1));
    one    = est_reshape(est_scalar(m.graph, EST_F32, 1), EST_I64S(1, 1));
    for (int i = 0; i < COORDINATOR_PS; i++) {
        m.applied[i] = est_scatter_add(make_table(m.graph, i), m.call, one);
    }
    m.train = est_minimize(
        est_sgd(0.01), est_reduce_mean(est_square(est_sub(est_dense(m.x, 1, NULL), m.y)), EST_I64S(0, 1), false), NULL);
    m.value = est_placeholder(m.graph, "value", EST_I64, EST_SHAPE(-1));
    m.mean  = est_metric_mean(est_cast(m.value, EST_F32), NULL);
    count   = est_metric_state(m.graph, "examples", EST_I64, EST_SHAPE_SCALAR);
    m.count = est_metric_custom(
        EST_NODES(count), EST_NODES(est_assign_add(count, est_reduce_sum(est_ones_like(m.value), EST_I64S(0), false))),
        est_cast(est_read_variable(count), EST_F32));
    if (est_graph_status(m.graph) != EST_OK) fail_msg("%s", est_error_message());
    return m;
}

/* Batches that never end. */
static est_status make_batches(est_dataset **out)
{
    static float xs[4 * ROWS * COLUMNS], ys[4 * ROWS];
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;

    for (int i = 0; i < 4 * ROWS * COLUMNS; i++) xs[i] = (float)(i * 7919 % 1000) / 500.0f - 1.0f;
    for (int i = 0; i < 4 * ROWS; i++) ys[i] = xs[i * COLUMNS] - xs[i * COLUMNS + 1];
    EST_TRY(est_tensor_f32(EST_SHAPE(4 * ROWS, COLUMNS), xs, &x));
    EST_TRY(est_tensor_f32(EST_SHAPE(4 * ROWS, 1), ys, &y));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
    est_tensor_free(x);
    est_tensor_free(y);
    return est_dataset_finish(est_dataset_batch(est_dataset_repeat(d, EST_FOREVER), ROWS, NULL), out);
}

/* --- the coordinator ---------------------------------------------------------------------------------------------- */

typedef struct job_run {
    job_model        m;
    est_coordinator *coordinator;
    est_dataset     *batches, *examples;
    est_per_worker  *rows, *iterator;
    est_function    *step;
} job_run;

static est_status schedule_one(const job_run *r, int64_t call)
{
    est_tensor *number = NULL;
    est_status  status;

    EST_TRY(est_tensor_i64(EST_SHAPE(1), &call, &number));
    status = est_coordinator_schedule(r->coordinator, r->step,
                                      EST_ARGUMENTS({ .node = r->m.x, .from = r->iterator, .component = "x" },
                                                    { .node = r->m.y, .from = r->iterator, .component = "y" },
                                                    { .node = r->m.call, .value = number }),
                                      NULL);
    est_tensor_free(number);
    return status;
}

/* Every example counts once, whatever happens meanwhile. */
static est_status evaluate(const job_run *r)
{
    const est_metric metrics[] = { r->m.mean, r->m.count };
    double           values[2];

    EST_TRY(est_coordinator_evaluate(r->coordinator, r->examples,
                                     EST_ARGUMENTS({ .node = r->m.value, .component = "value" }), metrics, 2, NULL,
                                     values));
    if (values[0] == (EXAMPLES - 1) / 2.0 && values[1] == EXAMPLES) return EST_OK;
    return est_fail(EST_DATA_LOSS, "the mean of %g examples is %g; expected %d and %g", values[1], values[0], EXAMPLES,
                    (EXAMPLES - 1) / 2.0);
}

/* Marks the calls that any ps task has applied. */
static est_status look_at_tables(const job_run *r, bool *applied)
{
    for (int i = 0; i < COORDINATOR_PS; i++) {
        est_tensor *table = NULL;
        char        name[32];

        snprintf(name, sizeof name, "applied_%d", i);
        EST_TRY(est_session_read(est_coordinator_session(r->coordinator), name, &table));
        for (int k = 0; k < CALLS_MAX; k++) applied[k] |= ((const float *)est_tensor_data(table))[k] != 0;
        est_tensor_free(table);
    }
    return EST_OK;
}

/* Calls that the checkpoint has, which was written in the middle of an epoch. */
static est_status find_applied(const job_run *r, bool *applied)
{
    est_status status = look_at_tables(r, applied);

    while (status == EST_UNAVAILABLE || status == EST_ABORTED) { /* a ps task is lost; join recovers it */
        est_sleep_ns(BURST_NS);
        EST_TRY(est_coordinator_join(r->coordinator));
        status = look_at_tables(r, applied);
    }
    return status;
}

/* Saves also while calls are queued and under way. */
static est_status run_epochs(job_run *r)
{
    static bool applied[CALLS_MAX];

    EST_TRY(find_applied(r, applied));
    for (int64_t epoch = est_coordinator_epoch(r->coordinator); epoch < COORDINATOR_EPOCHS; epoch++) {
        for (int i = 0; i < COORDINATOR_CALLS; i++) {
            int64_t call = epoch * COORDINATOR_CALLS + i;

            if (!applied[call]) EST_TRY(schedule_one(r, call));
            if (i % BURST == BURST - 1) est_sleep_ns(BURST_NS); /* gives an epoch a length */
            if (i % SAVE_EACH == SAVE_EACH - 1) EST_TRY(est_coordinator_save(r->coordinator, epoch));
        }
        EST_TRY(est_coordinator_join(r->coordinator));
        EST_TRY(evaluate(r));
        EST_TRY(est_coordinator_save(r->coordinator, epoch + 1));
        fprintf(stderr, "epoch %lld has ended\n", (long long)epoch);
    }
    return EST_OK;
}

static est_status start(job_run *r, const est_strategy *strategy, const char *model_dir)
{
    est_node targets[] = { r->m.train, r->m.applied[0], r->m.applied[1] };

    EST_TRY(make_batches(&r->batches));
    EST_TRY(est_dataset_finish(est_dataset_batch(est_dataset_range(0, EXAMPLES, 1), 10, NULL), &r->examples));
    EST_TRY(est_coordinator_create(strategy, r->m.graph,
                                   EST_COORDINATOR(.model_dir = model_dir, .silence_secs = 1, .connect_secs = 60,
                                                   .lonely_secs = 60, .fail_after = 100, .threads = 1),
                                   &r->coordinator));
    EST_TRY(est_coordinator_dataset(r->coordinator, r->batches, NULL, &r->rows));
    EST_TRY(est_per_worker_iterator(r->rows, &r->iterator));
    return est_coordinator_function(r->coordinator, "step", EST_NODES(r->m.x, r->m.y, r->m.call), (est_nodes){ 0 },
                                    (est_nodes){ targets, 3 }, &r->step);
}

static est_status coordinate(const char *model_dir)
{
    job_run       r        = { .m = make_model() };
    est_strategy *strategy = NULL;
    est_status    status   = est_parameter_server_strategy(NULL, &strategy);

    if (status == EST_OK) status = start(&r, strategy, model_dir);
    if (status == EST_OK) status = run_epochs(&r);
    if (status == EST_OK) status = est_coordinator_end(r.coordinator);
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_function_free(r.step);
    est_per_worker_free(r.iterator);
    est_per_worker_free(r.rows);
    est_coordinator_free(r.coordinator);
    est_dataset_free(r.batches);
    est_dataset_free(r.examples);
    est_strategy_free(strategy);
    est_graph_free(r.m.graph);
    return status;
}

/* --- servers ------------------------------------------------------------------------------------------------------ */

static est_status serve(const est_task *task)
{
    est_server *server = NULL;
    est_status  status = est_server_create(task->cluster, task->type, task->index,
                                           EST_SERVER(.threads = 1, .silence_secs = 1, .lonely_secs = LONELY_SECS),
                                           &server);

    if (status == EST_OK) status = est_server_join(server);
    if (status == EST_DEADLINE_EXCEEDED) status = EST_OK; /* the job had ended before it was started again */
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_server_free(server);
    return status;
}

int coordinator_job_task(int argc, char **argv)
{
    est_resolver   *resolver = NULL;
    const est_task *task;
    est_status      status;

    (void)argc;
    (void)signal(SIGUSR1, cluster_cut_links);
    cluster_take_cuts();
    if (est_resolve_tf_config(NULL, NULL, &resolver) != EST_OK) fail_msg("%s", est_error_message());
    task   = est_resolver_task(resolver);
    status = strcmp(task->type, "chief") == 0 ? coordinate(argv[0]) : serve(task);
    est_resolver_free(resolver);
    return est_exit_code(status);
}

/* --- the result --------------------------------------------------------------------------------------------------- */

/* Returns how many calls the table of a ps task lacks. */
static int check_table(const est_checkpoint *checkpoint, int ps, bool whole)
{
    est_tensor  *table = NULL;
    const float *rows;
    char         name[32];
    int          n = 0;

    snprintf(name, sizeof name, "applied_%d", ps);
    if (est_checkpoint_read(checkpoint, name, &table) != EST_OK) fail_msg("%s", est_error_message());
    assert_int_equal(est_tensor_count(table), CALLS_MAX);
    rows = est_tensor_data(table);
    for (int i = 0; i < CALLS_MAX; i++) {
        if (rows[i] != 0 && rows[i] != 1) fail_msg("ps:%d has applied call %d %g times", ps, i, (double)rows[i]);
        if (rows[i] == 0 && whole) fail_msg("ps:%d was never lost, and lacks call %d", ps, i);
        n += rows[i] == 0;
    }
    est_tensor_free(table);
    return n;
}

int coordinator_check_job(cluster *c)
{
    est_checkpoint *checkpoint = NULL;
    int             n          = 0;

    if (est_checkpoint_open(c->model, &checkpoint) != EST_OK) fail_msg("%s", est_error_message());
    for (int i = 0; i < COORDINATOR_PS; i++) {
        n += check_table(checkpoint, i, cluster_find(c, "ps", i)->starts == 1);
    }
    est_checkpoint_close(checkpoint);
    assert_true(cluster_count_log(cluster_find(c, "chief", 0), "epoch 9 has ended") > 0);
    return n;
}
