/* SPDX-License-Identifier: Apache-2.0
 *
 * A timer for events that are due every so many steps or seconds. It reads est_now_ns, which tests can set. */
#ifndef EST_TRAIN_TIMER_H
#define EST_TRAIN_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* Set one of the first two; a zeroed rest is a timer that was never marked. */
typedef struct est_timer {
    int64_t every_steps; /* above 0, or 0: by time */
    double  every_secs;
    bool    marked;
    int64_t last_step;
    int64_t last_ns;
} est_timer;

/* True the first time; false again for the step of the last mark; else when the steps or seconds since have passed. */
bool est_timer_due(const est_timer *timer, int64_t step);

/* Marks the event as done at this step, now. Returns whether it was marked before, and how many steps and seconds ago.
 * The pointers may be NULL. */
bool est_timer_mark(est_timer *timer, int64_t step, double *elapsed_secs, int64_t *elapsed_steps);

#endif
