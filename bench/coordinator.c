/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a coordinator: one contestant of bench/compare-coordinator.
 *
 *   coordinator [--workers N] [--ps N] [--over tcp|tls|ucx]
 *
 * This process is the coordinator; ps tasks and workers are forked off it, one thread for kernels each. Answers every
 * line of standard input, "<function> <calls>", with a line of JSON: the number of calls, seconds, and the processor
 * time of this process, of all ps tasks and of all tasks meanwhile. The functions:
 *
 *   empty       nothing: what a call costs
 *   assign_add  one is added to a counter at a ps
 *   result      a constant; all results are fetched after the last call
 *   fetch       the same, but each result is fetched before the next call is scheduled
 *   dense       a step of a layer of 16 x 8, batch 32, from the worker's own dataset
 *   wide_deep   a step of that model (bench/support/models.h)
 *   waiting     for questions of scale: two variables of 64 KB are pulled and their gradients pushed; in place of
 *               computing, the worker's dataset waits for 20 ms
 *
 * A function and its variables are made when it is first asked for: the first turn warms up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "estoc/coordinator.h"
#include "support/bench.h"
#include "support/models.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define BATCH     32
#define INPUTS    16
#define UNITS     8
#define WAIT_NS   20000000
#define N_WAITING 2               /* variables of that model */
#define WAITING_N (64 * 1024 / 4) /* elements of each */

/* A function that was made, with the arguments of its calls. */
typedef struct function {
    est_function *function;
    est_argument  arguments[BENCH_FEEDS_MAX];
    int           n_arguments;
} function;

typedef struct job {
    const char      *transport;
    int              workers, ps;
    bench_tasks      tasks;
    est_graph       *graph;
    est_strategy    *strategy;
    est_coordinator *coordinator;
} job;

/* --- datasets that workers make by name --------------------------------------------------------------------------- */

static est_status wide_deep_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context, (void)user;
    return bench_model_input("wide_deep", out);
}

static est_status wait_and_count(void *state, est_field *element)
{
    nanosleep(&(struct timespec){ .tv_nsec = WAIT_NS }, NULL);
    element[0].values = est_tensor_ref(state);
    return EST_OK;
}

static est_status waiting_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *number = NULL; /* lives as long as the process */
    est_dataset *d;

    (void)context, (void)user;
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE(1), &number));
    d = est_dataset_generator((est_components){ &(est_component){ "x", EST_F32, EST_SHAPE(1), false }, 1 },
                              EST_GENERATOR(.next = wait_and_count, .user = number));
    return est_dataset_finish(d, out);
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static void define(job *j, function *f, const char *name, est_nodes fetches, est_nodes targets)
{
    est_node feeds[BENCH_FEEDS_MAX];

    for (int i = 0; i < f->n_arguments; i++) feeds[i] = f->arguments[i].node;
    bench_check(est_graph_status(j->graph));
    bench_check(est_coordinator_function(j->coordinator, name, (est_nodes){ feeds, f->n_arguments }, fetches, targets,
                                         &f->function));
}

static void make_empty(job *j, function *f, const char *name)
{
    define(j, f, name, EST_NO_NODES, EST_NODES(est_group(j->graph, EST_NO_NODES)));
}

static void make_assign_add(job *j, function *f, const char *name)
{
    est_node counter = est_weight(j->graph, "counter", EST_SHAPE(),
                                  EST_WEIGHT(.dtype = EST_I64, .frozen = true, .initializer = est_init_zeros()));

    define(j, f, name, EST_NO_NODES, EST_NODES(est_assign_add(counter, est_scalar(j->graph, EST_I64, 1))));
}

static void make_result(job *j, function *f, const char *name)
{
    define(j, f, name, EST_NODES(est_scalar(j->graph, EST_F32, 1)), EST_NO_NODES);
}

/* A placeholder that calls feed from the iterator. */
static est_node feed_from(job *j, function *f, const est_per_worker *iterator, const char *name, est_dtype dtype,
                          est_shape shape)
{
    est_node node = est_placeholder(j->graph, name, dtype, shape);

    f->arguments[f->n_arguments++] = (est_argument){ .node = node, .from = iterator, .component = name };
    return node;
}

static est_per_worker *ones_iterator(job *j)
{
    est_tensor     *x = NULL, *y = NULL;
    est_dataset    *d       = NULL;
    est_per_worker *dataset = NULL, *iterator = NULL;

    bench_check(est_tensor_create(EST_F32, EST_SHAPE(BATCH, INPUTS), &x));
    bench_check(est_tensor_create(EST_F32, EST_SHAPE(BATCH, UNITS), &y));
    for (int i = 0; i < BATCH * INPUTS; i++) ((float *)est_tensor_mutable_data(x))[i] = 1;
    for (int i = 0; i < BATCH * UNITS; i++) ((float *)est_tensor_mutable_data(y))[i] = 1;
    d = est_dataset_tensors(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
    bench_check(est_dataset_finish(est_dataset_repeat(d, EST_FOREVER), &d));
    bench_check(est_coordinator_dataset(j->coordinator, d, NULL, &dataset));
    bench_check(est_per_worker_iterator(dataset, &iterator));
    est_tensor_free(x);
    est_tensor_free(y);
    est_dataset_free(d);
    return iterator;
}

static void make_dense(job *j, function *f, const char *name)
{
    est_per_worker *iterator = ones_iterator(j);
    est_node        x        = feed_from(j, f, iterator, "x", EST_F32, EST_SHAPE(-1, INPUTS));
    est_node        y        = feed_from(j, f, iterator, "y", EST_F32, EST_SHAPE(-1, UNITS));
    est_node        output   = est_dense(x, UNITS, EST_DENSE(.name = "dense"));
    est_nodes       all      = est_trainable_variables(j->graph);
    est_node        loss     = est_loss_mse(y, output, NULL);
    est_nodes       own      = { all.data + all.n - 2, 2 }; /* other functions have variables of their own */

    define(j, f, name, EST_NO_NODES,
           EST_NODES(est_minimize(est_sgd(0.01), loss, EST_MINIMIZE(.variables = own, .no_global_step = true))));
}

static est_per_worker *named_iterator(job *j, const char *name)
{
    est_per_worker *dataset = NULL, *iterator = NULL;

    bench_check(est_coordinator_dataset_by_name(j->coordinator, name, NULL, &dataset));
    bench_check(est_per_worker_iterator(dataset, &iterator));
    return iterator;
}

static void make_wide_deep(job *j, function *f, const char *name)
{
    est_per_worker *iterator = named_iterator(j, name);
    bench_model     shape    = bench_model_build(name, 0, 1), built;
    est_node        feeds[BENCH_FEEDS_MAX];

    for (int i = 0; i < shape.n_feeds; i++) {
        feeds[i] = feed_from(j, f, iterator, est_node_name(shape.feed[i]), est_node_dtype(shape.feed[i]),
                             *est_node_shape(shape.feed[i]));
        f->arguments[i].component = est_node_name(feeds[i]); /* the other graph goes */
    }
    built = bench_model_join(name, feeds, shape.n_feeds);
    est_graph_free(shape.graph);
    define(j, f, name, EST_NO_NODES, EST_NODES(built.train));
}

static void make_waiting(job *j, function *f, const char *name)
{
    est_node x    = feed_from(j, f, named_iterator(j, name), "x", EST_F32, EST_SHAPE(1));
    est_node loss = est_mean(x), own[N_WAITING];

    for (int i = 0; i < N_WAITING; i++) {
        own[i] = est_weight(j->graph, "v", EST_SHAPE(WAITING_N), EST_WEIGHT(.initializer = est_init_ones()));
        loss   = est_add(loss, est_mean(est_square(est_read_variable(own[i]))));
    }
    define(j, f, name, EST_NO_NODES,
           EST_NODES(est_minimize(est_sgd(0.01), loss,
                                  EST_MINIMIZE(.variables = { own, N_WAITING }, .no_global_step = true))));
}

static const struct {
    const char *name;
    void (*make)(job *j, function *f, const char *name);
} makers[] = { { "empty", make_empty },    { "assign_add", make_assign_add }, { "result", make_result },
               { "fetch", make_result },   { "dense", make_dense },           { "wide_deep", make_wide_deep },
               { "waiting", make_waiting } };

#define N_FUNCTIONS (int)(sizeof makers / sizeof makers[0])

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void schedule(job *j, const function *f, est_remote_value **out)
{
    bench_check(
        est_coordinator_schedule(j->coordinator, f->function, (est_arguments){ f->arguments, f->n_arguments }, out));
}

static void fetch_and_free(est_remote_value *value)
{
    est_tensor *tensor = NULL;

    bench_check(est_remote_value_fetch(value, 0, &tensor));
    est_tensor_free(tensor);
    est_remote_value_free(value);
}

static void call(job *j, const function *f, const char *name, long calls)
{
    if (strcmp(name, "fetch") == 0) {
        for (long i = 0; i < calls; i++) {
            est_remote_value *value = NULL;

            schedule(j, f, &value);
            fetch_and_free(value);
        }
    } else if (strcmp(name, "result") == 0) {
        est_remote_value **values = calloc((size_t)calls, sizeof(void *));

        if (values == NULL) abort();
        for (long i = 0; i < calls; i++) schedule(j, f, &values[i]);
        for (long i = 0; i < calls; i++) fetch_and_free(values[i]);
        free(values);
    } else {
        for (long i = 0; i < calls; i++) schedule(j, f, NULL);
        bench_check(est_coordinator_join(j->coordinator));
    }
}

static void answer(job *j, const function *f, const char *name, long calls)
{
    double own = bench_cpu_secs(), ps = bench_tasks_ps_secs(&j->tasks), all = bench_tasks_cpu_secs(&j->tasks);
    double start = bench_now_secs();

    call(j, f, name, calls);
    (void)printf("{\"amount\":%ld,\"secs\":%.6f,\"own_secs\":%.6f,\"ps_secs\":%.6f,\"cpu_secs\":%.6f}\n", calls,
                 bench_now_secs() - start, bench_cpu_secs() - own, bench_tasks_ps_secs(&j->tasks) - ps,
                 bench_tasks_cpu_secs(&j->tasks) - all);
    (void)fflush(stdout);
}

static void take_turns(job *j)
{
    function made[N_FUNCTIONS] = { 0 };
    char     name[16];
    long     calls;

    while (scanf("%15s %ld", name, &calls) == 2) {
        int i = 0;

        while (i < N_FUNCTIONS && strcmp(makers[i].name, name) != 0) i++;
        if (i == N_FUNCTIONS || calls < 1) {
            (void)fprintf(stderr, "coordinator: \"%s %ld\" is no function and number of calls\n", name, calls);
            exit(2);
        }
        if (made[i].function == NULL) makers[i].make(j, &made[i], name);
        answer(j, &made[i], name, calls);
    }
}

/* --- the cluster -------------------------------------------------------------------------------------------------- */

static void run_worker(bench_tasks *t, const char *type, int index, void *user)
{
    est_server *server = NULL;

    (void)user;
    bench_check(est_server_create(
        t->cluster, type, index,
        EST_SERVER(.functions = EST_WORKER_FUNCTIONS({ "wide_deep", wide_deep_input }, { "waiting", waiting_input })),
        &server));
    bench_check(est_server_join(server));
}

static void open_coordinator(job *j)
{
    est_resolver *resolver = NULL;

    bench_check(est_resolve_simple(j->tasks.cluster, "chief", 0, NULL, &resolver));
    bench_check(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = resolver), &j->strategy));
    bench_check(est_graph_create(1, &j->graph));
    bench_check(est_coordinator_create(j->strategy, j->graph, EST_COORDINATOR(.connect_secs = 60, .lonely_secs = 60),
                                       &j->coordinator));
    est_resolver_free(resolver);
}

int main(int argc, char **argv)
{
    job j = { .transport = "tcp", .workers = 1, .ps = 1 };

    BENCH_OPTIONS(argc, argv, 1, { "--workers", BENCH_TO(&j.workers) }, { "--ps", BENCH_TO(&j.ps) },
                  { "--over", BENCH_TO(&j.transport) });
    est_log_set_level(EST_LOG_ERROR);
    j.tasks = bench_tasks_make(j.ps, j.workers, j.transport);
    bench_tasks_serve(&j.tasks);
    for (int i = 0; i < j.workers; i++) bench_tasks_start(&j.tasks, "worker", i, run_worker, NULL);
    open_coordinator(&j);
    take_turns(&j);
    bench_tasks_stop(&j.tasks);
    return 0;
}
