/* SPDX-License-Identifier: Apache-2.0
 *
 * EstCountZeros on a GPU: parts first, then their sum. */
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
};

template <typename T> static int launch(const est_call *c)
{
    int64_t length = c->in[0]->count, each = (length + EST_REDUCE_PARTS - 1) / EST_REDUCE_PARTS;
    double *parts = (double *)c->scratch;
    int     n, error;

    if (each < 2048) each = 2048;
    n     = (int)est_blocks(length, each);
    error = est_launch(c, est_reduce_parts<zeros<T>, T>, dim3((unsigned)n), EST_BLOCK, est_data<T>(c->in[0]), parts,
                       length, each);
    if (error != 0) return error;
    return est_launch(c, est_reduce_last<est_reduce_sum<double>, double>, dim3(1), EST_REDUCE_PARTS,
                      (const double *)parts, n, est_data<double>(&c->out[0]), length);
}

EST_DEFINE_LAUNCHER(count_zeros)
{
    return c->in[0]->dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
