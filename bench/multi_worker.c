/* SPDX-License-Identifier: Apache-2.0
 *
 * Examples a second of multi-worker training by est_multi_worker_mirrored_strategy: one contestant of
 * bench/compare-multi-worker.
 *
 *   multi_worker [--model cnn|mlp|wide_deep] [--workers N] [--over apart|shared|tcp|tls|ucx] [--pack BYTES] [--turns N]
 *   [--seconds S]
 *        [--timeline DIR]
 *
 * Each worker is a process with one thread for its kernels, bound to a processor of its own, or to one of another's
 * where there are more workers than processors. This process is the chief, which is the first of them. Checkpoints,
 * summaries and step logging are off.
 *
 * "shared": sums go through memory that the workers have in common, as they do by themselves on one machine; tcp, tls
 * and ucx: over loopback, as between machines. "apart": the same processes at the same time, and none waits for
 * another: what is left of the difference between that and "shared" is the strategy.
 *
 * A turn prints a line of JSON: examples of all workers, seconds and processor time of all. --turns 0: a turn for every
 * line that is read, until there are no more. --timeline: writes every hundredth step of the chief as a timeline. */
#include <sched.h>
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

/* What the processes have in common. */
typedef struct common {
    _Atomic bool    goes; /* a turn is under way, or nothing was measured yet */
    _Atomic int64_t steps[BENCH_TASKS_MAX];
} common;

typedef struct job {
    const char *model, *over, *timeline;
    int         workers, turns;
    int64_t     batch, pack;
    double      seconds;
    bench_tasks tasks;
    common     *common;
} job;

static bool is_apart(const job *j)
{
    return strcmp(j->over, "apart") == 0;
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const job *j = *(const job *const *)params;

    (void)mode;
    return bench_model_estimate(model, j->model);
}

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    const job *j = user;

    (void)context;
    return bench_model_input(j->model, out);
}

/* --- around the steps --------------------------------------------------------------------------------------------- */

typedef struct watch {
    est_hook hook;
    job     *job;
    int      worker; /* 0: the chief, who measures */
    int      taken;
    bool     measures;
    int64_t  steps; /* of all, when this turn began */
    double   start, cpu_secs;
} watch;

static int64_t all_steps(const job *j)
{
    int64_t n = 0;

    for (int i = 0; i < j->workers; i++) n += j->common->steps[i];
    return n;
}

static bool all_are_warm(const job *j)
{
    for (int i = 0; i < j->workers; i++) {
        if (j->common->steps[i] < WARM_STEPS) return false;
    }
    return true;
}

/* Waits until another turn is wanted. */
static void begin_turn(watch *w, est_loop *loop)
{
    job *j = w->job;

    j->common->goes = false;
    if (!bench_turn_wanted(j->turns, w->taken)) {
        est_loop_request_stop(loop, "all turns are taken");
        return;
    }
    w->steps        = all_steps(j);
    w->cpu_secs     = bench_tasks_cpu_secs(&j->tasks);
    w->start        = bench_now_secs();
    j->common->goes = true;
}

static est_status watch_after_run(est_hook *hook, est_loop *loop)
{
    watch *w = EST_CONTAINER_OF(hook, watch, hook);
    job   *j = w->job;
    double secs;

    j->common->steps[w->worker]++;
    while (w->worker != 0 && !j->common->goes) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (w->worker != 0) return EST_OK;
    if (!w->measures) {
        w->measures = all_are_warm(j);
        if (w->measures) begin_turn(w, loop);
        return EST_OK;
    }
    secs = bench_now_secs() - w->start;
    if (secs < j->seconds) return EST_OK;
    bench_turn_print((bench_turn){ .amount   = (double)((all_steps(j) - w->steps) * j->batch),
                                   .secs     = secs,
                                   .cpu_secs = bench_tasks_cpu_secs(&j->tasks) - w->cpu_secs });
    w->taken++;
    begin_turn(w, loop);
    return EST_OK;
}

/* Binds this process to a processor; before it has any thread. */
static void pin(int worker)
{
    cpu_set_t allowed, one;
    int       n, at = 0;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    n = worker % CPU_COUNT(&allowed);
    while (!CPU_ISSET(at, &allowed) || n-- > 0) at++;
    CPU_ZERO(&one);
    CPU_SET(at, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

static est_status train(const job *j, int worker, est_resolver *resolver, est_strategy *strategy, est_hooks hooks)
{
    est_estimator *estimator = NULL;
    char           model_dir[96];

    (void)snprintf(model_dir, sizeof model_dir, "%s/model-%d", j->tasks.folder, is_apart(j) ? worker : 0);
    EST_TRY(est_estimator_create(
        model_fn,
        EST_ESTIMATOR(.model_dir = model_dir, .params = &j, .params_size = sizeof j,
                      .config = EST_RUN_CONFIG(.seed = 1, .resolver = resolver, .train_distribute = strategy,
                                               .quiet = true, .save_checkpoints_secs = EST_OFF,
                                               .save_checkpoints_steps = EST_OFF, .save_summary_steps = EST_OFF,
                                               .log_step_count_steps = EST_OFF, .max_worker_delay_secs = EST_OFF)),
        &estimator));
    return est_train(estimator,
                     EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = (void *)(uintptr_t)j, .hooks = hooks));
}

static est_status be_worker(job *j, int worker)
{
    watch         w        = { .hook = EST_HOOK(.after_run = watch_after_run), .job = j, .worker = worker };
    est_resolver *resolver = NULL;
    est_strategy *strategy = NULL;
    est_hook     *profiler = NULL;

    pin(worker);
    if (!is_apart(j)) {
        est_communication by = strcmp(j->over, "shared") == 0 ? EST_COMMUNICATION_AUTO : EST_COMMUNICATION_RING;

        EST_TRY(est_resolve_simple(j->tasks.cluster, worker == 0 ? "chief" : "worker", worker == 0 ? 0 : worker - 1,
                                   NULL, &resolver));
        EST_TRY(est_multi_worker_mirrored_strategy(
            EST_MULTI_WORKER_MIRRORED(.communication = by, .bytes_per_pack = j->pack, .resolver = resolver),
            &strategy));
    }
    if (j->timeline == NULL || worker != 0) return train(j, worker, resolver, strategy, EST_HOOKS(&w.hook));
    profiler = est_profiler_hook(EST_PROFILER(.steps = 100, .output_dir = j->timeline));
    return train(j, worker, resolver, strategy, EST_HOOKS(&w.hook, profiler));
}

static void run_task(bench_tasks *t, const char *type, int index, void *user)
{
    (void)t, (void)type;
    bench_check(be_worker(user, index + 1));
}

static job parse(int argc, char **argv)
{
    job j = { .model = "cnn", .over = "shared", .workers = 2, .turns = 3, .seconds = 1 };

    BENCH_OPTIONS(argc, argv, 1, { "--model", BENCH_TO(&j.model) }, { "--workers", BENCH_TO(&j.workers) },
                  { "--over", BENCH_TO(&j.over) }, { "--pack", BENCH_TO(&j.pack) }, { "--turns", BENCH_TO(&j.turns) },
                  { "--seconds", BENCH_TO(&j.seconds) }, { "--timeline", BENCH_TO(&j.timeline) });
    return j;
}

int main(int argc, char **argv)
{
    job         j = parse(argc, argv);
    bench_model shape;

    est_log_set_level(EST_LOG_ERROR);
    shape   = bench_model_build(j.model, 0, 1);
    j.batch = shape.batch;
    est_graph_free(shape.graph);
    j.common = mmap(NULL, sizeof *j.common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j.common == MAP_FAILED) {
        perror("multi_worker");
        return 1;
    }
    j.common->goes = true;
    j.tasks        = bench_tasks_make(0, j.workers - 1, is_apart(&j) || strcmp(j.over, "shared") == 0 ? "tcp" : j.over);
    for (int i = 0; i < j.workers - 1; i++) bench_tasks_start(&j.tasks, "worker", i, run_task, &j);
    bench_check(be_worker(&j, 0));
    bench_tasks_stop(&j.tasks);
    return 0;
}
