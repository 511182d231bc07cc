/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums between GPUs of several processes by NCCL (est_device.sums), opened at run time: libnccl.so.2, in the folder
 * ESTOC_CUDA_LIBRARIES first.
 *
 * Values go from memory of the host to the GPU, are summed, and come back, all in a stream of the group's own. Nothing
 * waits in NCCL: communicators are non-blocking, and this file asks for their state. A communicator that is stuck, as
 * after the death of a rank, is aborted by a thread of its own: the call may take half a second, and never returns to
 * a thread that holds a recording of its sums.
 *
 * NCCL adds in an order that depends on the algorithm it chooses. A ring with the plain protocol gives the same bits in
 * every run; whoever sets NCCL_ALGO, NCCL_PROTO or NCCL_NVLS_ENABLE chooses himself. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "cuda/launch.cuh"
#include "cuda/nccl.cuh"
#include "cuda/nccl_api.h"

#define CALL_SECS  10.0 /* that a call may take to enqueue its sum, or the stream to be idle after an abort */
#define LEAVE_SECS 2.0  /* that the other ranks may take to leave, too */

static const est_plugin_host *host;

#define FAIL(status, ...) (host->fail_at(__FILE__, __LINE__, (status), __VA_ARGS__), (status))

/* --- the library -------------------------------------------------------------------------------------------------- */

#define DECLARE(name, arguments) static est_nccl_result(*nccl_##name) arguments;
EST_NCCL_FUNCTIONS(DECLARE)
#undef DECLARE

static const char *(*error_string)(est_nccl_result result);

static char missing[400]; /* "": it is there */

static void *open_file(void)
{
    const char *folder = getenv("ESTOC_CUDA_LIBRARIES");
    char        path[4096];

    if (folder != NULL && snprintf(path, sizeof path, "%s/libnccl.so.2", folder) < (int)sizeof path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) return library;
    }
    return dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
}

static bool open_once(void)
{
    void *library;
    int   version = 0;

    library = open_file();
    if (library == NULL) {
        snprintf(missing, sizeof missing, "%s", dlerror());
        return false;
    }
#define FIND(name, arguments)                                                                                          \
    nccl_##name = (decltype(nccl_##name))dlsym(library, "nccl" #name);                                                 \
    if (nccl_##name == NULL) {                                                                                         \
        snprintf(missing, sizeof missing, "libnccl.so.2 has no nccl" #name);                                           \
        return false;                                                                                                  \
    }
    EST_NCCL_FUNCTIONS(FIND)
#undef FIND
    error_string = (decltype(error_string))dlsym(library, "ncclGetErrorString");
    if (nccl_GetVersion(&version) == EST_NCCL_SUCCESS && version >= EST_NCCL_OLDEST && error_string != NULL)
        return true;
    snprintf(missing, sizeof missing, "libnccl.so.2 is of version %d; it needs %d or newer", version, EST_NCCL_OLDEST);
    return false;
}

static est_status open_library(void)
{
    static bool opened = open_once(); /* C++ makes this safe among threads */

    return opened ? EST_OK : FAIL(EST_NOT_FOUND, "%s", missing);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

struct est_sum_work {
    void         *data, *staging, *far; /* the caller's; pinned; the GPU's */
    size_t        bytes, capacity;
    cudaEvent_t   done;
    bool          busy;
    est_sum_work *next; /* of the group's works, which it keeps until it is closed */
};

struct est_sum_group {
    const est_device *device;
    est_nccl_comm    *comm;
    cudaStream_t      stream;
    est_sum_work     *works;
    std::mutex        lock; /* held while comm is used: an abort frees it */
    std::atomic<bool> aborted;
    std::thread       aborter; /* runs from the abort until close */
};

static double now(void)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void sleep_a_little(void)
{
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

static est_status aborted(void)
{
    return FAIL(EST_ABORTED, "the sums of the GPUs were aborted");
}

/* Waits while a call goes on. The lock is held, or nobody else has the group yet. */
static est_nccl_result settle(est_sum_group *g, est_nccl_result result, double secs)
{
    for (double end = now() + secs; result == EST_NCCL_IN_PROGRESS && now() < end && !g->aborted; sleep_a_little()) {
        est_nccl_result asked = nccl_CommGetAsyncError(g->comm, &result);

        if (asked != EST_NCCL_SUCCESS) return asked;
    }
    return result;
}

static est_status nccl_check(est_nccl_result result, const char *what)
{
    if (result == EST_NCCL_SUCCESS) return EST_OK;
    if (result == EST_NCCL_IN_PROGRESS) return FAIL(EST_UNAVAILABLE, "%s takes too long", what);
    return FAIL(EST_UNAVAILABLE, "%s failed: %s", what, error_string(result));
}

static est_status cuda_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return EST_OK;
    (void)cudaGetLastError(); /* or the next call would report it again */
    return FAIL(EST_INTERNAL, "the GPU failed to %s: %s", what, cudaGetErrorString(error));
}

static est_status sums_make_id(const est_device *device, void *id)
{
    static_assert(EST_SUM_ID_BYTES == EST_NCCL_ID_BYTES, "an id is NCCL's");
    est_nccl_id made = {};

    EST_TRY(open_library());
    if (id == NULL) return EST_OK;
    EST_TRY(cuda_check(cudaSetDevice(device->number), "be chosen"));
    EST_TRY(nccl_check(nccl_GetUniqueId(&made), "ncclGetUniqueId"));
    memcpy(id, &made, sizeof made);
    return EST_OK;
}

static void abort_comm(est_sum_group *g)
{
    std::lock_guard<std::mutex> guard(g->lock);

    if (g->comm != NULL) (void)nccl_CommAbort(g->comm);
    g->comm = NULL;
}

static void sums_abort(est_sum_group *g)
{
    if (g->aborted.exchange(true)) return;
    try {
        g->aborter = std::thread(abort_comm, g);
    } catch (const std::system_error &) { /* no thread is left */
        abort_comm(g);
    }
}

/* Leaves without disturbing ranks that have not ended their last sum yet. */
static void leave(est_sum_group *g)
{
    est_nccl_result result = EST_NCCL_SUCCESS;

    if (g->comm == NULL || g->aborted) return;
    {
        std::lock_guard<std::mutex> guard(g->lock);

        result = settle(g, nccl_CommFinalize(g->comm), LEAVE_SECS);
        if (result == EST_NCCL_SUCCESS) {
            (void)nccl_CommDestroy(g->comm);
            g->comm = NULL;
        }
    }
    if (result != EST_NCCL_SUCCESS) sums_abort(g);
}

/* Whether the stream is idle; it is soon, or never. */
static bool is_idle(est_sum_group *g)
{
    cudaEvent_t end  = NULL;
    bool        idle = false;

    if (g->stream == NULL) return true;
    if (cudaSetDevice(g->device->number) != cudaSuccess ||
        cudaEventCreateWithFlags(&end, cudaEventDisableTiming) != cudaSuccess) {
        return false;
    }
    if (cudaEventRecord(end, g->stream) == cudaSuccess) {
        for (double until = now() + CALL_SECS; !idle && now() < until; sleep_a_little()) {
            idle = cudaEventQuery(end) == cudaSuccess;
        }
    }
    (void)cudaEventDestroy(end);
    return idle;
}

static void sums_close(est_sum_group *g)
{
    if (g == NULL) return;
    (void)cudaSetDevice(g->device->number);
    leave(g);
    if (g->aborter.joinable()) g->aborter.join();
    if (!is_idle(g)) { /* its memory is in use: better lost than written by a sum */
        (void)cudaGetLastError();
        return;
    }
    while (g->works != NULL) {
        est_sum_work *work = g->works;

        g->works = work->next;
        g->device->free_staging(g->device, work->staging);
        g->device->free(g->device, work->far);
        if (work->done != NULL) (void)cudaEventDestroy(work->done);
        delete work;
    }
    if (g->stream != NULL) (void)cudaStreamDestroy(g->stream);
    delete g;
}

static est_status join(est_sum_group *g, const void *id, int n, int rank)
{
    est_nccl_result result;
    est_nccl_config config = { sizeof config, EST_NCCL_MAGIC, EST_NCCL_OLDEST, 0, INT_MIN, INT_MIN,
                               INT_MIN,       NULL,           INT_MIN };
    est_nccl_id     given;

    EST_TRY(open_library());
    memcpy(&given, id, sizeof given);
    EST_TRY(cuda_check(cudaSetDevice(g->device->number), "be chosen"));
    EST_TRY(cuda_check(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "make a stream"));
    result = nccl_CommInitRankConfig(&g->comm, n, given, rank, &config);
    return result == EST_NCCL_IN_PROGRESS ? EST_OK : nccl_check(result, "ncclCommInitRankConfig");
}

static est_status sums_open(const est_device *device, const void *id, int n, int rank, est_sum_group **out)
{
    est_sum_group *g = new (std::nothrow) est_sum_group{};
    est_status     status;

    if (g == NULL) return FAIL(EST_RESOURCE_EXHAUSTED, "no memory for a group of NCCL");
    g->device = device;
    status    = join(g, id, n, rank);
    if (status != EST_OK) {
        sums_abort(g);
        sums_close(g);
        return status;
    }
    *out = g;
    return EST_OK;
}

static est_status sums_opened(est_sum_group *g, double secs, bool *done)
{
    std::lock_guard<std::mutex> guard(g->lock);
    est_nccl_result             result;

    if (g->aborted) return aborted();
    result = settle(g, EST_NCCL_IN_PROGRESS, secs);
    if (result == EST_NCCL_IN_PROGRESS) return EST_OK;
    *done = result == EST_NCCL_SUCCESS;
    return nccl_check(result, "ncclCommInitRankConfig");
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

/* A work that is free, with room for so many bytes. */
static est_status find_work(est_sum_group *g, size_t bytes, est_sum_work **out)
{
    est_sum_work *work = g->works;

    while (work != NULL && (work->busy || work->capacity < bytes)) work = work->next;
    if (work == NULL) {
        work = new (std::nothrow) est_sum_work{};
        if (work == NULL) return FAIL(EST_RESOURCE_EXHAUSTED, "no memory for a sum of NCCL");
        work->next    = g->works;
        g->works      = work;
        work->busy    = true; /* for good, unless all of it can be made */
        work->staging = g->device->alloc_staging(g->device, bytes);
        work->far     = g->device->alloc(g->device, bytes);
        if (work->staging == NULL || work->far == NULL) {
            return FAIL(EST_RESOURCE_EXHAUSTED, "no memory left on the device GPU:%d for a sum of %zu bytes",
                        g->device->number, bytes);
        }
        EST_TRY(cuda_check(cudaEventCreateWithFlags(&work->done, cudaEventDisableTiming), "make an event"));
        work->capacity = bytes;
    }
    *out = work;
    return EST_OK;
}

static est_status enqueue(est_sum_group *g, est_sum_work *work, size_t count, est_dtype dtype)
{
    est_nccl_type               type = dtype == EST_F32 ? EST_NCCL_F32 : EST_NCCL_F64;
    std::lock_guard<std::mutex> guard(g->lock);

    if (g->aborted) return aborted();
    EST_TRY(
        cuda_check(cudaMemcpyAsync(work->far, work->staging, work->bytes, cudaMemcpyHostToDevice, g->stream), "copy"));
    EST_TRY(nccl_check(
        settle(g, nccl_AllReduce(work->far, work->far, count, type, EST_NCCL_SUM, g->comm, g->stream), CALL_SECS),
        "ncclAllReduce"));
    EST_TRY(
        cuda_check(cudaMemcpyAsync(work->staging, work->far, work->bytes, cudaMemcpyDeviceToHost, g->stream), "copy"));
    return cuda_check(cudaEventRecord(work->done, g->stream), "set a mark");
}

static est_status sums_sum(est_sum_group *g, void *data, size_t count, est_dtype dtype, est_sum_work **out)
{
    est_sum_work *work;

    if (g->aborted) return aborted();
    EST_TRY(cuda_check(cudaSetDevice(g->device->number), "be chosen"));
    EST_TRY(find_work(g, count * (dtype == EST_F32 ? sizeof(float) : sizeof(double)), &work));
    work->busy  = true;
    work->data  = data;
    work->bytes = count * (dtype == EST_F32 ? sizeof(float) : sizeof(double));
    memcpy(work->staging, data, work->bytes);
    EST_TRY(enqueue(g, work, count, dtype)); /* after a failure the work stays busy: the GPU may still use it */
    *out = work;
    return EST_OK;
}

/* What the communicator says of itself. */
static est_status look(est_sum_group *g)
{
    est_nccl_result             state = EST_NCCL_SUCCESS;
    std::lock_guard<std::mutex> guard(g->lock);

    if (g->aborted) return aborted();
    EST_TRY(nccl_check(nccl_CommGetAsyncError(g->comm, &state), "ncclCommGetAsyncError"));
    return state == EST_NCCL_IN_PROGRESS ? EST_OK : nccl_check(state, "a sum");
}

static est_status sums_wait(est_sum_group *g, est_sum_work *work, double secs, bool *done)
{
    for (double end = now() + secs;; sleep_a_little()) {
        cudaError_t error;

        if (g->aborted) return aborted();
        error = cudaEventQuery(work->done);
        if (error == cudaSuccess) {
            memcpy(work->data, work->staging, work->bytes);
            work->busy = false;
            *done      = true;
            return EST_OK;
        }
        if (error != cudaErrorNotReady) return cuda_check(error, "sum");
        if (now() >= end) return look(g);
    }
}

/* When the plug-in is loaded: at the first sum other threads run, which may read the environment. */
static void choose_order(void)
{
    (void)setenv("NCCL_ALGO", "Ring", 0);
    (void)setenv("NCCL_PROTO", "Simple", 0);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 0);
}

const est_device_sums *est_nccl_sums(const est_plugin_host *functions)
{
    static const est_device_sums sums = { "NCCL",     sums_make_id, sums_open, sums_opened,
                                          sums_close, sums_sum,     sums_wait, sums_abort };

    host = functions;
    choose_order();
    return &sums;
}
