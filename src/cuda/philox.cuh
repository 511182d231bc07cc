/* SPDX-License-Identifier: Apache-2.0
 *
 * Random words on a GPU: those of base/random.h, bit for bit. */
#ifndef EST_CUDA_PHILOX_CUH
#define EST_CUDA_PHILOX_CUH

#include "cuda/launch.cuh"

/* Four words for a counter under a key: est_random_block. */
static inline __device__ void est_philox(uint64_t key, uint64_t ctr_hi, uint64_t ctr_lo, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)ctr_lo, c1 = (uint32_t)(ctr_lo >> 32);
    uint32_t c2 = (uint32_t)ctr_hi, c3 = (uint32_t)(ctr_hi >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p2 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p2 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p2;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
