/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of bench/synth. Its output has to be the same on every machine, and floating point is not: libraries
 * round exp and log differently, and compilers fuse multiplications with additions. So everything here is integers,
 * with a binary point where the comments say: Q24 has 24 bits behind it. */
#ifndef EST_BENCH_SYNTH_MATH_H
#define EST_BENCH_SYNTH_MATH_H

#include <stdint.h>

#include "estoc/status.h"

#define SYNTH_P_BITS 20 /* probabilities are multiples of 2^-20, exact in float32 */
#define SYNTH_P_ONE  ((uint32_t)1 << SYNTH_P_BITS)

/* 64 bits that look random, different ones for different x (the last step of SplitMix64). */
static inline uint64_t synth_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The base-2 logarithm of x in Q24; x is not 0. */
uint32_t synth_log2(uint32_t x);

/* 2^-x for x in Q24; the result is Q63, and 1 is 2^63. */
uint64_t synth_exp2_minus(uint64_t x);

/* 1 / (1 + e^-z) for z in Q16, as a number of SYNTH_P_ONE from 1 to SYNTH_P_ONE - 1. */
uint32_t synth_logistic(int32_t z);

/* --- Zipf's distribution ------------------------------------------------------------------------------------------ */

/* One of n boxes of equal probability, which hold at most two ranks (Walker's alias method). */
typedef struct synth_box {
    uint32_t threshold; /* of 2^32: below it the box's own rank */
    uint32_t other;
} synth_box;

/* Ranks 0 to n - 1, each drawn with a probability in proportion to (rank + 1)^-exponent. */
typedef struct synth_zipf {
    synth_box *boxes;
    uint32_t   n;
} synth_zipf;

/* Fills a zeroed struct; exponent at least 0. Cleared by synth_zipf_clear. */
EST_MUST_CHECK est_status synth_zipf_init(synth_zipf *zipf, uint32_t n, double exponent);
void                      synth_zipf_clear(synth_zipf *zipf);

/* The rank that 64 random bits mean. */
static inline uint32_t synth_zipf_rank(const synth_zipf *zipf, uint64_t random)
{
    __extension__ typedef unsigned __int128 wide;
    wide                                    place = (wide)random * zipf->n;
    uint32_t                                i     = (uint32_t)(place >> 64);

    return (uint32_t)(place >> 32) < zipf->boxes[i].threshold ? i : zipf->boxes[i].other;
}

#endif
