/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, maxima and the like over the threads of a warp and of a block, always in the same order. */
#ifndef EST_CUDA_REDUCE_CUH
#define EST_CUDA_REDUCE_CUH

#include "cuda/launch.cuh"

#define EST_WARP 32

/* All threads of the warp call it and get the result, each of `lanes` neighbours: a power of two. */
template <typename T, typename F> static __device__ T est_warp_all(T x, F join, int lanes = EST_WARP)
{
    for (int half = lanes / 2; half > 0; half /= 2) x = join(x, (T)__shfl_xor_sync(0xFFFFFFFFu, x, half));
    return x;
}

/* All threads of the block, whose number is a multiple of 32, call it; thread 0 gets the result. */
template <typename T, typename F> static __device__ T est_block_first(T x, T start, F join)
{
    __shared__ T part[EST_WARP];
    int          warp = (int)threadIdx.x / EST_WARP, lane = (int)threadIdx.x % EST_WARP;

    x = est_warp_all(x, join);
    if (lane == 0) part[warp] = x;
    __syncthreads();
    if (warp == 0) x = est_warp_all(lane < (int)blockDim.x / EST_WARP ? part[lane] : start, join);
    __syncthreads(); /* part may be used again */
    return x;
}

struct est_join_sum {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
struct est_join_max { /* a NaN wins */
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a > b || a != a ? a : b;
    }
};
struct est_join_min {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a < b || a != a ? a : b;
    }
};
struct est_join_product {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a * b;
    }
};

#endif
