/* SPDX-License-Identifier: Apache-2.0
 *
 * Time: a monotonic clock for durations, the wall clock for stamps, and a way for tests to replace both.
 *
 * Any thread. Replace the clock only while no other thread reads it. */
#ifndef EST_BASE_CLOCK_H
#define EST_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#define EST_NS_PER_SEC INT64_C(1000000000)

/* Nanoseconds since some fixed moment; never goes back. */
int64_t est_now_ns(void);

/* A user-defined duration in nanoseconds: negative values and NaN become 0; huge values are clamped so that they can be
 * added to the current time. */
int64_t est_secs_to_ns(double secs);

/* Nanoseconds since 1970-01-01 UTC. */
int64_t est_wall_ns(void);
double  est_wall_secs(void); /* the same in seconds */

/* Waits that long by the monotonic clock; with an injected clock it asks that clock to wait. */
void est_sleep_ns(int64_t ns);

/* A clock that stands in for the system's. */
typedef struct est_clock {
    int64_t (*now_ns)(void *user);
    int64_t (*wall_ns)(void *user);
    void (*sleep_ns)(void *user, int64_t ns);
    void *user;
} est_clock;

/* Uses `clock` from now on, borrowed until replaced; NULL: the system's. */
void est_clock_set(const est_clock *clock);

/* A manual clock, which advances by calls or when a thread sleeps on it: est_clock_set(&manual.clock). Any thread. */
typedef struct est_manual_clock {
    est_clock            clock;
    atomic_int_least64_t now_ns;
    atomic_int_least64_t wall_ns;
} est_manual_clock;

void est_manual_clock_init(est_manual_clock *manual, int64_t now_ns, int64_t wall_ns);
void est_manual_clock_advance(est_manual_clock *manual, int64_t ns);

#endif
