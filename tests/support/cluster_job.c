/* SPDX-License-Identifier: Apache-2.0
 *
 * The job that tests of clusters disturb. */
#include "support/cluster_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "device/devices.h"
#include "estoc/exporter.h"
#include "support/dynamic_test.h"
#include "support/estimator_test.h"
#include "support/far_device.h"

/* Gives each step a length, as if it had much to compute. */
typedef struct slow_hook {
    est_hook hook;
    int64_t  ns;
} slow_hook;

static est_status take_time(est_hook *hook, est_loop *loop)
{
    (void)loop;
    est_sleep_ns(EST_CONTAINER_OF(hook, slow_hook, hook)->ns);
    return EST_OK;
}

/* Kills the process at the moment that the job names. */
typedef struct deadly {
    est_hook            hook, eval;
    est_exporter        exporter;
    est_saving_listener listener;
    const char         *model_dir;
    const cluster_job  *job;
    int                 self; /* number of the task among those that train */
    bool                leads;
    int64_t             batches;
} deadly;

static void name_died(const char *model_dir, char out[160])
{
    snprintf(out, 160, "%s.died", model_dir);
}

/* Once in a job: the next start of the task finds the file. */
static void die(const deadly *d, int64_t when, int64_t step)
{
    char path[160];
    int  fd;

    if (d->job->die != when || d->job->die_task != d->self || step < d->job->die_step) return;
    name_died(d->model_dir, path);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0) return;
    assert_true(dprintf(fd, "%ld\n", (long)getpid()) > 0);
    close(fd);
    (void)raise(d->job->die_signal > 0 ? (int)d->job->die_signal : SIGKILL);
}

pid_t cluster_died(const cluster *c)
{
    char  path[160];
    FILE *file;
    long  pid = 0;

    name_died(c->model, path);
    file = fopen(path, "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%ld", &pid) != 1) pid = 0; /* not written yet */
    fclose(file);
    return (pid_t)pid;
}

static est_status deadly_begin(est_hook *hook, est_loop *loop)
{
    (void)loop;
    die(EST_CONTAINER_OF(hook, deadly, hook), CLUSTER_DIE_BEGIN, INT64_MAX);
    return EST_OK;
}

static est_status deadly_before_run(est_hook *hook, est_loop *loop)
{
    die(EST_CONTAINER_OF(hook, deadly, hook), CLUSTER_DIE_BEFORE_RUN, est_loop_global_step(loop));
    return EST_OK;
}

/* The file by which a test says that it has seen enough. */
static void name_enough(const char *model_dir, char out[160])
{
    snprintf(out, 160, "%s.enough", model_dir);
}

void cluster_enough(const cluster *c)
{
    char path[160];

    name_enough(c->model, path);
    assert_int_equal(est_file_replace(path, "", 0), EST_OK);
}

static bool is_enough(const deadly *d)
{
    char path[160];

    name_enough(d->model_dir, path);
    return est_file_exists(path);
}

static bool has_to_stop(const deadly *d, int64_t step)
{
    if (!d->leads) return false;
    if (d->job->stop_step > 0 && step >= d->job->stop_step) return true;
    return d->job->enough > 0 && step >= d->job->enough && is_enough(d);
}

static void hold(const deadly *d, int64_t step)
{
    if (d->job->hold_step != step || (d->job->hold_task >= 0 && d->job->hold_task != d->self)) return;
    fprintf(stderr, CLUSTER_HOLDS "%lld\n", (long long)step);
    while (!is_enough(d)) est_sleep_ns(EST_NS_PER_SEC / 1000); /* the test kills what waits too long */
}

static est_status deadly_after_run(est_hook *hook, est_loop *loop)
{
    deadly *d    = EST_CONTAINER_OF(hook, deadly, hook);
    int64_t step = est_loop_global_step(loop);

    die(d, CLUSTER_DIE_AFTER_RUN, step);
    if (d->job->hold_step > 0) hold(d, step);
    if (has_to_stop(d, step)) est_loop_request_stop(loop, "enough");
    return EST_OK;
}

static est_status deadly_end(est_hook *hook, est_loop *loop)
{
    die(EST_CONTAINER_OF(hook, deadly, hook), CLUSTER_DIE_END, est_loop_global_step(loop));
    return EST_OK;
}

static est_status deadly_batch(est_hook *hook, est_loop *loop)
{
    deadly *d = EST_CONTAINER_OF(hook, deadly, eval);

    (void)loop;
    die(d, CLUSTER_DIE_EVALUATION, ++d->batches);
    return EST_OK;
}

static est_status deadly_before_save(est_saving_listener *listener, est_session *session, int64_t step)
{
    (void)session;
    die(EST_CONTAINER_OF(listener, deadly, listener), CLUSTER_DIE_BEFORE_SAVE, step);
    return EST_OK;
}

static est_status deadly_after_save(est_saving_listener *listener, est_session *session, int64_t step, bool *stop)
{
    (void)session;
    (void)stop;
    die(EST_CONTAINER_OF(listener, deadly, listener), CLUSTER_DIE_AFTER_SAVE, step);
    return EST_OK;
}

static const est_component raw_input[] = { { .name = "x", .dtype = EST_F32, .shape = { .rank = 1, .dim = { 2 } } } };

static est_status export_slowly(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                                const char *checkpoint_path, const est_metrics *metrics, bool is_final,
                                char path[EST_CHECKPOINT_PATH_MAX])
{
    const deadly *d = EST_CONTAINER_OF(exporter, deadly, exporter);

    (void)is_final;
    fprintf(stderr, CLUSTER_EXPORTS "%lld\n", (long long)est_metrics_global_step(metrics));
    die(d, CLUSTER_DIE_EXPORT, INT64_MAX);
    est_sleep_ns(d->job->export_ms * 1000000);
    return est_export_saved_model(estimator, export_path,
                                  EST_EXPORT(.input = { .raw = { raw_input, 1 } }, .checkpoint_path = checkpoint_path),
                                  path);
}

/* The number of the task, as est_input_context has it. */
static int number_of_task(void)
{
    const char *config = getenv("TF_CONFIG"), *index = config != NULL ? strstr(config, "\"index\"") : NULL;

    return index != NULL ? (int)strtol(strchr(index, ':') + 1, NULL, 10) : 0;
}

static bool is_leader(void)
{
    const char *config = getenv("TF_CONFIG"), *task = config != NULL ? strstr(config, "\"task\"") : NULL;

    if (task == NULL || strstr(task, "\"chief\"") != NULL) return true;
    return strstr(config, "\"chief\"") == NULL && strstr(task, "\"worker\"") != NULL && number_of_task() == 0;
}

static void take_word(const char *word, cluster_job *job)
{
    const char *value = strchr(word, '=');
    size_t      size  = value != NULL ? (size_t)(value - word) : 0;
    struct {
        const char *name;
        int64_t    *whole;
        double     *number;
    } fields[] = { { "steps", &job->steps, NULL },
                   { "count", &job->count, NULL },
                   { "save", &job->save, NULL },
                   { "passes", &job->passes, NULL },
                   { "seed", &job->seed, NULL },
                   { "pause_us", &job->pause_us, NULL },
                   { "sync", &job->sync, NULL },
                   { "consistent", &job->consistent, NULL },
                   { "rate", NULL, &job->rate },
                   { "silence", NULL, &job->silence },
                   { "mirrored", &job->mirrored, NULL },
                   { "elastic", &job->elastic, NULL },
                   { "multi_worker", &job->multi_worker, NULL },
                   { "dynamic", &job->dynamic, NULL },
                   { "ring", &job->ring, NULL },
                   { "nccl", &job->nccl, NULL },
                   { "pack", &job->pack, NULL },
                   { "log", &job->log, NULL },
                   { "die", &job->die, NULL },
                   { "die_task", &job->die_task, NULL },
                   { "die_step", &job->die_step, NULL },
                   { "die_signal", &job->die_signal, NULL },
                   { "export_ms", &job->export_ms, NULL },
                   { "stop_step", &job->stop_step, NULL },
                   { "lacks", &job->lacks, NULL },
                   { "enough", &job->enough, NULL },
                   { "hold_task", &job->hold_task, NULL },
                   { "hold_step", &job->hold_step, NULL },
                   { "shards", &job->shards, NULL },
                   { "cut", &job->cut, NULL },
                   { "device", &job->device, NULL },
                   { "return", NULL, &job->return_in },
                   { "timeout", NULL, &job->timeout } };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && size > 0; i++) {
        if (strlen(fields[i].name) != size || strncmp(fields[i].name, word, size) != 0) continue;
        if (fields[i].whole != NULL) *fields[i].whole = strtoll(value + 1, NULL, 10);
        if (fields[i].number != NULL) *fields[i].number = strtod(value + 1, NULL);
        return;
    }
    fprintf(stderr, "no such word: %s\n", word);
    exit(126);
}

/* Shards of very different sizes, each read once. */
static est_status make_shard(const est_input_context *context, int64_t many, est_dataset **out)
{
    int64_t      n  = context->pipeline == 0 ? 1 : context->pipeline == 1 ? 0 : context->pipeline == 2 ? many : 8;
    float       *xs = malloc((size_t)(n + 1) * 2 * sizeof *xs), *ys = malloc((size_t)(n + 1) * sizeof *ys);
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;

    for (int64_t i = 0; i < n; i++) {
        xs[2 * i]     = (float)(i % 64) / 32.0f - 1.0f;
        xs[2 * i + 1] = (float)((i * 11) % 64) / 32.0f - 1.0f;
        ys[i]         = 2 * xs[2 * i] - xs[2 * i + 1];
    }
    assert_int_equal(est_tensor_f32(EST_SHAPE(n, 2), xs, &x), EST_OK);
    assert_int_equal(est_tensor_f32(EST_SHAPE(n, 1), ys, &y), EST_OK);
    d = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), 128, NULL);
    est_tensor_free(x);
    est_tensor_free(y);
    free(xs);
    free(ys);
    return est_dataset_finish(d, out);
}

/* Global batches of one row, cut for the workers: every other batch is empty. The first worker has one row, the others
 * so many. */
static est_status make_cut(const est_input_context *context, int64_t many, est_dataset **out)
{
    int64_t      n         = context->pipeline == 0 ? 1 : many;
    float        xs[2 * 8] = { 0 };
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;

    assert_true(n <= 8);
    for (int i = 0; i < 16; i++) xs[i] = (float)(i + 1) / 8;
    assert_int_equal(est_tensor_f32(EST_SHAPE(n, 2), xs, &x), EST_OK);
    assert_int_equal(est_tensor_f32(EST_SHAPE(n, 1), xs, &y), EST_OK);
    d = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), 1, NULL);
    est_tensor_free(x);
    est_tensor_free(y);
    return est_dataset_finish(est_dataset_rebatch(d, context->n_pipelines, context->pipeline, 1), out);
}

/* Inputs of different tasks end at different times. */
static est_status make_input(const est_input_context *context, void *user, est_dataset **out)
{
    const cluster_job *job    = user;
    int64_t            passes = job->passes * (context->pipeline + 1);

    if (job->lacks == number_of_task() + 1) return est_fail(EST_NOT_FOUND, "no file matches train-*");
    if (job->dynamic != 0) return dynamic_input(context, NULL, out);
    if (job->shards > 0) return make_shard(context, job->shards, out);
    if (job->cut > 0) return make_cut(context, job->cut, out);
    return est_test_input(context, job->passes > 0 ? &passes : NULL, out);
}

/* Only calls that a signal handler may make. */
/* port 0: any. */
static void cut_links(int port)
{
    int error = errno;

    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = { 0 };
        socklen_t          size = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0) continue;
        if (port == 0 || (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)) (void)shutdown(fd, SHUT_RDWR);
    }
    errno = error;
}

void cluster_cut_links(int number)
{
    (void)number;
    cut_links(0);
}

static void take_cut(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    cut_links(info->si_value.sival_int);
}

void cluster_take_cuts(void)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART };

    action.sa_sigaction = take_cut;
    (void)sigaction(SIGUSR2, &action, NULL);
}

void cluster_cut_one(const cluster_task *task, const cluster_task *to)
{
    union sigval port = { .sival_int = (int)strtol(strrchr(to->address, ':') + 1, NULL, 10) };

    assert_true(task->pid > 0 && port.sival_int > 0);
    assert_int_equal(sigqueue(task->pid, SIGUSR2, port), 0);
}

/* A signal after the last call of the library has nothing left to stop: the exit code is that of the call. */
static void come_late(int number)
{
    (void)number;
}

static est_status make_strategy(const cluster_job *job, est_strategy **out)
{
    if (job->mirrored == 0) {
        return est_parameter_server_strategy(
            EST_PARAMETER_SERVER(.sync_replicas = (int)job->sync, .consistent_checkpoints = job->consistent != 0), out);
    }
    return est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.replicas = (int)job->mirrored, .bytes_per_pack = job->pack,
                                  .communication = job->ring != 0   ? EST_COMMUNICATION_RING
                                                   : job->nccl != 0 ? EST_COMMUNICATION_NCCL
                                                                    : EST_COMMUNICATION_AUTO,
                                  .rejoin_secs = job->return_in, .elastic = job->elastic != 0),
        out);
}

static est_status make_estimator(const char *model_dir, const cluster_job *job, const dynamic_params *params,
                                 const est_strategy *strategy, est_estimator **out)
{
    const void *job_params = job->dynamic != 0 ? (const void *)params : job->rate > 0 ? &job->rate : NULL;
    size_t      size       = job->dynamic != 0 ? sizeof *params : job->rate > 0 ? sizeof job->rate : 0;

    return est_estimator_create(
        job->dynamic != 0 ? dynamic_model : est_test_model,
        EST_ESTIMATOR(.model_dir = model_dir, .params = job_params, .params_size = size,
                      .config = EST_RUN_CONFIG(.save_checkpoints_steps = job->save, .seed = (uint64_t)job->seed,
                                               .log_step_count_steps = job->log, .max_worker_delay_secs = EST_OFF,
                                               .train_distribute = strategy, .peer_silence_secs = job->silence,
                                               .eval_distribute = job->multi_worker != 0 ? strategy : NULL,
                                               .session_creation_timeout_secs = job->timeout,
                                               .log_device_placement          = job->device != 0)),
        out);
}

int cluster_job_task(int argc, char **argv)
{
    cluster_job    job       = { .save = 50, .seed = 11, .log = 100 };
    slow_hook      slow      = { .hook = EST_HOOK(.after_run = take_time) };
    deadly         death     = { .hook      = EST_HOOK(.begin = deadly_begin, .before_run = deadly_before_run,
                                                       .after_run = deadly_after_run, .end = deadly_end),
                                 .eval      = EST_HOOK(.after_run = deadly_batch),
                                 .exporter  = EST_EXPORTER(.name = "slow", .export_model = export_slowly),
                                 .listener  = EST_SAVING_LISTENER(.before_save = deadly_before_save,
                                                                  .after_save  = deadly_after_save),
                                 .model_dir = argv[0],
                                 .job       = &job,
                                 .self      = number_of_task(),
                                 .leads     = is_leader() };
    est_columns   *columns   = est_columns_create();
    dynamic_params params    = dynamic_columns(columns, EST_DYNAMIC(.admit_after = 2, .max_rows = 30, .max_age = 40));
    est_hook      *hooks[]   = { &death.hook, &slow.hook };
    est_hook      *evals[]   = { &death.eval };
    est_exporter  *exports[] = { &death.exporter };
    est_estimator *estimator = NULL;
    est_strategy  *strategy  = NULL;
    est_status     status;

    for (int i = 1; i < argc; i++) take_word(argv[i], &job);
    slow.ns = job.pause_us * 1000;
    if (job.device != 0) est_devices_use(est_far_devices, 1);
    (void)signal(SIGUSR1, cluster_cut_links);
    (void)signal(SIGTERM, come_late);
    status = make_strategy(&job, &strategy);
    if (status == EST_OK) status = make_estimator(argv[0], &job, &params, strategy, &estimator);
    if (status == EST_OK && job.count > 0) {
        status = est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = make_input, .input_user = &job, .steps = job.count,
                                                        .hooks            = { hooks, job.pause_us > 0 ? 2 : 1 },
                                                        .saving_listeners = EST_SAVING_LISTENERS(&death.listener)));
    } else if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator,
            EST_TRAIN_SPEC(.input_fn = make_input, .input_user = &job, .max_steps = job.steps,
                           .hooks            = { hooks, job.pause_us > 0 ? 2 : 1 },
                           .saving_listeners = EST_SAVING_LISTENERS(&death.listener)),
            EST_EVAL_SPEC(.input_fn = make_input, .input_user = &job, .hooks = { evals, 1 },
                          .exporters = { exports, job.export_ms > 0 ? 1 : 0 }, .start_delay_secs = EST_OFF,
                          .throttle_secs = 1, .steps = EST_FOREVER),
            NULL);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(estimator);
    est_columns_free(columns);
    est_strategy_free(strategy);
    return est_exit_code(status);
}

double cluster_job_loss(const cluster *c, const char *checkpoint, bool dynamic, long *step)
{
    cluster_job    job       = { .dynamic = dynamic };
    est_columns   *columns   = est_columns_create();
    dynamic_params params    = dynamic_columns(columns, NULL);
    est_estimator *estimator = est_test_make(dynamic ? dynamic_model : est_test_model,
                                             EST_ESTIMATOR(.model_dir = c->model, .params = dynamic ? &params : NULL,
                                                           .params_size = dynamic ? sizeof params : 0,
                                                           .config      = EST_RUN_CONFIG(.cluster_json = "{}")));
    est_metrics *metrics = NULL;
    double       loss;

    if (est_evaluate(estimator,
                     EST_EVALUATE_OPTIONS(.input_fn = make_input, .input_user = &job, .checkpoint_path = checkpoint,
                                          .name = "test"),
                     &metrics) != EST_OK) {
        fail_msg("%s", est_error_message());
    }
    loss = est_metrics_get(metrics, "loss");
    if (step != NULL) *step = (long)est_metrics_global_step(metrics);
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    est_columns_free(columns);
    return loss;
}

/* --- exports ------------------------------------------------------------------------------------------------------ */

/* Whether a task says that it evaluated this step, and found this loss. */
static bool was_evaluated(const cluster_task *task, long step, double loss)
{
    char  start[64], line[1024];
    FILE *log   = fopen(task->log, "r");
    bool  found = false;

    assert_non_null(log);
    snprintf(start, sizeof start, "Saving dict for global step %ld: ", step);
    while (!found && fgets(line, sizeof line, log) != NULL) {
        const char *at = strstr(line, start), *value = at != NULL ? strstr(at, " loss = ") : NULL;

        found = value != NULL && fabs(strtod(value + strlen(" loss = "), NULL) - loss) <= 1e-6 * loss;
    }
    fclose(log);
    return found;
}

/* Returns the step of its variables. */
static long check_export(const cluster *c, const char *path)
{
    bool   found = false;
    long   step;
    double loss = cluster_job_loss(c, path, false, &step);

    for (int i = 0; i < c->n && !found; i++) found = was_evaluated(&c->tasks[i], step, loss);
    if (!found) fail_msg("%s has step %ld and loss %.9g, and no task has evaluated that", path, step, loss);
    return step;
}

int cluster_check_exports(const cluster *c, long last)
{
    char            path[512];
    struct dirent **entries = NULL;
    int             n, n_exports = 0;
    long            step = -1;

    snprintf(path, sizeof path, "%s/eval/pinned", c->model);
    if (est_file_exists(path)) fail_msg("%s was left", path);
    for (int i = 0; i < c->n; i++) assert_int_equal(cluster_count_log(&c->tasks[i], "is not exported"), 0);
    snprintf(path, sizeof path, "%s/export/slow", c->model);
    n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) fail_msg("%s: there are no exports", path);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;

        snprintf(path, sizeof path, "%s/export/slow/%s", c->model, name);
        if (name[0] != '.') {
            if (name[strspn(name, "0123456789")] != '\0') fail_msg("%s was left", path);
            step = check_export(c, path);
            n_exports++;
        }
        free(entries[i]);
    }
    free(entries);
    if (step != last) fail_msg("the latest export has step %ld, not %ld", step, last);
    return n_exports;
}
