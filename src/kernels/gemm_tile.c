/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of a float matrix product in registers.
 *
 * One step in k loads one row of B (one to three vectors), and for each row of A broadcasts one number and multiplies
 * it in. A tile of 8 x 48 (AVX-512) needs 24 accumulators, three vectors of B and one of A out of 32 registers; 6 x 16
 * (AVX2) needs 12, 2 and 1 out of 16. Either way there are more multiplications than loads, which is what keeps the
 * multipliers busy: about 96 % of the peak with both operands in the nearer caches. (14 x 32 fits as well; it loads
 * more and measured a little slower.) Every number of rows has its own function, so no unneeded row is computed;
 * unneeded columns are masked. */
#include "kernels/gemm_parts.h"

#include <stddef.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define ROWS_1_TO_6(F, ...)                                                                                            \
    F(__VA_ARGS__, 1) F(__VA_ARGS__, 2) F(__VA_ARGS__, 3) F(__VA_ARGS__, 4) F(__VA_ARGS__, 5) F(__VA_ARGS__, 6)
#define ROWS_1_TO_8(F, ...) ROWS_1_TO_6(F, __VA_ARGS__) F(__VA_ARGS__, 7) F(__VA_ARGS__, 8)

#if defined(__x86_64__)

#include <immintrin.h>

/* --- AVX-512: up to 8 x 48 ---------------------------------------------------------------------------------------- */

#define AVX512 __attribute__((target("avx512f,avx2,fma")))

INLINE AVX512 void tile_avx512(est_layout layout, int vectors, int rows, const est_gemm_tile *t)
{
    const int64_t   a_step = layout == EST_ACROSS ? t->a_stride : 1, a_row = layout == EST_ACROSS ? 1 : t->a_stride;
    const int64_t   k = t->k, b_stride = t->b_stride;
    const int       last = vectors - 1;
    const __mmask16 mask = (__mmask16)((1u << (t->cols - 16 * last)) - 1);
    const float    *a = t->a, *b = t->b;
    __m512          acc[8][3], line[3];

#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) acc[i][j] = _mm512_setzero_ps();
    }
    for (int64_t p = 0; p < k; p++, a += a_step, b += b_stride) {
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) {
            line[j] = j < last ? _mm512_loadu_ps(b + 16 * j) : _mm512_maskz_loadu_ps(mask, b + 16 * j);
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const __m512 x = _mm512_set1_ps(a[i * a_row]);

#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++) acc[i][j] = _mm512_fmadd_ps(x, line[j], acc[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) {
            const __mmask16 valid = j < last ? (__mmask16)0xffff : mask;
            float          *c     = t->c + i * t->ldc + 16 * j;

            if (t->accumulate) acc[i][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(valid, c), acc[i][j]);
            _mm512_mask_storeu_ps(c, valid, acc[i][j]);
        }
    }
}

/* --- AVX2: up to 6 x 16 ------------------------------------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2,fma")))

/* All ones in the first n lanes. */
INLINE AVX2 __m256i first_lanes(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE AVX2 void tile_avx2(est_layout layout, int vectors, int rows, bool full, const est_gemm_tile *t)
{
    const int64_t a_step = layout == EST_ACROSS ? t->a_stride : 1, a_row = layout == EST_ACROSS ? 1 : t->a_stride;
    const int64_t k = t->k, b_stride = t->b_stride;
    const int     last = vectors - 1;
    const __m256i mask = first_lanes(t->cols - 8 * last);
    const float  *a = t->a, *b = t->b;
    __m256        acc[6][2];

#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) acc[i][0] = acc[i][last] = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; p++) {
        __m256 b0 = last > 0 || full ? _mm256_loadu_ps(b) : _mm256_maskload_ps(b, mask);
        __m256 b1 = last == 0 ? b0 : full ? _mm256_loadu_ps(b + 8) : _mm256_maskload_ps(b + 8, mask);

#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const __m256 x = _mm256_set1_ps(a[i * a_row]);

            acc[i][0] = _mm256_fmadd_ps(x, b0, acc[i][0]);
            if (last > 0) acc[i][1] = _mm256_fmadd_ps(x, b1, acc[i][1]);
        }
        a += a_step;
        b += b_stride;
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        float *c = t->c + i * t->ldc, *end = c + 8 * last;

        if (last > 0) {
            if (t->accumulate) acc[i][0] = _mm256_add_ps(_mm256_loadu_ps(c), acc[i][0]);
            _mm256_storeu_ps(c, acc[i][0]);
        }
        if (full) {
            if (t->accumulate) acc[i][last] = _mm256_add_ps(_mm256_loadu_ps(end), acc[i][last]);
            _mm256_storeu_ps(end, acc[i][last]);
        } else {
            if (t->accumulate) acc[i][last] = _mm256_add_ps(_mm256_maskload_ps(end, mask), acc[i][last]);
            _mm256_maskstore_ps(end, mask, acc[i][last]);
        }
    }
}

/* --- packing, for both -------------------------------------------------------------------------------------------- */

INLINE AVX2 void transpose_8x8(__m256 r[8])
{
    __m256 t[8];

    for (int i = 0; i < 8; i += 4) { /* pairs of rows, then pairs of pairs, within the halves of a register */
        __m256 lo0 = _mm256_unpacklo_ps(r[i], r[i + 1]), hi0 = _mm256_unpackhi_ps(r[i], r[i + 1]);
        __m256 lo1 = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), hi1 = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);

        t[i]     = _mm256_shuffle_ps(lo0, lo1, 0x44);
        t[i + 1] = _mm256_shuffle_ps(lo0, lo1, 0xee);
        t[i + 2] = _mm256_shuffle_ps(hi0, hi1, 0x44);
        t[i + 3] = _mm256_shuffle_ps(hi0, hi1, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i]     = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

/* Eight columns dst[p * width .. + 8] from up to eight rows x + i * stride; the missing rows are zero. */
INLINE AVX2 void pack_8_rows(const float *x, int64_t stride, int64_t n, int64_t k, float *dst, int64_t width)
{
    __m256  r[8];
    int64_t p = 0;

    for (; p + 8 <= k; p += 8) {
        for (int i = 0; i < 8; i++) r[i] = i < n ? _mm256_loadu_ps(x + i * stride + p) : _mm256_setzero_ps();
        transpose_8x8(r);
        for (int i = 0; i < 8; i++) _mm256_storeu_ps(dst + (p + i) * width, r[i]);
    }
    if (p < k) {
        const __m256i mask = first_lanes(k - p);

        for (int i = 0; i < 8; i++) r[i] = i < n ? _mm256_maskload_ps(x + i * stride + p, mask) : _mm256_setzero_ps();
        transpose_8x8(r);
        for (int i = 0; i < k - p; i++) _mm256_storeu_ps(dst + (p + i) * width, r[i]);
    }
}

AVX2 static void pack_avx2(est_layout layout, const float *x, int64_t stride, int64_t n, int64_t k, float *dst,
                           int64_t width)
{
    if (layout == EST_ALONG) {
        for (int64_t i = 0; i < width; i += 8) {
            if (n - i >= 8) {
                pack_8_rows(x + i * stride, stride, 8, k, dst + i, width);
            } else {
                pack_8_rows(x + i * stride, stride, n - i, k, dst + i, width);
            }
        }
        return;
    }
    for (int64_t p = 0; p < k; p++, x += stride, dst += width) {
        int64_t i = 0;

        for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_loadu_ps(x + i));
        if (i < n) {
            _mm256_storeu_ps(dst + i, _mm256_maskload_ps(x + i, first_lanes(n - i)));
            i += 8;
        }
        for (; i < width; i += 8) _mm256_storeu_ps(dst + i, _mm256_setzero_ps());
    }
}

/* --- their functions ---------------------------------------------------------------------------------------------- */

#define AVX512_FN(layout, vectors, rows)                                                                               \
    AVX512 static void avx512_##layout##_##vectors##_##rows(const est_gemm_tile *t)                                    \
    {                                                                                                                  \
        tile_avx512(layout, vectors, rows, t);                                                                         \
    }
#define AVX2_FN(layout, vectors, rows)                                                                                 \
    AVX2 static void avx2_##layout##_##vectors##_##rows(const est_gemm_tile *t)                                        \
    {                                                                                                                  \
        if (t->cols == 8 * vectors) {                                                                                  \
            tile_avx2(layout, vectors, rows, true, t);                                                                 \
        } else {                                                                                                       \
            tile_avx2(layout, vectors, rows, false, t);                                                                \
        }                                                                                                              \
    }
#define AVX512_NAME(layout, vectors, rows) avx512_##layout##_##vectors##_##rows,
#define AVX2_NAME(layout, vectors, rows)   avx2_##layout##_##vectors##_##rows,

ROWS_1_TO_8(AVX512_FN, EST_ACROSS, 1)
ROWS_1_TO_8(AVX512_FN, EST_ACROSS, 2)
ROWS_1_TO_8(AVX512_FN, EST_ACROSS, 3)
ROWS_1_TO_8(AVX512_FN, EST_ALONG, 1)
ROWS_1_TO_8(AVX512_FN, EST_ALONG, 2)
ROWS_1_TO_8(AVX512_FN, EST_ALONG, 3)
ROWS_1_TO_6(AVX2_FN, EST_ACROSS, 1)
ROWS_1_TO_6(AVX2_FN, EST_ACROSS, 2)
ROWS_1_TO_6(AVX2_FN, EST_ALONG, 1)
ROWS_1_TO_6(AVX2_FN, EST_ALONG, 2)

#define AVX512_NAMES(layout, vectors)                                                                                  \
    {                                                                                                                  \
        ROWS_1_TO_8(AVX512_NAME, layout, vectors)                                                                      \
    }
#define AVX2_NAMES(layout, vectors)                                                                                    \
    {                                                                                                                  \
        ROWS_1_TO_6(AVX2_NAME, layout, vectors)                                                                        \
    }

static const est_tile_table avx512_tiles[2] = {
    { AVX512_NAMES(EST_ACROSS, 1), AVX512_NAMES(EST_ACROSS, 2), AVX512_NAMES(EST_ACROSS, 3) },
    { AVX512_NAMES(EST_ALONG, 1), AVX512_NAMES(EST_ALONG, 2), AVX512_NAMES(EST_ALONG, 3) },
};
static const est_tile_table avx2_tiles[2] = {
    { AVX2_NAMES(EST_ACROSS, 1), AVX2_NAMES(EST_ACROSS, 2) },
    { AVX2_NAMES(EST_ALONG, 1), AVX2_NAMES(EST_ALONG, 2) },
};

static bool have_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
}

static bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* The limits of reading in place were measured on a core with 1 MB of second-level cache for AVX-512; those of AVX2 are
 * for 256 KB. */
static const est_gemm_isa isa_avx512 = {
    .name           = "avx512",
    .supported      = have_avx512,
    .rows           = 8,
    .cols           = 48,
    .lanes          = 16,
    .row_width      = 8,
    .tiles          = avx512_tiles,
    .pack           = pack_avx2,
    .direct_a_cols  = 576,
    .direct_b_rows  = 128,
    .direct_b_count = 131072,
};
static const est_gemm_isa isa_avx2 = {
    .name           = "avx2",
    .supported      = have_avx2,
    .rows           = 6,
    .cols           = 16,
    .lanes          = 8,
    .row_width      = 8,
    .tiles          = avx2_tiles,
    .pack           = pack_avx2,
    .direct_a_cols  = 128,
    .direct_b_rows  = 48,
    .direct_b_count = 8192,
};

#endif

/* --- plain C: up to 4 x 16 ---------------------------------------------------------------------------------------- */

#define PLAIN_ROWS 4
#define PLAIN_COLS 16

INLINE void tile_plain(est_layout layout, int rows, const est_gemm_tile *t)
{
    const int64_t a_step = layout == EST_ACROSS ? t->a_stride : 1, a_row = layout == EST_ACROSS ? 1 : t->a_stride;
    float         acc[PLAIN_ROWS][PLAIN_COLS] = { { 0 } }, line[PLAIN_COLS] = { 0 };

    for (int64_t p = 0; p < t->k; p++) {
        const float *a = t->a + p * a_step;

        memcpy(line, t->b + p * t->b_stride, (size_t)t->cols * sizeof *line);
        for (int i = 0; i < rows; i++) {
            for (int j = 0; j < PLAIN_COLS; j++) acc[i][j] += a[i * a_row] * line[j];
        }
    }
    for (int i = 0; i < rows; i++) {
        float *c = t->c + i * t->ldc;

        for (int64_t j = 0; j < t->cols; j++) c[j] = t->accumulate ? c[j] + acc[i][j] : acc[i][j];
    }
}

static void pack_plain(est_layout layout, const float *x, int64_t stride, int64_t n, int64_t k, float *dst,
                       int64_t width)
{
    const int64_t step = layout == EST_ACROSS ? stride : 1, row = layout == EST_ACROSS ? 1 : stride;

    for (int64_t p = 0; p < k; p++, x += step, dst += width) {
        for (int64_t i = 0; i < n; i++) dst[i] = x[i * row];
        for (int64_t i = n; i < width; i++) dst[i] = 0;
    }
}

#define PLAIN_FN(layout, rows)                                                                                         \
    static void plain_##layout##_##rows(const est_gemm_tile *t)                                                        \
    {                                                                                                                  \
        tile_plain(layout, rows, t);                                                                                   \
    }
#define PLAIN_NAMES(layout)                                                                                            \
    {                                                                                                                  \
        plain_##layout##_1, plain_##layout##_2, plain_##layout##_3, plain_##layout##_4                                 \
    }

PLAIN_FN(EST_ACROSS, 1)
PLAIN_FN(EST_ACROSS, 2)
PLAIN_FN(EST_ACROSS, 3)
PLAIN_FN(EST_ACROSS, 4)
PLAIN_FN(EST_ALONG, 1)
PLAIN_FN(EST_ALONG, 2)
PLAIN_FN(EST_ALONG, 3)
PLAIN_FN(EST_ALONG, 4)

static const est_tile_table plain_tiles[2] = { { PLAIN_NAMES(EST_ACROSS) }, { PLAIN_NAMES(EST_ALONG) } };

static bool always(void)
{
    return true;
}

static const est_gemm_isa isa_plain = {
    .name           = "plain",
    .supported      = always,
    .rows           = PLAIN_ROWS,
    .cols           = PLAIN_COLS,
    .lanes          = PLAIN_COLS,
    .row_width      = PLAIN_ROWS,
    .tiles          = plain_tiles,
    .pack           = pack_plain,
    .direct_a_cols  = 64,
    .direct_b_rows  = 16,
    .direct_b_count = 8192,
};

/* ---------------------------------------------------------------------------------------------------------------- */

const est_gemm_isa *const est_gemm_isas[] = {
#if defined(__x86_64__)
    &isa_avx512,
    &isa_avx2,
#endif
    &isa_plain,
    NULL,
};
