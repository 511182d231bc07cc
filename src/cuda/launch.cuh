/* SPDX-License-Identifier: Apache-2.0
 *
 * What every .cu file needs: how a launcher is declared and launches, how grids are cut, and how kernels report what
 * they find wrong. Grids depend on shapes alone, never on how many processors a device has: the same bits everywhere.
 *
 * The same files are compiled for the CPU in tests (tests/support/cuda_on_cpu), so they use of CUDA only what is
 * there. */
#ifndef EST_CUDA_LAUNCH_CUH
#define EST_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include "graph/variable.h"

/* The launcher of a line in cuda/launchers.def. Returns 0 or a cudaError. */
#define EST_DEFINE_LAUNCHER(name) extern "C" int est_cuda_##name(est_call *c)

/* Before a loop: so many rounds at once, whose loads are then under way together. */
#ifdef __CUDACC__
#define EST_PRAGMA(text) _Pragma(#text)
#define EST_UNROLL(n)    EST_PRAGMA(unroll n)
#define EST_APART        __noinline__ /* a function of its own */
#else
#define EST_UNROLL(n)
#define EST_APART
#endif

/* Shared memory of a block that the launch gives (est_launch_shared), as bytes; the second is each block's own where
 * blocks of a cluster run together. */
#ifdef __CUDACC__
#define EST_ROOM(name)           extern __shared__ __align__(128) char name[]
#define EST_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#define EST_ROOM(name)           char *name = cuda_on_cpu_room()
#define EST_DYNAMIC_SHARED(name) alignas(16) static unsigned char name[227 << 10]
#endif

#define EST_BLOCK    256 /* threads, where nothing asks for another number */
#define EST_GPUS_MAX 16  /* of a process */

#define EST_BATCH_MAX      64                                   /* calls of a batch (cuda/batch.cuh) */
#define EST_BATCH_COUNTERS 256                                  /* of each */
#define EST_COUNTERS       (EST_BATCH_MAX * EST_BATCH_COUNTERS) /* words of a lane (cuda/last_block.cuh) */

/* Launches what the thread has gathered (cuda/batch.cuh). Before anything else is enqueued; est_launch does it. Returns
 * 0 or a cudaError. */
int est_batch_flush(void);

/* Enqueues a kernel. Empty grids are nothing to do. Structs that kernels take have names that no other .cu file uses: this
 * template of two that are called the same is one function to the linker, which copies one as the other. */
template <typename... P, typename... A>
int est_launch_as(const est_call *c, void (*kernel)(P...), dim3 grid, int block, size_t shared,
                  cudaLaunchAttribute *attribute, A... args)
{
    cudaLaunchConfig_t config = {};
    int                error  = est_batch_flush();

    if (error != 0) return error;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return 0;
    if (shared > 48 << 10) {
        error = (int)cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          (int)shared);
        if (error != 0) return error;
    }
    config.gridDim          = grid;
    config.blockDim         = dim3((unsigned)block);
    config.dynamicSmemBytes = shared;
    config.stream           = (cudaStream_t)c->stream;
    config.attrs            = attribute;
    config.numAttrs         = attribute != NULL ? 1 : 0;
    return (int)cudaLaunchKernelEx(&config, kernel, (P)args...);
}

template <typename... P, typename... A>
int est_launch_shared(const est_call *c, void (*kernel)(P...), dim3 grid, int block, size_t shared, A... args)
{
    return est_launch_as(c, kernel, grid, block, shared, NULL, args...);
}

template <typename... P, typename... A>
int est_launch(const est_call *c, void (*kernel)(P...), dim3 grid, int block, A... args)
{
    return est_launch_shared(c, kernel, grid, block, 0, args...);
}

/* Blocks of `size` for n things. */
static inline unsigned est_blocks(int64_t n, int64_t size = EST_BLOCK)
{
    return (unsigned)((n + size - 1) / size);
}

/* A grid of two dimensions as one of CUDA's along x: along y and z those have at most 65535 blocks. */
static inline dim3 est_grid(unsigned across, unsigned down, unsigned deep = 1)
{
    return dim3(across * down, 1, deep);
}

typedef struct est_grid_place {
    unsigned across, down;
} est_grid_place;

/* Of this block in such a grid. */
static inline __device__ est_grid_place est_find_block(unsigned across)
{
    unsigned down = blockIdx.x / across;

    return est_grid_place{ blockIdx.x - down * across, down };
}

/* This thread's place in a grid of one dimension. */
static inline __device__ int64_t est_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* n / by, neither below 0: 32 bits are divided several times faster than 64. */
static inline __device__ int64_t est_divide(int64_t n, int64_t by)
{
    if (((uint64_t)n | (uint64_t)by) >> 32 == 0) return (uint32_t)n / (uint32_t)by;
    return n / by;
}

/* Element i of a list of indices, int32 or int64. */
static inline __device__ int64_t est_index_at(const void *indices, bool wide, int64_t i)
{
    return wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* Rows that a sparse gradient on a device has beyond its distinct ones have this index, and zeros: updates leave them
 * out. The least of the indices' type. */
static inline __device__ bool est_is_pad(int64_t index, bool wide)
{
    return index == (wide ? INT64_MIN : (int64_t)INT32_MIN);
}

template <typename T> static inline T *est_data(const est_view *view)
{
    return (T *)view->data;
}

static inline size_t est_element_bytes(est_dtype dtype)
{
    return dtype == EST_F64 || dtype == EST_I64 ? 8 : dtype == EST_F32 || dtype == EST_I32 ? 4 : 1;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* The error word of a queue, with a word in memory of the host that says without a copy whether to look at it. */
typedef struct est_cuda_error {
    est_error_word word;
    uint32_t      *flag;
} est_cuda_error;

/* What a kernel needs to report, passed by value. */
typedef struct est_reporter {
    est_cuda_error *error;
    int64_t         item;
} est_reporter;

static inline est_reporter est_reporter_of(const est_call *c)
{
    return est_reporter{ (est_cuda_error *)c->error, c->item };
}

/* Whether something has failed: kernels that write variables then leave them alone. */
static inline __device__ bool est_has_failed(est_reporter r)
{
    return *(volatile uint32_t *)&r.error->word.failed != 0;
}

/* Of all failures that are reported the one with the least (run, item, place) stays. */
static inline __device__ void est_report(est_reporter r, int64_t place, int64_t first, int64_t second)
{
    volatile est_error_word *w = &r.error->word;

    while (atomicCAS(&r.error->word.lock, 0u, 1u) != 0) {}
    __threadfence();
    if (w->failed == 0 || w->now < w->run ||
        (w->now == w->run && (r.item < w->item || (r.item == w->item && place < w->place)))) {
        w->run                              = w->now;
        w->item                             = r.item;
        w->place                            = place;
        w->value[0]                         = first;
        w->value[1]                         = second;
        w->failed                           = 1;
        *(volatile uint32_t *)r.error->flag = 1;
        __threadfence_system();
    }
    __threadfence();
    atomicExch(&r.error->word.lock, 0u);
}

#endif
