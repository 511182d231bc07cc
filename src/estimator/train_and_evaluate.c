/* SPDX-License-Identifier: Apache-2.0
 *
 * train_and_evaluate: one call, several roles. On its own a process trains and evaluates after checkpoints, and so does
 * a master task among others; chief and worker tasks train one model, a ps task keeps its variables; an evaluator task
 * watches the directory of a trainer elsewhere.
 *
 * The end: training that has ended leaves the file `training_done` (train.c). An evaluator that finds it evaluates the
 * last checkpoint, if it has not yet, and leaves; so it also leaves when training stopped early or had no max_steps.
 * train/checkpoint_watch.h says when the mark counts; where all steps that a training could make are made it counts at
 * once. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "cluster/cluster.h"
#include "cluster/wait_table.h"
#include "estimator/evaluator.h"
#include "estimator/preflight.h"
#include "estoc/exporter.h"
#include "format/checkpoint.h"
#include "train/done_mark.h"
#include "train/hooks.h"
#include "train/lock.h"
#include "train/saver.h"
#include "train/timer.h"

#define WARN_AGAIN_SECS  600  /* between two warnings that there is nothing to evaluate */
#define TELL_SECS        10.0 /* after which it is said again that there never was a checkpoint */
#define THROTTLE_DEFAULT 600
#define OTHER_TEXT_MAX   (EST_NET_NAME_MAX + EST_NET_FOLDER_MAX + 32)
#define PIN_DIR          "pinned" /* in the directory of the results: the checkpoint that is evaluated and exported */

/* --- evaluating and exporting one checkpoint ---------------------------------------------------------------------- */

/* *last_ns: when this was last said. */
static void warn_rarely(int64_t *last_ns, const char *text)
{
    int64_t now = est_now_ns();

    if (*last_ns != 0 && now - *last_ns < WARN_AGAIN_SECS * EST_NS_PER_SEC) return;
    est_log_warn("%s", text);
    *last_ns = now;
}

/* Where evaluations leave their results. */
est_status est_evaluator_results_dir(const est_estimator *estimator, const est_eval_spec *eval, est_strbuf *out)
{
    const char *name = eval->name != NULL ? eval->name : "";

    est_strbuf_printf(out, "%s/eval%s%s", estimator->model_dir, name[0] != '\0' ? "_" : "", name);
    return est_strbuf_status(out);
}

/* Whether the checkpoint that was evaluated has been removed. It cannot be where it is pinned. */
static bool is_removed(const est_evaluator *e)
{
    bool there = true;

    return est_checkpoint_exists(e->pin.prefix, &there) == EST_OK && !there;
}

static est_status export_all(est_evaluator *e, bool final)
{
    est_strbuf path   = { 0 };
    est_status status = EST_OK;

    e->exported_final = final;
    e->estimator->pin = &e->pin;
    for (int i = 0; i < e->eval->exporters.n && status == EST_OK; i++) {
        est_exporter *exporter = e->eval->exporters.data[i];
        char          written[EST_CHECKPOINT_PATH_MAX];

        if (est_metrics_export_path(e->metrics, i) != NULL)
            continue; /* told again that it is the last: once is enough */
        est_strbuf_reset(&path);
        est_strbuf_printf(&path, "%s/export/%s", e->estimator->model_dir, est_exporter_name(exporter));
        status = est_strbuf_status(&path);
        if (status != EST_OK) break;
        status = est_exporter_export(exporter, e->estimator, est_strbuf_text(&path), e->pin.prefix, e->metrics, final,
                                     written);
        if (status != EST_OK && is_removed(e)) {
            est_log_warn("exporter %s: %s is not exported: the trainer removed it before; save less often, or raise "
                         "keep_checkpoint_max",
                         est_exporter_name(exporter), e->pin.of);
            status = EST_OK;
            continue;
        }
        if (status == EST_OK && written[0] != '\0') {
            status = est_metrics_set_export(e->metrics, i, e->eval->exporters.n, written);
        }
        if (status != EST_OK) {
            status = est_fail_context(est_pin_blame(&e->pin, status), "exporter %s", est_exporter_name(exporter));
        }
    }
    e->estimator->pin = NULL;
    est_strbuf_clear(&path);
    return status;
}

/* Writes where the job has its checkpoints, if that is another directory than `path`, where the evaluator looks for
 * them; "" otherwise. */
static void name_other(const est_evaluator *e, const char *path, char *out, size_t size)
{
    out[0] = '\0';
    if (!est_job_watch_is_elsewhere(&e->watch, path)) return;
    snprintf(out, size, "; %s has model_dir %s", e->watch.last.task, e->watch.last.folder);
}

/* There is no checkpoint: says so, at once and as other waits do (cluster/wait_table.h), and where it looks. */
void est_evaluator_tell_none(est_evaluator *e)
{
    double limit_secs = e->estimator->config.session_creation_timeout_secs, secs;
    char   path[EST_FOLDER_TEXT_MAX], other[OTHER_TEXT_MAX];

    if (e->none_ns == 0) {
        e->none_ns   = est_now_ns();
        e->tell_secs = 0;
    }
    secs = (double)(est_now_ns() - e->none_ns) / (double)EST_NS_PER_SEC;
    if (secs < e->tell_secs) return;
    est_run_folder(e->estimator->model_dir, path, sizeof path);
    name_other(e, path, other, sizeof other);
    est_log_warn(
        "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready: since %.0f s there is "
        "none in %s%s (all tasks need one model_dir).",
        secs, path, other);
    e->tell_secs = e->tell_secs == 0 ? fmin(TELL_SECS, limit_secs / 4) : est_wait_next_secs(e->tell_secs, secs);
}

/* Whether there is no checkpoint any more. The error at hand stays. */
static bool is_gone(const est_estimator *estimator)
{
    char       path[EST_CHECKPOINT_PATH_MAX];
    est_error  error;
    est_status status;

    est_error_take(EST_NOT_FOUND, &error);
    status = est_latest_usable_checkpoint(estimator->model_dir, path);
    (void)est_error_raise(&error);
    return status == EST_NOT_FOUND;
}

/* While the others wait: without them a chief that is lost in an export could not evaluate again. */
static est_status export_across_workers(void *user, est_metrics *metrics)
{
    est_evaluator *e      = user;
    est_metrics   *before = e->metrics;
    est_status     status;

    e->metrics = metrics;
    status     = export_all(e, true);
    e->metrics = before;
    return status;
}

est_status est_evaluator_evaluate(est_evaluator *e, est_metrics **out)
{
    bool chiefs = est_evaluates_across_workers(e->estimator) && e->estimator->self.is_chief;

    return est_estimator_evaluate(
        e->estimator,
        EST_EVALUATE_OPTIONS(.input_fn = e->eval->input_fn, .input_user = e->eval->input_user, .steps = e->eval->steps,
                             .name = e->eval->name, .hooks = e->eval->hooks,
                             .checkpoint_path = e->estimator->model_dir),
        &(est_evaluate_call){
            .pin = &e->pin, .input = &e->checked, .then = chiefs ? export_across_workers : NULL, .user = e },
        out);
}

/* Evaluates the latest checkpoint unless it was the last one; *evaluated says whether it did. `final`: training is
 * over. The directory is what is restored from: where its latest checkpoint turns out to be damaged the one before it
 * is. */
est_status est_evaluator_pass(est_evaluator *e, bool final, bool *evaluated)
{
    char         path[EST_CHECKPOINT_PATH_MAX];
    est_metrics *metrics = NULL;
    est_status   status  = est_latest_usable_checkpoint(e->estimator->model_dir, path);

    *evaluated = false;
    e->gone    = false;
    if (status == EST_NOT_FOUND) {
        est_evaluator_tell_none(e);
        return EST_OK;
    }
    EST_TRY(status);
    if (strcmp(path, e->seen) == 0 || strcmp(path, e->pin.of) == 0) {
        if (final && !e->exported_final) return export_all(e, true); /* it was not known to be the last */
        warn_rarely(&e->warned_ns, "No new checkpoint ready for evaluation. Skip the current evaluation pass.");
        return EST_OK;
    }
    status = est_evaluator_evaluate(e, &metrics);
    if ((status == EST_OK && metrics == NULL) || (status == EST_NOT_FOUND && is_gone(e->estimator))) {
        est_log_warn("%s was deleted before it could be evaluated; the next one will be", path);
        e->gone    = true;
        e->seen[0] = '\0';
        est_pin_drop(&e->pin);
        return EST_OK;
    }
    EST_TRY(status);
    est_metrics_free(e->metrics);
    e->metrics   = metrics;
    e->warned_ns = e->abandoned_ns = e->none_ns = 0;
    snprintf(e->seen, sizeof e->seen, "%s", path);
    *evaluated = true;
    if (est_evaluates_across_workers(e->estimator)) return EST_OK; /* it was exported as well */
    final = final || (e->train->max_steps > 0 && est_metrics_global_step(metrics) >= e->train->max_steps);
    return export_all(e, final);
}

/* --- local and master: evaluate after saves ----------------------------------------------------------------------- */

typedef struct local_listener {
    est_saving_listener listener;
    est_evaluator      *evaluator;
    est_timer           timer;
    bool                first_save_seen; /* the one made when the session is created is not evaluated */
    int64_t             last_step;       /* evaluated; -1: none */
} local_listener;

static est_status evaluate_now(local_listener *l, int64_t step, bool final)
{
    bool       evaluated;
    est_status status = est_evaluator_pass(l->evaluator, final, &evaluated);

    /* A signal ends the loop in good order as well: hooks are told and the step is saved. The next start evaluates. */
    if (status == EST_CANCELLED && est_stop_signal() != 0) return EST_OK;
    EST_TRY(status);
    if (!evaluated) {
        return est_fail(EST_INTERNAL, "there was no new checkpoint to evaluate after step %" PRId64, step);
    }
    (void)est_timer_mark(&l->timer, step, NULL, NULL);
    l->last_step = step;
    return EST_OK;
}

static est_status local_after_save(est_saving_listener *listener, est_session *session, int64_t step, bool *stop)
{
    local_listener *l = EST_CONTAINER_OF(listener, local_listener, listener);

    (void)session;
    (void)stop;
    if (!l->first_save_seen) {
        l->first_save_seen = true;
        return EST_OK;
    }
    if (est_stop_signal() != 0) return EST_OK; /* leave quickly; the next start evaluates */
    if (step == l->last_step) return EST_OK;   /* saved again: a ps task was lost in between */
    if (est_timer_due(&l->timer, step)) return evaluate_now(l, step, false);
    est_log_info("Skip the current checkpoint eval due to throttle secs (%g secs).", l->timer.every_secs);
    return EST_OK;
}

static est_status local_end(est_saving_listener *listener, est_session *session, int64_t step)
{
    local_listener *l = EST_CONTAINER_OF(listener, local_listener, listener);

    (void)session;
    if (est_stop_signal() != 0) return EST_OK;
    if (step != l->last_step) return evaluate_now(l, step, true);
    return l->evaluator->exported_final ? EST_OK : export_all(l->evaluator, true);
}

double est_throttle_secs(const est_eval_spec *eval)
{
    return eval->throttle_secs == EST_OFF ? 0 : eval->throttle_secs == 0 ? THROTTLE_DEFAULT : eval->throttle_secs;
}

/* Evaluates what a run that was stopped in its last evaluation left: all steps are made and the end is not marked. */
static est_status evaluate_rest(est_evaluator *e)
{
    est_done_mark mark;
    bool          evaluated;

    EST_TRY(est_done_mark_read(e->estimator->model_dir, &mark));
    return mark.there && !mark.due ? EST_OK : est_evaluator_pass(e, true, &evaluated);
}

est_status est_evaluator_train(est_evaluator *e, est_hooks hooks, est_saving_listeners listeners,
                               const est_train_call *call)
{
    return est_estimator_train(e->estimator,
                               EST_TRAIN_OPTIONS(.input_fn = e->train->input_fn, .input_user = e->train->input_user,
                                                 .max_steps = e->train->max_steps, .hooks = hooks,
                                                 .saving_listeners = listeners),
                               call);
}

/* How often checkpoints are made, as Python would print it. */
static void log_frequency(const est_run_config *config)
{
    char steps[32] = "None", secs[32] = "None";

    if (config->save_checkpoints_steps > 0) snprintf(steps, sizeof steps, "%" PRId64, config->save_checkpoints_steps);
    if (config->save_checkpoints_secs > 0) snprintf(secs, sizeof secs, "%g", config->save_checkpoints_secs);
    est_log_info("Start train and evaluate loop. The evaluate will happen after every checkpoint. Checkpoint frequency "
                 "is determined based on RunConfig arguments: save_checkpoints_steps %s or save_checkpoints_secs %s.",
                 steps, secs);
}

static est_status run_locked(est_evaluator *e, const est_dir_lock *lock)
{
    local_listener        local = { .listener  = EST_SAVING_LISTENER(.after_save = local_after_save, .end = local_end),
                                    .evaluator = e,
                                    .timer     = { .every_secs = est_throttle_secs(e->eval) },
                                    .last_step = -1 };
    int                   n     = e->train->saving_listeners.n;
    est_saving_listener **listeners;
    int64_t               saved;
    est_status            status;

    EST_TRY(est_saved_step(e->estimator->model_dir, &saved));
    if (e->train->max_steps > 0 && saved >= e->train->max_steps) { /* no step is left */
        EST_TRY(evaluate_rest(e));
    }
    listeners = est_zalloc((size_t)(n + 1) * sizeof *listeners);
    if (listeners == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) listeners[i] = e->train->saving_listeners.data[i];
    listeners[n] = &local.listener;
    status       = est_evaluator_train(
              e, e->train->hooks, (est_saving_listeners){ listeners, n + 1 },
              &(est_train_call){ .spec = "train spec", .eval = e->eval, .checked = &e->checked, .held = lock });
    est_free(listeners);
    return status;
}

/* Whether the tasks of a training write to one directory, which all of them have to see. */
static bool shares_dir(const est_estimator *estimator)
{
    return est_strategy_shares_dir(estimator->config.train_distribute, estimator->self.task);
}

/* The lock is held over all of it: what is evaluated and exported before the training is published as well. */
static est_status run_evaluating(est_evaluator *e)
{
    est_dir_lock *lock = NULL;
    est_status    status;

    if (e->estimator->self.size == 1 && !shares_dir(e->estimator)) {
        est_log_info("Not using Distribute Coordinator.");
        est_log_info("Running training and evaluation locally (non-distributed).");
    }
    log_frequency(&e->estimator->config);
    EST_TRY(est_estimator_make_dir(e->estimator));
    EST_TRY(est_dir_lock_take(e->estimator->model_dir, &lock));
    status = run_locked(e, lock);
    est_dir_lock_release(lock);
    return status;
}

/* --- the evaluator task ------------------------------------------------------------------------------------------- */

/* A trainer that ends well leaves its mark before it lets go of the directory. One that died may be started again, so
 * that waiting is right; but someone has to do it. */
static void warn_abandoned(est_evaluator *e)
{
    if (e->metrics == NULL || !est_dir_watch_is_abandoned(&e->dir)) return;
    warn_rarely(&e->abandoned_ns,
                "The last training ended without a mark, by an error or a signal, and nobody trains: start the "
                "trainer again, or stop this evaluator.");
}

/* A directory that nobody else sees is found out by what is missing in it. */
static est_status check_job(est_evaluator *e)
{
    char       path[EST_FOLDER_TEXT_MAX], other[OTHER_TEXT_MAX];
    est_status status;

    if (e->metrics != NULL) est_job_watch_clear(&e->watch); /* it sees what the chief writes */
    if (e->metrics != NULL) return EST_OK;
    status = est_latest_usable_checkpoint(e->estimator->model_dir, path);
    if (status != EST_NOT_FOUND) return EST_OK; /* what else is wrong is for the evaluation to say */
    if (e->none_ns != 0) est_evaluator_tell_none(e);
    if (!est_job_watch_is_gone(&e->watch, e->estimator)) return EST_OK;
    est_run_folder(e->estimator->model_dir, path, sizeof path);
    name_other(e, path, other, sizeof other);
    return est_fail(
        EST_NOT_FOUND,
        "the job has ended, and there is no checkpoint in %s%s; set model_dir, for all tasks of the cluster, to "
        "one directory that all of them see",
        path, other);
}

/* The directory to pin checkpoints in goes with the lock. Without links a checkpoint may vanish, which is no error. */
static void open_pins(est_evaluator *e)
{
    est_strbuf dir = { 0 };
    est_status status;

    status = est_evaluator_results_dir(e->estimator, e->eval, &dir);
    est_strbuf_append(&dir, "/" PIN_DIR);
    if (status == EST_OK) status = est_strbuf_status(&dir);
    if (status == EST_OK) status = est_pin_open(&e->pin, est_strbuf_text(&dir));
    if (status != EST_OK) {
        est_log_warn("The trainer may remove a checkpoint while it is evaluated: %s", est_error_message());
    }
    est_strbuf_clear(&dir);
}

/* What was evaluated without the lock was not pinned. What another process has evaluated is not evaluated again. */
static void begin_turn(est_evaluator *e, bool evaluated)
{
    open_pins(e);
    e->seen[0] = '\0';
    if (!evaluated || est_latest_usable_checkpoint(e->estimator->model_dir, e->seen) != EST_OK) return;
    e->exported_final = true;
    est_log_info("%s was evaluated by another process.", e->seen);
}

/* Takes the lock that tells others of this evaluator; it waits while another process evaluates, a second evaluator or
 * the trainer at its end. Any other error is not worth failing for: the trainer evaluates at its end, anyway. */
static void hold(est_evaluator *e)
{
    bool       evaluated, waited = e->waits;
    est_status status;

    if (e->lock != NULL) return;
    if (mkdir(e->estimator->model_dir, 0777) != 0 && errno == ENOENT) return; /* nor is there what it would be in */
    status   = est_evaluator_take_lock(e, &evaluated);
    e->waits = status == EST_FAILED_PRECONDITION;
    if (status == EST_OK) {
        begin_turn(e, evaluated);
    } else if (e->waits && !waited) {
        est_log_warn("This evaluator waits, and evaluates nothing meanwhile: %s", est_error_message());
    } else if (!e->waits && !e->refused) {
        e->refused = true;
        est_log_warn("The trainer does not know of this evaluator, and may also evaluate: %s", est_error_message());
    }
}

static est_status wait_until(est_evaluator *e, double secs)
{
    int64_t until = est_now_ns() + est_secs_to_ns(secs);

    for (;;) {
        double left = (double)(until - est_now_ns()) / (double)EST_NS_PER_SEC;

        hold(e);
        if (!e->waits && (left <= 0 || est_dir_watch_is_done(&e->dir))) return EST_OK;
        EST_TRY(check_job(e));
        EST_TRY(est_dir_watch_pause(left));
    }
}

/* Waits, but not past the end of the training or a signal; longer while another process evaluates. */
static est_status wait_secs(est_evaluator *e, double secs)
{
    est_status status;

    if (!e->estimator->config.quiet) est_log_status("waiting for a checkpoint");
    status = wait_until(e, secs);
    est_log_status(NULL);
    return status;
}

static bool reached_max_steps(const est_evaluator *e)
{
    return e->metrics != NULL && e->train->max_steps > 0 && est_metrics_global_step(e->metrics) >= e->train->max_steps;
}

static est_status evaluator_loop(est_evaluator *e)
{
    double  delay = e->eval->start_delay_secs == EST_OFF ? 0 : e->eval->start_delay_secs;
    double  each  = est_throttle_secs(e->eval);
    int64_t saved;

    if (e->eval->start_delay_secs == 0) delay = EST_WATCH_DELAY_SECS;
    e->dir = est_dir_watch_begin(e->estimator->model_dir, 0);
    if (e->train->max_steps > 0 && est_dir_watch_is_done(&e->dir)) {
        EST_TRY(est_saved_step(e->estimator->model_dir, &saved));
        if (saved >= e->train->max_steps) delay = 0;
    }
    if (delay > 0) est_log_info("Waiting %f secs before starting eval.", delay);
    e->dir = est_dir_watch_begin(e->estimator->model_dir, delay);
    EST_TRY(wait_secs(e, delay));
    for (;;) {
        int64_t start = est_now_ns();
        bool    done  = est_dir_watch_is_done(&e->dir); /* asked before: what is saved now is then the last */
        bool    evaluated;
        double  left;

        EST_TRY(est_evaluator_pass(e, done, &evaluated));
        if (reached_max_steps(e)) {
            est_log_info("Exiting evaluation, global_step=%" PRId64 " >= train max_steps=%" PRId64,
                         est_metrics_global_step(e->metrics), e->train->max_steps);
            return EST_OK;
        }
        if (done && !e->gone) {
            est_log_info("Exiting evaluation, training has ended.");
            return EST_OK;
        }
        if (!evaluated) warn_abandoned(e);
        left = each - (double)(est_now_ns() - start) / (double)EST_NS_PER_SEC;
        if (left > 0 && evaluated) est_log_info("Waiting %f secs before starting next eval run.", left);
        EST_TRY(wait_secs(e, fmax(left, evaluated ? 0 : EST_WATCH_SECS)));
    }
}

/* Workers with eval_distribute evaluate at the end of their training unless their cluster lists an evaluator. */
static void warn_of_two(const est_estimator *estimator)
{
    const est_cluster *cluster  = est_resolver_watched(estimator->resolver);
    int                trainers = est_self_of(&(const est_task){ .cluster = cluster, .type = "evaluator" }, 1).size;

    if (!est_strategy_evaluates_across(estimator->config.eval_distribute)) return;
    if (trainers < 2 || est_cluster_tasks(cluster, "evaluator") > 0) return;
    est_log_warn(
        "eval_distribute has the workers evaluate and export at the end, and so does this evaluator; leave out "
        "one of the two.");
}

static est_status run_evaluator(est_evaluator *e)
{
    est_status status;

    if (e->estimator->self.task->index > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "TF_CONFIG: task.index is %d; there is only one evaluator, number 0",
                        e->estimator->self.task->index);
    }
    warn_of_two(e->estimator);
    EST_TRY(est_preflight_evaluator(e->estimator, e->train->hooks, e->eval));
    status = evaluator_loop(e);
    est_job_watch_clear(&e->watch);
    est_pin_close(&e->pin);
    est_dir_lock_release(e->lock);
    return status;
}

/* --- what it is called with --------------------------------------------------------------------------------------- */

static est_status check_exporters(est_exporters exporters)
{
    EST_REQUIRE_LIST("eval spec: exporters", exporters);
    for (int i = 0; i < exporters.n; i++) {
        est_status status;

        if (exporters.data[i] == NULL) return est_refuse_null("eval spec: exporter", i);
        status = est_struct_check(EST_STRUCT_SIZE(est_exporter), exporters.data[i]);
        if (status != EST_OK) return est_fail_context(status, "eval spec: exporter %d", i);
        if (exporters.data[i]->name == NULL || exporters.data[i]->export_model == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "eval spec: exporter %d has no %s", i,
                            exporters.data[i]->name == NULL ? "name" : "export_model");
        }
        for (int j = 0; j < i; j++) {
            const char *name = est_exporter_name(exporters.data[i]);

            if (strcmp(name, est_exporter_name(exporters.data[j])) != 0) continue;
            return est_fail(EST_INVALID_ARGUMENT,
                            "eval spec: two exporters are called %s; give each a name of its own, as its directory has",
                            name);
        }
    }
    return EST_OK;
}

static est_status check_secs(const char *field, double usual, double value)
{
    if (isfinite(value) && (value >= 0 || value == EST_OFF)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "eval spec: %s is %g; write a number of seconds, 0 for %g or EST_OFF for none", field, value,
                    usual);
}

static est_status check_specs(const est_train_spec *train, const est_eval_spec *eval)
{
    if (train->input_fn == NULL || eval->input_fn == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "%s spec: input_fn is required",
                        train->input_fn == NULL ? "train" : "eval");
    }
    if (train->max_steps < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "train spec: max_steps is %" PRId64 "; write a number above 0, or 0 for no limit",
                        train->max_steps);
    }
    if (eval->steps < 0 && eval->steps != EST_FOREVER) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "eval spec: steps is %" PRId64 "; write a number of batches, or 0 for all of the input",
                        eval->steps);
    }
    if (eval->name != NULL && strchr(eval->name, '/') != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "eval spec: name is %s; it is part of a directory's: leave out the /",
                        eval->name);
    }
    EST_TRY(check_secs("start_delay_secs", EST_WATCH_DELAY_SECS, eval->start_delay_secs));
    EST_TRY(check_secs("throttle_secs", THROTTLE_DEFAULT, eval->throttle_secs));
    EST_TRY(est_listeners_check("train spec: saving listener", train->saving_listeners));
    EST_TRY(est_hooks_check("train spec: hook", train->hooks));
    EST_TRY(est_hooks_check("eval spec: hook", eval->hooks));
    return check_exporters(eval->exporters);
}

/* Whether there is something to do for a task of this type. */
static est_status check_role(const est_task *task)
{
    static const char *const known[] = { "chief", "evaluator", "master", "ps", "worker" };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(task->type, known[i]) == 0) return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "TF_CONFIG: task.type is \"%s\"; train_and_evaluate knows what to do as \"chief\", \"evaluator\", "
                    "\"master\", \"ps\" and \"worker\"",
                    task->type);
}

/* What tasks share is the model directory. Without one that all know an evaluator would wait for ever. */
static est_status check_shared_dir(const est_estimator *estimator)
{
    const est_task *task = estimator->self.task;

    if (!estimator->dir_is_temporary || (!shares_dir(estimator) && strcmp(task->type, "evaluator") != 0)) return EST_OK;
    return est_fail(
        EST_INVALID_ARGUMENT,
        "%s %d has no model_dir; set it, for all tasks of the cluster, to one directory that all of them see",
        task->type, task->index);
}

bool est_evaluates_itself(const est_task *task)
{
    return est_cluster_jobs(task->cluster) == 0 || strcmp(task->type, "master") == 0;
}

/* A task that keeps variables for those that train. */
static est_status serve(const est_evaluator *e)
{
    est_run    run = est_estimator_run(e->estimator, EST_RUN_TRAIN);
    est_status status;

    run.max_steps = e->train->max_steps;
    status        = est_run_serve(&run);
    est_run_close(&run, status);
    return status;
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

est_status est_train_and_evaluate(est_estimator *estimator, const est_train_spec *train, const est_eval_spec *eval,
                                  est_metrics **out)
{
    est_train_spec own_train;
    est_eval_spec  own_eval;
    est_evaluator  e = { .estimator = estimator, .train = &own_train, .eval = &own_eval };
    est_status     status;

    EST_REQUIRE(estimator);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_train_spec), train, &own_train));
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_eval_spec), eval, &own_eval));
    EST_TRY(check_specs(&own_train, &own_eval));
    EST_TRY(check_role(estimator->self.task));
    EST_TRY(check_shared_dir(estimator));
    if (!estimator->config.no_signals) est_signals_catch(); /* over all of it, so that none comes between two phases */
    if (strcmp(estimator->self.task->type, "evaluator") == 0) {
        status = run_evaluator(&e);
    } else if (strcmp(estimator->self.task->type, "ps") == 0) {
        status = serve(&e);
    } else if (est_evaluates_itself(estimator->self.task)) {
        status = run_evaluating(&e);
    } else {
        status = est_evaluator_train_with_others(&e);
    }
    est_dataset_free(e.checked); /* no checkpoint was evaluated */
    if (status != EST_OK || out == NULL) est_metrics_free(e.metrics);
    if (status == EST_OK && out != NULL) *out = e.metrics;
    if (!estimator->config.no_signals) est_signals_release(status);
    return status;
}
