/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the files of the float matrix product.
 *
 *   gemm.c         cuts a product into tasks, decides which operands are packed, runs them
 *   gemm_tile.c    a tile of C in registers and the packing that feeds it, once for each instruction set
 *   gemm_vector.c  products with m = 1 or n = 1, which are bound by memory and not by arithmetic
 *   gemm_simple.c  plain loops: float64, and float32 when there is no memory for packing
 *
 * Both operands are described in the same way: A as rows i, B as columns i, each with entries p = 0 .. k-1. */
#ifndef EST_KERNELS_GEMM_PARTS_H
#define EST_KERNELS_GEMM_PARTS_H

#include "kernels/gemm.h"

/* How an operand lies in memory. */
typedef enum est_layout {
    EST_ACROSS, /* x[p * stride + i]: the p-th entries of all i are neighbours (A transposed, or B as it is) */
    EST_ALONG,  /* x[i * stride + p]: the entries of one i are neighbours (A as it is, or B transposed) */
} est_layout;

static inline est_layout est_gemm_layout_a(const est_gemm *g)
{
    return g->trans_a ? EST_ACROSS : EST_ALONG;
}

static inline est_layout est_gemm_layout_b(const est_gemm *g)
{
    return g->trans_b ? EST_ALONG : EST_ACROSS;
}

/* One tile: C[i, j] (+)= sum over p < k of A[i, p] B[p, j]. Its number of rows, the layout of A and the number of
 * vectors that its `cols` columns fill are part of the function; B is EST_ACROSS. Reads and writes nothing outside. */
typedef struct est_gemm_tile {
    int64_t      k;
    const float *a;
    int64_t      a_stride;
    const float *b;
    int64_t      b_stride;
    float       *c;
    int64_t      ldc;
    int64_t      cols;
    bool         accumulate;
} est_gemm_tile;

typedef void (*est_tile_fn)(const est_gemm_tile *t);

#define EST_TILE_VECTORS_MAX 3
#define EST_TILE_ROWS_MAX    8
typedef est_tile_fn est_tile_table[EST_TILE_VECTORS_MAX][EST_TILE_ROWS_MAX]; /* [vectors - 1][rows - 1] */

/* dst[p * width + i] = x(i, p) for i < n and p < k; zero for n <= i < width. So packed, x is EST_ACROSS. */
typedef void (*est_pack_fn)(est_layout layout, const float *x, int64_t stride, int64_t n, int64_t k, float *dst,
                            int64_t width);

typedef struct est_gemm_isa {
    const char *name;
    bool (*supported)(void); /* by this machine */

    int                   rows, cols; /* of the largest tile */
    int                   lanes;      /* columns in a vector */
    int                   row_width;  /* `width` of packed rows: rows, rounded up to whole vectors */
    const est_tile_table *tiles;      /* [layout of A] */
    est_pack_fn           pack;

    /* Reading an operand where it lies saves packing it, as long as its lines are still in the second-level cache when
     * they are needed again. */
    int64_t direct_a_cols;  /* A is read in place when n is at most this */
    int64_t direct_b_rows;  /* B is, unless transposed, when m is at most this */
    int64_t direct_b_count; /* or when it has at most this many elements */
} est_gemm_isa;

/* Best first; the last is plain C and supported everywhere. NULL ends the list. */
extern const est_gemm_isa *const est_gemm_isas[];

/* The bytes that this product needs for packing; est_gemm_scratch() is at least as much. For tests. */
size_t est_gemm_scratch_exact(const est_pool *pool, const est_gemm *g);

/* est_gemm_f32 by a given instruction set; g->scratch is left alone. For tests and benchmarks. */
void est_gemm_f32_isa(const est_gemm_isa *isa, est_pool *pool, const est_gemm *g);

/* The product when m or n is 1. */
void est_gemm_vector_f32(est_pool *pool, const est_gemm *g);

void est_gemm_simple_f32(est_pool *pool, const est_gemm *g);
void est_gemm_simple_f64(est_pool *pool, const est_gemm *g);

#endif
