/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies with processes that have a GPU, on one GPU: what one machine can show of clusters. Run by `scripts/gpu-run
 * workers`.
 *
 *   gpu_workers [--model mlp] [--steps N] [--folder FOLDER] [--only CASE,CASE]
 *
 * Cases, each with a deadline, of which a line says how it went; logs of tasks go to the folder:
 *   host       two workers of multi_worker_mirrored sum by the network of the host
 *   nccl       the same by NCCL: the same variables, bit for bit, as two numbers have one sum
 *   auto       the same, chosen by itself
 *   killed     a worker is killed in the middle and started again: the same variables
 *   one        one process, all of it on the GPU
 *   central    variables with the host, which updates them: as `one`, within float32
 *   ps         a chief and a worker train on the GPU, a ps task keeps the variables; asynchronous: the loss falls */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/bench.h"
#include "support/models.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define VALUES_MAX (8 << 20) /* of all trainable variables */
#define TASKS_MAX  3

typedef enum kind { MULTI_WORKER, ONE, CENTRAL, PARAMETER_SERVER } kind;

typedef struct gpu_case {
    const char       *name;
    kind              kind;
    est_communication by;
    bool              kills;
    const char       *says;    /* what the first task logs */
    int               n_says;  /* how often */
    const char       *like;    /* a case before it, with whose variables its own are compared */
    double            differs; /* by so much at most, in parts of the largest value */
} gpu_case;

#define BY_NCCL "Gradients of 2 workers are summed by NCCL"

static const gpu_case cases[] = {
    { "host", MULTI_WORKER, EST_COMMUNICATION_RING, false, BY_NCCL, 0, NULL, 0 },
    { "nccl", MULTI_WORKER, EST_COMMUNICATION_NCCL, false, BY_NCCL, 1, "host", 0 },
    { "auto", MULTI_WORKER, EST_COMMUNICATION_AUTO, false, BY_NCCL, 1, "host", 0 },
    { "killed", MULTI_WORKER, EST_COMMUNICATION_NCCL, true, BY_NCCL, 2, "host", 0 },
    { "one", ONE, EST_COMMUNICATION_AUTO, false, "device:GPU:0: phase", 1, NULL, 0 },
    { "central", CENTRAL, EST_COMMUNICATION_AUTO, false, "device:GPU:0: phase", 1, "one", 1e-5 },
    { "ps", PARAMETER_SERVER, EST_COMMUNICATION_AUTO, false, "device:GPU:0: phase", 1, NULL, 0 },
};
#define N_CASES ((int)(sizeof cases / sizeof cases[0]))

/* What a task tells the process that started it, in memory of both. */
typedef struct outcome {
    double  first_loss, last_loss, steps_per_sec;
    int64_t n_values;
    float   values[VALUES_MAX];
} outcome;

typedef struct job {
    const char     *model, *folder, *only;
    int             steps;
    const gpu_case *now;
    bool            again;    /* what is started now was killed before */
    bench_tasks     tasks;    /* of this case */
    outcome        *outcomes; /* [N_CASES][TASKS_MAX] */
} job;

static outcome *outcome_of(const job *j, const gpu_case *c, int task)
{
    return &j->outcomes[(c - cases) * TASKS_MAX + task];
}

/* --- in a task ---------------------------------------------------------------------------------------------------- */

typedef struct watch {
    est_hook hook;
    job     *job;
    int      task; /* 0: the chief */
    int64_t  runs, start;
    outcome *out;
} watch;

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const job *j = *(const job *const *)params;

    (void)mode;
    return bench_model_estimate(model, j->model);
}

/* Workers have different batches. */
static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    const watch *w = user;

    (void)context;
    EST_TRY(bench_model_input(w->job->model, out));
    return est_dataset_finish(est_dataset_skip(*out, w->task), out);
}

static est_status watch_after_run(est_hook *hook, est_loop *loop)
{
    watch  *w    = EST_CONTAINER_OF(hook, watch, hook);
    job    *j    = w->job;
    int64_t step = est_loop_global_step(loop);

    if (w->runs++ == 0) w->out->first_loss = est_loop_loss(loop);
    if (w->runs == 5) w->start = est_now_ns();
    w->out->last_loss = est_loop_loss(loop);
    if (w->runs > 5) w->out->steps_per_sec = (double)(w->runs - 5) * 1e9 / (double)(est_now_ns() - w->start);
    if (j->now->kills && !j->again && w->task == 1 && step >= j->steps / 2) (void)raise(SIGKILL);
    return EST_OK;
}

static est_status watch_end(est_hook *hook, est_loop *loop)
{
    watch    *w   = EST_CONTAINER_OF(hook, watch, hook);
    est_nodes all = est_trainable_variables(est_loop_graph(loop));

    for (int i = 0; i < all.n && w->job->now->kind != PARAMETER_SERVER; i++) {
        est_tensor *value = NULL;

        EST_TRY(est_session_read(est_loop_session(loop), est_node_name(all.data[i]), &value));
        if (w->out->n_values + est_tensor_count(value) > VALUES_MAX) {
            return est_fail(EST_INVALID_ARGUMENT, "the model has too many values");
        }
        memcpy(w->out->values + w->out->n_values, est_tensor_data(value), est_tensor_bytes(value));
        w->out->n_values += est_tensor_count(value);
        est_tensor_free(value);
    }
    return EST_OK;
}

static est_status make_strategy(const gpu_case *c, est_resolver *resolver, est_strategy **out)
{
    if (c->kind == ONE) return est_one_device_strategy("/gpu:0", out);
    if (c->kind == CENTRAL) {
        return est_central_storage_strategy(EST_CENTRAL_STORAGE(.compute_devices = EST_STRINGS("/gpu:0")), out);
    }
    if (c->kind == PARAMETER_SERVER) return EST_OK; /* that of the cluster */
    return est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.communication = c->by, .resolver = resolver),
                                              out);
}

static est_status train(job *j, const char *type, int index)
{
    watch w = { .hook = EST_HOOK(.after_run = watch_after_run, .end = watch_end),
                .job  = j,
                .task = strcmp(type, "worker") == 0 ? index + 1 : 0 };

    est_resolver  *resolver  = NULL;
    est_strategy  *strategy  = NULL;
    est_estimator *estimator = NULL;
    char           model_dir[96];
    bool           cluster = j->now->kind == MULTI_WORKER || j->now->kind == PARAMETER_SERVER;

    w.out           = outcome_of(j, j->now, w.task);
    w.out->n_values = 0;
    (void)snprintf(model_dir, sizeof model_dir, "%s/model", j->tasks.folder);
    if (cluster) EST_TRY(est_resolve_simple(j->tasks.cluster, type, index, NULL, &resolver));
    EST_TRY(make_strategy(j->now, resolver, &strategy));
    EST_TRY(est_estimator_create(
        model_fn,
        EST_ESTIMATOR(.model_dir = model_dir, .params = &j, .params_size = sizeof j,
                      .config = EST_RUN_CONFIG(.seed = 1, .resolver = resolver, .train_distribute = strategy,
                                               .no_tf32 = true, .log_device_placement = true,
                                               .save_summary_steps = EST_OFF, .log_step_count_steps = EST_OFF,
                                               .max_worker_delay_secs = EST_OFF)),
        &estimator));
    if (j->now->kind != PARAMETER_SERVER) {
        return est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &w, .max_steps = j->steps,
                                                      .hooks = EST_HOOKS(&w.hook)));
    }
    return est_train_and_evaluate(
        estimator,
        EST_TRAIN_SPEC(.input_fn = input_fn, .input_user = &w, .max_steps = j->steps, .hooks = EST_HOOKS(&w.hook)),
        EST_EVAL_SPEC(.input_fn = input_fn, .input_user = &w, .steps = 1), NULL);
}

static void log_path(const job *j, const char *type, int index, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s-%s%d.log", j->folder, j->now->name, type, index);
}

static void run_task(bench_tasks *t, const char *type, int index, void *user)
{
    job *j = user;
    char path[512];

    (void)t;
    log_path(j, type, index, path, sizeof path);
    if (freopen(path, j->again ? "a" : "w", stderr) == NULL) _exit(1);
    (void)setvbuf(stderr, NULL, _IOLBF, 0);
    bench_tasks_share_gpu(strcmp(type, "worker") == 0 ? index + 1 : 0);
    if (train(j, type, index) == EST_OK) exit(0);
    (void)fprintf(stderr, "FAILED: %s\n", est_error_message());
    exit(1);
}

/* --- around the tasks --------------------------------------------------------------------------------------------- */

typedef struct task {
    const char *type;
    int         index;
    pid_t       pid;
    bool        ended;
} task;

static void start(job *j, task *t)
{
    bench_tasks_start(&j->tasks, t->type, t->index, run_task, j);
    t->pid   = j->tasks.children[j->tasks.n_children - 1];
    t->ended = false;
}

/* The last lines that a task has logged. */
static void print_end(const job *j, const task *t)
{
    char  path[512], lines[6][300] = { "" };
    FILE *log;
    int   n = 0;

    log_path(j, t->type, t->index, path, sizeof path);
    log = fopen(path, "r");
    while (log != NULL && fgets(lines[n % 6], sizeof lines[0], log) != NULL) n++;
    if (log != NULL) (void)fclose(log);
    for (int i = n > 6 ? n - 6 : 0; i < n; i++) printf("    %s:%d: %s", t->type, t->index, lines[i % 6]);
}

static int count_lines(const job *j, const task *t, const char *text)
{
    char  path[512], line[2000];
    FILE *log;
    int   n = 0;

    log_path(j, t->type, t->index, path, sizeof path);
    log = fopen(path, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL) n += strstr(line, text) != NULL;
    if (log != NULL) (void)fclose(log);
    return n;
}

/* Looks at a task that may have ended; false: it has failed. One that is to be killed is started again. */
static bool look(job *j, task *t)
{
    siginfo_t info = { 0 };

    /* it stays a zombie: bench_tasks_stop kills it by its number */
    if (t->ended || waitid(P_PID, (id_t)t->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return true;
    t->ended = true;
    if (info.si_code == CLD_EXITED && info.si_status == 0) return true;
    if (j->now->kills && !j->again && info.si_code == CLD_KILLED && info.si_status == SIGKILL) {
        j->again = true;
        start(j, t);
        return true;
    }
    printf("  FAILED: %s:%d ended with %s %d\n", t->type, t->index, info.si_code == CLD_EXITED ? "code" : "signal",
           info.si_status);
    return false;
}

/* Whether all tasks end well in time. */
static bool await(job *j, task *tasks, int n, double secs)
{
    int64_t until = est_now_ns() + est_secs_to_ns(secs);
    int     left  = n;

    while (left > 0) {
        left = 0;
        for (int i = 0; i < n; i++) {
            if (!look(j, &tasks[i])) return false;
            left += !tasks[i].ended;
        }
        if (est_now_ns() > until) {
            printf("  FAILED: %d of %d tasks have not ended after %.0f s\n", left, n, secs);
            return false;
        }
        (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    return true;
}

/* The largest difference of two tasks' variables, in parts of the largest value; infinite if they are not as many. */
static double difference(const outcome *a, const outcome *b)
{
    double most = 0, largest = 0;

    if (a->n_values != b->n_values || a->n_values == 0) return INFINITY;
    for (int64_t i = 0; i < a->n_values; i++) {
        most    = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
        largest = fmax(largest, fabs((double)b->values[i]));
        if (isnan(a->values[i])) return INFINITY;
    }
    return most / largest;
}

static const gpu_case *find_case(const char *name)
{
    int i = 0;

    while (i < N_CASES && strcmp(cases[i].name, name) != 0) i++;
    return i < N_CASES ? &cases[i] : NULL;
}

/* What the tasks have told; all of them have ended well. */
static bool check(const job *j, const task *tasks, int n)
{
    const gpu_case *c    = j->now;
    const outcome  *mine = outcome_of(j, c, 0);
    int             says = count_lines(j, &tasks[0], c->says);
    bool            good = says >= c->n_says && (c->n_says > 0 || says == 0);

    if (!good) printf("  FAILED: the first task says \"%s\" %d times\n", c->says, says);
    if (c->kind == MULTI_WORKER && difference(mine, outcome_of(j, c, 1)) != 0) {
        printf("  FAILED: the two workers have different variables\n");
        good = false;
    }
    if (c->kind == CENTRAL &&
        count_lines(j, &tasks[0], "(VarHandleOp): /job:localhost/replica:0/task:0/device:GPU") > 0) {
        printf("  FAILED: variables are on the GPU\n");
        good = false;
    }
    for (int i = 0; c->kind == PARAMETER_SERVER && i < n; i++) {
        int on_gpu = count_lines(j, &tasks[i], "device:GPU:0");

        if ((on_gpu > 0) == (strcmp(tasks[i].type, "ps") != 0)) continue;
        printf("  FAILED: %s:%d says \"device:GPU:0\" %d times\n", tasks[i].type, tasks[i].index, on_gpu);
        good = false;
    }
    if (!(mine->last_loss < mine->first_loss)) {
        printf("  FAILED: the loss does not fall: %g, %g\n", mine->first_loss, mine->last_loss);
        good = false;
    }
    if (c->like != NULL && outcome_of(j, find_case(c->like), 0)->n_values > 0) {
        double by = difference(mine, outcome_of(j, find_case(c->like), 0));

        printf("  variables differ from those of \"%s\" by %.2g\n", c->like, by);
        good = good && by <= c->differs;
    }
    return good;
}

static bool run_case(job *j, const gpu_case *c)
{
    static const task all[] = { { "chief", 0, 0, false }, { "worker", 0, 0, false }, { "ps", 0, 0, false } };

    task    tasks[TASKS_MAX];
    int     n     = c->kind == PARAMETER_SERVER ? 3 : c->kind == MULTI_WORKER ? 2 : 1;
    int64_t begin = est_now_ns();
    bool    good;

    j->now   = c;
    j->again = false;
    j->tasks = bench_tasks_make(n == 3, 1, "tcp");
    memcpy(tasks, all, sizeof all);
    for (int i = n - 1; i >= 0; i--) start(j, &tasks[i]);
    good = await(j, tasks, n, 40);
    if (good) good = check(j, tasks, n);
    for (int i = 0; !good && i < n; i++) print_end(j, &tasks[i]);
    printf("%s: %s, %.1f s, %.1f steps a second of the first task, loss %.4f to %.4f\n", c->name,
           good ? "passed" : "FAILED", (double)(est_now_ns() - begin) / 1e9, outcome_of(j, c, 0)->steps_per_sec,
           outcome_of(j, c, 0)->first_loss, outcome_of(j, c, 0)->last_loss);
    (void)fflush(stdout);
    bench_tasks_stop(&j->tasks);
    return good;
}

int main(int argc, char **argv)
{
    job  j    = { .model = "mlp", .folder = "/tmp", .steps = 40 };
    bool good = true;

    BENCH_OPTIONS(argc, argv, 1, { "--model", BENCH_TO(&j.model) }, { "--steps", BENCH_TO(&j.steps) },
                  { "--folder", BENCH_TO(&j.folder) }, { "--only", BENCH_TO(&j.only) });
    j.outcomes = mmap(NULL, sizeof *j.outcomes * N_CASES * TASKS_MAX, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (j.outcomes == MAP_FAILED) {
        perror("gpu_workers");
        return 1;
    }
    for (int i = 0; i < N_CASES; i++) {
        if (j.only == NULL || strstr(j.only, cases[i].name) != NULL) good = run_case(&j, &cases[i]) && good;
    }
    printf("gpu_workers: %s\n", good ? "all passed" : "FAILED");
    return good ? 0 : 1;
}
