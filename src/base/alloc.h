/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: plain allocation that tests can count and fail, aligned blocks for tensor data, and arenas.
 *
 * Everything in the library allocates through these calls. They return NULL when memory is out and note the size; the
 * caller returns est_no_memory(). Any thread. */
#ifndef EST_BASE_ALLOC_H
#define EST_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"

/* Tensor data starts on a cache line and leaves room for the widest vector. */
#define EST_ALIGNMENT 64

void *est_alloc(size_t bytes);
void *est_zalloc(size_t bytes);
void *est_realloc(void *p, size_t bytes);
void *est_alloc_aligned(size_t bytes); /* EST_ALIGNMENT; large blocks ask for huge pages; freed with est_free_aligned */
/* The same, all zeros. Of a large block no page is touched: what is never used takes no memory. */
void *est_zalloc_aligned(size_t bytes);
void  est_free(void *p); /* NULL is fine */
void  est_free_aligned(void *p);
char *est_strdup(const char *s);

/* EST_RESOURCE_EXHAUSTED, with the size of the last failed allocation of this thread and the source location. */
#define est_no_memory() (est_no_memory_at(__FILE__, __LINE__), EST_RESOURCE_EXHAUSTED)
void est_no_memory_at(const char *file, int line);

/* Gives memory that was freed, and that the C library keeps for later, back to the system. Takes milliseconds: for
 * after a peak that is not expected to come again. */
void est_alloc_trim(void);

/* Reserves zeroed memory whose pages are allocated when they are first touched, for arrays whose size is a limit; freed
 * with est_unreserve and the same size. */
void *est_reserve(size_t bytes);
void  est_unreserve(void *p, size_t bytes); /* NULL is fine */

/* Advises the kernel to use large pages for memory of est_zalloc_aligned or est_reserve, which need fewer TLB entries,
 * or small ones, which use less memory where little is touched. Existing small pages move to large ones; untouched
 * memory is still not allocated. */
void est_pages_large(void *p, size_t bytes);
void est_pages_small(void *p, size_t bytes);

/* Allocations made by this process through the calls above (arena blocks included), to prove a path allocates nothing.
 */
uint64_t est_alloc_count(void);

/* An arena: many small objects that die together. One thread at a time. */
typedef struct est_arena est_arena;

est_arena *est_arena_create(void);
void       est_arena_free(est_arena *arena);
void      *est_arena_alloc(est_arena *arena, size_t bytes); /* zeroed, aligned to 16; NULL when memory is out */
char      *est_arena_strdup(est_arena *arena, const char *s);
char      *est_arena_printf(est_arena *arena, const char *fmt, ...) EST_PRINTF(2, 3);
size_t     est_arena_bytes(const est_arena *arena);

#endif
