/* SPDX-License-Identifier: Apache-2.0
 *
 * The global step waiter hook: delays the first run until the shared global step, advanced by other workers, is high
 * enough. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/signals.h"
#include "cluster/wait_table.h"
#include "train/hooks.h"

#define POLL_SECS    0.5
#define LOG_DISTANCE 1000 /* steps between two log lines */
#define STEP_NAME    "global_step"

typedef struct step_waiter {
    est_hook hook;
    int64_t  until;
    bool     done;
} step_waiter;

/* The value of the variable now; the loop knows only the step of its own last run. */
static est_status current_step(est_loop *loop, int64_t *out)
{
    est_tensor *value;

    EST_TRY(est_session_read(est_loop_session(loop), STEP_NAME, &value));
    if (est_tensor_dtype(value) != EST_I64 || est_tensor_count(value) != 1) {
        est_tensor_free(value);
        return est_fail(EST_INVALID_ARGUMENT, "variable '" STEP_NAME "' is not one int64");
    }
    *out = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    return EST_OK;
}

static est_status waiter_before_run(est_hook *hook, est_loop *loop)
{
    step_waiter *own    = EST_CONTAINER_OF(hook, step_waiter, hook);
    int64_t      logged = INT64_MIN / 2;
    est_waiting  wait   = est_wait_make("this task", "the steps of other workers", "it starts training at a later step",
                                        INFINITY);

    while (!own->done) {
        int64_t step;
        char    text[80];

        EST_TRY(current_step(loop, &step));
        own->done = step >= own->until;
        if (own->done) break;
        if (step - logged > LOG_DISTANCE) {
            est_log_info("Waiting for global step %" PRId64 " before starting training. Current step is %" PRId64 ".",
                         own->until, step);
            logged = step;
        }
        snprintf(text, sizeof text, "step %" PRId64 "  waiting for step %" PRId64 " of others", step, own->until);
        est_log_status(text);
        est_wait_report(&wait, text);
        if (est_signals_wait(POLL_SECS)) break; /* the loop handles the signal itself */
    }
    if (logged >= 0) est_log_status(NULL);
    return EST_OK;
}

est_hook *est_global_step_waiter_hook(int64_t wait_until_step)
{
    step_waiter *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->until = wait_until_step;
    own->done  = wait_until_step <= 0;
    own->hook  = (est_hook)EST_HOOK(.before_run = waiter_before_run, .free = est_hook_free_struct);
    return &own->hook;
}
