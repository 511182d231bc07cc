/* SPDX-License-Identifier: Apache-2.0
 *
 * Fault points: two countdowns and a hit count, all atomic so that any thread may hit a point. */
#include "base/fault.h"

#include <stdatomic.h>
#include <stddef.h>

/* A countdown of 0 is disarmed; the hit that takes it from 1 to 0 is the one that fails. */
static atomic_int_least64_t point_countdown;
static atomic_int_least64_t alloc_countdown;
static atomic_int_least64_t point_hits;
static atomic_bool          fired;
static const char *_Atomic  fired_name;
static void (*_Atomic alloc_seen)(bool fails);

void est_fault_arm(int64_t n)
{
    atomic_store(&point_hits, 0);
    atomic_store(&fired, false);
    atomic_store(&fired_name, NULL);
    atomic_store(&point_countdown, n);
}

void est_fault_arm_alloc(int64_t n)
{
    atomic_store(&fired, false);
    atomic_store(&alloc_countdown, n);
}

void est_fault_watch_alloc(void (*seen)(bool fails))
{
    atomic_store(&alloc_seen, seen);
}

int64_t est_fault_hits(void)
{
    return atomic_load(&point_hits);
}

bool est_fault_fired(void)
{
    return atomic_load(&fired);
}

const char *est_fault_name(void)
{
    const char *name = atomic_load(&fired_name);

    return name != NULL ? name : "";
}

/* Counts one hit down; true for the hit that reaches zero. */
static bool countdown_hit(atomic_int_least64_t *countdown)
{
    int_least64_t left = atomic_load_explicit(countdown, memory_order_relaxed);

    while (left > 0) {
        if (atomic_compare_exchange_weak(countdown, &left, left - 1)) return left == 1;
    }
    return false;
}

bool est_fault_hit(const char *name)
{
    atomic_fetch_add(&point_hits, 1);
    if (!countdown_hit(&point_countdown)) return false;
    atomic_store(&fired_name, name);
    atomic_store(&fired, true);
    return true;
}

bool est_fault_hit_alloc(void)
{
    void (*seen)(bool fails) = atomic_load_explicit(&alloc_seen, memory_order_relaxed);
    bool fails               = countdown_hit(&alloc_countdown);

    if (fails) atomic_store(&fired, true);
    if (seen != NULL) seen(fails);
    return fails;
}
