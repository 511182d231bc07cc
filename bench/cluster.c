/* SPDX-License-Identifier: Apache-2.0
 *
 * Global steps a second of a whole cluster, through est_train_and_evaluate: one contestant of bench/compare-cluster.
 *
 *   cluster [--model cnn|mlp|wide_deep|waiting] [--workers N] [--ps N] [--over tcp|tls|ucx] [--turns N] [--seconds S]
 *
 * This process is the chief, which is the first of the workers; everybody else is forked off it. Each has one thread
 * for its kernels. Checkpoints, summaries and step logging are off. The chief's hook begins to measure when every
 * worker has made some steps, and prints a line of JSON a turn: global steps, seconds, and the processor time of all ps
 * tasks and of all tasks meanwhile.
 *
 * "waiting" is the model for questions of scale: two variables of 64 KB, at two ps tasks if there are two, are pulled
 * and their gradients pushed; in place of computing, every step waits for 20 ms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "support/bench.h"
#include "support/models.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define WARM_STEPS 10 /* of every worker, before anything is measured */
#define WAIT_NS    20000000
#define WAITING    "waiting"
#define N_WAITING  2               /* variables of that model */
#define WAITING_N  (64 * 1024 / 4) /* elements of each */

typedef struct job {
    const char  *model, *transport;
    int          workers, ps, turns;
    double       seconds;
    bench_tasks  tasks;
    _Atomic int *steps; /* [workers], shared by all processes: runs that each has made */
} job;

static bool is_waiting(const job *j)
{
    return strcmp(j->model, WAITING) == 0;
}

/* --- model and input ---------------------------------------------------------------------------------------------- */

static est_status waiting_model(est_model *model)
{
    est_graph *graph = est_model_graph(model);
    est_node   loss  = est_mean(est_model_feature(model, "x"));

    for (int i = 0; i < N_WAITING; i++) {
        est_node v = est_weight(graph, "v", EST_SHAPE(WAITING_N), EST_WEIGHT(.initializer = est_init_ones()));

        loss = est_add(loss, est_mean(est_square(est_read_variable(v))));
    }
    est_model_loss(model, loss);
    est_model_minimize(model, est_sgd(0.01), loss);
    return est_model_status(model);
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const job *j = *(const job *const *)params;

    (void)mode;
    return is_waiting(j) ? waiting_model(model) : bench_model_estimate(model, j->model);
}

static est_status next_number(void *state, est_field *element)
{
    element[0].values = est_tensor_ref(state);
    return EST_OK;
}

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    const job   *j      = user;
    est_tensor  *number = NULL; /* lives as long as the process */
    est_dataset *d;

    (void)context;
    if (!is_waiting(j)) return bench_model_input(j->model, out);
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE(1), &number));
    d = est_dataset_generator((est_components){ &(est_component){ "x", EST_F32, EST_SHAPE(1), false }, 1 },
                              EST_GENERATOR(.next = next_number, .user = number));
    return est_dataset_finish(d, out);
}

/* --- around the steps --------------------------------------------------------------------------------------------- */

typedef struct watch {
    est_hook hook;
    job     *job;
    int      worker; /* 0: the chief, who measures */
    int      taken;
    bool     measures;
    double   start;             /* of this turn */
    double   ps_secs, cpu_secs; /* what the ps tasks, and all together, had used by then */
    int64_t  step;
} watch;

static est_status watch_before_run(est_hook *hook, est_loop *loop)
{
    (void)loop;
    if (is_waiting(EST_CONTAINER_OF(hook, watch, hook)->job)) nanosleep(&(struct timespec){ .tv_nsec = WAIT_NS }, NULL);
    return EST_OK;
}

static bool all_are_warm(const job *j)
{
    for (int i = 0; i < j->workers; i++) {
        if (j->steps[i] < WARM_STEPS) return false;
    }
    return true;
}

static void begin_turn(watch *w, est_loop *loop)
{
    w->step     = est_loop_global_step(loop);
    w->ps_secs  = bench_tasks_ps_secs(&w->job->tasks);
    w->cpu_secs = bench_tasks_cpu_secs(&w->job->tasks);
    w->start    = bench_now_secs();
}

static est_status watch_after_run(est_hook *hook, est_loop *loop)
{
    watch *w = EST_CONTAINER_OF(hook, watch, hook);
    double secs;

    w->job->steps[w->worker]++;
    if (w->worker != 0) return EST_OK;
    if (!w->measures) {
        w->measures = all_are_warm(w->job);
        if (w->measures) begin_turn(w, loop);
        return EST_OK;
    }
    secs = bench_now_secs() - w->start;
    if (secs < w->job->seconds) return EST_OK;
    (void)printf("{\"amount\":%lld,\"secs\":%.6f,\"ps_secs\":%.6f,\"cpu_secs\":%.6f}\n",
                 (long long)(est_loop_global_step(loop) - w->step), secs,
                 bench_tasks_ps_secs(&w->job->tasks) - w->ps_secs, bench_tasks_cpu_secs(&w->job->tasks) - w->cpu_secs);
    (void)fflush(stdout);
    if (++w->taken == w->job->turns) est_loop_request_stop(loop, "all turns are taken");
    begin_turn(w, loop);
    return EST_OK;
}

static est_status train(bench_tasks *t, const char *type, int index, job *j)
{
    watch w = { .hook = EST_HOOK(.before_run = watch_before_run, .after_run = watch_after_run), .job = j };

    est_estimator *estimator = NULL;
    est_resolver  *resolver  = NULL;
    char           model_dir[96];

    if (strcmp(type, "worker") == 0) w.worker = index + 1;
    (void)snprintf(model_dir, sizeof model_dir, "%s/model", t->folder);
    EST_TRY(est_resolve_simple(t->cluster, type, index, NULL, &resolver));
    EST_TRY(est_estimator_create(
        model_fn,
        EST_ESTIMATOR(.model_dir = model_dir, .params = &j, .params_size = sizeof j,
                      .config = EST_RUN_CONFIG(.seed = 1, .resolver = resolver, .quiet = true,
                                               .save_checkpoints_secs = EST_OFF, .save_checkpoints_steps = EST_OFF,
                                               .save_summary_steps = EST_OFF, .log_step_count_steps = EST_OFF,
                                               .max_worker_delay_secs = EST_OFF)),
        &estimator));
    return est_train_and_evaluate(
        estimator,
        EST_TRAIN_SPEC(.input_fn = input_fn, .input_user = j, .max_steps = INT64_MAX / 2, .hooks = EST_HOOKS(&w.hook)),
        EST_EVAL_SPEC(.input_fn = input_fn, .input_user = j), NULL);
}

static void run_task(bench_tasks *t, const char *type, int index, void *user)
{
    bench_check(train(t, type, index, user));
}

static job parse(int argc, char **argv)
{
    job j = { .model = "cnn", .transport = "tcp", .workers = 2, .ps = 1, .turns = 3, .seconds = 1 };

    BENCH_OPTIONS(argc, argv, 1, { "--model", BENCH_TO(&j.model) }, { "--workers", BENCH_TO(&j.workers) },
                  { "--ps", BENCH_TO(&j.ps) }, { "--over", BENCH_TO(&j.transport) }, { "--turns", BENCH_TO(&j.turns) },
                  { "--seconds", BENCH_TO(&j.seconds) });
    return j;
}

int main(int argc, char **argv)
{
    job j = parse(argc, argv);

    est_log_set_level(EST_LOG_ERROR);
    j.steps = mmap(NULL, sizeof *j.steps * BENCH_TASKS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j.steps == MAP_FAILED) {
        perror("cluster");
        return 1;
    }
    j.tasks = bench_tasks_make(j.ps, j.workers - 1, j.transport);
    for (int i = 0; i < j.ps; i++) bench_tasks_start(&j.tasks, "ps", i, run_task, &j);
    for (int i = 0; i < j.workers - 1; i++) bench_tasks_start(&j.tasks, "worker", i, run_task, &j);
    bench_check(train(&j.tasks, "chief", 0, &j));
    bench_tasks_stop(&j.tasks);
    return 0;
}
