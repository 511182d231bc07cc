/* SPDX-License-Identifier: Apache-2.0
 *
 * Column sums; see the header. */
#include "kernels/column_sums.h"

#include "kernels/parallel.h"

#define CHUNK      64 /* columns summed side by side: a few cache lines */
#define STRIP      64 /* rows summed in the matrix's own dtype */
#define ELEMENT_NS 0.2

typedef struct job {
    const est_column_sums *in;
    double                *partial; /* [blocks][cols] */
} job;

/* One strip of rows by one chunk of columns: sum[j] += term, added up in T first. */
#define STRIP_SUM(name, T, expression)                                                                                 \
    static void name(const est_column_sums *in, int64_t row, int64_t rows, int64_t col, int64_t cols, double *sum)     \
    {                                                                                                                  \
        T acc[CHUNK]             = { 0 };                                                                              \
        const T *restrict center = (const T *)in->center + col;                                                        \
                                                                                                                       \
        (void)center;                                                                                                  \
        for (int64_t r = row; r < row + rows; r++) {                                                                   \
            const T *restrict a = (const T *)in->a + r * in->cols + col;                                               \
            const T *restrict b = (const T *)in->b + r * in->cols + col;                                               \
            (void)b;                                                                                                   \
            if (cols == CHUNK) {                                                                                       \
                for (int j = 0; j < CHUNK; j++) acc[j] += (expression);                                                \
            } else {                                                                                                   \
                for (int64_t j = 0; j < cols; j++) acc[j] += (expression);                                             \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t j = 0; j < cols; j++) sum[j] += (double)acc[j];                                                   \
    }
STRIP_SUM(value_f32, float, a[j])
STRIP_SUM(value_f64, double, a[j])
STRIP_SUM(square_f32, float, (a[j] - center[j]) * (a[j] - center[j]))
STRIP_SUM(square_f64, double, (a[j] - center[j]) * (a[j] - center[j]))
STRIP_SUM(product_f32, float, a[j] * (b[j] - center[j]))
STRIP_SUM(product_f64, double, a[j] * (b[j] - center[j]))

static void sum_block(void *arg, int64_t begin, int64_t end, int64_t block)
{
    static void (*const strip_sum[][2])(const est_column_sums *, int64_t, int64_t, int64_t, int64_t, double *) = {
        [EST_COLUMN_VALUE]   = { value_f32, value_f64 },
        [EST_COLUMN_SQUARE]  = { square_f32, square_f64 },
        [EST_COLUMN_PRODUCT] = { product_f32, product_f64 },
    };
    const job             *j       = arg;
    const est_column_sums *in      = j->in;
    double                *partial = j->partial + block * in->cols;

    for (int64_t i = 0; i < in->cols; i++) partial[i] = 0;
    for (int64_t row = begin; row < end; row += STRIP) {
        int64_t rows = end - row < STRIP ? end - row : STRIP;

        for (int64_t col = 0; col < in->cols; col += CHUNK) {
            int64_t cols = in->cols - col < CHUNK ? in->cols - col : CHUNK;
            strip_sum[in->term][in->dtype == EST_F64](in, row, rows, col, cols, partial + col);
        }
    }
}

size_t est_column_sums_scratch(int64_t rows, int64_t cols)
{
    return (size_t)(est_parallel_blocks(rows, ELEMENT_NS * (double)cols) * cols) * sizeof(double);
}

void est_column_sums_run(est_pool *pool, const est_column_sums *columns, double *sum, void *scratch)
{
    est_column_sums all    = *columns;
    job             j      = { &all, scratch };
    int64_t         blocks = est_parallel_blocks(columns->rows, ELEMENT_NS * (double)columns->cols);
    int64_t         used   = (columns->rows + blocks - 1) / blocks; /* rows of a block, as est_parallel_for cuts them */

    if (all.b == NULL) all.b = all.a; /* so that pointers are sound where a term does not use them */
    if (all.center == NULL) all.center = all.a;
    for (int64_t i = 0; i < columns->cols; i++) sum[i] = 0;
    if (columns->rows == 0 || columns->cols == 0) return;
    used = (columns->rows + used - 1) / used;
    est_parallel_for(pool, columns->rows, 1, ELEMENT_NS * (double)columns->cols, sum_block, &j);
    for (int64_t b = 0; b < used; b++) {
        for (int64_t i = 0; i < columns->cols; i++) sum[i] += j.partial[b * columns->cols + i];
    }
}
