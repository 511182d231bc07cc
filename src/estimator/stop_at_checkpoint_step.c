/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops at a step, but a worker stops only after the chief has saved a checkpoint of that step: the chief may need the
 * workers for its last steps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/signals.h"
#include "cluster/wait_table.h"
#include "estimator/estimator.h"
#include "train/hooks.h"
#include "train/saver.h"

#define WAIT_DEFAULT_SECS 30
#define LOOK_SECS         1.0 /* polling interval of a wait */

typedef struct stop_at_checkpoint {
    est_hook       hook;
    est_estimator *estimator;
    int64_t        last_step;
    double         wait_secs;
} stop_at_checkpoint;

/* est_signals_wait without an upper limit. */
static bool wait_reporting(est_waiting *wait, double secs)
{
    for (; secs > 0; secs -= LOOK_SECS) {
        est_wait_report(wait, "");
        if (est_signals_wait(secs < LOOK_SECS ? secs : LOOK_SECS)) return true;
    }
    return false;
}

static est_status wait_and_stop(est_hook *hook, est_loop *loop)
{
    stop_at_checkpoint *own  = EST_CONTAINER_OF(hook, stop_at_checkpoint, hook);
    est_waiting         wait = est_wait_make("this task", "the chief", "a checkpoint of the last step", INFINITY);
    char                reason[80];

    if (est_loop_global_step(loop) < own->last_step) return EST_OK;
    for (;;) {
        int64_t saved;

        EST_TRY(est_saved_step(own->estimator->model_dir, &saved));
        if (saved >= own->last_step) break;
        est_log_info("waiting for a checkpoint of step %" PRId64 ", the latest is of step %" PRId64, own->last_step,
                     saved);
        if (wait_reporting(&wait, own->wait_secs)) return EST_OK; /* the loop handles the signal itself */
    }
    snprintf(reason, sizeof reason, "step %" PRId64 " was reached and saved", own->last_step);
    est_loop_request_stop(loop, reason);
    return EST_OK;
}

est_hook *est_stop_at_checkpoint_step_hook(est_estimator *estimator, int64_t last_step, double wait_secs)
{
    stop_at_checkpoint *own;

    if (last_step <= 0 || !(wait_secs >= 0)) {
        (void)est_fail(EST_INVALID_ARGUMENT,
                       "a stop at step %" PRId64
                       " that looks every %g seconds: expected a step above 0 and no negative time",
                       last_step, wait_secs);
        return NULL;
    }
    if (estimator == NULL) {
        (void)est_fail(EST_INVALID_ARGUMENT, "a stop at a checkpoint's step needs the estimator, got NULL");
        return NULL;
    }
    if (estimator->self.is_chief) return est_stop_at_step_hook(0, last_step);
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->estimator = estimator;
    own->last_step = last_step;
    own->wait_secs = wait_secs > 0 ? wait_secs : WAIT_DEFAULT_SECS;
    own->hook      = (est_hook)EST_HOOK(.after_create_session = wait_and_stop, .after_run = wait_and_stop,
                                        .free = est_hook_free_struct, .idle = true);
    return &own->hook;
}
