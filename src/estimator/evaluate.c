/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate: a checkpoint over an input; metrics as a list, as a log line and as a summary. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "estimator/estimator.h"
#include "estoc/layers.h"
#include "estoc/saver.h"
#include "format/checkpoint.h"
#include "nn/metric.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "train/hooks.h"
#include "train/summary_writer.h"

/* The hook that counts evaluation steps, logs them and stops after the last; and sums the loss. */
typedef struct eval_counter {
    est_hook hook;
    int64_t  steps; /* 0: until the input ends */
    int64_t  done;
    double   loss_sum;
} eval_counter;

static est_status counter_after_run(est_hook *hook, est_loop *loop)
{
    eval_counter *c    = EST_CONTAINER_OF(hook, eval_counter, hook);
    int64_t       each = c->steps < 20 ? 1 : c->steps / 10;
    char          input[EST_LOOP_TEXT_MAX];

    if (isnan(est_loop_loss(loop)) && !isnan(c->loss_sum)) {
        (void)est_loop_not_finite(loop, input);
        est_log_warn("the loss of the evaluation is nan from batch %" PRId64 " on%s%s", c->done,
                     input[0] != '\0' ? ": " : "", input);
    }
    c->done++;
    c->loss_sum += est_loop_loss(loop);
    if (c->steps == 0) return EST_OK;
    if (c->done % each == 0 || c->done == c->steps) {
        est_log_info("Evaluation [%" PRId64 "/%" PRId64 "]", c->done, c->steps);
    }
    if (c->done >= c->steps) est_loop_request_stop(loop, "all evaluation steps are done");
    return EST_OK;
}

typedef struct evaluation {
    est_estimator              *estimator;
    const est_evaluate_options *options;
    est_evaluate_call           call;
    est_dataset                *input;
    est_model                  *model;
    est_hook                  **hooks;
    int                         n_hooks;
    eval_counter                counter;
    est_hook                   *progress; /* NULL: none */
    char                        path[EST_CHECKPOINT_PATH_MAX];
    est_run                     run;
} evaluation;

typedef struct pinned_restore {
    est_pin     *pin;
    est_session *session;
} pinned_restore;

static est_status pin_and_restore(void *user, const char *prefix, bool *unusable)
{
    const pinned_restore *r      = user;
    est_status            status = est_pin_take(r->pin, prefix);

    if (status == EST_OK) {
        status = est_pin_blame(r->pin, est_saver_restore(NULL, r->session, EST_RESTORE(.path = r->pin->prefix), NULL));
    }
    *unusable = est_checkpoint_is_unusable(status);
    return status;
}

/* The newest usable checkpoint of a directory is pinned before it is read, so that what is evaluated is what is there
 * for exporters. */
static est_status restore_pinned(evaluation *e, est_session *session)
{
    pinned_restore r      = { e->call.pin, session };
    est_status     status = est_checkpoint_try_all(e->options->checkpoint_path, NULL, pin_and_restore, &r);

    EST_TRY(est_estimator_blame_checkpoint(status));
    est_log_info("Restoring parameters from %s", e->call.pin->of);
    return est_checkpoint_put_path(e->call.pin->of, e->path);
}

static est_status restore(void *user, est_loop *loop, const est_reached *reached)
{
    evaluation  *e       = user;
    est_session *session = est_loop_session(loop);

    (void)reached;
    if (e->call.from != NULL) return est_estimator_copy_variables(e->call.from, session, true);
    if (e->call.pin != NULL) return restore_pinned(e, session);
    return est_estimator_restore(e->estimator, e->model, session, e->options->checkpoint_path, e->path);
}

/* Without a path variables may have their first values. */
static est_status find_checkpoint(void *user)
{
    const evaluation *e     = user;
    est_checkpoint   *there = NULL;
    est_status status = e->options->checkpoint_path != NULL ? est_checkpoint_open(e->options->checkpoint_path, &there)
                                                            : EST_OK;

    est_checkpoint_close(there);
    return status;
}

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    evaluation *e = user;

    EST_TRY(est_run_join(&e->run, loop));
    EST_TRY(est_loop_read_step(loop, global_step));
    e->counter.done     = 0;
    e->counter.loss_sum = 0;
    return EST_OK;
}

/* Model, hooks and counters of the evaluation as a loop. */
static est_status open_loop(evaluation *e, est_loop **out)
{
    const est_model_metric_item *metrics = e->model->metrics.data;
    est_arena                   *arena   = e->model->arena;
    est_node                    *updates = est_arena_alloc(arena, (size_t)(e->model->metrics.n + 1) * sizeof *updates);
    est_loop_spec                spec;

    if (updates == NULL) return est_no_memory();
    for (int i = 0; i < e->model->metrics.n; i++) updates[i] = metrics[i].metric.update;
    spec = (est_loop_spec){ .graph      = e->model->graph,
                            .model_dir  = e->estimator->model_dir,
                            .session    = est_estimator_session(e->estimator),
                            .input      = e->input,
                            .feeds      = e->model->feeds.data,
                            .n_feeds    = e->model->feeds.n,
                            .loss       = e->model->loss,
                            .targets    = { updates, e->model->metrics.n },
                            .hooks      = { e->hooks, e->n_hooks },
                            .given      = 1, /* after the counter */
                            .n_given    = e->options->hooks.n,
                            .initialize = initialize,
                            .user       = e };
    EST_TRY(est_run_prepare(&e->run, &spec));
    return est_loop_open(&spec, out);
}

static est_status collect_hooks(evaluation *e)
{
    int64_t               steps = e->options->steps > 0 ? e->options->steps : 0; /* 0: until the input ends */
    const est_model_hook *own   = e->model->hooks.data;
    int                   max   = e->options->hooks.n + e->model->hooks.n + 2;

    e->hooks = est_arena_alloc(e->model->arena, (size_t)max * sizeof *e->hooks);
    if (e->hooks == NULL) return est_no_memory();
    e->counter             = (eval_counter){ .hook = EST_HOOK(.after_run = counter_after_run), .steps = steps };
    e->hooks[e->n_hooks++] = &e->counter.hook;
    for (int i = 0; i < e->options->hooks.n; i++) e->hooks[e->n_hooks++] = e->options->hooks.data[i];
    for (int i = 0; i < e->model->hooks.n; i++) {
        if (own[i].kind == EST_HOOK_EVALUATION) e->hooks[e->n_hooks++] = own[i].hook;
    }
    if (e->estimator->config.quiet) return EST_OK;
    e->progress = est_eval_progress_hook(steps);
    if (e->progress == NULL) return est_fail_context(EST_RESOURCE_EXHAUSTED, "a standard hook");
    e->hooks[e->n_hooks++] = e->progress;
    return EST_OK;
}

static est_status set_metric(est_metrics *metrics, int i, const char *name, const est_tensor *value)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (est_tensor_count(value) != 1) {
        return est_fail(EST_INVALID_ARGUMENT, "the metric %s has shape %s; its value must be one number", name,
                        est_shape_text(est_tensor_shape(value), text));
    }
    return est_metrics_set(metrics, i, name, *(const double *)est_tensor_data(value));
}

/* The metrics' values after the last batch. */
static est_status read_metrics(evaluation *e, est_loop *loop, est_metrics **out)
{
    const est_model_metric_item *items   = e->model->metrics.data;
    int                          n       = e->model->metrics.n;
    est_node                    *nodes   = est_arena_alloc(e->model->arena, (size_t)(n + 1) * sizeof *nodes);
    est_tensor                 **values  = est_arena_alloc(e->model->arena, (size_t)(n + 1) * sizeof *values);
    est_metrics                 *metrics = NULL;
    est_status                   status;

    if (nodes == NULL || values == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) nodes[i] = est_cast(items[i].metric.value, EST_F64);
    EST_TRY(est_graph_status(e->model->graph));
    EST_TRY(est_metrics_create(n + 2, &metrics));
    status = n > 0
                 ? est_session_run(est_loop_session(loop), EST_NO_FEEDS, (est_nodes){ nodes, n }, EST_NO_NODES, values)
                 : EST_OK;
    for (int i = 0; i < n && status == EST_OK; i++) status = set_metric(metrics, i, items[i].name, values[i]);
    for (int i = 0; i < n; i++) est_tensor_free(values[i]);
    if (status == EST_OK) {
        double mean = e->counter.done > 0 ? e->counter.loss_sum / (double)e->counter.done : NAN;

        status = est_metrics_set(metrics, n, "loss", mean);
    }
    if (status == EST_OK) {
        status = est_metrics_set(metrics, n + 1, "global_step", (double)est_loop_global_step(loop));
    }
    if (status != EST_OK) {
        est_metrics_free(metrics);
        return status;
    }
    est_metrics_sort(metrics);
    *out = metrics;
    return EST_OK;
}

/* "accuracy = 0.9, loss = 0.25" */
static void append_metrics(const est_metrics *metrics, est_strbuf *out)
{
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        est_strbuf_printf(out, "%s%s = %.9g", i > 0 ? ", " : "", est_metrics_name(metrics, i),
                          est_metrics_value(metrics, i));
    }
}

/* A checkpoint of a cluster has the step of when it was asked for in its name, and may hold one that is a few
 * larger. */
static bool is_named_earlier(const char *path, int64_t step)
{
    const char *dash = strrchr(path, '-');
    char       *end;
    int64_t     named = dash != NULL ? strtoll(dash + 1, &end, 10) : step;

    return dash != NULL && end > dash + 1 && *end == '\0' && named < step;
}

/* The log line, and one event in the evaluation's directory, which early stopping and the best exporter go by. */
static est_status publish(const evaluation *e, const est_metrics *metrics)
{
    int64_t             step = est_metrics_global_step(metrics);
    est_strbuf          line = { 0 }, dir = { 0 };
    est_summary_writer *writer = NULL;
    const char         *suffix = e->options->name != NULL ? e->options->name : "";
    est_status          status;

    est_strbuf_printf(&dir, "%s/eval%s%s", e->estimator->model_dir, suffix[0] != '\0' ? "_" : "", suffix);
    status = est_strbuf_status(&dir);
    if (status == EST_OK) status = est_summary_writer_create(est_strbuf_text(&dir), "", &writer);
    if (status == EST_OK) {
        est_summary_begin(writer, step);
        for (int i = 0; i < est_metrics_count(metrics); i++) {
            const char *name = est_metrics_name(metrics, i);

            if (strcmp(name, "global_step") != 0) est_summary_add_scalar(writer, name, est_metrics_value(metrics, i));
        }
        append_metrics(metrics, &line);
        est_log_info("Saving dict for global step %" PRId64 ": %s", step, est_strbuf_text(&line));
        if (e->path[0] != '\0') {
            est_log_info("Saving 'checkpoint_path' summary for global step %" PRId64 ": %s%s", step, e->path,
                         is_named_earlier(e->path, step)
                             ? " (others trained on while it was made: docs/cluster.md, Checkpoints)"
                             : "");
            est_summary_add_text(writer, "checkpoint_path", (est_str){ e->path, strlen(e->path) });
        }
        est_summary_end(writer);
        est_summary_flush(writer);
        status = est_summary_writer_status(writer);
        if (status != EST_OK) status = est_fail_context(status, "the result of step %" PRId64 " is not saved", step);
        est_summary_writer_free(writer);
    }
    est_strbuf_clear(&line);
    est_strbuf_clear(&dir);
    return status;
}

/* What a worker logs that leaves publishing to another. */
static void mention(const est_metrics *metrics)
{
    est_strbuf line = { 0 };

    append_metrics(metrics, &line);
    est_log_debug("global step %" PRId64 ": %s", est_metrics_global_step(metrics), est_strbuf_text(&line));
    est_strbuf_clear(&line);
}

/* In local time, as TensorFlow has it. */
static void log_time(const char *format)
{
    time_t    now = (time_t)(est_wall_ns() / EST_NS_PER_SEC);
    char      text[80];
    struct tm parts;

    localtime_r(&now, &parts);
    if (strftime(text, sizeof text, format, &parts) > 0) est_log_info("%s", text);
}

/* Metrics of the examples of all workers, and how many batches they had: each has counted its own. */
static est_status sum_up(evaluation *e, est_loop *loop)
{
    double counts[2] = { (double)e->counter.done, e->counter.loss_sum };

    EST_TRY(est_run_reduce(&e->run, est_loop_session(loop), est_local_variables(e->model->graph), counts, 2));
    e->counter.done     = (int64_t)counts[0];
    e->counter.loss_sum = counts[1];
    return EST_OK;
}

static est_status run(evaluation *e, est_metrics **out)
{
    est_loop  *loop = NULL;
    est_status status;
    int64_t    start = est_now_ns();

    EST_TRY(collect_hooks(e));
    est_log_status(NULL); /* a trainer's progress would stand still meanwhile */
    log_time("Starting evaluation at %Y-%m-%dT%H:%M:%S");
    EST_TRY(open_loop(e, &loop));
    status = est_loop_run(loop);
    if (status == EST_OK) status = est_signals_check("evaluation");
    if (status == EST_OK) status = sum_up(e, loop);
    if (status == EST_OK && e->counter.done == 0) {
        status = est_fail(EST_INVALID_ARGUMENT, "the input of the evaluation has no batch; see its input_fn");
    }
    if (status == EST_OK) status = read_metrics(e, loop, out);
    if (status == EST_OK) status = est_sample_rows_record(&e->estimator->rows, e->model, loop);
    est_loop_free(loop);
    EST_TRY(status);
    est_log_info("Inference Time : %0.5fs", (double)(est_now_ns() - start) / EST_NS_PER_SEC);
    log_time("Finished evaluation at %Y-%m-%d-%H:%M:%S");
    return EST_OK;
}

static est_status prepare(evaluation *e)
{
    est_estimator              *estimator = e->estimator;
    const est_evaluate_options *options   = e->options;

    est_estimator_log_input(estimator, EST_EVAL);
    if (e->call.input != NULL) {
        e->input       = *e->call.input;
        *e->call.input = NULL;
    }
    if (e->input == NULL) {
        EST_TRY(est_estimator_input(estimator, EST_EVAL, options->input_fn, options->input_user, estimator->config.seed,
                                    estimator->config.seed, &e->input));
    }
    if (options->steps <= 0 && est_dataset_endless(e->input)) {
        est_log_warn(
            "the input of the evaluation repeats for ever, and steps is not set; only a hook or a signal will end "
            "it: leave out the repeat in mode EST_EVAL, or set steps");
    }
    return est_estimator_model(estimator, EST_EVAL, e->input, estimator->config.seed, &e->model);
}

/* Saves the result, at the one that does, and has the rest done. With must_save a result that could not be saved is
 * an error. */
static est_status conclude(evaluation *e, bool must_save, est_metrics *metrics)
{
    est_status status;

    if (!e->run.leads) {
        mention(metrics);
        return EST_OK;
    }
    status = publish(e, metrics);
    if (status != EST_OK && !must_save) {
        est_log_warn("%s", est_error_message());
        status = EST_OK;
    }
    EST_TRY(status);
    return e->call.then != NULL ? e->call.then(e->call.user, metrics) : EST_OK;
}

static est_status check_options(const est_evaluate_options *options)
{
    if (options->steps < 0 && options->steps != EST_FOREVER) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "evaluate: steps is %" PRId64 "; write a number above 0, or 0 for all of the input",
                        options->steps);
    }
    if (options->name != NULL && strchr(options->name, '/') != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "evaluate: the evaluation's name is %s; it is part of a directory's: leave out the /",
                        options->name);
    }
    return est_hooks_check("evaluate: hook", options->hooks);
}

static est_status evaluate(est_estimator *estimator, const est_evaluate_options *options, const est_evaluate_call *call,
                           bool must_save, est_metrics **out)
{
    est_evaluate_options       own;
    static const est_run_owner owner = { .restore = restore, .find_checkpoint = find_checkpoint };

    evaluation   e       = { .estimator = estimator, .options = &own, .call = *call };
    est_metrics *metrics = NULL;
    est_status   status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_evaluate_options), options, &own));
    EST_TRY(check_options(&own));
    e.run       = est_estimator_run(estimator, EST_RUN_EVALUATE);
    e.run.owner = &owner;
    e.run.user  = &e;
    if (call->from != NULL)
        e.run.strategy = &est_default_strategy; /* a session of this process is evaluated by itself */
    if (!estimator->config.no_signals) est_signals_catch();
    if (call->from == NULL) est_estimator_say_untrained(estimator, own.checkpoint_path, "evaluate");
    status = est_run_open(&e.run);
    if (status == EST_OK) status = est_run_start(&e.run);
    if (status == EST_OK) status = prepare(&e);
    status = est_run_agree(&e.run, status);
    if (status == EST_OK && !e.run.over) status = run(&e, &metrics);
    if (status == EST_OK && metrics != NULL) status = conclude(&e, must_save, metrics);
    if (status == EST_OK) status = est_run_end(&e.run);
    est_run_close(&e.run, status);
    est_hook_free(e.progress);
    est_model_free(e.model);
    est_dataset_free(e.input);
    if (!estimator->config.no_signals) est_signals_release(status);
    if (status != EST_OK) {
        est_metrics_free(metrics);
        return est_fail_context(status, "evaluate");
    }
    *out = metrics;
    return EST_OK;
}

est_status est_estimator_evaluate(est_estimator *estimator, const est_evaluate_options *options,
                                  const est_evaluate_call *call, est_metrics **out)
{
    return evaluate(estimator, options, call, true, out);
}

est_status est_evaluate(est_estimator *estimator, const est_evaluate_options *options, est_metrics **out)
{
    est_metrics *metrics = NULL;

    EST_REQUIRE(estimator);
    EST_TRY(evaluate(estimator, options, &(est_evaluate_call){ 0 }, false, &metrics));
    if (metrics == NULL) return est_fail(EST_NOT_FOUND, "evaluate: there is no checkpoint, or the others are done");
    if (out != NULL) {
        *out = metrics;
    } else {
        est_metrics_free(metrics);
    }
    return EST_OK;
}
