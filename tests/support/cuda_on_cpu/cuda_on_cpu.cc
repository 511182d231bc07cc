/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA on the CPU: fibers, and functions of the runtime that compute at once. Streams and events are nothing: all
 * that is enqueued is done. A capture keeps functions in a list, which a launch of the graph calls. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <memory>
#include <vector>

#include "cuda/gemm.cuh"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

/* --- fibers ------------------------------------------------------------------------------------------------------- */

dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace {

const size_t stack_bytes = 256 * 1024;

enum state { NEW, READY, AT_CLUSTER, AT_BLOCK, AT_WARP, DONE };

/* A fiber runs one thread after the other; one that waits at a barrier keeps its fiber. */
struct fiber {
    ucontext_t              context;
    std::unique_ptr<char[]> stack;
    unsigned                thread;
    void                   *fake_stack;
};

/* The blocks of a cluster, mostly one: those that run at the same time. */
struct cluster_run {
    const std::function<void()> *thread;
    unsigned                     n, next; /* threads of all blocks, and the first that has not begun */
    unsigned                     first;   /* block along z */
    std::vector<state>           states;
    std::vector<fiber *>         fibers; /* of threads that wait */
    std::vector<uint64_t>        slots;
};

cluster_run                         cluster;
std::vector<std::unique_ptr<fiber>> idle;
ucontext_t                          scheduler;
fiber                              *current;
#ifdef SANITIZED
void       *scheduler_fake_stack;
const void *scheduler_stack;
size_t      scheduler_bytes;
#endif

void to_scheduler(void)
{
    fiber *self = current;

#ifdef SANITIZED
    __sanitizer_start_switch_fiber(&self->fake_stack, scheduler_stack, scheduler_bytes);
#endif
    swapcontext(&self->context, &scheduler);
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(self->fake_stack, &scheduler_stack, &scheduler_bytes);
#endif
}

/* What a thread sees of itself. */
void enter(unsigned thread)
{
    threadIdx.x = thread % blockDim.x;
    blockIdx.z  = cluster.first + thread / blockDim.x;
}

void to_fiber(fiber *f)
{
    current = f;
    enter(f->thread);
#ifdef SANITIZED
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, f->stack.get(), stack_bytes);
#endif
    swapcontext(&scheduler, &f->context);
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, NULL, NULL);
#endif
}

/* Begins threads until one of them has waited and is done after all, or none is left. */
void fiber_main(void)
{
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_bytes);
#endif
    for (;;) {
        while (cluster.next < cluster.n) {
            current->thread = cluster.next++;
            enter(current->thread);
            (*cluster.thread)();
            cluster.states[current->thread] = DONE;
        }
        idle.emplace_back(current);
        to_scheduler();
    }
}

void prepare(ucontext_t *context, char *stack)
{
    getcontext(context);
    context->uc_stack.ss_sp   = stack;
    context->uc_stack.ss_size = stack_bytes;
    context->uc_link          = NULL;
    makecontext(context, fiber_main, 0);
}

fiber *take_fiber(void)
{
    fiber *f;

    if (!idle.empty()) {
        f = idle.back().release();
        idle.pop_back();
        return f;
    }
    f = new fiber();
    f->stack.reset(new char[stack_bytes]); /* most of it is never touched */
    prepare(&f->context, f->stack.get());
    return f;
}

void meet(state where)
{
    fiber   *self = current;
    unsigned t    = self->thread;

    cluster.states[t] = where;
    cluster.fibers[t] = self;
    to_scheduler();
}

/* Lets those of [first, end) go that all wait at one kind of barrier. */
void release(unsigned first, unsigned end, state where)
{
    for (unsigned t = first; t < end; t++) {
        if (cluster.states[t] != DONE && cluster.states[t] != where) return;
    }
    for (unsigned t = first; t < end; t++) {
        if (cluster.states[t] == where) cluster.states[t] = READY;
    }
}

void release_all(void)
{
    release(0, cluster.n, AT_CLUSTER);
    for (unsigned first = 0; first < cluster.n; first += blockDim.x) {
        unsigned end = first + blockDim.x;

        release(first, end, AT_BLOCK);
        for (unsigned warp = first; warp < end; warp += 32) release(warp, warp + 32 < end ? warp + 32 : end, AT_WARP);
    }
}

void run_cluster(void)
{
    for (;;) {
        bool ran = false, done = true;

        while (cluster.next < cluster.n) to_fiber(take_fiber());
        release_all();
        for (unsigned t = 0; t < cluster.n; t++) {
            done = done && cluster.states[t] == DONE;
            if (cluster.states[t] != READY) continue;
            ran = true;
            to_fiber(cluster.fibers[t]);
        }
        if (done) return;
        if (ran) continue;
        fprintf(stderr, "cuda_on_cpu: threads of a block wait at different barriers\n");
        abort();
    }
}

} // namespace

void __syncthreads(void)
{
    meet(AT_BLOCK);
}

void cuda_on_cpu_meet_warp(void)
{
    meet(AT_WARP);
}

void cuda_on_cpu_meet_cluster(void)
{
    meet(AT_CLUSTER);
}

void *cuda_on_cpu_slot(unsigned thread)
{
    return &cluster.slots.at(current->thread / blockDim.x * blockDim.x + thread);
}

static std::vector<char> rooms; /* of the blocks of a cluster */
static size_t            room_step;

static char *room_of(unsigned rank)
{
    return rooms.data() + (-(uintptr_t)rooms.data() & 127) + rank * room_step;
}

char *cuda_on_cpu_room(void)
{
    return room_of(blockIdx.z - cluster.first);
}

const void *cuda_on_cpu_of_rank(const void *p, unsigned rank)
{
    return room_of(rank) + ((const char *)p - cuda_on_cpu_room());
}

void cuda_on_cpu_run(dim3 grid, dim3 size, size_t room_bytes, unsigned blocks, const std::function<void()> &thread)
{
    room_step = (room_bytes + 127) / 128 * 128;
    rooms     = std::vector<char>(room_step * blocks + 127, (char)-1); /* NaNs */
    gridDim   = grid;
    blockDim  = size;
    for (unsigned i = 0; i < grid.x * grid.y * grid.z; i += blocks) {
        unsigned line = i / grid.z;

        cluster.first  = i % grid.z;
        blockIdx       = dim3(line % grid.x, line / grid.x, cluster.first);
        cluster.thread = &thread;
        cluster.n      = size.x * blocks;
        cluster.next   = 0;
        cluster.states.assign(cluster.n, NEW);
        cluster.fibers.assign(cluster.n, NULL);
        cluster.slots.assign(cluster.n, 0);
        run_cluster();
    }
}

/* --- the runtime -------------------------------------------------------------------------------------------------- */

struct cuda_on_cpu_graph {
    std::vector<std::function<void()>> work;
};

static cudaGraph_t capture; /* under way; NULL: none */

cudaError_t cuda_on_cpu_enqueue(const std::function<void()> &work)
{
    if (capture != NULL) {
        capture->work.push_back(work);
    } else {
        work();
    }
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, int)
{
    capture = new cuda_on_cpu_graph();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *out)
{
    *out    = capture;
    capture = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new cuda_on_cpu_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t)
{
    for (const auto &work : graph->work) work();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return cudaMalloc(out, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned)
{
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t)
{
    return cuda_on_cpu_enqueue([=]() { memset(to, value, bytes); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t)
{
    return cuda_on_cpu_enqueue([=]() {
        if (bytes > 0) memmove(to, from, bytes);
    });
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int)
{
    snprintf(out->name, sizeof out->name, "CUDA on the CPU");
    out->major = 9;
    out->minor = 0;
    return cudaSuccess;
}

/* --- the driver's memory: pages of a range of addresses ----------------------------------------------------------- */

#define TOTAL ((size_t)16 << 30)
#define PAGE  ((size_t)2 << 20)

static std::atomic<size_t> in_use; /* bytes of pages */

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *total     = TOTAL;
    *available = TOTAL - in_use;
    return cudaSuccess;
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *, int)
{
    *out = PAGE;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t, CUdeviceptr, unsigned long long)
{
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *out = (CUdeviceptr)p;
    return p != MAP_FAILED ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *, unsigned long long)
{
    *out = bytes;
    return in_use + bytes <= TOTAL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemMap(CUdeviceptr, size_t bytes, size_t, CUmemGenericAllocationHandle, unsigned long long)
{
    in_use += bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *, size_t)
{
    if (mprotect((void *)at, bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    memset((void *)at, 0xA5, bytes); /* nobody may count on zeros */
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    in_use -= bytes;
    (void)mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle)
{
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *)
{
    static const struct {
        const char *name;
        void       *function;
    } functions[] = {
#define FUNCTION(name) { #name, (void *)name }
        FUNCTION(cuMemGetAllocationGranularity),
        FUNCTION(cuMemAddressReserve),
        FUNCTION(cuMemCreate),
        FUNCTION(cuMemMap),
        FUNCTION(cuMemSetAccess),
        FUNCTION(cuMemUnmap),
        FUNCTION(cuMemRelease),
    };

    *out = NULL;
    for (const auto &f : functions) {
        if (strcmp(f.name, name) == 0) *out = f.function;
    }
    return *out != NULL ? cudaSuccess : cudaErrorUnknown;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : error == cudaErrorMemoryAllocation ? "out of memory" : "unknown error";
}

#define NOTHING_TO_DO(call)                                                                                            \
    cudaError_t call                                                                                                   \
    {                                                                                                                  \
        return cudaSuccess;                                                                                            \
    }
NOTHING_TO_DO(cudaGetLastError(void))
NOTHING_TO_DO(cudaSetDevice(int))
NOTHING_TO_DO(cudaStreamDestroy(cudaStream_t))
NOTHING_TO_DO(cudaStreamSynchronize(cudaStream_t))
NOTHING_TO_DO(cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned))
NOTHING_TO_DO(cudaEventDestroy(cudaEvent_t))
NOTHING_TO_DO(cudaEventRecord(cudaEvent_t, cudaStream_t))
NOTHING_TO_DO(cudaEventSynchronize(cudaEvent_t))
NOTHING_TO_DO(cudaEventQuery(cudaEvent_t))
NOTHING_TO_DO(cudaDeviceSynchronize(void))
NOTHING_TO_DO(cudaGraphUpload(cudaGraphExec_t, cudaStream_t))

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = (cudaStream_t)&capture; /* anything but NULL */
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = (cudaEvent_t)&capture;
    return cudaSuccess;
}

/* --- cuBLASLt ----------------------------------------------------------------------------------------------------- */

void est_cublaslt_open(void) {}

/* It says which of our kernels compute; both do so in float32 here. */
bool est_cublaslt_tf32(void)
{
    return getenv("ESTOC_NO_TF32") == NULL;
}

bool est_cublaslt_launch(const est_call *, const est_product *, int *)
{
    return false; /* not here: our own kernels compute */
}
