/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to bfloat16, the upper half of a float32, which the kernels of the CPU and of GPUs share. */
#ifndef EST_CUDA_BFLOAT16_H
#define EST_CUDA_BFLOAT16_H

#include <stdint.h>

#include "base/both.h"

/* To the nearest, ties to even. A NaN stays one, and what is too large becomes infinite. */
EST_BOTH float est_to_bfloat16(float x)
{
    union {
        float    number;
        uint32_t bits;
    } u;

    u.number = x;
    u.bits   = x == x ? u.bits + 0x7fffU + (u.bits >> 16 & 1U) : u.bits | 0x400000U;
    u.bits &= 0xffff0000U;
    return u.number;
}

/* The same in two bytes, and back. */
EST_BOTH uint16_t est_bfloat16_bits(float x)
{
    union {
        float    number;
        uint32_t bits;
    } u;

    u.number = est_to_bfloat16(x);
    return (uint16_t)(u.bits >> 16);
}

EST_BOTH float est_of_bfloat16_bits(uint16_t bits)
{
    union {
        float    number;
        uint32_t bits;
    } u;

    u.bits = (uint32_t)bits << 16;
    return u.number;
}

#endif
