/* SPDX-License-Identifier: Apache-2.0
 *
 * train: from the latest checkpoint, or the start, to a limit, the end of the input or a stop.
 *
 * What makes a resumed run the same as one that never stopped, bit for bit: variables, the position of the input, the
 * count of runs (which random operations draw from) and the seed are saved together, in one checkpoint.
 *
 * The end mark: training that has ended, for whatever good reason, leaves the file `training_done` with its last step,
 * on disk after the last checkpoint; the next removes it when it has a batch to train with. Both happen under the directory's lock. An input
 * that ended before is begun anew by the next call; but a run that was stopped or killed before it could leave the mark
 * has still to end, and goes on at the end of its input.
 *
 * What follows a training of several tasks, the final evaluation, is done by the one that leads when the others have
 * left: they need not wait for it. Until it has come to its end the mark says that it is due. A leader that is killed
 * in it finds that when it is started again, and does it without the others; unless it has a larger max_steps now, which
 * is a training of its own, with a final evaluation of its own. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "data/stage.h"
#include "estimator/preflight.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "estoc/saver.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "nn/optimizer.h"
#include "strategy/strategy.h"
#include "train/hooks.h"
#include "train/saver.h"

/* --- seed -------------------------------------------------------------------------------------------------------------- */

/* Tasks that train together draw different numbers: the same dropout and the same shuffled input would be a waste. */
static uint64_t own_seed(const est_training *t)
{
    const est_task *task = t->estimator->task;
    uint64_t        seed;

    if (task->is_chief || (t->cluster.remote == NULL && t->multi_worker.membership == NULL)) return t->seed;
    seed = (t->seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(task->global_id + 1)) & INT64_MAX;
    return seed != 0 ? seed : 1;
}

/* Workers in step have variables of their own, whose first values must be the same, those of rows that are yet to come, too; what
 * differs there are the numbers of their replicas. */
static uint64_t graph_seed(const est_training *t)
{
    return t->multi_worker.membership != NULL ? t->seed : own_seed(t);
}

est_status est_training_choose_seed(est_training *t)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *saved      = NULL;
    est_status      status;

    t->seed = t->estimator->config.seed;
    if (t->seed != 0) return EST_OK;
    status = est_checkpoint_open(t->estimator->model_dir, &checkpoint);
    if (status == EST_OK && est_checkpoint_find(checkpoint, EST_EXTRA_SEED) != NULL) {
        status = est_checkpoint_read(checkpoint, EST_EXTRA_SEED, &saved);
        if (status == EST_OK && est_tensor_dtype(saved) == EST_I64 && est_tensor_count(saved) == 1) {
            memcpy(&t->seed, est_tensor_data(saved), sizeof t->seed);
        }
        est_tensor_free(saved);
    }
    est_checkpoint_close(checkpoint);
    if (status != EST_OK && status != EST_NOT_FOUND) return status;
    while (t->seed == 0) {
        if (getrandom(&t->seed, sizeof t->seed, 0) != sizeof t->seed) t->seed = 0;
        t->seed &= INT64_MAX;
    }
    est_log_info("seed %" PRIu64, t->seed);
    return EST_OK;
}

/* --- the end mark --------------------------------------------------------------------------------------------------------- */

est_status est_training_find_done(est_training *t)
{
    EST_TRY(est_done_mark_read(t->estimator, &t->mark));
    t->was_done = t->mark.there;
    return EST_OK;
}

/* An evaluation that is due belongs to the training before. This one has nothing to add to that when it has the same
 * end, though an early stop or the end of the input may have come first, or one that is reached. */
bool est_training_is_trained(const est_training *t)
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
    if (!t->was_done || !t->leads) return EST_OK;
    t->mark = (est_done_mark){ 0 };
    EST_TRY(est_done_mark_write(t->estimator, &t->mark));
    t->was_done = false;
    return EST_OK;
}

static est_status read_step(est_loop *loop, int64_t *out)
{
    est_tensor *step = NULL;

    EST_TRY(est_session_read(est_loop_session(loop), "global_step", &step));
    *out = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    return EST_OK;
}

/* Before the last checkpoint, which the chief makes when all have done what they could; its own step need not be the last. What
 * a hook of the chief asked for, such as early stopping, holds for all. A chief that a signal stopped leaves the others to
 * themselves. */
static est_status settle(est_hook *hook, est_loop *loop)
{
    est_training *t         = EST_CONTAINER_OF(hook, est_training, edges);
    int64_t       max_steps = t->options->max_steps, step;
    bool          last;

    if (t->multi_worker.membership != NULL) return est_training_await_end(t, loop);
    if (t->cluster.remote == NULL || !t->estimator->task->is_chief) return EST_OK;
    EST_TRY(read_step(loop, &step));
    last          = max_steps > 0 && step >= max_steps;
    t->unfinished = !last && est_stop_signal() != 0;
    if (!last && !t->unfinished) {
        est_status status;

        est_log_info("All others are waited for: the chief makes the last checkpoint.");
        status = est_remote_await_others(t->cluster.remote, est_loop_should_stop(loop));
        if (status != EST_OK && est_stop_signal() == 0) return status;
        t->unfinished = status != EST_OK;
        EST_TRY(read_step(loop, &step));
    }
    est_loop_set_global_step(loop, step);
    return EST_OK;
}

static est_status note(est_hook *hook, est_loop *loop)
{
    est_training *t = EST_CONTAINER_OF(hook, est_training, edges);

    return t->multi_worker.membership != NULL ? est_training_note_step(t, loop) : EST_OK;
}

static est_status mark_done(est_training *t, int64_t step)
{
    bool finished = t->call.finish == NULL || (t->was_done && !t->mark.due);

    if (!t->leads) return EST_OK;
    t->mark = (est_done_mark){
        .there = true, .due = !finished, .step = step, .max_steps = finished ? 0 : t->options->max_steps
    };
    return est_done_mark_write(t->estimator, &t->mark);
}

/* After the job, when nothing of it is left but the directory's lock. */
static est_status finish(est_training *t)
{
    if (!t->leads || t->call.finish == NULL) return EST_OK;
    EST_TRY(t->call.finish(t->call.user, t->was_done && !t->mark.due));
    if (!t->mark.due) return EST_OK;
    t->mark.due = false;
    return est_done_mark_write(t->estimator, &t->mark);
}

/* --- going on where it was ----------------------------------------------------------------------------------------------- */

static est_status set_position(est_training *t, est_loop *loop, const est_tensor *position, const est_tensor *runs)
{
    if (runs != NULL && est_tensor_dtype(runs) == EST_I64 && est_tensor_count(runs) == 1) {
        est_session_set_run_count(est_loop_session(loop), (uint64_t) * (const int64_t *)est_tensor_data(runs));
    }
    if (t->multi_worker.membership != NULL) return est_training_set_positions(t, position);
    if (position == NULL || t->estimator->config.no_input_position || est_loop_input(loop) == NULL) return EST_OK;
    EST_TRY(est_loop_reset_input(loop));
    t->input_resumed = est_iterator_restore(est_loop_input(loop), position) == EST_OK;
    if (t->input_resumed) return EST_OK;
    est_log_warn("the input starts anew: %s", est_error_message());
    return est_loop_reset_input(loop);
}

/* The constant that a number begins with; NULL: it is none. */
static const float *first_value(const est_graph *graph, const est_node_def *variable)
{
    const est_node_def *assign = est_def(est_graph_initializer(graph, variable->id));
    const est_node_def *value  = assign != NULL ? est_graph_node(graph, assign->in[1].node) : NULL;

    if (value == NULL || value->op->source != EST_SOURCE_CONST || value->dtype[0] != EST_F32) return NULL;
    return est_tensor_data(est_node_attr(value, "value")->tensor);
}

/* A Keras optimizer keeps its learning rate in a variable, as in TensorFlow: that of the checkpoint counts, whatever the
 * program says. */
static est_status compare_rates(const est_graph *graph, est_session *session, const char *path)
{
    est_nodes rates = est_graph_collection(graph, EST_LEARNING_RATES);

    for (int i = 0; i < rates.n; i++) {
        const est_node_def *variable = est_def(rates.data[i]);
        const float        *wanted;
        est_tensor         *saved = NULL;
        float               found;

        wanted = first_value(graph, variable);
        if (wanted == NULL) continue;
        EST_TRY(est_session_read(session, variable->name, &saved));
        found = *(const float *)est_tensor_data(saved);
        est_tensor_free(saved);
        if (found == *wanted) continue;
        est_log_warn(
            "learning rate %g is not used: %s has %g in %s; start a new model_dir with warm_start to change it",
            (double)*wanted, path, (double)found, variable->name);
    }
    return EST_OK;
}

/* After the loss of a ps task nobody should think that all go back. */
static void log_restored(const char *tasks, const char *path, int64_t had_step)
{
    const char *dash = strrchr(path, '-');
    char       *end  = NULL;
    int64_t     step = dash != NULL ? strtoll(dash + 1, &end, 10) : had_step;

    if (tasks[0] == '\0') {
        est_log_info("Restoring parameters from %s", path);
    } else {
        est_log_info("Restoring the variables of %s from %s; all others keep the values they have.", tasks, path);
    }
    if (step >= had_step || end == dash + 1 || *end != '\0') return;
    est_log_warn("training had come to step %" PRId64 ", and %s%s go back to step %" PRId64
                 ", the last checkpoint; save more often (save_checkpoints_steps) to lose less",
                 had_step, tasks[0] != '\0' ? "the variables of " : "all variables", tasks, step);
}

/* The step that training had come to, as far as this task can know. */
typedef struct reached {
    int64_t step;
    bool    known; /* false: it has begun, and the task that counts its steps is lost */
} reached;

/* `all`: no variable has a value. */
static est_status find_step(const est_training *t, est_loop *loop, bool all, reached *out)
{
    int64_t    at = 0, step = est_loop_global_step(loop); /* of the session before, if there was one */
    bool       counted = t->cluster.remote == NULL;
    est_status status;

    if (t->multi_worker.membership != NULL && t->multi_worker.view.step > step) step = t->multi_worker.view.step;
    if (t->cluster.remote != NULL && !all) {
        status  = read_step(loop, &at);
        counted = status != EST_FAILED_PRECONDITION;
        if (counted) EST_TRY(status);
    }
    *out = (reached){ .step = at > step ? at : step, .known = counted || !est_remote_has_begun(t->cluster.remote) };
    return EST_OK;
}

/* There is no checkpoint: variables get their first values, but not in the middle of a training. */
static est_status check_beginning(const est_training *t, reached had, const char *tasks)
{
    char at[64] = "training had begun";

    if (had.known && had.step <= 0) return EST_OK;
    if (had.step > 0) snprintf(at, sizeof at, "training had come to step %" PRId64, had.step);
    return est_fail(EST_DATA_LOSS,
                    "%s, the variables%s%s are lost, and model_dir %s has no checkpoint to restore them from; bring "
                    "its checkpoint files back and start this task again, or restart all tasks with an empty model_dir "
                    "to train anew",
                    at, tasks[0] != '\0' ? " of " : "", tasks, t->estimator->model_dir);
}

/* Variables of ps tasks outlive their trainers. Those that have values keep them, so that a chief that was started again, or
 * one ps task that was, takes nothing back from the others. */
est_status est_training_restore(est_training *t, est_loop *loop)
{
    est_session *session  = est_loop_session(loop);
    est_tensor  *position = NULL, *runs = NULL;
    est_strbuf   tasks    = { 0 };
    est_restored restored = { 0 };
    reached      had      = { 0 };
    bool         all      = true;
    est_status   status   = EST_OK;
    const char  *where    = t->multi_worker.membership != NULL ? EST_EXTRA_POSITIONS : EST_EXTRA_INPUT;

    if (t->cluster.remote != NULL) status = est_tasks_without_values(session, &tasks, &all);
    if (status == EST_OK) status = find_step(t, loop, all, &had);
    if (status == EST_OK) {
        status = est_saver_restore(
            t->saver, session,
            EST_RESTORE(.extras       = EST_EXTRAS_OUT({ where, &position }, { EST_EXTRA_RUNS, &runs }),
                        .missing_only = t->cluster.remote != NULL),
            &restored);
        status = est_estimator_blame_checkpoint(status);
    }
    if (status == EST_OK && restored.path[0] == '\0') {
        est_log_info("All variables have values already: going on with them.");
    } else if (status == EST_OK) {
        log_restored(all ? "" : est_strbuf_text(&tasks), restored.path, had.step);
        if (restored.n_missing > 0) status = est_session_init(session); /* slots of what was not trained there */
        if (status == EST_OK) status = compare_rates(t->model->graph, session, restored.path);
        if (status == EST_OK) status = set_position(t, loop, position, runs);
    } else if (status == EST_NOT_FOUND) {
        status = check_beginning(t, had, est_strbuf_text(&tasks));
        if (status == EST_OK) status = est_session_init(session);
        if (status == EST_OK && t->estimator->warm_start != NULL) {
            status = est_warm_start_apply(t->estimator->warm_start, t->model->graph, session);
        }
    }
    est_strbuf_clear(&tasks);
    est_tensor_free(position);
    est_tensor_free(runs);
    return status;
}

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    est_training *t = user;

    if (t->multi_worker.membership != NULL) {
        EST_TRY(est_training_join(t, loop));
    } else if (t->estimator->task->is_chief || t->cluster.remote == NULL) {
        EST_TRY(est_training_restore(t, loop));
        if (t->cluster.remote != NULL) {
            EST_TRY(est_session_init(est_loop_session(loop))); /* what no checkpoint has */
            EST_TRY(est_remote_declare_ready(t->cluster.remote));
        }
    }
    return read_step(loop, global_step);
}

/* What is saved beside the variables. */
static est_status add_extra(est_extra *extras, int *n, const char *name, est_tensor *value)
{
    extras[(*n)++] = (est_extra){ name, value };
    return EST_OK;
}

static est_status add_number(est_extra *extras, int *n, const char *name, int64_t value)
{
    est_tensor *tensor = NULL;

    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &value, &tensor));
    return add_extra(extras, n, name, tensor);
}

static est_status collect_extras(void *user, est_loop *loop, est_extra *extras, int n_max, int *n)
{
    est_training *t        = user;
    est_tensor   *position = NULL;

    (void)n_max; /* three are far below it */
    EST_TRY(add_number(extras, n, EST_EXTRA_RUNS, (int64_t)est_loop_run_count(loop)));
    EST_TRY(add_number(extras, n, EST_EXTRA_SEED, (int64_t)t->seed));
    if (est_loop_input(loop) == NULL || t->estimator->config.no_input_position) return EST_OK;
    if (t->multi_worker.membership != NULL) {
        EST_TRY(est_multi_worker_positions(&t->multi_worker, &position));
        return add_extra(extras, n, EST_EXTRA_POSITIONS, position);
    }
    EST_TRY(est_iterator_save(est_loop_input(loop), &position));
    return add_extra(extras, n, EST_EXTRA_INPUT, position);
}

/* --- hooks -------------------------------------------------------------------------------------------------------------- */

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

est_status est_training_make_saver_hook(est_training *t, est_hook **out)
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

/* A checkpoint saver as configured, unless one was given; and the listeners to whichever it is. */
static est_status add_saver(est_training *t)
{
    est_hook *hook = find_given(t, est_is_checkpoint_saver);

    if (hook == NULL) {
        EST_TRY(est_training_make_saver_hook(t, &hook));
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

/* The order is TensorFlow's: what only the chief does first (saver first of all), then the user's, stop, NaN, log. Workers in step
 * have agreed on their last one. */
static est_status collect_hooks(est_training *t)
{
    const est_run_config *config    = &t->estimator->config;
    bool                  agreed    = t->multi_worker.membership != NULL;
    int64_t               steps     = agreed ? 0 : t->options->steps;
    int64_t               max_steps = agreed ? t->last_step : t->options->max_steps;
    int                   max = t->options->hooks.n + t->model->hooks.n + (int)(sizeof t->own / sizeof t->own[0]) + 2;

    t->hooks = est_arena_alloc(t->model->arena, (size_t)max * sizeof *t->hooks);
    if (t->hooks == NULL) return est_no_memory();
    t->edges = (est_hook)EST_HOOK(.before_run = clear_done, .after_run = note, .end = settle, .idle = true);
    t->hooks[t->n_hooks++] = &t->edges;
    if (t->estimator->task->is_chief) {
        EST_TRY(add_saver(t));
        add_models(t, EST_HOOK_CHIEF);
    } else if (t->multi_worker.membership != NULL) {
        t->hooks[t->n_hooks++] = est_training_standby_saver(t);
    }
    if (writes_summaries(t->estimator->task)) {
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

/* --- the whole ----------------------------------------------------------------------------------------------------------- */

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
    est_status status = est_estimator_input(t->estimator, EST_TRAIN, t->options->input_fn, t->options->input_user,
                                            own_seed(t), t->seed, &t->input);

    if (status == EST_OK) status = est_dataset_check(t->input);
    if (status == EST_OK) status = est_dataset_peek(t->input);
    if (status == EST_OK || t->call.spec[0] == '\0') return status;
    return est_fail_context(status, "%s", t->call.spec);
}

est_status est_training_make_saver(est_training *t)
{
    const est_run_config *config = &t->estimator->config;

    est_saver_free(t->saver);
    t->saver = NULL;
    return est_saver_create(
        t->estimator->model_dir,
        EST_SAVER(.keep_max = config->keep_checkpoint_max, .keep_every_n_hours = config->keep_checkpoint_every_n_hours),
        &t->saver);
}

static est_status prepare(est_training *t)
{
    est_estimator *e = t->estimator;

    EST_TRY(est_training_make_saver(t));
    if (t->multi_worker.membership == NULL) EST_TRY(est_training_choose_seed(t));
    EST_TRY(make_input(t));
    EST_TRY(est_estimator_model(e, EST_TRAIN, t->input, graph_seed(t), &t->model));
    EST_TRY(est_preflight_training(t));
    if (t->multi_worker.membership != NULL) EST_TRY(est_multi_worker_idle(t->model->graph, t->model->arena, &t->meets));
    t->step_after = est_after(est_read_variable(est_global_step(t->model->graph)), t->model->train_op);
    EST_TRY(add_loss_summary(t));
    if (e->task->is_chief || writes_summaries(e->task))
        EST_TRY(est_summary_writer_create(e->model_dir, "", &t->summaries));
    return collect_hooks(t);
}

/* Runs to the end; an input that an earlier call has used up is begun anew. One without a batch is an error, and known
 * before hooks are told of an end: then the model would be evaluated and exported as if it were trained. */
static est_status run_to_end(est_training *t, est_loop *loop)
{
    est_status status = est_loop_step(loop);

    if (est_loop_at_end(loop) && est_loop_input_ended(loop) && t->input_resumed && t->was_done) {
        t->input_resumed = false;
        EST_TRY(est_loop_reset_input(loop));
        status = est_loop_step(loop);
    }
    if (!est_loop_at_end(loop)) {
        EST_TRY(status);
    } else if (est_loop_runs(loop) == 0 && est_loop_input_ended(loop) && !t->input_resumed) {
        return est_fail(EST_INVALID_ARGUMENT, "input_fn: its dataset has no batch to train with");
    }
    return est_loop_run(loop);
}

/* Batches of a step. */
static int n_replicas(const est_training *t)
{
    const est_strategy *strategy = t->estimator->config.train_distribute;

    return strategy != NULL && strategy->kind != EST_STRATEGY_PARAMETER_SERVER ? est_strategy_replicas(strategy).n : 1;
}

/* Whether a signal has left something to do; called when all hooks have ended. Saving listeners see a signal for themselves: one that
 * evaluates leaves that to the next start. */
static bool was_interrupted(const est_training *t, const est_loop *loop)
{
    return est_loop_signalled(loop) || t->unfinished || (est_stop_signal() != 0 && t->options->saving_listeners.n > 0);
}

static est_status run_loop(est_training *t, int64_t *out_step)
{
    const est_run_config *config = &t->estimator->config;
    est_loop             *loop   = NULL;
    est_status            status;

    t->meets.communicator = t->multi_worker.view.communicator;
    t->meets.rejoin       = est_training_rejoin;
    EST_TRY(est_loop_open(&(est_loop_spec){ .graph        = t->model->graph,
                                            .model_dir    = t->estimator->model_dir,
                                            .session      = { .struct_size    = EST_STRUCT_SIZE(est_session_options),
                                                              .threads        = config->threads,
                                                              .seed           = graph_seed(t),
                                                              .check_numerics = config->check_numerics,
                                                              .remote         = t->cluster.remote,
                                                              .communicator   = t->meets.communicator },
                                            .input        = t->input,
                                            .feeds        = t->model->feeds.data,
                                            .n_feeds      = t->model->feeds.n,
                                            .n_replicas   = n_replicas(t),
                                            .multi_worker = t->multi_worker.membership != NULL ? &t->meets : NULL,
                                            .loss         = t->model->loss,
                                            .global_step  = t->step_after,
                                            .targets      = { &t->model->train_op, 1 },
                                            .summaries    = t->summaries,
                                            .shown        = t->model->summaries.data,
                                            .n_shown      = t->model->summaries.n,
                                            .hooks        = { t->hooks, t->n_hooks },
                                            .given        = t->given,
                                            .n_given      = t->options->hooks.n,
                                            .initialize   = initialize,
                                            .extras       = collect_extras,
                                            .user         = t },
                          &loop));
    status = run_to_end(t, loop);
    if (status == EST_OK) {
        bool interrupted = was_interrupted(t, loop);

        *out_step = est_loop_global_step(loop);
        status    = est_sample_rows_record(&t->estimator->rows, t->model, loop);
        if (est_loop_runs(loop) > 0) {
            est_log_info("Loss for final step: %g.", est_loop_loss(loop));
        } else if (t->lost.status == EST_OK) { /* else that is the reason, and what ends it */
            est_log_warn("This task made no step: %s.",
                         est_loop_input_ended(loop) ? "the input had ended before" : est_loop_stop_reason(loop));
        }
        if (status == EST_OK && interrupted) {
            status = est_fail(EST_CANCELLED, "%s: stopped%s at step %" PRId64 "; start again to go on",
                              est_stop_signal_name(), t->leads ? " and saved" : "", *out_step);
        }
        if (status == EST_OK && t->lost.status != EST_OK) {
            status = est_error_raise(&t->lost);
            status = est_fail_context(status, "training ends%s at step %" PRId64 "; start all workers again to go on",
                                      t->leads ? ", and is saved," : "", *out_step);
        }
    }
    est_loop_free(loop);
    return status;
}

/* Whether others train, too, with nobody to keep the variables for all. The evaluator, which some list in the cluster, does
 * not. */
static bool trains_with_others(const est_task *task)
{
    const est_cluster *cluster = task->cluster;

    if (est_cluster_tasks(cluster, "ps") > 0) return false;
    for (int i = 0; i < est_cluster_jobs(cluster); i++) {
        const char *job = est_cluster_job(cluster, i);

        if (strcmp(job, "evaluator") == 0) continue;
        if (strcmp(job, task->type) != 0 || est_cluster_tasks(cluster, job) > 1) return true;
    }
    return false;
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
    if (strcmp(estimator->task->type, "evaluator") == 0 || strcmp(estimator->task->type, "ps") == 0) {
        return est_fail(EST_FAILED_PRECONDITION, "this process is a %s task, which does not train",
                        estimator->task->type);
    }
    if (trains_with_others(estimator->task) && !est_is_multi_worker(estimator, estimator->config.train_distribute)) {
        return est_fail(
            EST_INVALID_ARGUMENT,
            "task %s %d of a cluster of several without \"ps\" tasks: nothing says how they train together; "
            "set train_distribute to an est_multi_worker_mirrored_strategy (in a job file run.strategy to "
            "multi_worker_mirrored), add ps tasks, or leave the others out",
            estimator->task->type, estimator->task->index);
    }
    return EST_OK;
}

/* A worker's input may be used up, and the job over, before it has begun. */
static est_status train_in_cluster(est_training *t, int64_t *step)
{
    est_status status = est_cluster_task_agree(&t->cluster, t->model->graph);

    if (status == EST_OK) status = est_cluster_task_delay(&t->cluster);
    if (status == EST_OK) status = run_loop(t, step);
    if (status != EST_OUT_OF_RANGE || !est_cluster_task_is_over(&t->cluster)) return status;
    est_log_info("All steps were made by others.");
    return EST_OK;
}

/* A worker that has met others goes on even with the last step saved: the chief may have none but an earlier one. */
est_status est_training_run(est_training *t)
{
    bool    alone = t->multi_worker.membership == NULL || t->leads;
    int64_t saved, step = 0;

    EST_TRY(est_training_find_done(t));
    EST_TRY(est_estimator_saved_step(t->estimator, &saved));
    if (alone && t->options->max_steps > 0 && saved >= t->options->max_steps) {
        est_log_info("Skipping training since max_steps has already saved.");
        return mark_done(t, saved);
    }
    EST_TRY(prepare(t));
    EST_TRY(t->cluster.remote != NULL ? train_in_cluster(t, &step) : run_loop(t, &step));
    return mark_done(t, step);
}

/* Of the tasks that train one has the directory: the chief. It also ends the job for all. */
static est_status train(est_training *t)
{
    bool is_chief = t->estimator->task->is_chief;

    EST_TRY(est_estimator_make_dir(t->estimator));
    if (est_is_multi_worker(t->estimator, t->estimator->config.train_distribute))
        return est_training_run_multi_worker(t);
    if (t->call.held == NULL && is_chief) EST_TRY(est_dir_lock_take(t->estimator->model_dir, &t->lock));
    t->leads = is_chief;
    EST_TRY(est_training_find_done(t));
    if (is_chief && est_training_is_trained(t)) return EST_OK;
    if (est_has_ps(t->estimator)) {
        if (!is_chief && est_job_is_over(t->estimator, t->options->max_steps)) return EST_OK;
        EST_TRY(est_cluster_task_open(t->estimator, t->options->max_steps, &t->cluster));
    }
    EST_TRY(est_training_run(t));
    return t->cluster.remote != NULL && is_chief ? est_remote_end_job(t->cluster.remote) : EST_OK;
}

est_status est_estimator_train(est_estimator *estimator, const est_train_options *options, const est_train_call *call)
{
    est_train_options own;
    est_training      t = { .estimator = estimator, .options = &own, .call = *call };
    est_error         error;
    est_status        status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_train_options), options, &own));
    EST_TRY(check_options(estimator, &own));
    if (!estimator->config.no_signals) est_signals_catch();
    status = train(&t);
    est_multi_worker_fail(&t.multi_worker, status);
    est_error_take(status, &error); /* closing the files below may fail, too, which is not the reason */
    if (t.checkpoint_saver != NULL) est_checkpoint_saver_lend(t.checkpoint_saver, (est_saving_listeners){ 0 });
    for (int i = 0; i < t.n_own; i++) est_hook_free(t.own[i]);
    est_cluster_task_close(&t.cluster);
    est_multi_worker_close(&t.multi_worker);
    est_multi_worker_free_idle(&t.meets);
    est_hook_free(t.saves);
    est_summary_writer_free(t.summaries);
    est_model_free(t.model);
    est_dataset_free(t.input);
    est_saver_free(t.saver);
    if (status == EST_OK) {
        status = finish(&t);
    } else {
        (void)est_error_raise(&error);
    }
    est_dir_lock_release(t.lock);
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
