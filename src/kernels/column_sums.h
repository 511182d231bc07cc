/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the rows of a matrix, one for each column: gradients of biases, statistics of batch normalisation.
 *
 * Rows are cut into blocks by shape; a block adds strips of rows in the matrix's own dtype and strips in double, and
 * blocks are added in order. So sums over many rows stay accurate and do not depend on threads. */
#ifndef EST_KERNELS_COLUMN_SUMS_H
#define EST_KERNELS_COLUMN_SUMS_H

#include "graph/op.h"

typedef enum est_column_term {
    EST_COLUMN_VALUE,  /* a */
    EST_COLUMN_SQUARE, /* (a - center)^2 */
    EST_COLUMN_PRODUCT /* a * (b - center) */
} est_column_term;

typedef struct est_column_sums {
    est_dtype       dtype; /* of a, b, center */
    est_column_term term;
    int64_t         rows, cols;
    const void     *a, *b;  /* [rows, cols] */
    const void     *center; /* [cols] */
} est_column_sums;

/* Bytes of scratch for the call below; the same for every term. */
size_t est_column_sums_scratch(int64_t rows, int64_t cols);

/* sum[cols] of the term over all rows. sum may lie in no part of the scratch. */
void est_column_sums_run(est_pool *pool, const est_column_sums *columns, double *sum, void *scratch);

#endif
