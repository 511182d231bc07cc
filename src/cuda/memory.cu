/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU. cudaMalloc rounds large blocks up to 2 MiB: 52 tables of 6.1 MiB would take 100 MiB more than they
 * have. Large blocks lie here next to each other in one range of addresses instead, and only pages that a block touches
 * have memory. Small ones are cudaMalloc's, which packs them itself, and among which compute-sanitizer finds accesses
 * that miss. */
#include "cuda/memory.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <map>
#include <mutex>

#include "cuda/launch.cuh"

#define LARGE     ((size_t)1 << 20) /* bytes, of the smallest block that lies here */
#define ALIGNMENT ((size_t)512)

/* The driver's functions, which are asked for at run time: the plug-in is linked with the runtime alone. */
#define FUNCTIONS(X)                                                                                                   \
    X(cuMemGetAllocationGranularity)                                                                                   \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemCreate)                                                                                                     \
    X(cuMemMap)                                                                                                        \
    X(cuMemSetAccess)                                                                                                  \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemRelease)
#define DECLARE(name) static decltype(&name) p_##name;
FUNCTIONS(DECLARE)
#undef DECLARE

static bool find_functions(void)
{
    bool found = true;
#define FIND(name)                                                                                                     \
    {                                                                                                                  \
        void                           *address = NULL;                                                                \
        cudaDriverEntryPointQueryResult result;                                                                        \
        found = found &&                                                                                               \
                cudaGetDriverEntryPointByVersion(#name, &address, 12000, cudaEnableDefault, &result) == cudaSuccess && \
                address != NULL;                                                                                       \
        p_##name = (decltype(p_##name))address;                                                                        \
    }
    FUNCTIONS(FIND)
#undef FIND
    (void)cudaGetLastError();
    return found;
}

/* One range of addresses; offsets count from its begin. */
typedef struct space {
    std::mutex                lock; /* guards the rest */
    bool                      opened;
    CUdeviceptr               base; /* 0: there is none, and cudaMalloc has all blocks */
    size_t                    bytes, page;
    CUmemAllocationProp       memory;
    std::map<size_t, size_t>  blocks; /* offset -> bytes */
    std::map<size_t, int32_t> ends;   /* pages at the ends of blocks -> how many blocks touch them */
} space;

static space spaces[EST_GPUS_MAX];

static void open_space(space *s, int gpu)
{
    static bool found     = find_functions(); /* C++ makes this safe among threads */
    size_t      available = 0, total = 0;

    s->opened               = true;
    s->memory.type          = CU_MEM_ALLOCATION_TYPE_PINNED;
    s->memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    s->memory.location.id   = gpu;
    if (!found || cudaMemGetInfo(&available, &total) != cudaSuccess ||
        p_cuMemGetAllocationGranularity(&s->page, &s->memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) {
        return;
    }
    s->bytes = 2 * total / s->page * s->page; /* addresses cost nothing, and have gaps */
    if (p_cuMemAddressReserve(&s->base, s->bytes, 0, 0, 0) != CUDA_SUCCESS) s->base = 0;
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static void unmap(space *s, size_t first, size_t n)
{
    if (n > 0) (void)p_cuMemUnmap(s->base + first * s->page, n * s->page);
}

static bool map(space *s, size_t first, size_t n)
{
    CUmemAccessDesc              access = {};
    CUmemGenericAllocationHandle handle;
    CUresult                     result;

    if (n == 0) return true;
    access.location = s->memory.location;
    access.flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (p_cuMemCreate(&handle, n * s->page, &s->memory, 0) != CUDA_SUCCESS) return false;
    result = p_cuMemMap(s->base + first * s->page, n * s->page, 0, handle, 0);
    (void)p_cuMemRelease(handle); /* the map keeps it */
    if (result != CUDA_SUCCESS) return false;
    if (p_cuMemSetAccess(s->base + first * s->page, n * s->page, &access, 1) == CUDA_SUCCESS) return true;
    unmap(s, first, n);
    return false;
}

/* The first and the last page of a block may be others' too; those between are its own. */
static void drop_end(space *s, size_t page)
{
    if (--s->ends[page] > 0) return;
    s->ends.erase(page);
    unmap(s, page, 1);
}

static bool take_end(space *s, size_t page)
{
    if (s->ends.count(page) == 0 && !map(s, page, 1)) return false;
    s->ends[page]++;
    return true;
}

static bool take_pages(space *s, size_t first, size_t last)
{
    if (!take_end(s, first)) return false;
    if (first == last) return true;
    if (take_end(s, last)) {
        if (map(s, first + 1, last - first - 1)) return true;
        drop_end(s, last);
    }
    drop_end(s, first);
    return false;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* The first gap that is large enough; `bytes`: there is none. */
static size_t find_gap(const space *s, size_t bytes)
{
    size_t end = 0;

    for (const auto &block : s->blocks) {
        if (block.first - end >= bytes) return end;
        end = (block.first + block.second + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return s->bytes - end >= bytes ? end : s->bytes;
}

static void *alloc_large(space *s, size_t bytes)
{
    size_t at = find_gap(s, bytes);

    if (at == s->bytes || !take_pages(s, at / s->page, (at + bytes - 1) / s->page)) return NULL;
    s->blocks[at] = bytes;
    return (void *)(s->base + at);
}

void *est_cuda_alloc(int gpu, size_t bytes)
{
    space *s = &spaces[gpu];
    void  *p = NULL;

    if (bytes >= LARGE) {
        std::lock_guard<std::mutex> guard(s->lock);

        if (!s->opened) open_space(s, gpu);
        if (s->base != 0) return alloc_large(s, bytes);
    }
    if (cudaMalloc(&p, bytes) == cudaSuccess) return p;
    (void)cudaGetLastError();
    return NULL;
}

void est_cuda_free(int gpu, void *p)
{
    space                      *s = &spaces[gpu];
    std::lock_guard<std::mutex> guard(s->lock);
    size_t                      at    = (size_t)((CUdeviceptr)p - s->base), first, last;
    auto                        block = s->base != 0 ? s->blocks.find(at) : s->blocks.end();

    if (block == s->blocks.end()) {
        (void)cudaFree(p);
        return;
    }
    first = at / s->page;
    last  = (at + block->second - 1) / s->page;
    s->blocks.erase(block);
    drop_end(s, first);
    if (last == first) return;
    drop_end(s, last);
    unmap(s, first + 1, last - first - 1);
}
