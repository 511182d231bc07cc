/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any set of axes on a GPU.
 *
 * The axes may be in memory of the device, where only kernels can look: every thread then finds out itself where the
 * elements of its result are. One result is made by a block, or by a thread where few elements go into each; a single
 * result of many elements by several blocks, whose parts the last one joins in order. All of that depends on shapes
 * alone. A reducer is a struct with
 *
 *     Total                                     what is accumulated
 *     static Total start(), add(Total, T), join(Total, Total)
 *     static T finish(Total, int64_t count) */
#ifndef EST_CUDA_REDUCTION_CUH
#define EST_CUDA_REDUCTION_CUH

#include "cuda/last_block.cuh"
#include "cuda/launchers.h"
#include "cuda/reduce.cuh"

/* Which axes: a list of integers on the device, or a mask. */
typedef struct est_axes {
    const void *list; /* NULL: mask */
    bool        wide;
    int         n;
    uint32_t    mask;
} est_axes;

static inline est_axes est_axes_of(const est_view *list)
{
    return est_axes{ list->data, list->dtype == EST_I64, (int)list->count, 0 };
}

static inline __device__ uint32_t est_axes_mask(est_axes axes, int rank)
{
    uint32_t mask = axes.mask;

    for (int i = 0; axes.list != NULL && i < axes.n; i++) {
        int a = axes.wide ? (int)((const int64_t *)axes.list)[i] : ((const int32_t *)axes.list)[i];
        mask |= 1u << (a < 0 ? a + rank : a);
    }
    return mask;
}

/* Sizes and strides of the axes that are reduced, or of the others, innermost first. */
typedef struct est_axis_group {
    int     n;
    int64_t dim[EST_RANK_MAX], stride[EST_RANK_MAX];
} est_axis_group;

static inline __device__ est_axis_group est_axis_group_of(const est_shape &shape, uint32_t mask, bool reduced)
{
    est_axis_group g      = {};
    int64_t        stride = 1;

    for (int a = shape.rank - 1; a >= 0; stride *= shape.dim[a], a--) {
        if (shape.dim[a] == 1 || ((mask >> a & 1) != 0) != reduced) continue;
        if (g.n > 0 && stride == g.stride[g.n - 1] * g.dim[g.n - 1]) {
            g.dim[g.n - 1] *= shape.dim[a];
            continue;
        }
        g.dim[g.n]      = shape.dim[a];
        g.stride[g.n++] = stride;
    }
    return g;
}

static inline __device__ int64_t est_axis_place(const est_axis_group &g, int64_t i)
{
    int64_t at = 0;

    for (int a = 0; a < g.n; a++) {
        int64_t next = a + 1 < g.n ? i / g.dim[a] : 0;

        at += (i - next * g.dim[a]) * g.stride[a];
        i = next;
    }
    return at;
}

template <typename R> struct est_join_of {
    template <typename Total> __device__ Total operator()(Total a, Total b) const
    {
        return R::join(a, b);
    }
};

/* A thread a result, or a block a result. */
template <typename R, typename T, bool BY_BLOCK>
static __global__ void est_reduce_each(const T *x, T *y, est_shape shape, est_axes axes, int64_t results,
                                       int64_t length)
{
    uint32_t          mask = est_axes_mask(axes, shape.rank);
    est_axis_group    in = est_axis_group_of(shape, mask, true), out = est_axis_group_of(shape, mask, false);
    int64_t           i     = BY_BLOCK ? (int64_t)blockIdx.x : est_thread();
    typename R::Total total = R::start();

    if (i >= results) return;
    x += est_axis_place(out, i);
    for (int64_t j = BY_BLOCK ? threadIdx.x : 0; j < length; j += BY_BLOCK ? blockDim.x : 1) {
        total = R::add(total, x[est_axis_place(in, j)]);
    }
    if (BY_BLOCK) total = est_block_first(total, R::start(), est_join_of<R>());
    if (!BY_BLOCK || threadIdx.x == 0) y[i] = R::finish(total, length);
}

/* A grid for n threads that ends in est_reduce_grid: one block if that is enough. */
#define EST_CUT_BLOCK 1024 /* threads of its blocks at most: kernels that use it say so to the compiler */
typedef struct est_reduce_cut {
    unsigned blocks;
    int      block;
} est_reduce_cut;

static inline est_reduce_cut est_reduce_cut_of(int64_t n)
{
    est_reduce_cut cut = { 1, EST_BLOCK };

    while (cut.block < EST_CUT_BLOCK && cut.block < n) cut.block *= 2;
    return n > cut.block ? est_reduce_cut{ est_blocks(n), EST_BLOCK } : cut;
}

/* One result of what all threads have; each block leaves a part, and the last one joins them. */
template <typename R, typename T>
static __device__ void est_reduce_grid(typename R::Total own, typename R::Total *part, uint32_t *counter, T *y,
                                       int64_t length)
{
    own = est_block_first(own, R::start(), est_join_of<R>());
    if (threadIdx.x == 0 && gridDim.x == 1) *y = R::finish(own, length);
    if (gridDim.x == 1) return;
    if (threadIdx.x == 0) part[blockIdx.x] = own;
    if (!est_is_last_block(counter, gridDim.x)) return;
    own = R::start();
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) own = R::join(own, __ldcg(&part[i]));
    own = est_block_first(own, R::start(), est_join_of<R>());
    if (threadIdx.x == 0) *y = R::finish(own, length);
}

template <typename R, typename T, typename Y>
static __global__ void est_reduce_parts(const T *x, typename R::Total *part, uint32_t *counter, Y *y, int64_t length,
                                        int64_t each)
{
    int64_t           first = (int64_t)blockIdx.x * each, end = first + each < length ? first + each : length;
    typename R::Total total = R::start();

    for (int64_t j = first + threadIdx.x; j < end; j += blockDim.x) total = R::add(total, x[j]);
    est_reduce_grid<R>(total, part, counter, y, length);
}

/* One result that one block makes. */
template <typename R, typename T> static __global__ void est_reduce_one(const T *x, T *y, int64_t length)
{
    typename R::Total total = R::start();

    for (int64_t j = threadIdx.x; j < length; j += blockDim.x) total = R::add(total, x[j]);
    total = est_block_first(total, R::start(), est_join_of<R>());
    if (threadIdx.x == 0) *y = R::finish(total, length);
}

/* Results of one element each. */
template <typename R, typename T> static __global__ void est_reduce_none(const T *x, T *y, int64_t results)
{
    int64_t i = est_thread();

    if (i < results) y[i] = R::finish(R::add(R::start(), x[i]), 1);
}

/* One result of a long row, in the call's scratch of EST_REDUCE_PARTS totals. */
template <typename R, typename T, typename Y> int est_reduce_long_launch(const est_call *c, const T *x, Y *y, int64_t n)
{
    int64_t each = (n + EST_REDUCE_PARTS - 1) / EST_REDUCE_PARTS;

    if (each < 2048) each = 2048;
    return est_launch(c, est_reduce_parts<R, T, Y>, dim3(n > 0 ? est_blocks(n, each) : 1), EST_BLOCK, x,
                      (typename R::Total *)c->scratch, c->counters, y, n, each);
}

#define EST_REDUCE_LONG 8192 /* elements of one result that are worth several blocks */
#define EST_REDUCE_ROW  128  /* elements that are worth a block */

template <typename R, typename T>
int est_reduce_launch(const est_call *c, const est_view *x, est_view *y, est_axes axes)
{
    int64_t results = y->count, length = results > 0 ? x->count / results : 0;

    if (results == 1 && length > EST_REDUCE_LONG) {
        return est_reduce_long_launch<R>(c, est_data<T>(x), est_data<T>(y), length);
    }
    if (results == 1 && length > 1) {
        return est_launch(c, est_reduce_one<R, T>, dim3(1), 1024, est_data<T>(x), est_data<T>(y), length);
    }
    if (length == 1) {
        return est_launch(c, est_reduce_none<R, T>, dim3(est_blocks(results)), EST_BLOCK, est_data<T>(x),
                          est_data<T>(y), results);
    }
    if (length >= EST_REDUCE_ROW) {
        return est_launch(c, est_reduce_each<R, T, true>, dim3((unsigned)results), EST_BLOCK, est_data<T>(x),
                          est_data<T>(y), x->shape, axes, results, length);
    }
    return est_launch(c, est_reduce_each<R, T, false>, dim3(est_blocks(results)), EST_BLOCK, est_data<T>(x),
                      est_data<T>(y), x->shape, axes, results, length);
}

/* --- reducers ----------------------------------------------------------------------------------------------------- */

/* Floats are summed as doubles, integers wrap. */
template <typename T> struct est_sum_total {
    typedef double type;
};
template <> struct est_sum_total<uint32_t> {
    typedef uint32_t type;
};
template <> struct est_sum_total<uint64_t> {
    typedef uint64_t type;
};

template <typename T> struct est_reduce_sum {
    typedef typename est_sum_total<T>::type Total;
    static __device__ Total                 start()
    {
        return 0;
    }
    static __device__ Total add(Total t, T x)
    {
        return t + (Total)x;
    }
    static __device__ Total join(Total a, Total b)
    {
        return a + b;
    }
    static __device__ T finish(Total t, int64_t)
    {
        return (T)t;
    }
};

template <typename T> struct est_reduce_mean : est_reduce_sum<T> {
    static __device__ T finish(double t, int64_t count)
    {
        return (T)(t / (double)count);
    }
};

#endif
