/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products, row-major: C[m,n] = op(A) op(B) (+ C). A is m x k (or k x m when trans_a), B is k x n (or n x k when
 * trans_b). Work is cut into tiles by shape, so the bits of the result do not depend on the number of threads. */
#ifndef EST_KERNELS_GEMM_H
#define EST_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pool.h"

/* Called for finished blocks of C while they are warm, each element in exactly one of them: rows [row, row + n_rows),
 * columns [col, col + n_cols). Calls for different blocks may come from different threads at once. */
typedef void (*est_gemm_done_fn)(void *arg, int64_t row, int64_t n_rows, int64_t col, int64_t n_cols);

typedef struct est_gemm {
    bool             trans_a, trans_b;
    int64_t          m, n, k;
    const void      *a;
    int64_t          lda; /* elements from one stored row to the next, as the two below */
    const void      *b;
    int64_t          ldb;
    void            *c; /* overlaps neither A nor B */
    int64_t          ldc;
    bool             accumulate; /* C += instead of C = */
    est_gemm_done_fn done;       /* NULL: nothing more to do */
    void            *done_arg;
    void            *scratch; /* est_gemm_scratch() bytes, 64-byte aligned; NULL: allocated for the call */
} est_gemm;

/* Bytes that est_gemm_f32 may pack operands into for a product of these sizes or any smaller one (pointers are
 * ignored): the scratch size of a kernel. Never less for a larger product. */
size_t est_gemm_scratch(const est_pool *pool, const est_gemm *g);

/* k = 0 gives zeros (or leaves C when accumulating). */
void est_gemm_f32(est_pool *pool, const est_gemm *g);

/* For gradient checks: right, not fast. */
void est_gemm_f64(est_pool *pool, const est_gemm *g);

#endif
