/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers by steps or seconds; timer.h has the rule. */
#include "train/timer.h"

#include <stddef.h>

#include "base/clock.h"

bool est_timer_due(const est_timer *timer, int64_t step)
{
    if (!timer->marked) return true;
    if (step == timer->last_step) return false;
    if (timer->every_steps > 0) return step >= timer->last_step + timer->every_steps;
    return (double)(est_now_ns() - timer->last_ns) >= timer->every_secs * (double)EST_NS_PER_SEC;
}

bool est_timer_mark(est_timer *timer, int64_t step, double *elapsed_secs, int64_t *elapsed_steps)
{
    bool    before = timer->marked;
    int64_t now    = est_now_ns();

    if (before && elapsed_secs != NULL) *elapsed_secs = (double)(now - timer->last_ns) / (double)EST_NS_PER_SEC;
    if (before && elapsed_steps != NULL) *elapsed_steps = step - timer->last_step;
    timer->marked    = true;
    timer->last_step = step;
    timer->last_ns   = now;
    return before;
}
