/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that processes of one machine have in common, and numbers in it by which they tell each other how far they are.
 *
 * The memory has no name: another process finds it through the first one's /proc, which the kernel allows to processes of the same
 * user that see each other. So nothing is left behind, however a process ends, and nothing is there for others to open.
 *
 * Threading: any thread; what lies in the memory is for its users to agree on. */
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
    int      fd; /* of the one who made it, until est_shared_memory_hide; -1: closed */
} est_shared_memory;

/* Where another process finds it. */
typedef struct est_shared_memory_name {
    uint64_t cookie; /* what the memory begins with: drawn, so that another's is not taken for it. 0: there is none */
    uint64_t bytes;
    int32_t  pid, fd;
} est_shared_memory_name;

#define EST_SHARED_MEMORY_FIRST 64 /* offset of what the users may write to: the cookie lies before it */

/* Makes zeroed memory; pages are taken when they are written to. */
EST_MUST_CHECK est_status est_shared_memory_create(size_t bytes, est_shared_memory *out, est_shared_memory_name *name);

/* Finds another's. EST_UNAVAILABLE when it is not there for us, whatever the reason. */
EST_MUST_CHECK est_status est_shared_memory_open(const est_shared_memory_name *name, est_shared_memory *out);

void est_shared_memory_hide(est_shared_memory *memory);  /* nobody finds it any more; who has it keeps it */
void est_shared_memory_close(est_shared_memory *memory); /* a zeroed one is fine */

/* Copies into memory that another core is to read, and has read before: past the caches of this one, so that it need not get the
 * lines from the other first. A mark that is set after it is seen after it, as with memcpy. */
void est_copy_across(void *to, const void *from, size_t bytes);

/* A number in shared memory. Everything that was written before it was set is seen by who reads it; and of two that each set one
 * number and then read the other's, at least one sees what was set. */
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

/* What it was before. */
static inline uint64_t est_mark_swap(est_mark *mark, uint64_t value)
{
    return atomic_exchange(&mark->value, value);
}

/* Waits for `ready` for a short while without sleeping: looks for some microseconds, then gives the core to whoever wants it, until
 * limit_ns are over; with a limit of 0 it only looks. `crowded` says that there are more who wait like this than cores: then
 * it looks once. False: it is not ready. */
typedef bool (*est_ready_fn)(const void *arg);
bool est_poll(est_ready_fn ready, const void *arg, bool crowded, int64_t limit_ns);

#endif
