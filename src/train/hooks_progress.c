/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress line: "step 1200/10000  45.1k examples/s  loss 0.3124  2:13 left  waiting for input"; of an evaluation,
 * "evaluation 12/100  ...". Drawn ten times a second at most, so that it costs a fast step nothing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "train/hooks.h"

#define DRAW_NS       (EST_NS_PER_SEC / 10)
#define NEWEST_WEIGHT 0.2 /* weight of the latest speed in the moving average */
#define INPUT_IS_SLOW 0.5 /* share of the time spent waiting for input above which the line says so */

typedef struct progress_hook {
    est_hook hook;
    bool     evaluates; /* counts runs, not global steps */
    int64_t  num_steps; /* to train from the first session on; 0: max_steps was given */
    int64_t  max_steps; /* 0: the end is unknown */
    bool     shown, has_speed;
    int64_t  rows;       /* since the line was last drawn */
    int64_t  drawn_ns;   /* time of the last drawing */
    int64_t  drawn_at;   /* step at the last drawing */
    double   drawn_wait; /* seconds spent waiting for input until the last drawing */
    double   rows_per_sec, steps_per_sec;
} progress_hook;

static int64_t position(const progress_hook *own, est_loop *loop)
{
    return own->evaluates ? est_loop_runs(loop) : est_loop_global_step(loop);
}

static double input_wait(est_loop *loop)
{
    return est_loop_input(loop) != NULL ? est_iterator_get_stats(est_loop_input(loop)).wait_secs : 0;
}

static void mark(progress_hook *own, est_loop *loop)
{
    own->rows       = 0;
    own->drawn_ns   = est_now_ns();
    own->drawn_at   = position(own, loop);
    own->drawn_wait = input_wait(loop);
}

/* Three significant digits: "0.25", "5.3", "812", "23.1k", "1.2M". */
static void put_rate(est_strbuf *line, double rate)
{
    static const char *const units[] = { "", "k", "M", "G" };
    int                      unit    = 0;

    while (rate >= 999.5 && unit < 3) {
        rate /= 1000;
        unit++;
    }
    est_strbuf_printf(line, "  %.3g%s examples/s", rate, units[unit]);
}

/* "0:07", "4:05", "1:02:03". */
static void put_time_left(est_strbuf *line, double secs)
{
    int64_t s = secs < 1e9 ? (int64_t)ceil(secs) : (int64_t)1e9;

    if (s >= 3600) {
        est_strbuf_printf(line, "  %" PRId64 ":%02d:%02d left", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    } else {
        est_strbuf_printf(line, "  %d:%02d left", (int)(s / 60), (int)(s % 60));
    }
}

static void draw(const progress_hook *own, est_loop *loop, const char *waits_for)
{
    est_strbuf line = { 0 };
    int64_t    step = position(own, loop);

    est_strbuf_printf(&line, "%s %" PRId64, own->evaluates ? "evaluation" : "step", step);
    if (own->max_steps > 0) est_strbuf_printf(&line, "/%" PRId64, own->max_steps);
    if (own->rows_per_sec > 0) put_rate(&line, own->rows_per_sec);
    if (est_loop_runs(loop) > 0) est_strbuf_printf(&line, "  loss %.4g", est_loop_loss(loop));
    if (own->max_steps > step && own->steps_per_sec > 0) {
        put_time_left(&line, (double)(own->max_steps - step) / own->steps_per_sec);
    }
    if (waits_for[0] != '\0') est_strbuf_printf(&line, "  %s", waits_for);
    est_log_status(est_strbuf_text(&line)); /* truncated if out of memory */
    est_strbuf_clear(&line);
}

static void mix(double *speed, double latest, bool is_first)
{
    *speed = is_first ? latest : (1 - NEWEST_WEIGHT) * *speed + NEWEST_WEIGHT * latest;
}

static est_status progress_session(est_hook *hook, est_loop *loop)
{
    progress_hook *own = EST_CONTAINER_OF(hook, progress_hook, hook);

    own->shown = est_log_status_shown();
    if (own->num_steps > 0 && own->max_steps == 0) own->max_steps = position(own, loop) + own->num_steps;
    if (!own->shown) return EST_OK;
    mark(own, loop);
    draw(own, loop, "waiting for the first step");
    return EST_OK;
}

static est_status progress_after_run(est_hook *hook, est_loop *loop)
{
    progress_hook *own = EST_CONTAINER_OF(hook, progress_hook, hook);
    double         secs, waited;

    if (!own->shown) return EST_OK;
    /* a run after the end of the input has no rows: other workers have the batches */
    if (!est_loop_input_ended(loop)) own->rows += est_loop_batch_rows(loop);
    if (est_now_ns() - own->drawn_ns < DRAW_NS && est_loop_runs(loop) > 1) return EST_OK;
    secs   = (double)(est_now_ns() - own->drawn_ns) / (double)EST_NS_PER_SEC;
    waited = input_wait(loop) - own->drawn_wait;
    if (est_loop_runs(loop) > 1 && secs > 0) { /* the first run also prepares the step */
        mix(&own->rows_per_sec, (double)own->rows / secs, !own->has_speed);
        mix(&own->steps_per_sec, (double)(position(own, loop) - own->drawn_at) / secs, !own->has_speed);
        own->has_speed = true;
    }
    mark(own, loop);
    draw(own, loop, est_loop_should_stop(loop) ? "stopping" : waited > INPUT_IS_SLOW * secs ? "waiting for input" : "");
    return EST_OK;
}

static void take_away(progress_hook *own)
{
    if (own->shown) est_log_status(NULL);
    own->shown = false;
}

static est_status progress_end(est_hook *hook, est_loop *loop)
{
    (void)loop;
    take_away(EST_CONTAINER_OF(hook, progress_hook, hook));
    return EST_OK;
}

static void progress_free(est_hook *hook)
{
    progress_hook *own = EST_CONTAINER_OF(hook, progress_hook, hook);

    take_away(own); /* the line remains if a previous loop failed */
    est_free(own);
}

static est_hook *make(bool evaluates, int64_t num_steps, int64_t max_steps)
{
    progress_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->evaluates = evaluates;
    own->num_steps = num_steps;
    own->max_steps = max_steps;
    own->hook      = (est_hook)EST_HOOK(.after_create_session = progress_session, .after_run = progress_after_run,
                                        .end = progress_end, .free = progress_free, .idle = true);
    return &own->hook;
}

est_hook *est_progress_hook(int64_t num_steps, int64_t max_steps)
{
    return make(false, num_steps, max_steps);
}

est_hook *est_eval_progress_hook(int64_t steps)
{
    return make(true, 0, steps);
}
