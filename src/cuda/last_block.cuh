/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels whose last block finishes what all of them have begun, instead of a second launch: every block writes its
 * part, and the one that is done last reads all parts, in a fixed order, so that the bits do not depend on which it is.
 *
 * The blocks count themselves in words of the lane (est_call.counters), which are 0 between launches. */
#ifndef EST_CUDA_LAST_BLOCK_CUH
#define EST_CUDA_LAST_BLOCK_CUH

#include "cuda/launch.cuh"

/* Whether this block is the last of `n` that count in a word; what the others wrote before is then there to be read.
 * All threads of the block call it. */
static inline __device__ bool est_is_last_block(uint32_t *counter, unsigned n)
{
    __shared__ bool last;

    __syncthreads(); /* orders what all threads have written before the count; __threadfence costs several times that */
    if (threadIdx.x == 0) {
        last = __nv_atomic_fetch_add(counter, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE) == n - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    return last;
}

#endif
