/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory shared by processes of one machine, with atomic counters for synchronization.
 *
 * The memory has no name: another process finds it through the first one's /proc, which the kernel allows to processes
 * of the same user that see each other. So nothing is left behind, however a process ends, and other users cannot open
 * it.
 *
 * Threading: any thread; users must synchronize access to the contents themselves. */
#ifndef EST_BASE_SHARED_MEMORY_H
#define EST_BASE_SHARED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"

typedef struct est_shared_memory {
    uint8_t *data; /* NULL: none */
    size_t   bytes;
    int      fd; /* in the creator, until est_shared_memory_hide; -1: closed */
} est_shared_memory;

/* Where another process finds it. */
typedef struct est_shared_memory_name {
    uint64_t cookie; /* random number at the start of the memory, which identifies it. 0: no memory */
    uint64_t bytes;
    int32_t  pid, fd;
} est_shared_memory_name;

#define EST_SHARED_MEMORY_FIRST 64 /* offset of the user area; the cookie lies before it */

/* Makes zeroed memory; pages are taken when they are written to. */
EST_MUST_CHECK est_status est_shared_memory_create(size_t bytes, est_shared_memory *out, est_shared_memory_name *name);

/* Opens the memory of another process. EST_UNAVAILABLE when it is not accessible, for any reason. */
EST_MUST_CHECK est_status est_shared_memory_open(const est_shared_memory_name *name, est_shared_memory *out);

/* closes the descriptor: no further process can open it, existing mappings stay */
void est_shared_memory_hide(est_shared_memory *memory);
void est_shared_memory_close(est_shared_memory *memory); /* a zeroed one is fine */

/* Copies into memory that another core is to read, and has read before: past the caches of this one, so that it need
 * not get the lines from the other first. A mark that is set after it is seen after it, as with memcpy. */
void est_copy_across(void *to, const void *from, size_t bytes);

/* An atomic number in shared memory, sequentially consistent: a reader sees everything that was written before the
 * number was set; and of two threads that each set one and then read the other's, at least one sees the new value. */
typedef struct est_mark {
    atomic_uint_least64_t value;
} est_mark;

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be in one process only");

static inline void est_mark_set(est_mark *mark, uint64_t value)
{
    atomic_store(&mark->value, value);
}

static inline uint64_t est_mark_get(const est_mark *mark)
{
    return atomic_load(&mark->value);
}

/* Returns the previous value. */
static inline uint64_t est_mark_swap(est_mark *mark, uint64_t value)
{
    return atomic_exchange(&mark->value, value);
}

/* Waits for `ready` for a short while without sleeping: polls for some microseconds, then yields the core between polls
 * until limit_ns have passed; with a limit of 0 it only polls. `crowded`: more threads wait like this than there are
 * cores; then it polls once. Returns false if it is not ready. */
typedef bool (*est_ready_fn)(const void *arg);
bool est_poll(est_ready_fn ready, const void *arg, bool crowded, int64_t limit_ns);

#endif
