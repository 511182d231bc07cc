/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA on the CPU: as much of cuda_runtime.h as src/cuda and the .cu files of src/ops use, so that their logic is
 * tested where there is neither nvcc nor a GPU. What is enqueued runs at once, in the calling thread, in memory of the
 * process; the blocks of a kernel one after the other, the threads of a block as fibers that meet at barriers. Wrong
 * indices, tails, unwritten elements and barriers that not all threads reach are found; races and speed are not. */
#ifndef EST_TESTS_CUDA_RUNTIME_H
#define EST_TESTS_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static /* blocks run one at a time; those of a cluster, together, have none of it */

/* --- kernels ------------------------------------------------------------------------------------------------------ */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint4 {
    unsigned x, y, z, w;
};
extern dim3 gridDim, blockDim, blockIdx, threadIdx; /* of the thread that runs */

void  __syncthreads(void);
void  cuda_on_cpu_meet_warp(void);
void  cuda_on_cpu_meet_cluster(void);
void *cuda_on_cpu_slot(unsigned thread); /* 8 bytes of a thread of the block, for shuffles */

static inline void __syncwarp(void)
{
    cuda_on_cpu_meet_warp();
}

template <typename T> static inline T cuda_on_cpu_exchange(T x, unsigned from)
{
    T other;

    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    memcpy(cuda_on_cpu_slot(threadIdx.x), &x, sizeof x);
    cuda_on_cpu_meet_warp();
    memcpy(&other, cuda_on_cpu_slot(from), sizeof other);
    cuda_on_cpu_meet_warp();
    return other;
}

template <typename T> static inline T __shfl_xor_sync(unsigned, T x, int lanes)
{
    return cuda_on_cpu_exchange(x, threadIdx.x ^ (unsigned)lanes);
}

template <typename T> static inline T __shfl_sync(unsigned, T x, int lane)
{
    return cuda_on_cpu_exchange(x, threadIdx.x / 32 * 32 + (unsigned)lane % 32);
}

template <typename T> static inline T __shfl_up_sync(unsigned, T x, unsigned lanes)
{
    return cuda_on_cpu_exchange(x, threadIdx.x % 32 >= lanes ? threadIdx.x - lanes : threadIdx.x);
}

static inline unsigned __ballot_sync(unsigned, int yes)
{
    unsigned first = threadIdx.x / 32 * 32, votes = 0;

    memcpy(cuda_on_cpu_slot(threadIdx.x), &yes, sizeof yes);
    cuda_on_cpu_meet_warp();
    for (unsigned i = 0; i < 32 && first + i < blockDim.x; i++) {
        int other;

        memcpy(&other, cuda_on_cpu_slot(first + i), sizeof other);
        votes |= other != 0 ? 1u << i : 0;
    }
    cuda_on_cpu_meet_warp();
    return votes;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

template <typename T> static inline T atomicCAS(T *at, T expected, T value)
{
    T before = *at;

    if (before == expected) *at = value;
    return before;
}

template <typename T> static inline T atomicExch(T *at, T value)
{
    T before = *at;

    *at = value;
    return before;
}

template <typename T> static inline T atomicMax(T *at, T value)
{
    T before = *at;

    if (before < value) *at = value;
    return before;
}

enum { __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE };

template <typename T> static inline T __nv_atomic_fetch_add(T *at, T value, int, int)
{
    T before = *at;

    *at += value;
    return before;
}

template <typename T> static inline T __ldcg(const T *at)
{
    return *at;
}

static inline void __threadfence(void) {}
static inline void __threadfence_system(void) {}

/* --- the runtime's functions -------------------------------------------------------------------------------------- */

typedef enum cudaError {
    cudaSuccess                       = 0,
    cudaErrorInvalidValue             = 1,
    cudaErrorMemoryAllocation         = 2,
    cudaErrorInvalidConfiguration     = 9,
    cudaErrorInvalidDevice            = 101,
    cudaErrorInvalidResourceHandle    = 400,
    cudaErrorNotReady                 = 600,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnjoined    = 904,
    cudaErrorUnknown                  = 999
} cudaError_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum {
    cudaStreamNonBlocking            = 1,
    cudaEventDisableTiming           = 2,
    cudaEventBlockingSync            = 1,
    cudaHostAllocDefault             = 0,
    cudaHostAllocMapped              = 2,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaEnableDefault                = 0
};
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0 };
typedef struct cuda_on_cpu_stream *cudaStream_t;
typedef struct cuda_on_cpu_event  *cudaEvent_t;
typedef struct cuda_on_cpu_graph  *cudaGraph_t, *cudaGraphExec_t;
#define cudaStreamPerThread ((cudaStream_t)NULL)

typedef enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 } cudaLaunchAttributeID;

typedef struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        struct {
            unsigned x, y, z; /* of x and y one: clusters are along z */
        } clusterDim;
    } val;
} cudaLaunchAttribute;

typedef struct cudaLaunchConfig_t {
    dim3                 gridDim, blockDim;
    size_t               dynamicSmemBytes;
    cudaStream_t         stream;
    cudaLaunchAttribute *attrs;
    unsigned             numAttrs;
} cudaLaunchConfig_t;

typedef struct cudaDeviceProp {
    char name[256];
    int  major, minor;
} cudaDeviceProp;

cudaError_t cuda_on_cpu_launch(cudaStream_t stream, const std::function<void()> &work);
cudaError_t cuda_on_cpu_check(const cudaLaunchConfig_t *config, const void *kernel); /* whether CUDA would launch it */
void  cuda_on_cpu_run(dim3 grid, dim3 block, size_t room_bytes, unsigned cluster, const std::function<void()> &thread);
char *cuda_on_cpu_room(void); /* shared memory of the block, as large as the launch said */
const void *cuda_on_cpu_of_rank(const void *p, unsigned rank); /* where p is in the room of another of the cluster */

template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A... args)
{
    cudaError_t           error = cuda_on_cpu_check(config, (const void *)kernel);
    std::tuple<P...>      kept(args...);
    std::function<void()> thread = [kernel, kept]() { std::apply(kernel, kept); };
    dim3                  grid = config->gridDim, block = config->blockDim;
    size_t                room    = config->dynamicSmemBytes;
    unsigned              cluster = config->numAttrs > 0 ? config->attrs[0].val.clusterDim.z : 1;

    if (error != cudaSuccess) return error;
    return cuda_on_cpu_launch(config->stream, [grid, block, room, cluster, thread]() {
        cuda_on_cpu_run(grid, block, room, cluster, thread);
    });
}

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult *result);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

#endif
