/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to bfloat16 on a GPU. */
#include "cuda/bfloat16.h"
#include "cuda/loops.cuh"

struct round_of {
    __device__ float operator()(float x) const
    {
        return est_to_bfloat16(x);
    }
};

struct pack_of {
    __device__ uint16_t operator()(float x) const
    {
        return est_bfloat16_bits(x);
    }
};

EST_DEFINE_LAUNCHER(pack_bfloat16)
{
    return est_map1_launch<float, uint16_t>(c, pack_of());
}

EST_DEFINE_LAUNCHER(round_bfloat16)
{
    return est_map1_launch<float, float>(c, round_of());
}
