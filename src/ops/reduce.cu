/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over axes, and EstReduceGrad, on a GPU (cuda/reduction.cuh). */
#include <math.h>

#include "cuda/reduction.cuh"

/* The least number of a type. */
template <typename T> static __device__ T lowest();
template <> __device__ float              lowest<float>()
{
    return -INFINITY;
}
template <> __device__ double lowest<double>()
{
    return -INFINITY;
}
template <> __device__ int32_t lowest<int32_t>()
{
    return INT32_MIN;
}
template <> __device__ int64_t lowest<int64_t>()
{
    return INT64_MIN;
}
template <> __device__ uint8_t lowest<uint8_t>()
{
    return 0;
}
template <typename T> static __device__ T highest();
template <> __device__ float              highest<float>()
{
    return INFINITY;
}
template <> __device__ double highest<double>()
{
    return INFINITY;
}
template <> __device__ int32_t highest<int32_t>()
{
    return INT32_MAX;
}
template <> __device__ int64_t highest<int64_t>()
{
    return INT64_MAX;
}
template <> __device__ uint8_t highest<uint8_t>()
{
    return 1;
}

template <typename T> struct largest {
    typedef T           Total;
    static __device__ T start()
    {
        return lowest<T>();
    }
    static __device__ T add(T t, T x)
    {
        return est_join_max()(t, x);
    }
    static __device__ T join(T a, T b)
    {
        return est_join_max()(a, b);
    }
    static __device__ T finish(T t, int64_t)
    {
        return t;
    }
};

template <typename T> struct smallest {
    typedef T           Total;
    static __device__ T start()
    {
        return highest<T>();
    }
    static __device__ T add(T t, T x)
    {
        return est_join_min()(t, x);
    }
    static __device__ T join(T a, T b)
    {
        return est_join_min()(a, b);
    }
    static __device__ T finish(T t, int64_t)
    {
        return t;
    }
};

template <typename T> struct product {
    typedef typename est_sum_total<T>::type Total;
    static __device__ Total                 start()
    {
        return 1;
    }
    static __device__ Total add(Total t, T x)
    {
        return t * (Total)x;
    }
    static __device__ Total join(Total a, Total b)
    {
        return a * b;
    }
    static __device__ T finish(Total t, int64_t)
    {
        return (T)t;
    }
};

template <typename R, typename T> static int launch(est_call *c)
{
    return est_reduce_launch<R, T>(c, c->in[0], &c->out[0], est_axes_of(c->in[1]));
}

#define NUMBERS(name, reducer, T32, T64)                                                                               \
    EST_DEFINE_LAUNCHER(name)                                                                                          \
    {                                                                                                                  \
        switch (c->in[0]->dtype) {                                                                                     \
        case EST_F32: return launch<reducer<float>, float>(c);                                                         \
        case EST_F64: return launch<reducer<double>, double>(c);                                                       \
        case EST_I32: return launch<reducer<T32>, T32>(c);                                                             \
        default: return launch<reducer<T64>, T64>(c);                                                                  \
        }                                                                                                              \
    }
NUMBERS(reduce_sum, est_reduce_sum, uint32_t, uint64_t)
NUMBERS(reduce_max, largest, int32_t, int64_t)
NUMBERS(reduce_min, smallest, int32_t, int64_t)
NUMBERS(reduce_prod, product, uint32_t, uint64_t)

EST_DEFINE_LAUNCHER(reduce_mean)
{
    return c->in[0]->dtype == EST_F32 ? launch<est_reduce_mean<float>, float>(c)
                                      : launch<est_reduce_mean<double>, double>(c);
}

EST_DEFINE_LAUNCHER(reduce_all)
{
    return launch<smallest<uint8_t>, uint8_t>(c);
}

EST_DEFINE_LAUNCHER(reduce_any)
{
    return launch<largest<uint8_t>, uint8_t>(c);
}

/* --- EstReduceGrad ------------------------------------------------------------------------------------------------ */

template <typename T>
static __global__ void spread(const T *dy, T *dx, est_shape shape, est_axes axes, int64_t count, T factor)
{
    int64_t i = est_thread(), at = i, place = 0, stride = 1;

    if (i >= count) return;
    if (axes.n > 0) { /* place of the result that element i went into */
        uint32_t mask = est_axes_mask(axes, shape.rank);

        for (int a = shape.rank - 1; a >= 0; a--) {
            int64_t here = at % shape.dim[a];

            at /= shape.dim[a];
            if ((mask >> a & 1) != 0) continue;
            place += here * stride;
            stride *= shape.dim[a];
        }
    } else {
        place = i;
    }
    dx[i] = dy[place] * factor;
}

template <typename T> static __global__ void spread_one(const T *dy, T *dx, int64_t count, T factor)
{
    int64_t i = est_thread();

    if (i < count) dx[i] = *dy * factor;
}

template <typename T> static int launch_spread(const est_call *c)
{
    const est_view *dy = c->in[0], *dx = &c->out[0];
    T               factor = c->param[0].i != 0 && dx->count > 0 ? (T)((double)dy->count / (double)dx->count) : (T)1;

    if (dy->count == 1) {
        return est_launch(c, spread_one<T>, dim3(est_blocks(dx->count)), EST_BLOCK, est_data<T>(dy), est_data<T>(dx),
                          dx->count, factor);
    }
    return est_launch(c, spread<T>, dim3(est_blocks(dx->count)), EST_BLOCK, est_data<T>(dy), est_data<T>(dx), dx->shape,
                      est_axes_of(c->in[2]), dx->count, factor);
}

EST_DEFINE_LAUNCHER(reduce_grad)
{
    return c->in[0]->dtype == EST_F32 ? launch_spread<float>(c) : launch_spread<double>(c);
}
