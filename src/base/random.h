/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: Philox4x32-10, a function from a counter to four random words.
 *
 * Nothing is drawn from a state: element i of a fill depends only on the stream and on i. So a fill may be split among
 * threads or machines in any way and gives the same numbers, bit for bit. How words become numbers, and which words an
 * element uses, is as in TensorFlow's CPU kernels.
 *
 * Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Any thread. */
#ifndef EST_BASE_RANDOM_H
#define EST_BASE_RANDOM_H

#include <stdint.h>

/* Four random words for the 128-bit counter ctr_hi:ctr_lo under a 64-bit key. */
void est_random_block(uint64_t key, uint64_t ctr_hi, uint64_t ctr_lo, uint32_t out[4]);

/* A stream of random numbers. Two streams that differ in key or stream never share numbers; `block` says how many
 * blocks of four words at its beginning are skipped. */
typedef struct est_random {
    uint64_t key;
    uint64_t stream;
    uint64_t block;
} est_random;

/* Words [first, first + n) of the stream. */
void est_random_fill_u32(const est_random *random, int64_t first, int64_t n, uint32_t *out);

/* Each of the following writes elements [first, first + n) of an endless sequence to out[0 .. n). The comment says how
 * many blocks of the stream a group of elements uses. */

/* Uniform in [0, 1): 23 or 52 random bits. 4 floats or 2 doubles a block. */
void est_random_fill_uniform_f32(const est_random *random, int64_t first, int64_t n, float *out);
void est_random_fill_uniform_f64(const est_random *random, int64_t first, int64_t n, double *out);

/* Normal with mean 0 and variance 1, by Box and Muller. 4 floats or 2 doubles a block. */
void est_random_fill_normal_f32(const est_random *random, int64_t first, int64_t n, float *out);
void est_random_fill_normal_f64(const est_random *random, int64_t first, int64_t n, double *out);

/* The same with every value outside (-2, 2) drawn again. Each group of 4 floats or 2 doubles draws from 256 or 128
 * blocks of its own, of which it uses very few. */
void est_random_fill_truncated_f32(const est_random *random, int64_t first, int64_t n, float *out);
void est_random_fill_truncated_f64(const est_random *random, int64_t first, int64_t n, double *out);

/* Uniform integers in [low, high), low < high: a word (two for int64) modulo the width. 4 or 2 a block. */
void est_random_fill_int_i32(const est_random *random, int64_t first, int64_t n, int32_t low, int32_t high,
                             int32_t *out);
void est_random_fill_int_i64(const est_random *random, int64_t first, int64_t n, int64_t low, int64_t high,
                             int64_t *out);

#endif
