/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA on the CPU: fibers, and functions of the runtime that compute at once. A capture keeps functions, each with those
 * that it waits for, as streams and events say. Every other launch of the graph calls them in the order in which they
 * were enqueued, the rest begin with the last that may run: what runs beside something else comes before it, then after.
 *
 * CUDA_VISIBLE_DEVICES says how many GPUs there are: as many as it names, one where it is not set. What CUDA refuses is
 * refused: launches for another device than the thread has chosen, grids and shared memory that are too large, lanes of a
 * capture that nobody has met, and waiting for a device while something is captured there. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cuda/gemm.cuh"
#include "cuda/tiles.cuh"

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

#define GRID_MAX    65535        /* blocks along y and z */
#define SHARED_MAX  (227u << 10) /* of a block, and what it gets unasked */
#define SHARED_MOST (48u << 10)

struct node {
    std::function<void()> work;
    std::set<size_t>      after; /* the nodes that it waits for */
};

struct cuda_on_cpu_graph {
    std::vector<node>      nodes;
    std::set<cudaStream_t> streams; /* that take part in the capture */
    unsigned               launches;
    bool                   invalid;
};

/* Of a stream or an event that takes part in a capture: the nodes that what follows waits for. */
struct position {
    cudaGraph_t      graph; /* NULL: it takes part in none */
    std::set<size_t> last;
};

struct cuda_on_cpu_stream {
    int      device;
    position at;
};

struct cuda_on_cpu_event {
    int      device;
    position at;
};

static thread_local int               chosen;   /* device */
static std::mutex                     lock;     /* guards what follows */
static std::map<cudaGraph_t, int>     captures; /* under way -> the device */
static std::map<const void *, size_t> allowed;  /* kernel -> shared memory */

static int count_devices(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int         n       = 1;

    if (visible == NULL) return 1;
    for (const char *at = visible; *at != '\0'; at++) n += *at == ',';
    return *visible != '\0' ? n : 0;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = count_devices();
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = chosen;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= count_devices()) return cudaErrorInvalidDevice;
    chosen = device;
    return cudaSuccess;
}

cudaError_t cuda_on_cpu_launch(cudaStream_t stream, const std::function<void()> &work)
{
    if (stream == NULL || stream->at.graph == NULL) {
        work();
        return cudaSuccess;
    }
    stream->at.graph->nodes.push_back(node{ work, stream->at.last });
    stream->at.last = { stream->at.graph->nodes.size() - 1 };
    return cudaSuccess;
}

cudaError_t cuda_on_cpu_check(const cudaLaunchConfig_t *config, const void *kernel)
{
    std::lock_guard<std::mutex> guard(lock);
    const dim3                 &grid = config->gridDim, &block = config->blockDim;
    unsigned                    cluster = config->numAttrs > 0 ? config->attrs[0].val.clusterDim.z : 1;
    size_t                      most    = allowed.count(kernel) > 0 ? allowed[kernel] : SHARED_MOST;

    if (config->stream != NULL && config->stream->device != chosen) return cudaErrorInvalidResourceHandle;
    if (config->dynamicSmemBytes > most) return cudaErrorInvalidValue;
    if (grid.x > INT32_MAX || grid.y > GRID_MAX || grid.z > GRID_MAX || block.x > 1024 || cluster > EST_CLUSTER_MAX ||
        cluster == 0 || grid.z % cluster != 0) {
        return cudaErrorInvalidConfiguration;
    }
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value)
{
    std::lock_guard<std::mutex> guard(lock);

    if (value < 0 || (unsigned)value > SHARED_MAX) return cudaErrorInvalidValue;
    allowed[kernel] = (size_t)value;
    return cudaSuccess;
}

/* --- streams and events ------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = new cuda_on_cpu_stream{ chosen, {} };
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = new cuda_on_cpu_event{ chosen, {} };
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (event->device != (stream != NULL ? stream->device : chosen)) return cudaErrorInvalidResourceHandle;
    event->at = stream != NULL ? stream->at : position{};
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (event->at.graph == NULL) return cudaSuccess;
    stream->at.graph = event->at.graph;
    stream->at.graph->streams.insert(stream);
    stream->at.last.insert(event->at.last.begin(), event->at.last.end());
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream == NULL || stream->at.graph == NULL) return cudaSuccess;
    stream->at.graph->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaDeviceSynchronize(void)
{
    std::lock_guard<std::mutex> guard(lock);
    cudaError_t                 error = cudaSuccess;

    for (const auto &capture : captures) {
        if (capture.second != chosen) continue;
        capture.first->invalid = true;
        error                  = cudaErrorStreamCaptureUnsupported;
    }
    return error;
}

/* --- captures and graphs ------------------------------------------------------------------------------------------ */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int)
{
    std::lock_guard<std::mutex> guard(lock);

    stream->at                 = position{ new cuda_on_cpu_graph(), {} };
    captures[stream->at.graph] = stream->device;
    stream->at.graph->streams.insert(stream);
    return cudaSuccess;
}

/* Whether a node is one that the stream, or another node, waits for. */
static bool all_are_met(cudaGraph_t graph, const std::set<size_t> &last)
{
    std::set<size_t> met = last;

    for (const node &n : graph->nodes) met.insert(n.after.begin(), n.after.end());
    return met.size() == graph->nodes.size();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    std::lock_guard<std::mutex> guard(lock);
    position                    at    = stream->at;
    cudaError_t                 error = cudaSuccess;

    captures.erase(at.graph);
    for (cudaStream_t member : at.graph->streams) member->at = position{};
    if (at.graph->invalid) error = cudaErrorStreamCaptureInvalidated;
    if (error == cudaSuccess && !all_are_met(at.graph, at.last)) error = cudaErrorStreamCaptureUnjoined;
    *out = error == cudaSuccess ? at.graph : NULL;
    if (error != cudaSuccess) delete at.graph;
    return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new cuda_on_cpu_graph(*graph);
    return cudaSuccess;
}

/* Calls a node of those that may run: the first that was enqueued, or the last. */
static void run_graph(cudaGraphExec_t graph, bool from_behind)
{
    size_t                           n = graph->nodes.size();
    std::vector<size_t>              waits(n);
    std::vector<std::vector<size_t>> then(n);
    std::set<size_t>                 ready;

    for (size_t i = 0; i < n; i++) {
        waits[i] = graph->nodes[i].after.size();
        for (size_t before : graph->nodes[i].after) then[before].push_back(i);
        if (waits[i] == 0) ready.insert(i);
    }
    while (!ready.empty()) {
        size_t i = from_behind ? *ready.rbegin() : *ready.begin();

        ready.erase(i);
        graph->nodes[i].work();
        for (size_t next : then[i]) {
            if (--waits[next] == 0) ready.insert(next);
        }
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t)
{
    run_graph(graph, graph->launches++ % 2 != 0);
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

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return cuda_on_cpu_launch(stream, [=]() { memset(to, value, bytes); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    return cuda_on_cpu_launch(stream, [=]() {
        if (bytes > 0) memmove(to, from, bytes);
    });
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
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    default: return "unknown error";
    }
}

#define NOTHING_TO_DO(call)                                                                                            \
    cudaError_t call                                                                                                   \
    {                                                                                                                  \
        return cudaSuccess;                                                                                            \
    }
NOTHING_TO_DO(cudaGetLastError(void))
NOTHING_TO_DO(cudaEventSynchronize(cudaEvent_t))
NOTHING_TO_DO(cudaEventQuery(cudaEvent_t))
NOTHING_TO_DO(cudaGraphUpload(cudaGraphExec_t, cudaStream_t))

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
