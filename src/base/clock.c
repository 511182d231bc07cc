/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: the system's, and a manual one for tests. */
#include "base/clock.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

static const est_clock *_Atomic injected; /* NULL: the system's clock */

static int64_t clock_read(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * EST_NS_PER_SEC + t.tv_nsec;
}

int64_t est_now_ns(void)
{
    const est_clock *clock = atomic_load_explicit(&injected, memory_order_acquire);

    return clock == NULL ? clock_read(CLOCK_MONOTONIC) : clock->now_ns(clock->user);
}

int64_t est_secs_to_ns(double secs)
{
    const int64_t far = INT64_MAX / 2;

    if (!(secs > 0)) return 0;
    return secs < (double)far / (double)EST_NS_PER_SEC ? (int64_t)(secs * (double)EST_NS_PER_SEC) : far;
}

int64_t est_wall_ns(void)
{
    const est_clock *clock = atomic_load_explicit(&injected, memory_order_acquire);

    return clock == NULL ? clock_read(CLOCK_REALTIME) : clock->wall_ns(clock->user);
}

double est_wall_secs(void)
{
    return (double)est_wall_ns() / (double)EST_NS_PER_SEC;
}

void est_sleep_ns(int64_t ns)
{
    const est_clock *clock = atomic_load_explicit(&injected, memory_order_acquire);
    struct timespec  left;

    if (ns <= 0) return;
    if (clock != NULL) {
        clock->sleep_ns(clock->user, ns);
        return;
    }
    left = (struct timespec){ .tv_sec = (time_t)(ns / EST_NS_PER_SEC), .tv_nsec = (long)(ns % EST_NS_PER_SEC) };
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) continue;
}

void est_clock_set(const est_clock *clock)
{
    atomic_store_explicit(&injected, clock, memory_order_release);
}

static int64_t manual_now(void *user)
{
    est_manual_clock *manual = user;

    return atomic_load(&manual->now_ns);
}

static int64_t manual_wall(void *user)
{
    est_manual_clock *manual = user;

    return atomic_load(&manual->wall_ns);
}

static void manual_sleep(void *user, int64_t ns)
{
    est_manual_clock_advance(user, ns);
}

void est_manual_clock_init(est_manual_clock *manual, int64_t now_ns, int64_t wall_ns)
{
    manual->clock = (est_clock){
        .now_ns = manual_now, .wall_ns = manual_wall, .sleep_ns = manual_sleep, .user = manual
    };
    atomic_init(&manual->now_ns, now_ns);
    atomic_init(&manual->wall_ns, wall_ns);
}

void est_manual_clock_advance(est_manual_clock *manual, int64_t ns)
{
    atomic_fetch_add(&manual->now_ns, ns);
    atomic_fetch_add(&manual->wall_ns, ns);
}
