/* SPDX-License-Identifier: Apache-2.0
 *
 * train: from the latest checkpoint, or the start, to a limit, the end of the input or a stop.
 *
 * What makes a resumed run the same as one that never stopped, bit for bit: variables, the position of the input, the
 * count of runs (which random operations draw from) and the seed are saved together, in one checkpoint.
 *
 * The end mark: training that has ended, for whatever good reason, leaves the file `training_done` with its last
 * step, on disk after the last checkpoint; the next removes it when it has a batch to train with. Both happen under
 * the directory's lock. An input that ended before is restarted by the next call; but a run that was stopped or
 * killed before it could leave the mark has still to end, and goes on at the end of its input.
 *
 * What follows a training of several tasks, the final evaluation, is done by the one that leads when the others have
 * left: they need not wait for it. Until it has come to its end the mark says that it is due. A leader that is killed
 * in it finds that when it is started again, and does it without the others; unless it has a larger max_steps now,
 * which is a training of its own, with a final evaluation of its own. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "data/stage.h"
#include "estimator/preflight.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "train/hooks.h"
#include "train/saver.h"

#define LOCK_SECS 10.0 /* that a process which led meanwhile has to give the directory back */

/* --- seeds -------------------------------------------------------------------------------------------------------- */

/* Tasks of a job draw different numbers: the same dropout and the same shuffled input would be a waste. */
static uint64_t own_seed(const est_training *t)
{
    uint64_t seed;

    if (t->run.self.is_chief) return t->run.seed;
    seed = (t->run.seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(t->run.self.task->global_id + 1)) & INT64_MAX;
    return seed != 0 ? seed : 1;
}

/* Workers with copies of the variables need the same first values, also in rows that are yet to come; their replicas
 * draw by their numbers. */
static uint64_t graph_seed(const est_training *t)
{
    return est_strategy_replicas(t->run.strategy).across_workers ? t->run.seed : own_seed(t);
}

/* --- the end mark ------------------------------------------------------------------------------------------------- */

static est_status find_done(est_training *t)
{
    EST_TRY(est_done_mark_read(t->estimator->model_dir, &t->mark));
    t->was_done = t->mark.there;
    return EST_OK;
}

/* Whether only the final evaluation is left. One that is due belongs to the training before. This training has
 * nothing to add when it has the same end, though an early stop or the end of the input may have come first, or one
 * that is reached. */
static bool is_trained(const est_training *t)
{
    int64_t max_steps = t->options->max_steps;

    if (t->call.finish == NULL || !t->mark.due) return false;
    if (max_steps > 0 && max_steps != t->mark.max_steps && max_steps > t->mark.step) return false;
    est_log_info("Training had ended at step %" PRId64
                 ", and its final evaluation had not. That is done now; start again to train on.",
                 t->mark.step);
    return true;
}

/* Before the first run, when it is sure that there is something to train. */
static est_status clear_done(est_hook *hook, est_loop *loop)
{
    est_training *t = EST_CONTAINER_OF(hook, est_training, edges);

    (void)loop;
    if (!t->was_done || !t->run.leads) return EST_OK;
    t->mark = (est_done_mark){ 0 };
    EST_TRY(est_done_mark_write(t->estimator->model_dir, &t->mark));
    t->was_done = false;
    return EST_OK;
}

static est_status after_step(est_hook *hook, est_loop *loop)
{
    return est_run_after_step(&EST_CONTAINER_OF(hook, est_training, edges)->run, loop);
}

static est_status settle(est_hook *hook, est_loop *loop)
{
    return est_run_settle(&EST_CONTAINER_OF(hook, est_training, edges)->run, loop);
}

static est_status mark_done(est_training *t, int64_t step)
{
    bool finished = t->call.finish == NULL || (t->was_done && !t->mark.due);

    if (!t->run.leads) return EST_OK;
    t->mark = (est_done_mark){
        .there = true, .due = !finished, .step = step, .max_steps = finished ? 0 : t->options->max_steps
    };
    return est_done_mark_write(t->estimator->model_dir, &t->mark);
}

/* After the job, when nothing of it is left but the directory's lock. */
static est_status finish(est_training *t)
{
    if (!t->run.leads || t->call.finish == NULL) return EST_OK;
    EST_TRY(t->call.finish(t->call.user, t->was_done && !t->mark.due));
    if (!t->mark.due) return EST_OK;
    t->mark.due = false;
    return est_done_mark_write(t->estimator->model_dir, &t->mark);
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

/* Adds a hook made here, which is freed after the loop; NULL means that making it failed. */
static est_status add_own(est_training *t, est_hook *hook)
{
    if (hook == NULL) return est_fail_context(EST_RESOURCE_EXHAUSTED, "a standard hook");
    t->own[t->n_own++]     = hook;
    t->hooks[t->n_hooks++] = hook;
    return EST_OK;
}

static void add_models(est_training *t, est_hook_kind kind)
{
    const est_model_hook *own = t->model->hooks.data;

    for (int i = 0; i < t->model->hooks.n; i++) {
        if (own[i].kind == kind) t->hooks[t->n_hooks++] = own[i].hook;
    }
}

/* The first hook of a kind among the user's and the model's; NULL: there is none. */
static est_hook *find_given(const est_training *t, bool (*is)(const est_hook *hook))
{
    const est_model_hook *own = t->model->hooks.data;

    for (int i = 0; i < t->options->hooks.n; i++) {
        if (is(t->options->hooks.data[i])) return t->options->hooks.data[i];
    }
    for (int i = 0; i < t->model->hooks.n; i++) {
        if ((own[i].kind == EST_HOOK_TRAINING || own[i].kind == EST_HOOK_CHIEF) && is(own[i].hook)) return own[i].hook;
    }
    return NULL;
}

static est_status make_saver(est_training *t)
{
    const est_run_config *config = &t->estimator->config;

    est_saver_free(t->saver);
    t->saver = NULL;
    return est_saver_create(
        t->estimator->model_dir,
        EST_SAVER(.keep_max = config->keep_checkpoint_max, .keep_every_n_hours = config->keep_checkpoint_every_n_hours),
        &t->saver);
}

static est_status make_saver_hook(est_training *t, est_hook **out)
{
    const est_run_config *config = &t->estimator->config;
    int64_t               steps  = config->save_checkpoints_steps > 0 ? config->save_checkpoints_steps : 0;
    double secs = config->save_checkpoints_secs > 0 ? config->save_checkpoints_secs : 0; /* not EST_OFF */

    *out = NULL;
    if (steps == 0 && secs == 0) return EST_OK;
    *out = est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = steps, .secs = secs, .saver = t->saver,
                                                                .no_graph_def = config->no_graph_def));
    return *out != NULL ? EST_OK : est_fail_context(EST_RESOURCE_EXHAUSTED, "a standard hook");
}

/* For a worker in place of the chief: with a new saver, since others have saved meanwhile. */
static est_status make_standby_saver(void *user, est_hook **out)
{
    EST_TRY(make_saver(user));
    return make_saver_hook(user, out);
}

/* A checkpoint saver as configured, unless one was given; and the listeners to whichever it is. */
static est_status add_saver(est_training *t)
{
    est_hook *hook = find_given(t, est_is_checkpoint_saver);

    if (hook == NULL) {
        EST_TRY(make_saver_hook(t, &hook));
        if (hook != NULL) EST_TRY(add_own(t, hook));
    }
    if (t->options->saving_listeners.n == 0) return EST_OK;
    if (hook == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "saving listeners need checkpoints: set save_checkpoints_steps or _secs, "
                                              "or give an est_checkpoint_saver_hook");
    }
    est_checkpoint_saver_lend(hook, t->options->saving_listeners);
    t->checkpoint_saver = hook;
    return EST_OK;
}

/* A master evaluates between its steps, so a worker beside it tells how fast training is, and how it goes. */
static bool writes_summaries(const est_task *task)
{
    if (est_cluster_tasks(task->cluster, "master") == 0 || est_cluster_tasks(task->cluster, "worker") == 0) {
        return task->is_chief;
    }
    return strcmp(task->type, "worker") == 0 && task->index == 0;
}

/* The order is TensorFlow's: the chief's own hooks first (the saver before all), then the user's, stop, NaN, log. */
static est_status collect_hooks(est_training *t)
{
    const est_run_config *config = &t->estimator->config;
    int64_t               steps = t->run.stop_after, max_steps = t->run.stop_at;
    int                   max = t->options->hooks.n + t->model->hooks.n + (int)(sizeof t->own / sizeof t->own[0]) + 2;

    t->hooks = est_arena_alloc(t->model->arena, (size_t)max * sizeof *t->hooks);
    if (t->hooks == NULL) return est_no_memory();
    t->edges = (est_hook)EST_HOOK(.before_run = clear_done, .after_run = after_step, .end = settle, .idle = true);
    t->hooks[t->n_hooks++] = &t->edges;
    if (t->run.self.is_chief) {
        EST_TRY(add_saver(t));
        add_models(t, EST_HOOK_CHIEF);
    }
    if (t->run.standby_saver != NULL) t->hooks[t->n_hooks++] = t->run.standby_saver;
    if (writes_summaries(t->run.self.task)) {
        if (config->log_step_count_steps > 0) {
            EST_TRY(add_own(t, est_step_counter_hook(EST_EVERY(.steps = config->log_step_count_steps))));
        }
        if (config->save_summary_steps > 0) {
            EST_TRY(add_own(t, est_summary_saver_hook(EST_EVERY(.steps = config->save_summary_steps))));
        }
    }
    t->given = t->n_hooks;
    for (int i = 0; i < t->options->hooks.n; i++) t->hooks[t->n_hooks++] = t->options->hooks.data[i];
    if (steps > 0 || max_steps > 0) EST_TRY(add_own(t, est_stop_at_step_hook(steps, max_steps)));
    if (find_given(t, est_is_nan_hook) == NULL) EST_TRY(add_own(t, est_nan_hook(true)));
    if (config->log_step_count_steps > 0) EST_TRY(add_own(t, est_loss_log_hook(config->log_step_count_steps)));
    add_models(t, EST_HOOK_TRAINING);
    if (!config->quiet) EST_TRY(add_own(t, est_progress_hook(steps, max_steps)));
    return EST_OK;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static est_status add_loss_summary(est_training *t)
{
    const est_model_summary *summaries = t->model->summaries.data;

    for (int i = 0; i < t->model->summaries.n; i++) {
        if (strcmp(summaries[i].tag, "loss") == 0) return EST_OK;
    }
    est_model_scalar(t->model, "loss", t->model->loss);
    return est_model_status(t->model);
}

/* What is wrong with the input is found before the model is built. */
static est_status make_input(est_training *t)
{
    est_status status;

    est_estimator_log_input(t->estimator, EST_TRAIN);
    status = est_estimator_input(t->estimator, EST_TRAIN, t->options->input_fn, t->options->input_user, own_seed(t),
                                 t->run.seed, &t->input);
    if (status == EST_OK) status = est_dataset_check(t->input);
    if (status == EST_OK) status = est_dataset_peek(t->input);
    if (status == EST_OK || t->call.spec[0] == '\0') return status;
    return est_fail_context(status, "%s", t->call.spec);
}

static est_status prepare(est_training *t)
{
    est_estimator *e = t->estimator;

    EST_TRY(make_saver(t));
    EST_TRY(est_run_choose_seed(&t->run));
    EST_TRY(make_input(t));
    EST_TRY(est_estimator_model(e, EST_TRAIN, t->input, graph_seed(t), &t->model));
    EST_TRY(est_preflight_training(t));
    t->step_after = est_after(est_read_variable(est_global_step(t->model->graph)), t->model->train_op);
    EST_TRY(add_loss_summary(t));
    if (t->run.self.is_chief || writes_summaries(t->run.self.task))
        EST_TRY(est_summary_writer_create(e->model_dir, "", &t->summaries));
    return collect_hooks(t);
}

/* Runs to the end; an input that an earlier call has used up is restarted. One without a batch is an error, and known
 * before hooks are told of an end: then the model would be evaluated and exported as if it were trained. */
static est_status run_to_end(est_training *t, est_loop *loop)
{
    est_status status = est_loop_step(loop);

    if (est_loop_at_end(loop) && est_loop_input_ended(loop) && t->run.input_resumed && t->was_done) {
        t->run.input_resumed = false;
        EST_TRY(est_loop_reset_input(loop));
        status = est_loop_step(loop);
    }
    if (!est_loop_at_end(loop)) {
        EST_TRY(status);
    } else if (est_loop_runs(loop) == 0 && est_loop_input_ended(loop) && !t->run.input_resumed) {
        return est_fail(EST_INVALID_ARGUMENT, "input_fn: its dataset has no batch to train with");
    }
    return est_loop_run(loop);
}

/* Whether a signal has left something to do; called when all hooks have ended. Saving listeners see a signal for
 * themselves: one that evaluates leaves that to the next start. */
static bool was_interrupted(const est_training *t, const est_loop *loop)
{
    return est_loop_signalled(loop) || t->run.unfinished ||
           (est_stop_signal() != 0 && t->options->saving_listeners.n > 0);
}

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    est_training *t = user;

    EST_TRY(est_run_join(&t->run, loop));
    return est_loop_read_step(loop, global_step);
}

static est_status open_loop(est_training *t, est_loop **out)
{
    est_loop_spec spec = { .graph       = t->model->graph,
                           .model_dir   = t->estimator->model_dir,
                           .session     = est_estimator_session(t->estimator),
                           .input       = t->input,
                           .feeds       = t->model->feeds.data,
                           .n_feeds     = t->model->feeds.n,
                           .loss        = t->model->loss,
                           .global_step = t->step_after,
                           .targets     = { &t->model->train_op, 1 },
                           .summaries   = t->summaries,
                           .shown       = t->model->summaries.data,
                           .n_shown     = t->model->summaries.n,
                           .hooks       = { t->hooks, t->n_hooks },
                           .given       = t->given,
                           .n_given     = t->options->hooks.n,
                           .runs_ahead  = true,
                           .initialize  = initialize,
                           .extras      = est_training_extras,
                           .user        = t };

    spec.session.seed = graph_seed(t);
    EST_TRY(est_run_prepare(&t->run, &spec));
    return est_loop_open(&spec, out);
}

/* The log line of a loop that has come to its end, and the error where that was not the end of the training. */
static est_status conclude(est_training *t, est_loop *loop)
{
    int64_t step        = est_loop_global_step(loop);
    bool    interrupted = was_interrupted(t, loop); /* a signal from here on finds nothing left to do */

    if (est_loop_runs(loop) > 0) {
        est_log_info("Loss for final step: %g.", est_loop_loss(loop));
    } else if (t->run.lost.status == EST_OK) { /* else that is the reason, and the error below */
        est_log_warn("This task made no step: %s.",
                     est_loop_input_ended(loop) ? "the input had ended before" : est_loop_stop_reason(loop));
    }
    if (interrupted) {
        return est_fail(EST_CANCELLED, "%s: stopped%s at step %" PRId64 "; start again to go on",
                        est_stop_signal_name(), t->run.leads ? " and saved" : "", step);
    }
    if (t->run.lost.status == EST_OK) return EST_OK;
    return est_fail_context(est_error_raise(&t->run.lost),
                            "training ends%s at step %" PRId64 "; start all workers again to go on",
                            t->run.leads ? ", and is saved," : "", step);
}

/* A worker's input may be used up, and the job over, before it has begun. */
static est_status run_loop(est_training *t, int64_t *out_step)
{
    est_loop  *loop   = NULL;
    est_status status = open_loop(t, &loop);

    if (status == EST_OK) status = run_to_end(t, loop);
    if (status == EST_OK) {
        *out_step = est_loop_global_step(loop);
        status    = est_sample_rows_record(&t->estimator->rows, t->model, loop);
    }
    if (status == EST_OK) status = conclude(t, loop);
    est_loop_free(loop);
    if (status != EST_OUT_OF_RANGE || t->run.leads || !est_run_ended_elsewhere(&t->run)) return status;
    est_log_info("Nothing left to do: other workers reached max_steps.");
    return EST_OK;
}

static est_status check_options(const est_estimator *estimator, const est_train_options *options)
{
    if (options->steps < 0 || options->max_steps < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s is %" PRId64 "; write a number above 0, or 0 for no limit",
                        options->steps < 0 ? "steps" : "max_steps",
                        options->steps < 0 ? options->steps : options->max_steps);
    }
    if (options->steps > 0 && options->max_steps > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "steps (%" PRId64 ") and max_steps (%" PRId64 ") cannot both be set; leave one out",
                        options->steps, options->max_steps);
    }
    EST_TRY(est_listeners_check("saving listener", options->saving_listeners));
    EST_TRY(est_hooks_check("hook", options->hooks));
    if (strcmp(estimator->self.task->type, "evaluator") == 0 || strcmp(estimator->self.task->type, "ps") == 0) {
        return est_fail(EST_FAILED_PRECONDITION, "this process is a %s task, which does not train",
                        estimator->self.task->type);
    }
    return EST_OK;
}

/* A worker that has joined others goes on even with the last step saved: the chief may have an earlier one. */
static est_status train_to_end(est_training *t)
{
    bool    may_skip = !t->run.joined || t->run.leads;
    int64_t saved, step = 0;

    EST_TRY(find_done(t));
    EST_TRY(est_saved_step(t->estimator->model_dir, &saved));
    if (may_skip && t->options->max_steps > 0 && saved >= t->options->max_steps) {
        est_log_info("Skipping training since max_steps has already saved.");
        return mark_done(t, saved);
    }
    EST_TRY(prepare(t));
    EST_TRY(run_loop(t, &step));
    return mark_done(t, step);
}

static est_status train(est_training *t)
{
    est_run *run = &t->run;

    EST_TRY(est_estimator_make_dir(t->estimator));
    EST_TRY(est_run_open(run));
    EST_TRY(find_done(t));
    if (run->self.is_chief && is_trained(t)) return est_run_lead(run, LOCK_SECS);
    EST_TRY(est_run_start(run));
    if (run->over) return EST_OK;
    EST_TRY(train_to_end(t));
    return est_run_end(run);
}

static void free_training(est_training *t)
{
    if (t->checkpoint_saver != NULL) est_checkpoint_saver_lend(t->checkpoint_saver, (est_saving_listeners){ 0 });
    for (int i = 0; i < t->n_own; i++) est_hook_free(t->own[i]);
    est_summary_writer_free(t->summaries);
    est_model_free(t->model);
    est_dataset_free(t->input);
    est_saver_free(t->saver);
}

est_status est_estimator_train(est_estimator *estimator, const est_train_options *options, const est_train_call *call)
{
    static const est_run_owner owner = { .restore = est_training_restore, .make_saver = make_standby_saver };

    est_train_options own;
    est_training      t = { .estimator = estimator, .options = &own, .call = *call };
    est_error         error;
    est_status        status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_train_options), options, &own));
    t.run           = est_estimator_run(estimator, EST_RUN_TRAIN);
    t.run.held      = call->held;
    t.run.steps     = own.steps;
    t.run.max_steps = own.max_steps;
    t.run.owner     = &owner;
    t.run.user      = &t;
    EST_TRY(check_options(estimator, &own));
    EST_TRY(est_run_check(&t.run));
    if (!estimator->config.no_signals) est_signals_catch();
    status = train(&t);
    est_run_close(&t.run, status);
    est_error_take(status, &error); /* what fails below is not the reason */
    free_training(&t);
    if (status == EST_OK) {
        status = finish(&t);
    } else {
        (void)est_error_raise(&error);
    }
    est_run_release(&t.run);
    if (!estimator->config.no_signals) est_signals_release(status);
    return status;
}

est_status est_train(est_estimator *estimator, const est_train_options *options)
{
    est_status status;

    EST_REQUIRE(estimator);
    status = est_estimator_train(estimator, options, &(est_train_call){ .spec = "" });
    return status == EST_OK ? EST_OK : est_fail_context(status, "train");
}
