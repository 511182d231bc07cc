/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing in turn. FAULT_PLACES notes the call stack of every allocation in its first run; then it fails each that is
 * the first of its stack, and remembers the stacks that really failed: where threads change the order of allocations, a
 * place may be tried again, but none is left out for another. Under a sanitizer and ESTOC_TEST_SHORT (`make asan
 * SHORT=1`) some are left out: `make test` fails each, and `make asan` looks at each for leaks. */
#include "support/fault_loop.h"

#include <execinfo.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/sanitized.h"

#define DEPTH_MAX 64
#define OWN_CALLS 4         /* the allocator and what it calls, down to stack_hash */
#define NOTED_MAX (1 << 17) /* allocations of a run; those beyond fail all */

static uint64_t             noted[NOTED_MAX];  /* stacks of the first run */
static uint64_t             failed[NOTED_MAX]; /* stacks that failed, an open table; 0: free */
static atomic_int_least64_t n_noted;
static atomic_bool          is_first;
static _Atomic uint64_t     last_failed;
static int                  depth;

static uint64_t stack_hash(void)
{
    void    *frames[DEPTH_MAX];
    int      n    = backtrace(frames, depth);
    uint64_t hash = UINT64_C(1469598103934665603);

    for (int i = 0; i < n; i++) hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * UINT64_C(1099511628211);
    return hash != 0 ? hash : 1;
}

static void watch(bool fails)
{
    bool     first = atomic_load(&is_first);
    uint64_t hash  = first || fails ? stack_hash() : 0;
    int64_t  at    = first ? atomic_fetch_add(&n_noted, 1) : NOTED_MAX;

    if (at < NOTED_MAX) noted[at] = hash;
    if (fails) atomic_store(&last_failed, hash);
}

/* Where the stack is in the table, or would be. */
static uint64_t *slot_of(uint64_t hash)
{
    uint64_t i = hash % NOTED_MAX;

    while (failed[i] != 0 && failed[i] != hash) i = (i + 1) % NOTED_MAX;
    return &failed[i];
}

/* Of how many places one is tried. */
static int stride(void)
{
    if (!EST_TEST_SANITIZED || getenv("ESTOC_TEST_SHORT") == NULL) return 1;
    return EST_TEST_TSAN ? 11 : 3;
}

/* The next allocation whose stack did not fail yet, past the places that are left out. */
static int64_t next_place(int64_t n)
{
    int64_t end = atomic_load(&n_noted);

    if (end > NOTED_MAX) end = NOTED_MAX;
    for (int left = n > 0 ? stride() : 1; left > 0; left--) {
        do n++;
        while (n <= end && *slot_of(noted[n - 1]) != 0);
        if (left > 1 && n <= end) *slot_of(noted[n - 1]) = noted[n - 1];
    }
    return n;
}

static void start(fault_loop *f)
{
    f->started = true;
    if (f->kind != FAULT_PLACES) return;
    depth = f->depth > 0 ? f->depth + OWN_CALLS : DEPTH_MAX;
    memset(failed, 0, sizeof failed);
    atomic_store(&n_noted, 0);
    atomic_store(&is_first, true);
    f->n = -1;
}

static bool has_points(const fault_loop *f)
{
#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
    (void)f;
    return true;
#else
    return f->kind != FAULT_POINTS;
#endif
}

bool fault_next(fault_loop *f)
{
    bool is_start = !f->started;

    if (f->armed) fail_msg("a fault loop without fault_end");
    if (is_start) start(f);
    if (!is_start && !f->fired && f->n != 0) {
        int of = f->kind == FAULT_PLACES ? stride() : 1;

        if (has_points(f) && f->failures * of <= f->more_than) fail_msg("only %" PRId64 " failures", f->failures);
        return false;
    }
    f->n = f->kind == FAULT_PLACES && !is_start ? next_place(f->n) : f->n + 1;
    return true;
}

void fault_arm(fault_loop *f)
{
    f->armed = true;
    if (f->kind == FAULT_PLACES) est_fault_watch_alloc(watch);
    if (f->kind == FAULT_POINTS) {
        est_fault_arm(f->n);
    } else {
        est_fault_arm_alloc(f->n);
    }
}

bool fault_end(fault_loop *f)
{
    f->fired = est_fault_fired();
    f->armed = false;
    f->failures += f->fired;
    if (f->kind == FAULT_POINTS) {
        est_fault_arm(0);
    } else {
        est_fault_arm_alloc(0);
    }
    if (f->kind == FAULT_PLACES) {
        est_fault_watch_alloc(NULL);
        atomic_store(&is_first, false);
        if (f->fired) *slot_of(atomic_load(&last_failed)) = atomic_load(&last_failed);
    }
    return f->fired;
}

void fault_check_lenient(fault_loop *f, est_status status)
{
    est_status want  = f->kind == FAULT_POINTS ? EST_UNKNOWN : EST_RESOURCE_EXHAUSTED;
    bool       fired = fault_end(f);

    if (status == EST_OK || (fired && status == want)) return;
    fail_msg("failure %" PRId64 "%s: %s: %s", f->n, fired ? "" : ", of nothing", est_status_name(status),
             est_error_message());
}

void fault_check(fault_loop *f, est_status status)
{
    fault_check_lenient(f, status);
    if (f->fired && status == EST_OK) fail_msg("failure %" PRId64 " went unnoticed", f->n);
}

void fault_allocations(est_status (*body)(void))
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        fault_arm(&f);
        fault_check(&f, body());
    }
}
