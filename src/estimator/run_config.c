/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig: checks, defaults, and where the model directory comes from. */
#include "estimator/run_config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "cluster/cluster.h"
#include "format/number.h"
#include "graph/device_name.h"
#include "strategy/strategy.h"

#define SAVE_SUMMARY_STEPS            100
#define SAVE_CHECKPOINTS_SECS         600
#define KEEP_CHECKPOINT_MAX           5
#define KEEP_CHECKPOINT_EVERY_N_HOURS 10000
#define LOG_STEP_COUNT_STEPS          100
#define SESSION_CREATION_TIMEOUT_SECS 7200
#define PEER_SILENCE_SECS             10
#define MAX_WORKER_DELAY_SECS         60

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* Fills in a number of steps: the default for 0. */
static est_status fill_steps(const char *field, int64_t usual, int64_t *value)
{
    if (*value < 0 && *value != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: %s is %" PRId64 "; write a number of steps, 0 for the default or EST_OFF", field,
                        *value);
    }
    if (*value == 0) *value = usual;
    return EST_OK;
}

/* Fills in a duration that cannot be off. */
static est_status fill_duration(const char *field, double usual, double *value)
{
    if (!isfinite(*value) || *value < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "RunConfig: %s is %g; write a number above 0, or 0 for %g", field, *value,
                        usual);
    }
    if (*value == 0) *value = usual;
    return EST_OK;
}

/* By steps or by time, or not at all; not both. */
static est_status fill_checkpoints(est_run_config *c)
{
    if (!isfinite(c->save_checkpoints_secs) || (c->save_checkpoints_secs < 0 && c->save_checkpoints_secs != EST_OFF)) {
        return est_fail(
            EST_INVALID_ARGUMENT,
            "RunConfig: save_checkpoints_secs is %g; write a number of seconds, 0 for the default or EST_OFF",
            c->save_checkpoints_secs);
    }
    EST_TRY(fill_steps("save_checkpoints_steps", EST_OFF, &c->save_checkpoints_steps));
    if (c->save_checkpoints_steps > 0 && c->save_checkpoints_secs > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: save_checkpoints_steps is %" PRId64
                        " and save_checkpoints_secs is %g; they cannot both be set: leave one out, or write EST_OFF",
                        c->save_checkpoints_steps, c->save_checkpoints_secs);
    }
    if (c->save_checkpoints_secs == 0) {
        c->save_checkpoints_secs = c->save_checkpoints_steps > 0 ? EST_OFF : SAVE_CHECKPOINTS_SECS;
    }
    return EST_OK;
}

static est_status fill_numbers(est_run_config *c)
{
    EST_TRY(fill_checkpoints(c));
    EST_TRY(fill_steps("save_summary_steps", SAVE_SUMMARY_STEPS, &c->save_summary_steps));
    EST_TRY(fill_steps("log_step_count_steps", LOG_STEP_COUNT_STEPS, &c->log_step_count_steps));
    EST_TRY(fill_duration("keep_checkpoint_every_n_hours", KEEP_CHECKPOINT_EVERY_N_HOURS,
                          &c->keep_checkpoint_every_n_hours));
    EST_TRY(fill_duration("session_creation_timeout_secs", SESSION_CREATION_TIMEOUT_SECS,
                          &c->session_creation_timeout_secs));
    EST_TRY(fill_duration("peer_silence_secs", PEER_SILENCE_SECS, &c->peer_silence_secs));
    if (c->keep_checkpoint_max < 0 && c->keep_checkpoint_max != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: keep_checkpoint_max is %d; write how many to keep, 0 for %d or EST_OFF to keep all",
                        c->keep_checkpoint_max, KEEP_CHECKPOINT_MAX);
    }
    if (c->keep_checkpoint_max == 0) c->keep_checkpoint_max = KEEP_CHECKPOINT_MAX;
    if (c->max_worker_delay_secs < 0 && c->max_worker_delay_secs != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: max_worker_delay_secs is %d; write a number of seconds, 0 for %d or EST_OFF for no "
                        "delay",
                        c->max_worker_delay_secs, MAX_WORKER_DELAY_SECS);
    }
    if (c->max_worker_delay_secs == 0) c->max_worker_delay_secs = MAX_WORKER_DELAY_SECS;
    if (c->threads < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: threads is %d; write how many, or 0 for as many as there are cores", c->threads);
    }
    if (c->precision != EST_PRECISION_FLOAT32 && c->precision != EST_PRECISION_MIXED_BFLOAT16) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: precision is %d; write EST_PRECISION_FLOAT32 or EST_PRECISION_MIXED_BFLOAT16",
                        (int)c->precision);
    }
    return EST_OK;
}

/* --- the cluster -------------------------------------------------------------------------------------------------- */

static est_status check_protocol(const char *protocol)
{
    static const char *const known[] = { "grpc", "grpc+verbs", "tcp", "tls", "ucx" };

    if (protocol == NULL) return EST_OK;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(protocol, known[i]) == 0) return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "RunConfig: protocol is \"%.80s\"; write \"grpc\", \"grpc+verbs\", \"tcp\", \"tls\" or \"ucx\", or "
                    "leave it out",
                    protocol);
}

/* What describes the task, for errors. */
static const char *source(const est_run_config *c)
{
    return c->resolver != NULL       ? "RunConfig.resolver"
           : c->cluster_json != NULL ? "RunConfig.cluster_json"
                                     : "TF_CONFIG";
}

/* The task of a resolver, of a JSON text, of the strategy that was made for one, or of TF_CONFIG. */
static est_status find_task(const est_run_config *c, est_resolver **out)
{
    const est_resolver *trains_in = est_strategy_resolver(c->train_distribute);

    if (c->resolver != NULL && c->cluster_json != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "RunConfig: resolver and cluster_json are both set; leave one out");
    }
    if (c->resolver != NULL) return est_resolver_copy(c->resolver, out);
    if (c->cluster_json == NULL && trains_in != NULL) {
        est_resolver_log(trains_in);
        return est_resolver_copy(trains_in, out);
    }
    return est_resolve_text(c->cluster_json, source(c),
                            EST_TASK_RULES(.no_chief_ok = est_strategy_needs_no_chief(c->train_distribute)), out);
}

/* A strategy stands beside experimental_distribute or within, not in both. */
static est_status take_strategy(const char *field, const est_strategy *within, const est_strategy **strategy)
{
    if (within == NULL) return EST_OK;
    if (*strategy != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: %s and experimental_distribute.%s are both set; leave one out", field, field);
    }
    *strategy = within;
    return EST_OK;
}

/* Takes experimental_distribute apart. */
static est_status take_distribute(est_run_config *c)
{
    est_distribute_config d;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_distribute_config), c->experimental_distribute, &d));
    if (d.remote_cluster != NULL) {
        return est_fail(EST_UNIMPLEMENTED,
                        "RunConfig: experimental_distribute.remote_cluster: an Estimator does not drive the servers of "
                        "another cluster; start this program as a task of the cluster by TF_CONFIG, or drive servers "
                        "with a coordinator (estoc/coordinator.h)");
    }
    EST_TRY(take_strategy("train_distribute", d.train_distribute, &c->train_distribute));
    EST_TRY(take_strategy("eval_distribute", d.eval_distribute, &c->eval_distribute));
    c->experimental_distribute = NULL;
    return EST_OK;
}

/* A strategy that was made for a cluster has told its graphs and inputs which worker of it this is. */
static est_status check_cluster(const est_run_config *c, const char *field, const est_strategy *strategy,
                                const est_self *self)
{
    const est_task *task = est_strategy_task(strategy);
    est_self        own;

    if (task == NULL) return EST_OK;
    own = est_self_of(task, 1);
    if (own.size == self->size && own.rank == self->rank) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "RunConfig: %s is worker %d of %d, and %s says worker %d of %d; give the cluster in one place: to "
                    "the strategy, or to all by TF_CONFIG",
                    field, own.rank, own.size, source(c), self->rank, self->size);
}

/* What a strategy adds to the rules. */
static est_status check_strategies(const est_run_config *c, const est_task *task)
{
    est_self self;

    if (task->type == NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: the resolver is that of a client, which is no task of the cluster; give "
                        "est_resolve_simple the type and index of this task");
    }
    EST_TRY(est_strategy_check(c->eval_distribute, false, task, source(c)));
    EST_TRY(est_strategy_check(c->train_distribute, true, task, source(c)));
    if (strcmp(task->type, "evaluator") == 0) return EST_OK;
    self = est_self_of(task, 1);
    EST_TRY(check_cluster(c, "train_distribute", c->train_distribute, &self));
    return check_cluster(c, "eval_distribute", c->eval_distribute, &self);
}

/* --- the model directory ------------------------------------------------------------------------------------------ */

/* Takes one more place that may name the directory; those that do must agree. */
static est_status take_model_dir(const char *name, const char *dir, const char **from, const char **model_dir)
{
    if (dir == NULL) return EST_OK;
    if (dir[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "%s is \"\"; write the path of a directory, or leave it out", name);
    }
    if (*model_dir != NULL && strcmp(*model_dir, dir) != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s is \"%s\", but %s is \"%s\"; write the same, or leave one out", name,
                        dir, *from, *model_dir);
    }
    *from      = name;
    *model_dir = dir;
    return EST_OK;
}

static est_status temporary_dir(est_arena *arena, const char **out)
{
    const char *top  = getenv("TMPDIR");
    char       *path = est_arena_printf(arena, "%s/estoc-XXXXXX", top != NULL && top[0] != '\0' ? top : "/tmp");

    if (path == NULL) return est_no_memory();
    if (mkdtemp(path) == NULL) {
        int error = errno;

        return est_fail(est_status_from_errno(error),
                        "cannot make a temporary model directory %s: %s; set model_dir, or TMPDIR to a directory that "
                        "can be written",
                        path, strerror(error));
    }
    est_log_warn("Using temporary folder as model directory: %s", path);
    *out = path;
    return EST_OK;
}

/* A copy of the string in the arena, if there is one. */
static est_status keep(est_arena *arena, const char **text)
{
    if (*text == NULL) return EST_OK;
    *text = est_arena_strdup(arena, *text);
    return *text != NULL ? EST_OK : est_no_memory();
}

static est_status find_model_dir(est_run_config *c, const char *beside, const est_task *task, est_arena *arena)
{
    const char *dir = NULL, *from = NULL;
    char        described[64];

    snprintf(described, sizeof described, "%s: model_dir", source(c));
    EST_TRY(take_model_dir("RunConfig: model_dir", c->model_dir, &from, &dir));
    EST_TRY(take_model_dir(described, task->model_dir, &from, &dir));
    if (task->model_dir != NULL) est_log_info("Using model_dir in TF_CONFIG: %s", task->model_dir);
    EST_TRY(take_model_dir("Estimator: model_dir", beside, &from, &dir));
    if (dir == NULL) return temporary_dir(arena, &c->model_dir);
    c->model_dir = dir;
    return keep(arena, &c->model_dir);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* What TensorFlow logs of a config with strategies. */
static void log_strategies(const est_run_config *c, const est_task *task, est_log_level level)
{
    bool coordinated = c->train_distribute != NULL && est_cluster_jobs(task->cluster) > 0 &&
                       est_cluster_tasks(task->cluster, "master") == 0;

    if (c->train_distribute == NULL && c->eval_distribute == NULL) return;
    EST_LOG_AT(level, "Initializing RunConfig with distribution strategies.");
    EST_LOG_AT(level, "%s",
               coordinated ? "RunConfig initialized for Distribute Coordinator with INDEPENDENT_WORKER mode"
                           : "Not using Distribute Coordinator.");
}

/* It is the same for all tasks, so one of them says it to everybody. */
static void log_config(const est_run_config *c, const est_task *task)
{
    est_log_level level = task->is_chief ? EST_LOG_INFO : EST_LOG_DEBUG;
    est_strbuf    text  = { 0 };

    if (!est_log_on(level)) return;
    log_strategies(c, task, level);
    est_run_config_text(c, task, &text);
    EST_LOG_AT(level, "Using config: %s", est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

static est_status keep_devices(est_arena *arena, est_run_config *c)
{
    const char **list;

    EST_REQUIRE_LIST("RunConfig: devices", c->devices);
    list = est_arena_alloc(arena, sizeof(const char *) * ((size_t)c->devices.n + 1));
    if (list == NULL) return est_no_memory();
    for (int i = 0; i < c->devices.n; i++) {
        list[i] = c->devices.data[i];
        if (list[i] == NULL) return est_fail(EST_INVALID_ARGUMENT, "RunConfig: device %d is NULL", i);
        EST_TRY(est_device_name_check(list[i]));
        EST_TRY(keep(arena, &list[i]));
    }
    if (c->device_memory_limit < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "RunConfig: device_memory_limit is %" PRId64 "; write a number of bytes, or 0 for no limit",
                        c->device_memory_limit);
    }
    c->devices.data = c->devices.n > 0 ? list : NULL;
    return EST_OK;
}

est_status est_run_config_resolve(const est_run_config *given, const char *model_dir, est_arena *arena,
                                  est_resolver **resolver, est_run_config *out)
{
    est_run_config c;
    est_resolver  *found = NULL;
    est_status     status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_run_config), given, &c));
    EST_TRY(fill_numbers(&c));
    EST_TRY(check_protocol(c.protocol));
    EST_TRY(take_distribute(&c));
    EST_TRY(keep(arena, &c.cluster_json));
    EST_TRY(keep(arena, &c.protocol));
    EST_TRY(keep_devices(arena, &c));
    EST_TRY(find_task(&c, &found));
    if (given == NULL) est_log_info("Using default config.");
    status = check_strategies(&c, est_resolver_task(found));
    if (status == EST_OK) status = find_model_dir(&c, model_dir, est_resolver_task(found), arena);
    if (status != EST_OK) {
        est_resolver_free(found);
        return status;
    }
    if (c.resolver != NULL) c.resolver = found;
    log_config(&c, est_resolver_task(found));
    *resolver = found;
    *out      = c;
    return EST_OK;
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static void put_string(est_strbuf *out, const char *name, const char *value)
{
    est_strbuf_printf(out, "\"%s\": ", name);
    est_strbuf_append_json(out, value, strlen(value));
    est_strbuf_append(out, ", ");
}

static void put_raw(est_strbuf *out, const char *name, const char *json)
{
    est_strbuf_printf(out, "\"%s\": %s, ", name, json != NULL ? json : "null");
}

static void put_count(est_strbuf *out, const char *name, int64_t value)
{
    est_strbuf_printf(out, "\"%s\": %" PRId64 ", ", name, value);
}

/* What is off is null. */
static void put_period(est_strbuf *out, const char *name, int64_t value)
{
    if (value <= 0) {
        put_raw(out, name, NULL);
    } else {
        put_count(out, name, value);
    }
}

static void put_secs(est_strbuf *out, const char *name, double value)
{
    char text[EST_NUMBER_TEXT_MAX];

    if (value <= 0) {
        put_raw(out, name, NULL);
    } else if (value == trunc(value)) {
        est_strbuf_printf(out, "\"%s\": %.0f, ", name, value);
    } else {
        est_strbuf_printf(out, "\"%s\": %s, ", name, est_number_f64_text(value, text));
    }
}

static void put_bool(est_strbuf *out, const char *name, bool value)
{
    est_strbuf_printf(out, "\"%s\": %s, ", name, value ? "true" : "false");
}

static void put_strategy(est_strbuf *out, const char *name, const est_strategy *strategy)
{
    if (strategy == NULL) {
        put_raw(out, name, NULL);
        return;
    }
    est_strbuf_printf(out, "\"%s\": ", name);
    est_strategy_text(strategy, out);
    est_strbuf_append(out, ", ");
}

static void put_task(est_strbuf *out, const est_task *task)
{
    est_strbuf_append(out, "\"cluster_spec\": ");
    est_cluster_text(task->cluster, out);
    est_strbuf_append(out, ", ");
    put_string(out, "task_type", task->type);
    put_count(out, "task_id", task->index);
    put_bool(out, "is_chief", task->is_chief);
    put_count(out, "num_ps_replicas", task->num_ps_replicas);
    put_count(out, "num_worker_replicas", task->num_worker_replicas);
    put_string(out, "master", task->master);
    put_string(out, "evaluation_master", task->evaluation_master);
    put_raw(out, "service", task->service);
    if (task->global_id >= 0) {
        est_strbuf_printf(out, "\"global_id_in_cluster\": %d}", task->global_id);
    } else {
        est_strbuf_append(out, "\"global_id_in_cluster\": null}");
    }
}

static void put_devices(est_strbuf *out, est_strings devices)
{
    if (devices.n == 0) {
        put_raw(out, "devices", NULL);
        return;
    }
    est_strbuf_append(out, "\"devices\": [");
    for (int i = 0; i < devices.n; i++) est_strbuf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", devices.data[i]);
    est_strbuf_append(out, "], ");
}

void est_run_config_text(const est_run_config *c, const est_task *task, est_strbuf *out)
{
    est_strbuf_append(out, "{");
    put_string(out, "model_dir", c->model_dir);
    if (c->seed != 0) {
        est_strbuf_printf(out, "\"seed\": %" PRIu64 ", ", c->seed);
    } else {
        put_raw(out, "seed", NULL); /* not yet drawn */
    }
    put_period(out, "save_summary_steps", c->save_summary_steps);
    put_period(out, "save_checkpoints_steps", c->save_checkpoints_steps);
    put_secs(out, "save_checkpoints_secs", c->save_checkpoints_secs);
    put_period(out, "keep_checkpoint_max", c->keep_checkpoint_max);
    put_secs(out, "keep_checkpoint_every_n_hours", c->keep_checkpoint_every_n_hours);
    put_period(out, "log_step_count_steps", c->log_step_count_steps);
    put_secs(out, "session_creation_timeout_secs", c->session_creation_timeout_secs);
    put_secs(out, "peer_silence_secs", c->peer_silence_secs);
    put_period(out, "max_worker_delay_secs", c->max_worker_delay_secs);
    put_bool(out, "no_graph_def", c->no_graph_def);
    put_period(out, "threads", c->threads);
    put_string(out, "precision", c->precision == EST_PRECISION_FLOAT32 ? "float32" : "mixed_bfloat16");
    put_bool(out, "check_numerics", c->check_numerics);
    put_bool(out, "no_input_position", c->no_input_position);
    put_bool(out, "no_signals", c->no_signals);
    put_bool(out, "quiet", c->quiet);
    put_strategy(out, "train_distribute", c->train_distribute);
    put_bool(out, "eval_distribute", c->eval_distribute != NULL);
    if (c->protocol != NULL) {
        put_string(out, "protocol", c->protocol);
    } else {
        put_raw(out, "protocol", NULL);
    }
    put_bool(out, "device_fn", c->device_fn != NULL);
    put_devices(out, c->devices);
    put_bool(out, "no_soft_placement", c->no_soft_placement);
    put_bool(out, "log_device_placement", c->log_device_placement);
    put_bool(out, "no_tf32", c->no_tf32);
    if (c->device_memory_limit > 0) {
        est_strbuf_printf(out, "\"device_memory_limit\": %" PRId64 ", ", c->device_memory_limit);
    } else {
        put_raw(out, "device_memory_limit", NULL);
    }
    put_task(out, task);
}
