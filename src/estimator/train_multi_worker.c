/* SPDX-License-Identifier: Apache-2.0
 *
 * A training as one of several workers that train together (estimator/multi_worker.h): who meets when, who saves, and what happens
 * when one is gone for good.
 *
 * Who leads: the worker with the lowest number that is there, which is the chief as long as there is one. It has the lock of the
 * directory, saves, leaves the end mark and ends the job. A worker that has made its last step stays until it hears of that.
 *
 * One who does not come back: with `elastic` the others go on. Without, whoever has or gets the directory's lock saves
 * the step that all are at, and all end with a message. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cluster/task_status.h"
#include "estimator/training.h"
#include "estoc/saver.h"
#include "strategy/strategy.h"
#include "train/hooks.h"

#define NOTE_EVERY_STEPS 1000 /* between two times that workers tell each other where their inputs are */
#define LOCK_SECS        10.0 /* that one who led meanwhile has to give the directory back */
#define LOCK_AGAIN_SECS  0.05

/* --- who leads -------------------------------------------------------------------------------------------------------- */

/* Waits, up to `secs`, for another to leave the directory. */
static est_status take_lock(est_training *t, double secs)
{
    int64_t    until  = est_now_ns() + est_secs_to_ns(secs);
    est_status status = EST_OK;

    if (t->call.held != NULL || t->lock != NULL) return EST_OK;
    do status = est_dir_lock_take(t->estimator->model_dir, &t->lock);
    while (status == EST_FAILED_PRECONDITION && est_now_ns() < until && !est_signals_wait(LOCK_AGAIN_SECS));
    return status;
}

static est_status lead(est_training *t, double secs)
{
    EST_TRY(take_lock(t, secs));
    t->leads = true;
    return EST_OK;
}

static void follow(est_training *t)
{
    est_dir_lock_release(t->lock);
    est_hook_free(t->saves);
    t->lock  = NULL;
    t->saves = NULL;
    t->leads = false;
}

/* After a meeting. A chief that hangs still has the directory: then the one in its place tries again when it has to save. */
static est_status choose_leader(est_training *t)
{
    est_status status = EST_OK;

    if (t->multi_worker.view.rank == 0) {
        status = lead(t, t->estimator->task->is_chief ? LOCK_SECS : 0);
    } else {
        follow(t);
    }
    if (status != EST_FAILED_PRECONDITION || t->estimator->task->is_chief) return status;
    est_log_warn("This worker has the lowest number of those left, and cannot save: %s", est_error_message());
    return EST_OK;
}

/* --- saving in the chief's place ------------------------------------------------------------------------------------------ */

static bool is_first(const est_training *t)
{
    return !t->multi_worker.view.over && t->multi_worker.view.rank == 0;
}

static est_status begin_saving(est_training *t, est_loop *loop)
{
    EST_TRY(est_training_make_saver(t)); /* anew: others have saved since */
    EST_TRY(est_training_make_saver_hook(t, &t->saves));
    if (t->saves == NULL) return EST_OK;
    EST_TRY(t->saves->begin(t->saves, loop));
    return t->saves->after_create_session(t->saves, loop);
}

static est_status standby_saver_after_run(est_hook *hook, est_loop *loop)
{
    est_training *t = EST_CONTAINER_OF(hook, est_training, standby_saver);

    if (!is_first(t)) return EST_OK;
    if (!t->leads) {
        est_status status = lead(t, 0);

        if (status != EST_OK) return status == EST_FAILED_PRECONDITION ? EST_OK : status;
    }
    return t->saves == NULL ? begin_saving(t, loop) : t->saves->after_run(t->saves, loop);
}

static est_status standby_saver_end(est_hook *hook, est_loop *loop)
{
    est_training *t = EST_CONTAINER_OF(hook, est_training, standby_saver);

    if (!t->leads && (!is_first(t) || t->lost.status != EST_OK)) return EST_OK;
    EST_TRY(lead(t, LOCK_SECS));
    if (t->saves == NULL) EST_TRY(begin_saving(t, loop));
    return t->saves != NULL ? t->saves->end(t->saves, loop) : EST_OK;
}

est_hook *est_training_standby_saver(est_training *t)
{
    t->standby_saver = (est_hook)EST_HOOK(.after_run = standby_saver_after_run, .end = standby_saver_end, .idle = true);
    return &t->standby_saver;
}

/* --- meeting ------------------------------------------------------------------------------------------------------------ */

/* The step that this task can offer variables of, though it has none: those of a checkpoint or, the chief before the first step, first
 * ones. -1: none.
 * Directories need not be shared: whoever saved when the chief was lost may have a later checkpoint than it. */
static est_status offered_step(const est_training *t, int64_t *out)
{
    EST_TRY(est_estimator_saved_step(t->estimator, out));
    if (t->fell_back) *out = t->fallen_to;
    if (*out < 0 && t->estimator->task->is_chief && !t->partial) *out = 0;
    return EST_OK;
}

/* The job has the seed that was first drawn and the end that was first set, whoever has been lost since. */
static est_status take_payload(est_training *t)
{
    const char *payload = est_membership_payload(t->multi_worker.membership);
    char       *end;

    if (t->model != NULL && strcmp(payload, t->payload) != 0) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "the job was begun anew with seed and last step %s, and this worker has %s; start it again",
                        payload, t->payload);
    }
    snprintf(t->payload, sizeof t->payload, "%s", payload);
    t->seed      = strtoull(payload, &end, 10);
    t->last_step = strtoll(end, NULL, 10);
    return EST_OK;
}

static est_status meet(est_training *t, int64_t step)
{
    EST_TRY(est_multi_worker_join(&t->multi_worker, step, t->payload));
    if (t->multi_worker.view.over) return EST_OK;
    if (t->multi_worker.view.source < 0) {
        return est_fail(EST_DATA_LOSS, "no worker is left that has the variables; start all workers again");
    }
    EST_TRY(take_payload(t));
    return choose_leader(t);
}

/* After a meeting: all have the same variables, of step *at, and the input is where it belongs. */
static est_status share(est_training *t, est_loop *loop, bool seek, int64_t *at)
{
    int64_t    step   = t->multi_worker.view.step;
    est_status status = est_multi_worker_transfer(&t->multi_worker, est_loop_session(loop));

    t->partial = status != EST_OK && (t->partial || est_membership_partial(t->multi_worker.membership));
    EST_TRY(status);
    *at      = step;
    t->seeks = t->seeks || seek;
    if (!t->seeks || t->estimator->config.no_input_position) return EST_OK;
    EST_TRY(est_loop_reset_input(loop));
    t->input_resumed = step > 0;
    EST_TRY(est_multi_worker_seek(&t->multi_worker, est_loop_input(loop), t->input, step));
    t->seeks = false;
    return EST_OK;
}

/* The source has what it offered, unless its newest checkpoint turns out to be damaged: then all meet again. */
static est_status restore_offered(est_training *t, est_loop *loop)
{
    est_tensor *step = NULL;

    t->multi_worker.at_step = t->multi_worker.view.step;
    EST_TRY(est_training_restore(t, loop));
    EST_TRY(est_session_read(est_loop_session(loop), "global_step", &step));
    t->fallen_to = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    t->fell_back = t->fallen_to != t->multi_worker.view.step;
    if (!t->fell_back) return EST_OK;
    t->multi_worker.met = false;
    return est_fail(EST_ABORTED, "the checkpoint that could be read is of step %" PRId64 ", not of %" PRId64,
                    t->fallen_to, t->multi_worker.view.step);
}

est_status est_training_join(est_training *t, est_loop *loop)
{
    int64_t offered;

    est_membership_reset(t->multi_worker.membership); /* it is a new session */
    t->partial = false;
    EST_TRY(offered_step(t, &offered));
    EST_TRY(meet(t, offered));
    if (t->multi_worker.view.over) {
        est_loop_request_stop(loop, "the job is over");
        return est_session_init(est_loop_session(loop));
    }
    if (t->multi_worker.view.rank == t->multi_worker.view.source) EST_TRY(restore_offered(t, loop));
    return share(t, loop, true, &offered);
}

/* One is gone for good, as the last failure says: the loop ends as if it were over. */
static est_status give_up(est_training *t, const est_loop *loop)
{
    est_status status = EST_DEADLINE_EXCEEDED;
    int64_t    saved;

    if (t->partial) return status;
    est_error_take(status, &t->lost);
    if (t->leads || est_estimator_saved_step(t->estimator, &saved) != EST_OK || saved >= est_loop_global_step(loop)) {
        return EST_OK;
    }
    if (lead(t, 0) != EST_OK) est_log_info("%s", est_error_message()); /* then another saves */
    return EST_OK;
}

/* What this worker brings to a meeting between steps. One whose variables are lost has those of its checkpoint: when nobody has
 * better ones all go back to it. */
static est_status meet_between(est_training *t, int64_t global_step)
{
    if (t->partial) {
        EST_TRY(offered_step(t, &global_step));
        est_membership_reset(t->multi_worker.membership);
    }
    return meet(t, global_step);
}

/* One that was left behind by more than the step under way has batches to read over, and one that goes back reads some again. A
 * signal while it waits ends the loop as one between two steps does. */
est_status est_training_rejoin(void *user, est_loop *loop, int64_t *global_step, bool *over)
{
    est_training *t      = user;
    est_status    status = meet_between(t, *global_step);
    int64_t       step;

    if (status == EST_CANCELLED && est_stop_signal() != 0 && !t->partial) return EST_OK;
    if (status == EST_DEADLINE_EXCEEDED) {
        *over = true;
        return give_up(t, loop);
    }
    EST_TRY(status);
    *over = t->multi_worker.view.over;
    if (*over) return EST_OK;
    step = t->multi_worker.view.step;
    if (t->partial && t->multi_worker.view.rank == t->multi_worker.view.source) EST_TRY(restore_offered(t, loop));
    return share(t, loop, step != *global_step && step != *global_step + 1, global_step);
}

est_status est_training_await_end(est_training *t, est_loop *loop)
{
    est_status status;

    if (t->leads || t->lost.status != EST_OK) return EST_OK;
    t->unfinished = est_stop_signal() != 0;
    if (t->unfinished) return EST_OK;
    status        = meet(t, est_loop_global_step(loop));
    t->unfinished = status == EST_CANCELLED && est_stop_signal() != 0;
    if (t->unfinished) return EST_OK;
    if (status == EST_DEADLINE_EXCEEDED) return give_up(t, loop);
    EST_TRY(status);
    if (t->multi_worker.view.over) return EST_OK;
    return est_fail(EST_ABORTED, "the others go on, and this worker with them");
}

/* --- where inputs are --------------------------------------------------------------------------------------------------- */

/* What one has saved alone is of no use to several. */
est_status est_training_set_positions(est_training *t, const est_tensor *positions)
{
    t->multi_worker.at_step = t->multi_worker.view.step;
    if (positions == NULL || t->estimator->config.no_input_position) return EST_OK;
    return est_multi_worker_set_positions(&t->multi_worker, positions);
}

/* Positions only after steps of one's own: of one that others have made meanwhile they told each other without this worker. One who is lost in
 * between is for the next step to notice, since this one is made. */
est_status est_training_note_step(est_training *t, est_loop *loop)
{
    int64_t    step = est_loop_global_step(loop);
    est_status status;

    est_server_note_step(t->multi_worker.job.server, step);
    if (t->estimator->config.no_input_position) return EST_OK; /* a run will not start there */
    if (est_loop_runs(loop) == t->noted_runs || step % NOTE_EVERY_STEPS != 0) return EST_OK;
    t->noted_runs = est_loop_runs(loop);
    status        = est_multi_worker_note(&t->multi_worker, est_loop_input(loop), step);
    if (status == EST_ABORTED) est_log_debug("positions of inputs: %s", est_error_message());
    return status == EST_ABORTED ? EST_OK : status;
}

/* --- the whole ------------------------------------------------------------------------------------------------------------ */

/* Meets the other workers, before anything is made of what they know. */
static est_status join_others(est_training *t)
{
    int64_t offered, steps = t->options->steps;

    EST_TRY(offered_step(t, &offered));
    if (offered >= 0) EST_TRY(est_training_choose_seed(t));
    snprintf(t->payload, sizeof t->payload, "%" PRIu64 " %" PRId64, t->seed,
             steps > 0 ? offered + steps : t->options->max_steps);
    return meet(t, offered);
}

/* Two chiefs at a time are a mistake, unless another worker has led meanwhile: it gives the directory back when they meet. */
static est_status lock_early(est_training *t)
{
    est_status status = t->estimator->task->is_chief ? take_lock(t, 0) : EST_OK;

    return status == EST_FAILED_PRECONDITION && t->estimator->config.train_distribute->workers.elastic ? EST_OK
                                                                                                       : status;
}

/* A chief that has nothing left to do does not wait for others to say so. Any other asks first: a chief that has just ended the job
 * may be waiting for it. */
est_status est_training_run_multi_worker(est_training *t)
{
    int64_t saved, max_steps = t->options->max_steps;

    EST_TRY(lock_early(t));
    EST_TRY(est_training_find_done(t));
    if (t->estimator->task->is_chief && est_training_is_trained(t)) return lead(t, LOCK_SECS);
    EST_TRY(est_multi_worker_open(t->estimator, t->estimator->config.train_distribute, max_steps, &t->multi_worker));
    EST_TRY(est_estimator_saved_step(t->estimator, &saved));
    if (t->estimator->task->is_chief && max_steps > 0 && saved >= max_steps) {
        EST_TRY(lead(t, LOCK_SECS));
    } else {
        EST_TRY(join_others(t));
        if (t->multi_worker.view.over) return EST_OK;
    }
    EST_TRY(est_training_run(t));
    if (t->leads) est_membership_end_job(t->multi_worker.membership);
    return EST_OK;
}
