/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10 and the distributions on top of it.
 *
 * Fills work in runs of at most RUN_BLOCKS blocks: the words of the run first, then numbers
 * from words. A run that starts or ends inside a block computes the whole block and copies a part. */
#include "base/random.h"

#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define ROUNDS     10
#define RUN_BLOCKS 16 /* words of a run: 256 bytes */

static const uint32_t mul_0 = 0xD2511F53, mul_2 = 0xCD9E8D57;
static const uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
static const double   two_pi = 6.283185307179586;

void est_random_block(uint64_t key, uint64_t ctr_hi, uint64_t ctr_lo, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)ctr_lo, c1 = (uint32_t)(ctr_lo >> 32);
    uint32_t c2 = (uint32_t)ctr_hi, c3 = (uint32_t)(ctr_hi >> 32);

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)mul_0 * c0, p2 = (uint64_t)mul_2 * c2;

        c0 = (uint32_t)(p2 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p2;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += weyl_0;
        k1 += weyl_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#ifdef __AVX2__
#define LANES 8

/* LANES blocks at once, from counter ctr_hi:ctr_lo on; ctr_lo must not wrap around among them. Every 32-bit word sits
 * in a 64-bit lane, where a vector multiplies it; what is in the upper half of c1 and c3 does not matter. */
static void philox_lanes(uint64_t key, uint64_t ctr_hi, uint64_t ctr_lo, uint32_t out[4 * LANES])
{
    const __m256i m0 = _mm256_set1_epi64x(mul_0), m2 = _mm256_set1_epi64x(mul_2);
    uint32_t      k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    __m256i       c0[2], c1[2], c2[2], c3[2];

    for (int j = 0; j < 2; j++) { /* two independent halves hide the latency of the multiplication */
        c0[j] = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)ctr_lo),
                                 _mm256_set_epi64x(3 + 4 * j, 2 + 4 * j, 1 + 4 * j, 4 * j));
        c1[j] = _mm256_srli_epi64(c0[j], 32);
        c2[j] = _mm256_set1_epi64x((int64_t)ctr_hi);
        c3[j] = _mm256_srli_epi64(c2[j], 32);
    }
    for (int round = 0; round < ROUNDS; round++) {
        const __m256i key_0 = _mm256_set1_epi64x(k0), key_1 = _mm256_set1_epi64x(k1);

        for (int j = 0; j < 2; j++) {
            __m256i p0 = _mm256_mul_epu32(c0[j], m0), p2 = _mm256_mul_epu32(c2[j], m2);

            c0[j] = _mm256_xor_si256(_mm256_srli_epi64(p2, 32), _mm256_xor_si256(c1[j], key_0));
            c1[j] = p2;
            c2[j] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3[j], key_1));
            c3[j] = p0;
        }
        k0 += weyl_0;
        k1 += weyl_1;
    }
    for (int j = 0; j < 2; j++) { /* four columns of words to four rows, each a block */
        __m256i c01  = _mm256_blend_epi32(c0[j], _mm256_slli_epi64(c1[j], 32), 0xaa);
        __m256i c23  = _mm256_blend_epi32(c2[j], _mm256_slli_epi64(c3[j], 32), 0xaa);
        __m256i even = _mm256_unpacklo_epi64(c01, c23), odd = _mm256_unpackhi_epi64(c01, c23);

        _mm256_storeu_si256((__m256i *)(void *)(out + 16 * j), _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256((__m256i *)(void *)(out + 16 * j + 8), _mm256_permute2x128_si256(even, odd, 0x31));
    }
}
#endif

/* Blocks [first, first + n) of the stream. */
static void stream_blocks(const est_random *random, uint64_t first, int n, uint32_t *out)
{
    uint64_t lo = random->block + first;
    uint64_t hi = random->stream + (lo < first);

#ifdef __AVX2__
    for (; n >= LANES && lo <= UINT64_MAX - LANES; n -= LANES, lo += LANES, out += 4 * LANES) {
        philox_lanes(random->key, hi, lo, out);
    }
#endif
    for (; n > 0; n--, out += 4) {
        est_random_block(random->key, hi, lo, out);
        lo++;
        hi += lo == 0;
    }
}

/* A distribution: turns the words of n blocks into n * per_block elements of element_bytes. */
typedef struct distribution {
    int    per_block;
    size_t element_bytes;
    void (*convert)(const void *params, const uint32_t *words, int n_blocks, void *out);
    const void *params;
} distribution;

static void fill(const est_random *random, int64_t first, int64_t n, const distribution *d, char *out)
{
    uint32_t words[4 * RUN_BLOCKS] = { 0 };
    union {
        uint32_t u32[4 * RUN_BLOCKS];
        uint64_t u64[2 * RUN_BLOCKS];
        float    f32[4 * RUN_BLOCKS];
        double   f64[2 * RUN_BLOCKS];
    } edge; /* a run of any type */
    int64_t end = first + n;

    while (first < end) {
        uint64_t block  = (uint64_t)first / (uint64_t)d->per_block;
        int      skip   = (int)(first % d->per_block);
        int64_t  wanted = end - first < RUN_BLOCKS * d->per_block - skip ? end - first
                                                                         : RUN_BLOCKS * d->per_block - skip;
        int      blocks = (int)((skip + wanted + d->per_block - 1) / d->per_block);
        size_t   bytes  = (size_t)wanted * d->element_bytes;

        stream_blocks(random, block, blocks, words);
        if (skip == 0 && wanted == (int64_t)blocks * d->per_block) {
            d->convert(d->params, words, blocks, out);
        } else {
            d->convert(d->params, words, blocks, &edge);
            memcpy(out, (const char *)&edge + (size_t)skip * d->element_bytes, bytes);
        }
        out += bytes;
        first += wanted;
    }
}

/* 1.xxx in binary with 23 or 52 random bits, minus 1. */
static float unit_f32(uint32_t word)
{
    uint32_t bits = 0x3f800000 | (word & 0x7fffff);
    float    value;

    memcpy(&value, &bits, sizeof value);
    return value - 1.0f;
}

static double unit_f64(uint32_t high, uint32_t low)
{
    uint64_t bits = UINT64_C(0x3ff0000000000000) | (uint64_t)(high & 0xfffff) << 32 | low;
    double   value;

    memcpy(&value, &bits, sizeof value);
    return value - 1.0;
}

/* Two independent normals from two words or four. The floor keeps log() finite. */
static void normal_pair_f32(const uint32_t words[2], float out[2])
{
    float u      = unit_f32(words[0]);
    float angle  = (float)(two_pi * (double)unit_f32(words[1]));
    float radius = sqrtf(-2.0f * logf(u < 1e-7f ? 1e-7f : u));

    out[0] = sinf(angle) * radius;
    out[1] = cosf(angle) * radius;
}

static void normal_pair_f64(const uint32_t words[4], double out[2])
{
    double u      = unit_f64(words[0], words[1]);
    double angle  = two_pi * unit_f64(words[2], words[3]);
    double radius = sqrt(-2.0 * log(u < 1e-7 ? 1e-7 : u));

    out[0] = sin(angle) * radius;
    out[1] = cos(angle) * radius;
}

static void convert_u32(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    (void)params;
    memcpy(out, words, (size_t)n_blocks * 4 * sizeof *words);
}

static void convert_uniform_f32(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    float *value = out;

    (void)params;
    for (int i = 0; i < 4 * n_blocks; i++) value[i] = unit_f32(words[i]);
}

static void convert_uniform_f64(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    double *value = out;

    (void)params;
    for (int i = 0; i < 2 * n_blocks; i++) value[i] = unit_f64(words[2 * i], words[2 * i + 1]);
}

static void convert_normal_f32(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    float *value = out;

    (void)params;
    for (int i = 0; i < 4 * n_blocks; i += 2) normal_pair_f32(words + i, value + i);
}

static void convert_normal_f64(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    double *value = out;

    (void)params;
    for (int i = 0; i < n_blocks; i++) normal_pair_f64(words + 4 * i, value + 2 * i);
}

typedef struct int_range {
    uint64_t low, width;
} int_range;

static void convert_int_i32(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    const int_range *range = params;
    uint32_t         low = (uint32_t)range->low, width = (uint32_t)range->width;
    uint32_t        *value = out; /* unsigned: low + offset wraps to the right signed value */

    for (int i = 0; i < 4 * n_blocks; i++) value[i] = low + words[i] % width;
}

static void convert_int_i64(const void *params, const uint32_t *words, int n_blocks, void *out)
{
    const int_range *range = params;
    uint64_t        *value = out;

    for (int i = 0; i < 2 * n_blocks; i++) {
        value[i] = range->low + (words[2 * i] | (uint64_t)words[2 * i + 1] << 32) % range->width;
    }
}

void est_random_fill_u32(const est_random *random, int64_t first, int64_t n, uint32_t *out)
{
    fill(random, first, n, &(distribution){ 4, sizeof *out, convert_u32, NULL }, (char *)out);
}

void est_random_fill_uniform_f32(const est_random *random, int64_t first, int64_t n, float *out)
{
    fill(random, first, n, &(distribution){ 4, sizeof *out, convert_uniform_f32, NULL }, (char *)out);
}

void est_random_fill_uniform_f64(const est_random *random, int64_t first, int64_t n, double *out)
{
    fill(random, first, n, &(distribution){ 2, sizeof *out, convert_uniform_f64, NULL }, (char *)out);
}

void est_random_fill_normal_f32(const est_random *random, int64_t first, int64_t n, float *out)
{
    fill(random, first, n, &(distribution){ 4, sizeof *out, convert_normal_f32, NULL }, (char *)out);
}

void est_random_fill_normal_f64(const est_random *random, int64_t first, int64_t n, double *out)
{
    fill(random, first, n, &(distribution){ 2, sizeof *out, convert_normal_f64, NULL }, (char *)out);
}

void est_random_fill_int_i32(const est_random *random, int64_t first, int64_t n, int32_t low, int32_t high,
                             int32_t *out)
{
    int_range range = { .low = (uint64_t)low, .width = (uint32_t)high - (uint32_t)low };

    fill(random, first, n, &(distribution){ 4, sizeof *out, convert_int_i32, &range }, (char *)out);
}

void est_random_fill_int_i64(const est_random *random, int64_t first, int64_t n, int64_t low, int64_t high,
                             int64_t *out)
{
    int_range range = { .low = (uint64_t)low, .width = (uint64_t)high - (uint64_t)low };

    fill(random, first, n, &(distribution){ 2, sizeof *out, convert_int_i64, &range }, (char *)out);
}

/* --- truncated normal --------------------------------------------------------------------------------------------- */

#define TRUNCATED_BLOCKS_F32 256 /* reserved for each group of 4 */
#define TRUNCATED_BLOCKS_F64 128 /* reserved for each group of 2 */

static void truncated_group_f32(const est_random *random, uint64_t group, float out[4])
{
    uint32_t words[4];
    float    pair[2];
    int      found = 0;

    for (uint64_t block = group * TRUNCATED_BLOCKS_F32; found < 4; block++) {
        stream_blocks(random, block, 1, words);
        for (int half = 0; half < 2; half++) {
            normal_pair_f32(words + 2 * half, pair);
            for (int i = 0; i < 2 && found < 4; i++) {
                if (fabsf(pair[i]) < 2.0f) out[found++] = pair[i];
            }
        }
    }
}

static void truncated_group_f64(const est_random *random, uint64_t group, double out[2])
{
    uint32_t words[4];
    double   pair[2];
    int      found = 0;

    for (uint64_t block = group * TRUNCATED_BLOCKS_F64; found < 2; block++) {
        stream_blocks(random, block, 1, words);
        normal_pair_f64(words, pair);
        for (int i = 0; i < 2 && found < 2; i++) {
            if (fabs(pair[i]) < 2.0) out[found++] = pair[i];
        }
    }
}

void est_random_fill_truncated_f32(const est_random *random, int64_t first, int64_t n, float *out)
{
    float group[4];

    for (int64_t i = first; i < first + n; i++) {
        if (i == first || i % 4 == 0) truncated_group_f32(random, (uint64_t)i / 4, group);
        *out++ = group[i % 4];
    }
}

void est_random_fill_truncated_f64(const est_random *random, int64_t first, int64_t n, double *out)
{
    double group[2];

    for (int64_t i = first; i < first + n; i++) {
        if (i == first || i % 2 == 0) truncated_group_f64(random, (uint64_t)i / 2, group);
        *out++ = group[i % 2];
    }
}
