/* SPDX-License-Identifier: Apache-2.0
 *
 * EstCountZeros on a GPU. */
#include "cuda/reduction.cuh"

template <typename T> struct zeros {
    typedef double          Total;
    static __device__ Total start()
    {
        return 0;
    }
    static __device__ Total add(Total t, T x)
    {
        return t + (x == 0 ? 1 : 0);
    }
    static __device__ Total join(Total a, Total b)
    {
        return a + b;
    }
    static __device__ double finish(Total t, int64_t)
    {
        return t;
    }
};

template <typename T> static int launch(const est_call *c)
{
    return est_reduce_long_launch<zeros<T>>(c, est_data<T>(c->in[0]), est_data<double>(&c->out[0]), c->in[0]->count);
}

EST_DEFINE_LAUNCHER(count_zeros)
{
    return c->in[0]->dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
