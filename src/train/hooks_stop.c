/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks that end a loop: at a step, after some seconds, or at a NaN loss. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "train/hooks.h"

/* --- at a step ---------------------------------------------------------------------------------------------------- */

typedef struct stop_at_step {
    est_hook hook;
    int64_t  num_steps; /* 0: last_step was given */
    int64_t  last_step; /* 0: not known before the first session */
} stop_at_step;

static void stop_when_reached(const stop_at_step *own, est_loop *loop)
{
    char reason[64];

    if (est_loop_global_step(loop) < own->last_step) return;
    snprintf(reason, sizeof reason, "step %" PRId64 " was reached", own->last_step);
    est_loop_request_stop(loop, reason);
}

static est_status stop_at_step_begin(est_hook *hook, est_loop *loop)
{
    stop_at_step *own = EST_CONTAINER_OF(hook, stop_at_step, hook);

    (void)loop;
    if (own->num_steps > 0) own->last_step = 0;
    return EST_OK;
}

/* Steps count from the first session of a loop: a session that is created after a failure does not move the end. */
static est_status stop_at_step_session(est_hook *hook, est_loop *loop)
{
    stop_at_step *own = EST_CONTAINER_OF(hook, stop_at_step, hook);

    if (own->last_step == 0) own->last_step = est_loop_global_step(loop) + own->num_steps;
    stop_when_reached(own, loop);
    return EST_OK;
}

static est_status stop_at_step_after_run(est_hook *hook, est_loop *loop)
{
    stop_when_reached(EST_CONTAINER_OF(hook, stop_at_step, hook), loop);
    return EST_OK;
}

est_hook *est_stop_at_step_hook(int64_t num_steps, int64_t last_step)
{
    stop_at_step *own;

    if (num_steps < 0 || last_step < 0 || (num_steps > 0) == (last_step > 0)) {
        (void)est_fail(EST_INVALID_ARGUMENT,
                       "the stop hook has num_steps %" PRId64 " and last_step %" PRId64
                       "; set exactly one of them above 0",
                       num_steps, last_step);
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->num_steps = num_steps;
    own->last_step = last_step;
    own->hook      = (est_hook)EST_HOOK(.begin = stop_at_step_begin, .after_create_session = stop_at_step_session,
                                        .after_run = stop_at_step_after_run, .free = est_hook_free_struct, .idle = true);
    return &own->hook;
}

/* --- after some seconds ------------------------------------------------------------------------------------------- */

typedef struct stop_at_secs {
    est_hook hook;
    double   seconds;
    int64_t  begun_ns;
} stop_at_secs;

static est_status stop_at_secs_begin(est_hook *hook, est_loop *loop)
{
    stop_at_secs *own = EST_CONTAINER_OF(hook, stop_at_secs, hook);

    (void)loop;
    own->begun_ns = est_now_ns();
    return EST_OK;
}

static est_status stop_at_secs_after_run(est_hook *hook, est_loop *loop)
{
    stop_at_secs *own = EST_CONTAINER_OF(hook, stop_at_secs, hook);
    char          reason[64];

    if ((double)(est_now_ns() - own->begun_ns) < own->seconds * (double)EST_NS_PER_SEC) return EST_OK;
    snprintf(reason, sizeof reason, "%g seconds have passed", own->seconds);
    est_loop_request_stop(loop, reason);
    return EST_OK;
}

est_hook *est_stop_at_secs_hook(double seconds)
{
    stop_at_secs *own;

    if (!(seconds > 0)) {
        (void)est_fail(EST_INVALID_ARGUMENT, "a stop after %g seconds: expected a number above 0", seconds);
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->seconds = seconds;
    own->hook    = (est_hook)EST_HOOK(.begin = stop_at_secs_begin, .after_run = stop_at_secs_after_run,
                                      .free = est_hook_free_struct, .idle = true);
    return &own->hook;
}

/* --- at a NaN ----------------------------------------------------------------------------------------------------- */

typedef struct nan_hook {
    est_hook hook;
    bool     fail;
} nan_hook;

/* The log line for a loss is TensorFlow's. A non-finite input is a more likely cause than divergence. */
static est_status diverge(est_loop *loop, bool fail, const char *what)
{
    char reason[160], input[EST_LOOP_TEXT_MAX];

    (void)est_loop_not_finite(loop, input);
    if (fail) {
        est_log_error("Model diverged with %s = NaN.", what);
        if (input[0] != '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "NaN %s during training: at step %" PRId64 " %s; see its input_fn",
                            what, est_loop_global_step(loop), input);
        }
        return est_fail(
            EST_INVALID_ARGUMENT,
            "NaN %s during training: the model diverged at step %" PRId64
            "; lower the learning rate, scale the inputs, clip gradients where the program can, or find the "
            "node with check_numerics",
            what, est_loop_global_step(loop));
    }
    est_log_warn("Model diverged with %s = NaN.", what);
    if (input[0] != '\0') est_log_warn("%s", input);
    snprintf(reason, sizeof reason, "the %s is NaN", what);
    est_loop_request_stop(loop, reason);
    return EST_OK;
}

static est_status nan_after_run(est_hook *hook, est_loop *loop)
{
    nan_hook *own = EST_CONTAINER_OF(hook, nan_hook, hook);

    if (est_loop_runs(loop) == 0) return EST_OK; /* the step of another worker: there is no loss here */
    if (est_loop_is_watched(loop)) return EST_OK;
    return isnan(est_loop_loss(loop)) ? diverge(loop, own->fail, "loss") : EST_OK;
}

static void nan_free(est_hook *hook)
{
    est_free(EST_CONTAINER_OF(hook, nan_hook, hook));
}

bool est_is_nan_hook(const est_hook *hook)
{
    return hook != NULL && EST_MEMBER(hook, free) == nan_free;
}

est_status est_loop_diverged(est_loop *loop, const char *what)
{
    est_hooks hooks = est_loop_get_spec(loop)->hooks;
    bool      fail  = true;

    for (int i = 0; i < hooks.n; i++) {
        if (est_is_nan_hook(hooks.data[i])) fail = EST_CONTAINER_OF(hooks.data[i], nan_hook, hook)->fail;
    }
    return diverge(loop, fail, what);
}

est_hook *est_nan_hook(bool fail_on_nan)
{
    nan_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->fail = fail_on_nan;
    own->hook = (est_hook)EST_HOOK(.after_run = nan_after_run, .free = nan_free, .idle = true);
    return &own->hook;
}
