/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference counts that any thread may change. The thread that drops the last reference sees everything the others
 * wrote before they dropped theirs. */
#ifndef EST_BASE_REFCOUNT_H
#define EST_BASE_REFCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct est_refcount {
    atomic_int n;
} est_refcount;

static inline void est_refcount_init(est_refcount *count)
{
    atomic_init(&count->n, 1);
}

static inline void est_refcount_add(est_refcount *count)
{
    atomic_fetch_add_explicit(&count->n, 1, memory_order_relaxed);
}

/* True when this was the last reference. */
static inline bool est_refcount_drop(est_refcount *count)
{
    return atomic_fetch_sub_explicit(&count->n, 1, memory_order_acq_rel) == 1;
}

#endif
