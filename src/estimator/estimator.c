/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimator itself: made, freed, and what its four verbs share: the input, the model of a mode, values for its
 * variables. */
#include "estimator/estimator.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/callback.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "estimator/run_config.h"
#include "runtime/session.h"
#include "runtime/store.h"
#include "train/saver.h"

#define BLAME_MAX 800 /* bytes of a saver's words: an error has room for 1023, and callers put some in front */

/* --- making one --------------------------------------------------------------------------------------------------- */

static est_status check_size(const est_vocab_info *vocab, const char *field, int64_t value, const char *zero)
{
    if (value >= 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "warm_start.vocabs: %s of variable %s is %" PRId64 "; write a number above 0, or %s", field,
                    vocab->variable, value, zero);
}

static est_status check_warm_start(const est_warm_start *given)
{
    if (given->path == NULL || given->path[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "warm_start.path: name the checkpoint to start from");
    }
    if (given->only_vocabs && (given->variables != NULL || given->all)) {
        return est_fail(EST_INVALID_ARGUMENT, "warm_start: only_vocabs and %s are both set; leave one out",
                        given->variables != NULL ? "variables" : "all");
    }
    EST_REQUIRE_LIST("warm_start.renames", given->renames);
    EST_REQUIRE_LIST("warm_start.vocabs", given->vocabs);
    for (int i = 0; i < given->renames.n; i++) {
        if (given->renames.data[i].variable != NULL && given->renames.data[i].stored != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "warm_start.renames[%d] lacks a name", i);
    }
    for (int i = 0; i < given->vocabs.n; i++) {
        const est_vocab_info *vocab = &given->vocabs.data[i];

        if (vocab->variable == NULL || vocab->new_vocab == NULL || vocab->old_vocab == NULL) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "warm_start.vocabs[%d]: variable, new_vocab and old_vocab are required", i);
        }
        if (vocab->initial && vocab->backup.make != NULL) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "warm_start.vocabs: initial and backup of variable %s are both set; leave one out",
                            vocab->variable);
        }
        EST_TRY(check_size(vocab, "new_vocab_size", vocab->new_vocab_size, "0 for all entries"));
        EST_TRY(check_size(vocab, "old_vocab_size", vocab->old_vocab_size, "0 for all entries"));
        EST_TRY(check_size(vocab, "num_oov_buckets", vocab->num_oov_buckets, "0 for none"));
    }
    return EST_OK;
}

static est_status copy_warm_start(est_estimator *estimator, const est_warm_start *options)
{
    est_arena            *arena = estimator->arena;
    est_warm_start        known;
    const est_warm_start *given = &known;
    est_warm_start       *copy;
    est_rename           *renames;
    est_vocab_info       *vocabs;
    bool                  failed;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_warm_start), options, &known));
    EST_TRY(check_warm_start(given));
    copy    = est_arena_alloc(arena, sizeof *copy);
    renames = est_arena_alloc(arena, (size_t)(given->renames.n + 1) * sizeof *renames);
    vocabs  = est_arena_alloc(arena, (size_t)(given->vocabs.n + 1) * sizeof *vocabs);
    failed  = copy == NULL || renames == NULL || vocabs == NULL;
    if (!failed) {
        *copy           = *given;
        copy->path      = est_arena_strdup(arena, given->path);
        copy->variables = given->variables != NULL ? est_arena_strdup(arena, given->variables) : NULL;
        failed          = copy->path == NULL || (given->variables != NULL && copy->variables == NULL);
    }
    for (int i = 0; !failed && i < given->renames.n; i++) {
        renames[i] = (est_rename){ est_arena_strdup(arena, given->renames.data[i].variable),
                                   est_arena_strdup(arena, given->renames.data[i].stored) };
        failed     = renames[i].variable == NULL || renames[i].stored == NULL;
    }
    for (int i = 0; !failed && i < given->vocabs.n; i++) {
        vocabs[i]           = given->vocabs.data[i];
        vocabs[i].variable  = est_arena_strdup(arena, given->vocabs.data[i].variable);
        vocabs[i].new_vocab = est_arena_strdup(arena, given->vocabs.data[i].new_vocab);
        vocabs[i].old_vocab = est_arena_strdup(arena, given->vocabs.data[i].old_vocab);
        failed              = vocabs[i].variable == NULL || vocabs[i].new_vocab == NULL || vocabs[i].old_vocab == NULL;
    }
    if (failed) return est_no_memory();
    copy->renames.data    = renames;
    copy->vocabs.data     = vocabs;
    estimator->warm_start = copy;
    return EST_OK;
}

static est_status fill(est_estimator *estimator, const est_estimator_options *options)
{
    void *params;

    estimator->arena = est_arena_create();
    if (estimator->arena == NULL) return est_no_memory();
    EST_TRY(est_run_config_resolve(options->config, options->model_dir, estimator->arena, &estimator->resolver,
                                   &estimator->config));
    estimator->self             = est_self_of(est_resolver_task(estimator->resolver),
                                              est_strategy_replicas(estimator->config.train_distribute).n);
    estimator->model_dir        = estimator->config.model_dir;
    estimator->dir_is_temporary = options->model_dir == NULL && estimator->self.task->model_dir == NULL &&
                                  (options->config == NULL || options->config->model_dir == NULL);
    if (options->params_size > 0) {
        params = est_arena_alloc(estimator->arena, options->params_size);
        if (params == NULL) return est_no_memory();
        memcpy(params, options->params, options->params_size);
        estimator->params      = params;
        estimator->params_size = options->params_size;
    } else {
        estimator->params = options->params;
    }
    if (options->warm_start != NULL) EST_TRY(copy_warm_start(estimator, options->warm_start));
    return EST_OK;
}

est_status est_estimator_create(est_model_fn model_fn, const est_estimator_options *options, est_estimator **out)
{
    est_estimator_options own;
    est_estimator        *estimator;
    est_status            status;

    EST_REQUIRE(out);
    if (model_fn == NULL) return est_fail(EST_INVALID_ARGUMENT, "an estimator needs a model_fn, NULL was given");
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_estimator_options), options, &own));
    if (own.params == NULL && own.params_size > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "params_size is %zu and params is NULL; set both, or leave both out",
                        own.params_size);
    }
    estimator = est_zalloc(sizeof *estimator);
    if (estimator == NULL) return est_no_memory();
    estimator->model_fn = model_fn;
    status              = fill(estimator, &own);
    if (status != EST_OK) {
        est_estimator_free(estimator);
        return status;
    }
    *out = estimator;
    return EST_OK;
}

void est_estimator_free(est_estimator *estimator)
{
    if (estimator == NULL) return;
    if (estimator->free_owned != NULL) estimator->free_owned(estimator->owned);
    est_sample_rows_clear(&estimator->rows);
    est_resolver_free(estimator->resolver);
    est_arena_free(estimator->arena);
    est_free(estimator);
}

void est_estimator_own(est_estimator *estimator, void *object, void (*free_fn)(void *object))
{
    estimator->params     = object;
    estimator->owned      = object;
    estimator->free_owned = free_fn;
}

const char *est_estimator_model_dir(const est_estimator *estimator)
{
    return estimator != NULL ? estimator->model_dir : NULL;
}

const est_run_config *est_estimator_config(const est_estimator *estimator)
{
    return estimator != NULL ? &estimator->config : NULL;
}

const est_task *est_estimator_task(const est_estimator *estimator)
{
    return estimator != NULL ? estimator->self.task : NULL;
}

est_status est_estimator_add_metrics(est_estimator *estimator, est_metric_fn fn, void *user)
{
    est_metric_extender  *extender;
    est_metric_extender **last;

    EST_REQUIRE(estimator);
    extender = est_arena_alloc(estimator->arena, sizeof *extender);
    last     = &estimator->extenders;
    if (fn == NULL) return est_fail(EST_INVALID_ARGUMENT, "add_metrics needs a function, NULL was given");
    if (extender == NULL) return est_no_memory();
    while (*last != NULL) last = &(*last)->next;
    *extender = (est_metric_extender){ .fn = fn, .user = user };
    *last     = extender;
    return EST_OK;
}

int est_exit_code(est_status status)
{
    return status == EST_OK ? 0 : status == EST_CANCELLED && est_signals_told() ? 75 : 1;
}

/* --- input and model ---------------------------------------------------------------------------------------------- */

const est_strategy *est_estimator_strategy(const est_estimator *estimator, est_mode mode)
{
    return mode == EST_TRAIN  ? estimator->config.train_distribute
           : mode == EST_EVAL ? estimator->config.eval_distribute
                              : NULL;
}

/* "grpc" of TensorFlow means the default: ESTOC_PROTOCOL, else tls. */
static const char *transport_of(const est_run_config *config)
{
    if (config->protocol == NULL || strcmp(config->protocol, "grpc") == 0) return NULL;
    return strcmp(config->protocol, "grpc+verbs") == 0 ? "ucx" : config->protocol;
}

est_session_options est_estimator_session(const est_estimator *estimator)
{
    const est_run_config *c = &estimator->config;

    return *EST_SESSION(.threads = c->threads, .check_numerics = c->check_numerics, .devices = c->devices,
                        .no_soft_placement = c->no_soft_placement, .log_device_placement = c->log_device_placement,
                        .no_tf32 = c->no_tf32, .device_memory_limit = c->device_memory_limit);
}

/* Evaluations have one replica a worker: those of a process would only share its processor. */
est_run est_estimator_run(const est_estimator *estimator, est_run_purpose purpose)
{
    const est_run_config *c   = &estimator->config;
    est_run               run = { .strategy          = est_strategy_for(c->train_distribute, estimator->self.task),
                                  .purpose           = purpose,
                                  .self              = estimator->self,
                                  .model_dir         = estimator->model_dir,
                                  .transport         = transport_of(c),
                                  .threads           = c->threads,
                                  .silence_secs      = c->peer_silence_secs,
                                  .devices           = c->devices,
                                  .connect_secs      = c->session_creation_timeout_secs,
                                  .delay_secs        = c->max_worker_delay_secs,
                                  .seed              = c->seed,
                                  .no_input_position = c->no_input_position,
                                  .evaluates_with    = c->eval_distribute };

    if (purpose != EST_RUN_EVALUATE) return run;
    run.strategy      = c->eval_distribute != NULL ? c->eval_distribute : &est_default_strategy;
    run.self.rank     = run.strategy->self.rank;
    run.self.size     = run.strategy->self.size;
    run.self.replicas = 1;
    return run;
}

void est_estimator_log_input(const est_estimator *estimator, est_mode mode)
{
    if (est_estimator_strategy(estimator, mode) == NULL) return;
    est_log_info("The `input_fn` accepts an `input_context` which will be given by DistributionStrategy");
}

est_status est_estimator_input(est_estimator *estimator, est_mode mode, est_input_fn input_fn, void *user,
                               uint64_t seed, uint64_t job_seed, est_dataset **out)
{
    est_dataset      *dataset = NULL;
    est_status        status;
    est_input_context context = {
        .mode     = mode,
        .params   = estimator->params,
        .seed     = seed != 0 ? seed : 1, /* where nothing was drawn any will do */
        .config   = &estimator->config,
        .job_seed = job_seed != 0 ? job_seed : 1,
    };

    if (input_fn == NULL) return est_fail(EST_INVALID_ARGUMENT, "input_fn is required");
    est_strategy_input_context(est_estimator_strategy(estimator, mode), &context);
    if (mode == EST_TRAIN) { /* workers of parameter servers have pipelines of their own, and one replica each */
        context.n_pipelines = estimator->self.size;
        context.pipeline    = estimator->self.rank;
    }
    status = EST_CALLBACK(input_fn(&context, user, &dataset), "it");
    if (status == EST_OK && dataset == NULL)
        status = est_fail(EST_INVALID_ARGUMENT, "it returned EST_OK but no dataset; set *out");
    if (status != EST_OK) return est_fail_context(status, "input_fn");
    *out = dataset;
    return EST_OK;
}

/* Whether values of several replicas are reduced in a model, here or across workers. */
static bool has_replicas(const est_estimator *estimator, est_mode mode)
{
    return mode == EST_TRAIN && est_strategy_replicas(est_estimator_strategy(estimator, mode)).total > 1;
}

est_status est_estimator_build(est_estimator *estimator, est_mode mode, const est_dataset *input, uint64_t seed,
                               est_model **out)
{
    est_model *model = NULL;
    est_status status;

    EST_TRY(est_model_create(mode, &estimator->config, estimator->self.task, input, seed, &model));
    if (has_replicas(estimator, mode)) {
        status = est_model_build_replicas(model, estimator->model_fn, estimator->params,
                                          est_estimator_strategy(estimator, mode));
    } else {
        if (mode == EST_TRAIN) est_strategy_pin_variables(est_estimator_strategy(estimator, mode), model->graph);
        status = est_model_build(model, estimator->model_fn, estimator->params);
    }
    for (est_metric_extender *e = estimator->extenders; status == EST_OK && mode == EST_EVAL && e != NULL;
         e                      = e->next) {
        status = EST_CALLBACK(e->fn(model, e->user), "a function of est_estimator_add_metrics");
        if (status == EST_OK) status = est_model_status(model);
    }
    if (status == EST_OK) status = est_model_place(model);
    if (status != EST_OK) {
        est_model_free(model);
        return status;
    }
    *out = model;
    return EST_OK;
}

est_status est_estimator_model(est_estimator *estimator, est_mode mode, const est_dataset *input, uint64_t seed,
                               est_model **out)
{
    est_log_info("Calling model_fn.");
    EST_TRY(est_estimator_build(estimator, mode, input, seed, out));
    est_log_info("Done calling model_fn.");
    return EST_OK;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

est_status est_estimator_make_dir(const est_estimator *estimator)
{
    est_status status = est_dir_create(estimator->model_dir);

    if (status == EST_OK && access(estimator->model_dir, W_OK | X_OK) != 0) {
        int error = errno;

        status = est_fail(est_status_from_errno(error),
                          "%s cannot be written to: %s; name another directory, or change its permissions",
                          estimator->model_dir, strerror(error));
    }
    return status == EST_OK ? EST_OK : est_fail_context(status, "model_dir");
}

est_status est_estimator_blame_checkpoint(est_status status)
{
    static const char model[] = "it belongs to another model; name another model_dir, or warm-start from it";
    static const char optimizer[] =
        "all of them are the optimizer's, and the model itself fits: train with the optimizer that the checkpoint was "
        "trained with, or name another model_dir and warm-start from this one";
    const char *end, *text = est_error_message(), *advice = model;
    int         size;

    if (status != EST_FAILED_PRECONDITION && status != EST_INVALID_ARGUMENT) return status;
    end = strstr(text, EST_RESTORE_ADVICE); /* a user of estimators has no options to restore with */
    if (end == NULL && (end = strstr(text, EST_OPTIMIZER_ADVICE)) != NULL) advice = optimizer;
    size = (int)(end != NULL ? (size_t)(end - text) : strlen(text));
    if (size <= BLAME_MAX) return est_fail(status, "%.*s; %s", size, text, advice);
    for (size = BLAME_MAX; size > 0 && text[size] != ' ';) size--; /* not in the middle of a name */
    return est_fail(status, "%.*s ...; %s", size, text, advice);
}

void est_estimator_say_untrained(const est_estimator *estimator, const char *checkpoint_path, const char *verb)
{
    est_checkpoint *latest = NULL;
    est_status      status = checkpoint_path == NULL ? est_checkpoint_open(estimator->model_dir, &latest) : EST_OK;

    est_checkpoint_close(latest);
    if (status != EST_NOT_FOUND) return;
    est_log_warn("Could not find trained model in model_dir: %s, running initialization to %s.", estimator->model_dir,
                 verb);
}

est_status est_estimator_restore(est_estimator *estimator, const est_model *model, est_session *session,
                                 const char *checkpoint_path, char path[EST_CHECKPOINT_PATH_MAX])
{
    est_restored    restored = { 0 };
    const char     *from     = checkpoint_path != NULL ? checkpoint_path : estimator->model_dir;
    est_checkpoint *there    = NULL;
    est_status      status   = est_checkpoint_open(from, &there);

    est_checkpoint_close(there);
    if (status == EST_OK) { /* EST_NOT_FOUND from now on is a variable that it lacks */
        EST_TRY(est_estimator_blame_checkpoint(est_saver_restore(NULL, session, EST_RESTORE(.path = from), &restored)));
        est_log_info("Restoring parameters from %s", est_pin_name(estimator->pin, restored.path));
        if (path != NULL) snprintf(path, EST_CHECKPOINT_PATH_MAX, "%s", restored.path);
        return EST_OK;
    }
    if (status != EST_NOT_FOUND || checkpoint_path != NULL) return status;
    if (path != NULL) path[0] = '\0';
    EST_TRY(est_session_init(session));
    if (estimator->warm_start == NULL) return EST_OK;
    return est_warm_start_apply(estimator->warm_start, model->graph, session);
}

est_status est_estimator_copy_variables(est_session *from, est_session *to, bool partial)
{
    est_var  **vars = NULL;
    est_store *theirs, *ours;
    int        n = 0;
    est_status status;

    EST_TRY(est_session_store(from, &theirs));
    EST_TRY(est_session_store(to, &ours));
    EST_TRY(est_store_copy_rows(ours, theirs));
    EST_TRY(est_saved_variables(to, &vars, &n));
    status = EST_OK;
    for (int i = 0; i < n && status == EST_OK; i++) {
        est_tensor *value = NULL;

        if (vars[i]->rows != NULL) continue; /* copied above */
        status = est_session_read(from, vars[i]->name, &value);
        if (status == EST_OK) {
            status = est_session_write(to, vars[i]->name, value);
        } else if (status == EST_NOT_FOUND && partial) {
            status = EST_OK;
        }
        est_tensor_free(value);
    }
    est_free(vars);
    return status;
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

typedef struct named_value {
    char  *name;
    double value;
} named_value;

struct est_metrics {
    named_value *values; /* [n] */
    int          n;
    char       **exports; /* [n_exports], NULL where there is none */
    int          n_exports;
};

est_status est_metrics_create(int n, est_metrics **out)
{
    est_metrics *metrics = est_zalloc(sizeof *metrics);

    if (metrics != NULL) metrics->values = est_zalloc((size_t)(n + 1) * sizeof *metrics->values);
    if (metrics == NULL || metrics->values == NULL) {
        est_free(metrics);
        return est_no_memory();
    }
    metrics->n = n;
    *out       = metrics;
    return EST_OK;
}

est_status est_metrics_set(est_metrics *metrics, int i, const char *name, double value)
{
    metrics->values[i] = (named_value){ est_strdup(name), value };
    return metrics->values[i].name != NULL ? EST_OK : est_no_memory();
}

est_status est_metrics_set_export(est_metrics *metrics, int i, int n, const char *path)
{
    char *copy = est_strdup(path);

    if (copy != NULL && metrics->exports == NULL) metrics->exports = est_zalloc((size_t)n * sizeof *metrics->exports);
    if (copy == NULL || metrics->exports == NULL) {
        est_free(copy);
        return est_no_memory();
    }
    metrics->n_exports  = n;
    metrics->exports[i] = copy;
    return EST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named_value *)a)->name, ((const named_value *)b)->name);
}

void est_metrics_sort(est_metrics *metrics)
{
    qsort(metrics->values, (size_t)metrics->n, sizeof *metrics->values, by_name);
}

int est_metrics_count(const est_metrics *metrics)
{
    return metrics != NULL ? metrics->n : 0;
}

const char *est_metrics_name(const est_metrics *metrics, int i)
{
    return i >= 0 && i < est_metrics_count(metrics) ? metrics->values[i].name : NULL;
}

double est_metrics_value(const est_metrics *metrics, int i)
{
    return i >= 0 && i < est_metrics_count(metrics) ? metrics->values[i].value : NAN;
}

double est_metrics_get(const est_metrics *metrics, const char *name)
{
    for (int i = 0; name != NULL && i < est_metrics_count(metrics); i++) {
        if (strcmp(metrics->values[i].name, name) == 0) return metrics->values[i].value;
    }
    return NAN;
}

int64_t est_metrics_global_step(const est_metrics *metrics)
{
    double step = est_metrics_get(metrics, "global_step");

    return isnan(step) ? -1 : (int64_t)step;
}

const char *est_metrics_export_path(const est_metrics *metrics, int i)
{
    return metrics != NULL && i >= 0 && i < metrics->n_exports ? metrics->exports[i] : NULL;
}

void est_metrics_free(est_metrics *metrics)
{
    if (metrics == NULL) return;
    for (int i = 0; i < metrics->n_exports; i++) est_free(metrics->exports[i]);
    est_free(metrics->exports);
    for (int i = 0; i < metrics->n; i++) est_free(metrics->values[i].name);
    est_free(metrics->values);
    est_free(metrics);
}
