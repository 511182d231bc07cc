/* SPDX-License-Identifier: Apache-2.0
 *
 * What softmax, its logarithm and the cross entropies share: the maximum of a row and the sum of exp(x - maximum), by a
 * warp, or by some neighbours of it. */
#ifndef EST_CUDA_SOFTMAX_CUH
#define EST_CUDA_SOFTMAX_CUH

#include <math.h>

#include "cuda/reduce.cuh"

/* The row of this warp, and the lane of this thread. */
static inline __device__ int64_t est_warp_row(void)
{
    return est_thread() / EST_WARP;
}
static inline __device__ int est_lane(void)
{
    return (int)threadIdx.x % EST_WARP;
}

template <typename T>
static __device__ void est_softmax_row(const T *x, int64_t cols, T *top, T *sum, int lanes = EST_WARP)
{
    int lane = (int)threadIdx.x & (lanes - 1);
    T   high = x[0], total = 0;

    for (int64_t j = lane; j < cols; j += lanes) high = x[j] > high ? x[j] : high;
    high = est_warp_all(high, est_join_max(), lanes);
    for (int64_t j = lane; j < cols; j += lanes) total += exp(x[j] - high);
    *top = high;
    *sum = est_warp_all(total, est_join_sum(), lanes);
}

static inline unsigned est_row_blocks(int64_t rows)
{
    return est_blocks(rows, EST_BLOCK / EST_WARP);
}

#endif
