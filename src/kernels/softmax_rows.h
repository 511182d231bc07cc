/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of softmax, its logarithm and the cross entropies: e = exp(x - top) for a few rows, with the maximum
 * and the sum of each.
 *
 * The exponentials of all the rows are one loop, so that rows of ten classes use whole vectors too; maxima and sums run
 * in LANES independent lanes, which fixes their order and lets the compiler vectorise them. */
#ifndef EST_KERNELS_SOFTMAX_ROWS_H
#define EST_KERNELS_SOFTMAX_ROWS_H

#include "kernels/parallel.h"
#include "kernels/vmath.h"

#define EST_SOFTMAX_ROWS_MAX       64   /* rows taken at once */
#define EST_SOFTMAX_CHUNK_ELEMENTS 2048 /* about as many elements as stay in L1 */
#define EST_SOFTMAX_NS             1.2  /* per element */

/* How many rows of `cols` to take at once out of `left`. */
static inline int64_t est_softmax_rows_at_once(int64_t cols, int64_t left)
{
    int64_t n = EST_SOFTMAX_CHUNK_ELEMENTS / (cols > 0 ? cols : 1);

    n = n < 1 ? 1 : n > EST_SOFTMAX_ROWS_MAX ? EST_SOFTMAX_ROWS_MAX : n;
    return n < left ? n : left;
}

#define EST_ROW_LANES 16
#define EST_DEFINE_SOFTMAX_ROWS(T, suffix, exp_fn)                                                                     \
    static inline T est_row_max_##suffix(const T *x, int64_t n)                                                        \
    {                                                                                                                  \
        T       lane[EST_ROW_LANES], top = x[0];                                                                       \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        if (n >= EST_ROW_LANES) {                                                                                      \
            for (int j = 0; j < EST_ROW_LANES; j++) lane[j] = x[j];                                                    \
            for (i = EST_ROW_LANES; i + EST_ROW_LANES <= n; i += EST_ROW_LANES) {                                      \
                for (int j = 0; j < EST_ROW_LANES; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];             \
            }                                                                                                          \
            for (int j = 0; j < EST_ROW_LANES; j++) top = lane[j] > top ? lane[j] : top;                               \
        }                                                                                                              \
        for (; i < n; i++) top = x[i] > top ? x[i] : top;                                                              \
        return top;                                                                                                    \
    }                                                                                                                  \
    static inline T est_row_sum_##suffix(const T *x, int64_t n)                                                        \
    {                                                                                                                  \
        T       lane[EST_ROW_LANES] = { 0 }, sum = 0;                                                                  \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        for (; i + EST_ROW_LANES <= n; i += EST_ROW_LANES) {                                                           \
            for (int j = 0; j < EST_ROW_LANES; j++) lane[j] += x[i + j];                                               \
        }                                                                                                              \
        for (int half = EST_ROW_LANES / 2; half > 0; half /= 2) {                                                      \
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];                                                  \
        }                                                                                                              \
        for (; i < n; i++) sum += x[i];                                                                                \
        return lane[0] + sum;                                                                                          \
    }                                                                                                                  \
    /* e [rows, cols] may be x's own memory; top and sum have `rows` elements. cols > 0. */                            \
    static inline void est_softmax_rows_##suffix(const T *x, T *e, int64_t rows, int64_t cols, T *top, T *sum)         \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            const T *from = x + r * cols;                                                                              \
            T       *to = e + r * cols, high = est_row_max_##suffix(from, cols);                                       \
                                                                                                                       \
            top[r]                                                   = high;                                           \
            EST_INDEPENDENT for (int64_t i = 0; i < cols; i++) to[i] = from[i] - high;                                 \
        }                                                                                                              \
        for (int64_t i = 0; i < rows * cols; i++) e[i] = exp_fn(e[i]);                                                 \
        for (int64_t r = 0; r < rows; r++) sum[r] = est_row_sum_##suffix(e + r * cols, cols);                          \
    }
EST_DEFINE_SOFTMAX_ROWS(float, f32, est_expf)
EST_DEFINE_SOFTMAX_ROWS(double, f64, exp)

#endif
