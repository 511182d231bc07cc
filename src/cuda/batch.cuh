/* SPDX-License-Identifier: Apache-2.0
 *
 * Many calls as one launch. A model over many features has dozens of lookups and updates that differ in nothing but
 * addresses, and a launch costs about as much as each of them. A launcher that can do several calls at once does not
 * launch: it adds the arguments of its call to the batch of the thread. The batch is launched when anything else is
 * enqueued, or when a call comes that is of another kind or that touches memory which the batch writes, or writes
 * memory which it reads. So order means what it always means. Plans on a device put alike items next to each other
 * (runtime/order.c).
 *
 * Batches are only made while a recording is under way (cuda/plugin.cu). */
#ifndef EST_CUDA_BATCH_CUH
#define EST_CUDA_BATCH_CUH

#include "cuda/launch.cuh"

#define EST_BATCH_SPANS 24    /* pieces of memory that a call touches at most */
#define EST_BATCH_BYTES 20480 /* arguments of all calls; a kernel takes at most 32764 */

/* Pieces of memory that one call reads or writes. */
typedef struct est_span {
    uintptr_t begin, end;
    bool      written;
} est_span;

typedef struct est_touched {
    int         n;
    const void *owner; /* those of one owner do not clash: parts of a call that write beside each other; NULL: none */
    est_span    span[EST_BATCH_SPANS];
} est_touched;

/* Adds the memory of a view; false: it has no place. */
bool est_touch(est_touched *t, const est_view *view, bool written);

/* Everything the call's views say; scratch_bytes of its scratch. false: too many to say. */
bool est_touched_by(const est_call *c, size_t scratch_bytes, est_touched *out);

/* Adds `bytes` of arguments to the batch of calls with the same `launch`; `run` casts that back and calls it. What is
 * pending is launched first if this call cannot go along. Returns 0 or a cudaError. */
typedef int (*est_batch_run)(const est_call *c, void (*launch)(void), const void *args, int n);
int est_batch_push(const est_call *c, est_batch_run run, void (*launch)(void), const void *args, size_t bytes,
                   const est_touched *touched);

template <typename A> int est_batch_run_as(const est_call *c, void (*launch)(void), const void *args, int n)
{
    return ((int (*)(const est_call *, const A *, int))launch)(c, (const A *)args, n);
}

/* launch(c, calls, n) enqueues the kernels of n calls; of `c` only the stream counts. */
template <typename A>
int est_batch_add(const est_call *c, int (*launch)(const est_call *, const A *, int), const A &args,
                  size_t scratch_bytes = 0)
{
    est_touched touched;

    static_assert(sizeof(A) * EST_BATCH_MAX <= EST_BATCH_BYTES, "the arguments of a call are too large for a batch");
    if (!est_touched_by(c, scratch_bytes, &touched)) return launch(c, &args, 1);
    return est_batch_push(c, est_batch_run_as<A>, (void (*)(void))launch, &args, sizeof args, &touched);
}

/* --- in kernels --------------------------------------------------------------------------------------------------- */

/* The calls of a batch, by value; each has some of the blocks of the grid. */
template <typename A> struct est_many {
    int      n;
    unsigned first[EST_BATCH_MAX + 1]; /* block of each, and the end */
    A        call[EST_BATCH_MAX];
};

template <typename A, typename F> est_many<A> est_many_of(const A *calls, int n, F blocks)
{
    est_many<A> m = {};

    m.n = n;
    for (int i = 0; i < n; i++) {
        m.call[i]      = calls[i];
        m.first[i + 1] = m.first[i] + blocks(calls[i]);
    }
    return m;
}

/* The call of this block, and its number among the blocks of that call. */
template <typename A> static inline __device__ int est_own_call(const est_many<A> &m, unsigned *block)
{
    int low = 0, high = m.n;

    while (high - low > 1) { /* first[low] <= blockIdx.x < first[high] */
        int middle = (low + high) / 2;

        if (m.first[middle] <= blockIdx.x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *block = blockIdx.x - m.first[low];
    return low;
}

/* Enqueues a kernel over a batch. */
template <typename A>
int est_launch_many(const est_call *c, void (*kernel)(est_many<A>), const est_many<A> &m, int block)
{
    return est_launch(c, kernel, dim3(m.first[m.n]), block, m);
}

#endif
