/* SPDX-License-Identifier: Apache-2.0
 *
 * The plug-in: GPUs as devices (device/device.h). A queue is a CUDA stream, a recording a CUDA graph, a mark an event.
 *
 * Failures of kernels are in the queue's error word. A kernel that fails also sets a flag in memory of the host, so
 * that a wait looks at the word only when there is something to see. What est_kernel.fail needs of a call is kept, as
 * long as the call can still run: with its recording, or until a wait after it was launched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "cuda/gemm.cuh"
#include "cuda/launch.cuh"
#include "cuda/launchers.h"
#include "cuda/memory.cuh"
#include "cuda/nccl.cuh"
#include "cuda/sends.cuh"
#include "device/plugin.h"

#define MARKS_MAX 64 /* that are not done yet */
#define LANES_MAX 12

static const est_plugin_host *host;

#define FAIL(status, ...) (host->fail_at(__FILE__, __LINE__, (status), __VA_ARGS__), (status))

/* --- launchers ---------------------------------------------------------------------------------------------------- */

#define EST_LAUNCHER(name) extern "C" int est_cuda_##name(est_call *c);
#include "cuda/launchers.def"
#undef EST_LAUNCHER

static int (*const launchers[EST_LAUNCH_COUNT])(est_call *) = {
    NULL,
#define EST_LAUNCHER(name) est_cuda_##name,
#include "cuda/launchers.def"
#undef EST_LAUNCHER
};

static const est_kernel *kernels_of(const est_op *op)
{
    return op->cuda;
}

/* --- errors of CUDA ----------------------------------------------------------------------------------------------- */

static est_status check(int error, const char *what)
{
    if (error == 0) return EST_OK;
    (void)cudaGetLastError(); /* or the next call would report it again */
    if (error == (int)cudaErrorMemoryAllocation) {
        return FAIL(EST_RESOURCE_EXHAUSTED, "the GPU has no memory left to %s", what);
    }
    return FAIL(EST_INTERNAL, "the GPU failed to %s: %s", what, cudaGetErrorString((cudaError_t)error));
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* What was allocated, by address, for the limit of each GPU. */
static std::mutex                         memory_lock; /* guards what follows */
static std::unordered_map<void *, size_t> blocks;
static size_t                             taken[EST_GPUS_MAX], limits[EST_GPUS_MAX]; /* limit 0: none */

/* Whether so many bytes more may be taken; if so they are. */
static bool take(int gpu, size_t bytes)
{
    std::lock_guard<std::mutex> guard(memory_lock);

    if (limits[gpu] > 0 && (bytes > limits[gpu] || taken[gpu] > limits[gpu] - bytes)) return false;
    taken[gpu] += bytes;
    return true;
}

static void give_back(int gpu, size_t bytes)
{
    std::lock_guard<std::mutex> guard(memory_lock);

    taken[gpu] -= bytes;
}

static void gpu_limit(const est_device *device, size_t bytes)
{
    std::lock_guard<std::mutex> guard(memory_lock);

    limits[device->number] = bytes;
}

static void *gpu_alloc(const est_device *device, size_t bytes)
{
    void *p = NULL;

    if (bytes == 0) bytes = 1;
    if (!take(device->number, bytes)) return NULL;
    if (cudaSetDevice(device->number) == cudaSuccess) p = est_cuda_alloc(device->number, bytes);
    if (p != NULL) {
        std::lock_guard<std::mutex> guard(memory_lock);

        blocks[p] = bytes;
        return p;
    }
    (void)cudaGetLastError();
    give_back(device->number, bytes);
    return NULL;
}

static void forget_block(const est_device *device, void *p)
{
    std::lock_guard<std::mutex> guard(memory_lock);

    taken[device->number] -= blocks[p];
    blocks.erase(p);
}

/* Of each GPU: held, shared with others, by who records. To wait for a whole GPU is no operation that a recording of
 * another thread survives, and fails. */
static std::shared_mutex recording_locks[EST_GPUS_MAX];

static void gpu_free(const est_device *device, void *p)
{
    if (p == NULL || cudaSetDevice(device->number) != cudaSuccess) return;

    std::lock_guard<std::shared_mutex> guard(recording_locks[device->number]);

    (void)cudaDeviceSynchronize();
    forget_block(device, p); /* before its address may be another's */
    est_cuda_free(device->number, p);
}

static void *gpu_zalloc(const est_device *device, size_t bytes)
{
    void *p = gpu_alloc(device, bytes);

    if (p == NULL) return NULL;
    if (cudaMemsetAsync(p, 0, bytes, cudaStreamPerThread) == cudaSuccess &&
        cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess) {
        return p;
    }
    (void)cudaGetLastError();
    gpu_free(device, p);
    return NULL;
}

static void *gpu_alloc_staging(const est_device *device, size_t bytes)
{
    void *p = NULL;

    if (cudaSetDevice(device->number) == cudaSuccess &&
        cudaHostAlloc(&p, bytes > 0 ? bytes : 1, cudaHostAllocDefault) == cudaSuccess) {
        return p;
    }
    (void)cudaGetLastError();
    return NULL;
}

static void gpu_free_staging(const est_device *device, void *p)
{
    if (p == NULL || cudaSetDevice(device->number) != cudaSuccess) return;
    (void)cudaFreeHost(p);
}

static est_status copy_now(const est_device *device, void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    int error;

    if (bytes == 0) return EST_OK;
    error = (int)cudaSetDevice(device->number);
    if (error == 0) error = (int)cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread);
    if (error == 0) error = (int)cudaStreamSynchronize(cudaStreamPerThread);
    return check(error, kind == cudaMemcpyHostToDevice ? "copy to its memory" : "copy from its memory");
}

static est_status gpu_copy_in(const est_device *device, void *to, const void *from, size_t bytes)
{
    return copy_now(device, to, from, bytes, cudaMemcpyHostToDevice);
}

static est_status gpu_copy_out(const est_device *device, void *to, const void *from, size_t bytes)
{
    return copy_now(device, to, from, bytes, cudaMemcpyDeviceToHost);
}

static void gpu_memory(const est_device *device, size_t *available, size_t *total)
{
    *available = *total = 0;
    if (cudaSetDevice(device->number) == cudaSuccess) (void)cudaMemGetInfo(available, total);
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* A call whose kernel may fail. */
typedef struct checked_call {
    struct checked_call *next;
    const est_recording *recording; /* NULL: it was launched by itself */
    const est_kernel    *kernel;
    est_call             call;
    est_view            *views; /* inputs, then outputs */
    est_view           **in;
} checked_call;

struct est_recording {
    est_queue      *queue;
    cudaGraphExec_t graph;
    bool            checks; /* something in it may fail */

    const void *watched; /* looked at when all of it is done; NULL: nothing is */
    bool        is_double;
    int64_t     item; /* of the watch */
};

struct est_queue {
    const est_device *device;
    cudaStream_t      stream;
    cudaStream_t      lanes[LANES_MAX]; /* lane 0 is the stream */
    cudaEvent_t       forked, joined[LANES_MAX];
    int               n_lanes; /* of the fork under way; 0: none */
    cudaStream_t      now;     /* where the next launch goes */

    est_cuda_error *error;    /* on the GPU */
    uint32_t       *flag;     /* of the host: the GPU sets it with the word */
    uint32_t       *counters; /* on the GPU, EST_COUNTERS of each lane */
    checked_call   *checked;
    int64_t         n_items;   /* their numbers, in order of launch */
    int             n_alone;   /* of those, that were launched by themselves */
    bool            uncounted; /* some were launched by themselves since the last mark */

    est_recording *recording; /* under way */
    est_recording  single;    /* what runs as it comes, from `begin` to `end` */
    bool           is_single; /* that is under way */
    est_sends     *sends;     /* nothing else is enqueued before they are flushed */
    est_status     status;    /* of what was recorded */

    uint64_t    n_marks, n_counted; /* error->word.now, when all that is enqueued is done */
    cudaEvent_t marks[MARKS_MAX];
    uint64_t    counted_at[MARKS_MAX];
    int64_t     items_at[MARKS_MAX];
};

/* Forgets the calls of a recording; NULL: those launched by themselves whose number is below `end`. */
static void forget_calls(est_queue *q, const est_recording *recording, int64_t end)
{
    checked_call **at = &q->checked;

    while (*at != NULL) {
        checked_call *call = *at;

        if (call->recording == recording && call->call.item < end) {
            *at = call->next;
            if (recording == NULL) q->n_alone--;
            free(call);
        } else {
            at = &call->next;
        }
    }
}

/* Keeps what the kernel's fail() will look at. */
static est_status keep_call(est_queue *q, const est_kernel *kernel, const est_call *c)
{
    size_t        n_in = (size_t)c->n_in, n_out = (size_t)c->n_out;
    checked_call *kept = (checked_call *)malloc(sizeof *kept + (n_in + n_out) * sizeof(est_view) +
                                                n_in * sizeof(est_view *));

    if (kept == NULL) return FAIL(EST_RESOURCE_EXHAUSTED, "no memory for a call on a GPU");
    kept->views = (est_view *)(kept + 1);
    kept->in    = (est_view **)(kept->views + n_in + n_out);
    for (size_t i = 0; i < n_in; i++) {
        kept->views[i] = *c->in[i];
        kept->in[i]    = &kept->views[i];
    }
    for (size_t i = 0; i < n_out; i++) kept->views[n_in + i] = c->out[i];
    kept->recording = q->recording;
    kept->kernel    = kernel;
    kept->call      = *c;
    kept->call.in   = kept->in;
    kept->call.out  = kept->views + n_in;
    kept->next      = q->checked;
    q->checked      = kept;
    if (q->recording == NULL) q->n_alone++;
    return EST_OK;
}

static int make_streams(est_queue *q)
{
    int error = (int)cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking);

    q->now = q->lanes[0] = q->stream;
    for (int i = 1; i < LANES_MAX && error == 0; i++) {
        error = (int)cudaStreamCreateWithFlags(&q->lanes[i], cudaStreamNonBlocking);
        if (error == 0) error = (int)cudaEventCreateWithFlags(&q->joined[i], cudaEventDisableTiming);
    }
    if (error == 0) error = (int)cudaEventCreateWithFlags(&q->forked, cudaEventDisableTiming);
    for (int i = 0; i < MARKS_MAX && error == 0; i++) {
        error = (int)cudaEventCreateWithFlags(&q->marks[i], cudaEventDisableTiming);
    }
    return error;
}

static int make_error_word(est_queue *q)
{
    est_cuda_error fresh = {};
    void          *flag = NULL, *mapped = NULL, *word = NULL;
    int            error = (int)cudaHostAlloc(&flag, sizeof *q->flag, cudaHostAllocMapped);

    q->flag = (uint32_t *)flag;
    if (error == 0) *q->flag = 0;
    if (error == 0) error = (int)cudaHostGetDevicePointer(&mapped, flag, 0);
    if (error == 0) error = (int)cudaMalloc(&word, sizeof fresh);
    q->error   = (est_cuda_error *)word;
    fresh.flag = (uint32_t *)mapped;
    if (error == 0) error = (int)cudaMemcpyAsync(word, &fresh, sizeof fresh, cudaMemcpyHostToDevice, q->stream);
    return error == 0 ? (int)cudaStreamSynchronize(q->stream) : error;
}

static int make_counters(est_queue *q)
{
    size_t bytes = LANES_MAX * EST_COUNTERS * sizeof *q->counters;
    void  *p     = NULL;
    int    error = (int)cudaMalloc(&p, bytes);

    q->counters = (uint32_t *)p;
    if (error == 0) error = (int)cudaMemsetAsync(p, 0, bytes, q->stream);
    return error == 0 ? (int)cudaStreamSynchronize(q->stream) : error;
}

static void queue_close(est_queue *q)
{
    if (q == NULL) return;
    (void)cudaSetDevice(q->device->number);
    if (q->stream != NULL) (void)cudaStreamSynchronize(q->stream);
    for (int i = 0; i < MARKS_MAX; i++) {
        if (q->marks[i] != NULL) (void)cudaEventDestroy(q->marks[i]);
    }
    if (q->forked != NULL) (void)cudaEventDestroy(q->forked);
    for (int i = LANES_MAX - 1; i >= 0; i--) {
        if (q->joined[i] != NULL) (void)cudaEventDestroy(q->joined[i]);
        if (q->lanes[i] != NULL) (void)cudaStreamDestroy(q->lanes[i]);
    }
    while (q->checked != NULL) forget_calls(q, q->checked->recording, INT64_MAX);
    est_sends_free(q->sends);
    (void)cudaFree(q->error);
    (void)cudaFree(q->counters);
    (void)cudaFreeHost(q->flag);
    free(q);
}

static est_status queue_open(const est_device *device, est_queue **out)
{
    est_queue *q = (est_queue *)calloc(1, sizeof *q);
    int        error;

    if (q == NULL) return FAIL(EST_RESOURCE_EXHAUSTED, "no memory for a queue of a GPU");
    q->device = device;
    error     = (int)cudaSetDevice(device->number);
    if (error == 0) error = make_streams(q);
    if (error == 0) q->sends = est_sends_create(q->stream);
    if (error == 0 && q->sends == NULL) error = (int)cudaErrorMemoryAllocation;
    if (error == 0) error = make_error_word(q);
    if (error == 0) error = make_counters(q);
    if (error == 0) {
        est_cublaslt_open(); /* not while a recording is under way */
        *out = q;
        return EST_OK;
    }
    queue_close(q);
    return check(error, "open a queue");
}

/* --- work --------------------------------------------------------------------------------------------------------- */

/* The status of something that was enqueued; kept for `end` while recording. */
static est_status enqueued(est_queue *q, int error, const char *what)
{
    est_status status = check(error, what);

    if (status != EST_OK && q->recording != NULL) q->status = status;
    return status;
}

/* Kernels are launched, and events made, for the GPU that the thread has chosen last. Between `begin` and `end` it is the
 * queue's. */
static int choose_gpu(const est_queue *q)
{
    return q->recording != NULL || q->is_single ? 0 : (int)cudaSetDevice(q->device->number);
}

static int send_pending(est_queue *q)
{
    int error = choose_gpu(q);

    return error == 0 ? est_sends_flush(q->sends) : error;
}

static est_status flush_sends(est_queue *q)
{
    return enqueued(q, send_pending(q), "copy to its memory");
}

static est_status queue_launch(est_queue *q, const est_kernel *kernel, const est_call *call)
{
    est_call   c      = *call;
    est_status status = EST_OK;
    int        lane   = 0;

    while (q->lanes[lane] != q->now) lane++;
    c.stream   = q->now;
    c.counters = q->counters + lane * EST_COUNTERS;
    c.error    = &q->error->word;
    c.item     = q->n_items;
    if (kernel->fail != NULL) {
        q->n_items++;
        status = keep_call(q, kernel, &c);
        if (q->recording != NULL) {
            q->recording->checks = true;
        } else {
            q->uncounted = true;
        }
    }
    if (status == EST_OK && q->recording == NULL) status = flush_sends(q);
    if (status != EST_OK) return status;
    status = enqueued(q, launchers[kernel->launch](&c), c.node->op->name);
    if (status != EST_OK || q->recording != NULL || q->is_single) return status;
    return enqueued(q, est_batch_flush(), c.node->op->name); /* batches have an end */
}

static est_status queue_copy(est_queue *q, void *to, const void *from, size_t bytes)
{
    int error = q->recording == NULL ? send_pending(q) : 0;

    if (error == 0) error = est_batch_flush();
    if (error == 0) error = (int)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, q->now);
    return enqueued(q, error, "copy");
}

static est_status queue_send(est_queue *q, void *to, const void *from, size_t bytes)
{
    int error = choose_gpu(q);

    if (error == 0) error = est_sends_add(q->sends, to, from, bytes);
    return enqueued(q, error, "copy to its memory");
}

static est_status queue_fetch(est_queue *q, void *to, const void *from, size_t bytes)
{
    int error = send_pending(q);

    if (error == 0) error = est_batch_flush();
    if (error == 0) error = (int)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, q->now);
    return enqueued(q, error, "copy from its memory");
}

/* Looks at the watched value, and tells failures before it from those after it. */
static __global__ void count_run(est_reporter reporter, const void *watched, bool is_double)
{
    if (watched != NULL && isnan(is_double ? *(const double *)watched : (double)*(const float *)watched)) {
        est_report(reporter, 0, 0, 0);
    }
    reporter.error->word.now++;
}

static est_status launch_count(est_queue *q, const est_recording *r)
{
    est_call    c       = {};
    const void *watched = r != NULL ? r->watched : NULL;

    c.stream = q->stream;
    return enqueued(q,
                    est_launch(&c, count_run, dim3(1), 1, est_reporter{ q->error, r != NULL ? r->item : 0 }, watched,
                               r != NULL && r->is_double),
                    "count its runs");
}

static est_status watch_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    (void)c;
    (void)place;
    (void)value;
    return FAIL(EST_ABORTED, "the value is NaN");
}

static est_status queue_watch(est_queue *q, const void *value, bool is_double, const est_node_def *node)
{
    static est_kernel kernel = {};

    est_recording *r = q->is_single ? &q->single : q->recording;
    est_call       c = {};

    kernel.fail  = watch_fail;
    c.node       = node;
    c.item       = q->n_items++;
    r->watched   = value;
    r->is_double = is_double;
    r->item      = c.item;
    r->checks    = true;
    q->status    = keep_call(q, &kernel, &c);
    return q->status;
}

/* --- recordings --------------------------------------------------------------------------------------------------- */

static est_status queue_begin(est_queue *q, bool once)
{
    est_status status;

    EST_TRY(flush_sends(q));
    if (once) {
        q->single    = est_recording{};
        q->is_single = true;
        q->status    = EST_OK;
        return EST_OK;
    }
    q->recording = (est_recording *)calloc(1, sizeof *q->recording);
    if (q->recording == NULL) return FAIL(EST_RESOURCE_EXHAUSTED, "no memory for a recording");
    q->recording->queue = q;
    q->status           = EST_OK;
    recording_locks[q->device->number].lock_shared();
    status = check((int)cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeThreadLocal), "record");
    if (status == EST_OK) return EST_OK;
    recording_locks[q->device->number].unlock_shared();
    free(q->recording);
    q->recording = NULL;
    return status;
}

static void recording_drop(est_recording *r)
{
    if (r == NULL) return;
    if (r->graph != NULL) {
        (void)cudaStreamSynchronize(r->queue->stream);
        (void)cudaGraphExecDestroy(r->graph);
    }
    forget_calls(r->queue, r, INT64_MAX);
    free(r);
}

/* A graph for each recording: changed into that of other sizes (cudaGraphExecUpdate), one whose kernel ran in clusters
 * left what a kernel without them writes as it was. */
static est_status make_graph(est_queue *q, cudaGraph_t graph, cudaGraphExec_t *out)
{
    EST_TRY(check((int)cudaGraphInstantiate(out, graph, 0), "make a graph"));
    return check((int)cudaGraphUpload(*out, q->stream), "take a graph");
}

static est_status end_recording(est_queue *q, est_recording **out)
{
    est_recording *r     = q->recording;
    cudaGraph_t    graph = NULL;
    est_status     status;
    int            error;

    (void)enqueued(q, est_batch_flush(), "launch");
    if (r->checks && q->status == EST_OK) q->status = launch_count(q, r);
    status       = q->status;
    q->recording = NULL;
    q->now       = q->stream;
    q->n_lanes   = 0;
    error        = (int)cudaStreamEndCapture(q->stream, &graph);
    recording_locks[q->device->number].unlock_shared();
    if (status == EST_OK) status = check(error, "record");
    if (status == EST_OK) status = make_graph(q, graph, &r->graph);
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    if (status == EST_OK) {
        *out = r;
    } else {
        recording_drop(r);
    }
    return status;
}

/* Of what ran as it came. */
static est_status end_single(est_queue *q)
{
    est_status status = enqueued(q, est_batch_flush(), "launch");

    q->is_single = false;
    if (status != EST_OK || !(q->uncounted || q->single.checks)) return status;
    q->uncounted = false;
    q->n_counted++;
    return launch_count(q, &q->single);
}

static est_status queue_end(est_queue *q, est_recording **out)
{
    if (q->is_single) {
        *out = NULL;
        return end_single(q);
    }
    return end_recording(q, out);
}

static est_status queue_replay(est_queue *q, est_recording *r)
{
    EST_TRY(flush_sends(q));
    if (r->checks) q->n_counted++;
    return check((int)cudaGraphLaunch(r->graph, q->stream), "run a graph");
}

static est_status queue_fork(est_queue *q, int n_lanes)
{
    int error = est_batch_flush();

    if (error == 0) error = (int)cudaEventRecord(q->forked, q->stream);
    q->n_lanes = n_lanes < LANES_MAX - EST_SIDES ? n_lanes : LANES_MAX - EST_SIDES;
    for (int i = 1; i < q->n_lanes && error == 0; i++) error = (int)cudaStreamWaitEvent(q->lanes[i], q->forked, 0);
    return enqueued(q, error, "fork");
}

static est_status queue_lane(est_queue *q, int lane)
{
    q->now = q->lanes[lane % q->n_lanes];
    return enqueued(q, est_batch_flush(), "launch");
}

static est_status queue_join(est_queue *q)
{
    int error = est_batch_flush();

    for (int i = 1; i < q->n_lanes && error == 0; i++) {
        error = (int)cudaEventRecord(q->joined[i], q->lanes[i]);
        if (error == 0) error = (int)cudaStreamWaitEvent(q->stream, q->joined[i], 0);
    }
    q->n_lanes = 0;
    q->now     = q->stream;
    return enqueued(q, error, "join");
}

/* Side lanes are the last streams; forks take the first. */
static est_status queue_aside(est_queue *q, int lane)
{
    int error = est_batch_flush();

    q->now = q->stream;
    if (lane >= 0) {
        q->now = q->lanes[LANES_MAX - 1 - lane];
        if (error == 0) error = (int)cudaEventRecord(q->forked, q->stream);
        if (error == 0) error = (int)cudaStreamWaitEvent(q->now, q->forked, 0);
    }
    return enqueued(q, error, "fork");
}

static est_status queue_meet(est_queue *q, int lane)
{
    int i = LANES_MAX - 1 - lane, error = est_batch_flush();

    if (error == 0) error = (int)cudaEventRecord(q->joined[i], q->lanes[i]);
    if (error == 0) error = (int)cudaStreamWaitEvent(q->stream, q->joined[i], 0);
    return enqueued(q, error, "join");
}

/* --- marks -------------------------------------------------------------------------------------------------------- */

static est_status queue_mark(est_queue *q, uint64_t *out)
{
    uint64_t   mark   = q->n_marks + 1;
    int        at     = (int)(mark % MARKS_MAX);
    est_status status = EST_OK;

    if (mark > MARKS_MAX) status = check((int)cudaEventSynchronize(q->marks[at]), "finish");
    if (status == EST_OK) status = flush_sends(q);
    if (status == EST_OK && q->uncounted) {
        status       = launch_count(q, NULL);
        q->uncounted = false;
        q->n_counted++;
    }
    if (status == EST_OK) status = check((int)cudaEventRecord(q->marks[at], q->stream), "mark");
    if (status != EST_OK) return status;
    q->counted_at[at] = q->n_counted;
    q->items_at[at]   = q->n_items;
    *out = q->n_marks = mark;
    return EST_OK;
}

/* A kernel has failed. If that was before the mark, says so, and goes on with a clean word; what is enqueued behind the
 * failure runs first, and changes nothing. */
static est_status report(est_queue *q, uint64_t counted, const est_node_def **failed)
{
    est_cuda_error      error = {}, fresh = {};
    const checked_call *call = q->checked;
    est_status          status;

    EST_TRY(check((int)cudaStreamSynchronize(q->stream), "finish"));
    EST_TRY(gpu_copy_out(q->device, &error, q->error, sizeof error));
    if (error.word.run >= counted) return EST_OK; /* of a later run: its own wait reports it */
    fresh.word.now = error.word.now;
    fresh.flag     = error.flag;
    EST_TRY(gpu_copy_in(q->device, q->error, &fresh, sizeof fresh));
    *q->flag = 0;
    while (call != NULL && call->call.item != error.word.item) call = call->next;
    if (call == NULL)
        return FAIL(EST_INTERNAL, "the GPU reports a failure of call %lld, which is unknown",
                    (long long)error.word.item);
    *failed = call->call.node;
    status  = call->kernel->fail(&call->call, error.word.place, error.word.value);
    if (status != EST_OK) return status;
    return FAIL(EST_INTERNAL, "the GPU reports a failure that the operation does not know");
}

/* Waking up costs more than a short run takes: looks for a while before it sleeps. */
static int await_event(cudaEvent_t event)
{
    int error = (int)cudaErrorNotReady;

    for (int i = 0; i < 200 && error == (int)cudaErrorNotReady; i++) error = (int)cudaEventQuery(event);
    return error == (int)cudaErrorNotReady ? (int)cudaEventSynchronize(event) : error;
}

static est_status queue_wait(est_queue *q, uint64_t mark, const est_node_def **failed)
{
    int        at = (int)(mark % MARKS_MAX);
    est_status status;

    *failed = NULL;
    if (mark == 0) return EST_OK;
    EST_TRY(check(await_event(q->marks[at]), "finish"));
    status = *(volatile uint32_t *)q->flag != 0 ? report(q, q->counted_at[at], failed) : EST_OK;
    if (q->n_alone > 0) forget_calls(q, NULL, q->items_at[at]);
    return status;
}

static const est_device_runs gpu_runs = {
    queue_open,  queue_close, queue_launch, queue_copy,     queue_send,  queue_fetch,
    queue_begin, queue_end,   queue_replay, recording_drop, queue_watch, queue_fork,
    queue_lane,  queue_join,  queue_aside,  queue_meet,     queue_mark,  queue_wait,
};

/* --- the devices -------------------------------------------------------------------------------------------------- */

static est_device        gpus[EST_GPUS_MAX];
static const est_device *gpu_list[EST_GPUS_MAX];
static char              descriptions[EST_GPUS_MAX][320];
static char              missing[400];
static est_plugin        plugin;

/* Why there is no GPU, and what may hide it. */
static void say_missing(const char *why)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (visible == NULL) {
        snprintf(missing, sizeof missing, "%s", why);
    } else {
        snprintf(missing, sizeof missing, "%s (CUDA_VISIBLE_DEVICES is \"%s\")", why, visible);
    }
}

static void find_gpus(void)
{
    int n = 0, driver = 0, error = (int)cudaGetDeviceCount(&n);

    (void)cudaDriverGetVersion(&driver);
    if (error != 0) {
        say_missing(driver == 0 ? "the NVIDIA driver is not installed (libcuda.so.1)"
                                : cudaGetErrorString((cudaError_t)error));
        (void)cudaGetLastError();
    }
    for (int i = 0; i < n && error == 0 && plugin.n_devices < EST_GPUS_MAX; i++) {
        est_device    *gpu   = &gpus[plugin.n_devices];
        cudaDeviceProp found = {};

        if (cudaGetDeviceProperties(&found, i) != cudaSuccess) continue;
        if (found.major != 9) {
            snprintf(missing, sizeof missing, "GPU %d is an %s of compute capability %d.%d; this build is for 9.0", i,
                     found.name, found.major, found.minor);
            break; /* numbers are CUDA's: there may be no gap */
        }
        snprintf(descriptions[i], sizeof descriptions[i], "%s, compute capability %d.%d", found.name, found.major,
                 found.minor);
        gpu->kind                    = "GPU";
        gpu->number                  = i;
        gpu->description             = descriptions[i];
        gpu->alignment               = 256;
        gpu->kernels                 = kernels_of;
        gpu->alloc                   = gpu_alloc;
        gpu->zalloc                  = gpu_zalloc;
        gpu->free                    = gpu_free;
        gpu->alloc_staging           = gpu_alloc_staging;
        gpu->free_staging            = gpu_free_staging;
        gpu->copy_in                 = gpu_copy_in;
        gpu->copy_out                = gpu_copy_out;
        gpu->memory                  = gpu_memory;
        gpu->limit                   = gpu_limit;
        gpu->runs                    = &gpu_runs;
        gpu->sums                    = est_nccl_sums(host);
        gpu_list[plugin.n_devices++] = gpu;
    }
    if (plugin.n_devices == 0 && missing[0] == '\0') say_missing("the driver shows no GPU");
}

/* The one symbol of the library; called once (device/devices.c). */
extern "C" __attribute__((visibility("default"))) const est_plugin *est_cuda_plugin(const est_plugin_host *functions)
{
    host           = functions;
    plugin.build   = EST_PLUGIN_BUILD;
    plugin.devices = gpu_list;
    plugin.missing = missing;
    find_gpus();
    return &plugin;
}
