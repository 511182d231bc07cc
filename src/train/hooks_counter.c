/* SPDX-License-Identifier: Apache-2.0
 *
 * The step counter hook: logs and records global steps per second, and warns when the global step does not move. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "train/hooks.h"

#define TAG           "global_step/sec"
#define DEFAULT_STEPS 100
#define STUCK_RUNS    20 /* runs with an unchanged step before the warning */

typedef struct step_counter {
    est_hook            hook;
    est_timer           timer;
    est_summary_writer *writer; /* for output_dir; NULL: the writer of the loop */
    int64_t             last_step;
    int                 stuck;
} step_counter;

/* A new session begins a new count: its first step may lie before the last one. */
static est_status counter_session(est_hook *hook, est_loop *loop)
{
    step_counter *own = EST_CONTAINER_OF(hook, step_counter, hook);

    own->timer.marked = false;
    own->stuck        = 0;
    own->last_step    = est_loop_global_step(loop);
    return EST_OK;
}

static void warn_when_stuck(step_counter *own, int64_t step)
{
    own->stuck     = step == own->last_step ? own->stuck + 1 : 0;
    own->last_step = step;
    if (own->stuck < STUCK_RUNS) return;
    est_log_warn("the global step has stayed %" PRId64 " for %d runs; does the training operation increase it?", step,
                 STUCK_RUNS);
    own->stuck = 0;
}

static est_status counter_after_run(est_hook *hook, est_loop *loop)
{
    step_counter *own  = EST_CONTAINER_OF(hook, step_counter, hook);
    int64_t       step = est_loop_global_step(loop), steps;
    double        secs;

    warn_when_stuck(own, step);
    if (!est_timer_due(&own->timer, step)) return EST_OK;
    if (!est_timer_mark(&own->timer, step, &secs, &steps) || !(secs > 0)) return EST_OK;
    est_log_info(TAG ": %g", (double)steps / secs);
    if (own->writer == NULL) {
        est_loop_summary(loop, TAG, (double)steps / secs);
    } else {
        est_summary_begin(own->writer, step);
        est_summary_add_scalar(own->writer, TAG, (double)steps / secs);
        est_summary_end(own->writer);
    }
    return EST_OK;
}

static est_status counter_end(est_hook *hook, est_loop *loop)
{
    step_counter *own = EST_CONTAINER_OF(hook, step_counter, hook);

    (void)loop;
    if (own->writer != NULL) est_summary_flush(own->writer);
    return EST_OK;
}

static void counter_free(est_hook *hook)
{
    step_counter *own = EST_CONTAINER_OF(hook, step_counter, hook);

    est_summary_writer_free(own->writer);
    est_free(own);
}

est_hook *est_step_counter_hook(const est_every_options *options)
{
    step_counter     *own = est_hook_alloc(sizeof *own);
    est_every_options every;
    est_status        status;

    if (own == NULL) return NULL;
    status = est_options_take(EST_STRUCT_SIZE(est_every_options), options, &every);
    if (every.steps == 0 && every.secs == 0) every.steps = DEFAULT_STEPS;
    if (status == EST_OK) status = est_every_take("step counter", every.steps, every.secs, &own->timer);
    if (status == EST_OK && every.output_dir != NULL) {
        status = est_summary_writer_create(every.output_dir, "", &own->writer);
    }
    if (status != EST_OK) {
        counter_free(&own->hook);
        return NULL;
    }
    own->hook = (est_hook)EST_HOOK(.after_create_session = counter_session, .after_run = counter_after_run,
                                   .end = counter_end, .free = counter_free, .idle = true);
    return &own->hook;
}
