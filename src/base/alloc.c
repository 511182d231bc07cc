/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: the C allocator behind a count and a failure switch for tests. */
#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"

/* From one huge page on an aligned block starts on one and asks the kernel for them. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static atomic_uint_least64_t alloc_count;
static _Thread_local size_t  failed_bytes; /* of the last failed allocation; 0: none since the last report */

static void *noted(void *p, size_t bytes)
{
    if (p == NULL) failed_bytes = bytes;
    return p;
}

void est_no_memory_at(const char *file, int line)
{
    if (failed_bytes > 0) {
        (void)est_fail_at(file, line, EST_RESOURCE_EXHAUSTED, "out of memory (%zu bytes)", failed_bytes);
    } else { /* a library that allocates by itself, or a size beyond all bounds */
        (void)est_fail_at(file, line, EST_RESOURCE_EXHAUSTED, "out of memory");
    }
    failed_bytes = 0;
}

/* Counts one allocation; false when it must fail: a test injected the failure, or no block can be that large. */
static bool alloc_begin(size_t bytes)
{
    atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
    return bytes <= PTRDIFF_MAX - HUGE_PAGE_BYTES && !est_fault_hit_alloc();
}

void *est_alloc(size_t bytes)
{
    return noted(alloc_begin(bytes) ? malloc(bytes != 0 ? bytes : 1) : NULL, bytes);
}

void *est_zalloc(size_t bytes)
{
    return noted(alloc_begin(bytes) ? calloc(1, bytes != 0 ? bytes : 1) : NULL, bytes);
}

void *est_realloc(void *p, size_t bytes)
{
    return noted(alloc_begin(bytes) ? realloc(p, bytes != 0 ? bytes : 1) : NULL, bytes);
}

/* Bytes of a block that are in huge pages. The last one may be filled by half only: a table of a few megabytes would
 * otherwise have most of its rows in small ones. */
static size_t huge_bytes(size_t bytes)
{
    return bytes < HUGE_PAGE_BYTES ? 0 : (bytes + HUGE_PAGE_BYTES / 2) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

void *est_alloc_aligned(size_t bytes)
{
    size_t huge;
    void  *p;

    if (!alloc_begin(bytes)) return noted(NULL, bytes);
    huge  = huge_bytes(bytes);
    bytes = (bytes + EST_ALIGNMENT - 1) / EST_ALIGNMENT * EST_ALIGNMENT;
    if (bytes < huge) bytes = huge;
    if (posix_memalign(&p, huge > 0 ? HUGE_PAGE_BYTES : EST_ALIGNMENT, bytes != 0 ? bytes : EST_ALIGNMENT) != 0) {
        return noted(NULL, bytes);
    }
    if (huge > 0) madvise(p, huge, MADV_HUGEPAGE); /* a wish: failure changes nothing */
    return p;
}

/* Pages that are given back read as zeros when they are looked at again. */
void *est_zalloc_aligned(size_t bytes)
{
    char  *p     = est_alloc_aligned(bytes);
    size_t pages = huge_bytes(bytes);

    if (p == NULL) return NULL;
    if (pages > 0 && madvise(p, pages, MADV_DONTNEED) != 0) pages = 0;
    if (pages < bytes) memset(p + pages, 0, bytes - pages);
    return p;
}

void est_free(void *p)
{
    free(p);
}

void est_free_aligned(void *p)
{
    free(p);
}

void *est_reserve(size_t bytes)
{
    void *p;

    if (!alloc_begin(bytes)) return noted(NULL, bytes);
    p = mmap(NULL, bytes != 0 ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return noted(NULL, bytes);
    if (bytes >= HUGE_PAGE_BYTES) madvise(p, bytes, MADV_HUGEPAGE); /* a wish, as above */
    return p;
}

void est_unreserve(void *p, size_t bytes)
{
    if (p != NULL) munmap(p, bytes != 0 ? bytes : 1);
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older kernels reject it, and a kernel thread does the same later */
#endif

/* Only pages that are all within. */
static void advise(void *p, size_t bytes, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) / page * page, to = ((uintptr_t)p + bytes) / page * page;

    if (from < to) madvise((void *)from, to - from, advice);
}

void est_pages_large(void *p, size_t bytes)
{
    if (bytes < HUGE_PAGE_BYTES) return;
    advise(p, bytes, MADV_HUGEPAGE);
    advise(p, bytes, MADV_COLLAPSE);
}

void est_pages_small(void *p, size_t bytes)
{
    advise(p, bytes, MADV_NOHUGEPAGE);
}

char *est_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char  *copy = est_alloc(size);

    if (copy != NULL) memcpy(copy, s, size);
    return copy;
}

uint64_t est_alloc_count(void)
{
    return atomic_load_explicit(&alloc_count, memory_order_relaxed);
}

void est_alloc_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
