/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix times a vector: y[i] (+)= sum over p of M(i, p) x[p]. Each element of M is used once, so the time is that of
 * reading M in the order in which it lies:
 *
 *   EST_ALONG    dot products of x with rows of M, four rows at a time to have enough sums under way
 *   EST_ACROSS   sums of rows of M scaled by x[p], eight rows at a time to spare the sums' own traffic
 *
 * A task is a fixed range of y, in equal parts. */
#include <string.h>

#include "kernels/gemm_parts.h"

#define SMALL_FLOATS 131072 /* of M: not worth waking the pool for less, some 20 microseconds */
#define BLOCK_MAX    256    /* of y; each has a sum on the stack */
#define X_CHUNK      512    /* of x, when it must be gathered first */
#define ROWS         4
#define LANES        8

#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

typedef struct vector_product {
    const est_gemm *g;
    const float    *matrix;
    int64_t         stride;
    est_layout      layout;
    int64_t         n; /* of y */
    const float    *x;
    int64_t         x_stride;
    int64_t         y_stride;
    int64_t         block;
} vector_product;

INLINE lanes load(const float *x)
{
    lanes v;

    memcpy(&v, x, sizeof v);
    return v;
}

/* sums[r] += dot(row r of M, x). Two sums a row, for the odd and the even vectors. */
INLINE void dot_rows(int rows, const float *matrix, int64_t stride, const float *x, int64_t k, float *sums)
{
    lanes   acc[ROWS][2];
    int64_t p = 0;

#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (lanes){ 0 };

    for (; p + 2 * LANES <= k; p += 2 * LANES) {
        const lanes even = load(x + p), odd = load(x + p + LANES);

#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            acc[r][0] += load(matrix + r * stride + p) * even;
            acc[r][1] += load(matrix + r * stride + p + LANES) * odd;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        float tail = 0, total[LANES];

        for (int64_t q = p; q < k; q++) tail += matrix[r * stride + q] * x[q];
        acc[r][0] += acc[r][1];
        memcpy(total, &acc[r][0], sizeof total);
        for (int half = LANES / 2; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) total[i] += total[i + half];
        }
        sums[r] += total[0] + tail;
    }
}

static void dots(const vector_product *v, int64_t begin, int64_t count, float *sums)
{
    float   gathered[X_CHUNK];
    int64_t chunk = v->x_stride == 1 ? v->g->k : X_CHUNK;

    for (int64_t p = 0; p < v->g->k; p += chunk) {
        const float *x = v->x + p, *matrix = v->matrix + begin * v->stride + p;
        int64_t      k = v->g->k - p < chunk ? v->g->k - p : chunk, i = 0;

        if (v->x_stride != 1) {
            for (int64_t q = 0; q < k; q++) gathered[q] = v->x[(p + q) * v->x_stride];
            x = gathered;
        }
        for (; i + ROWS <= count; i += ROWS) dot_rows(ROWS, matrix + i * v->stride, v->stride, x, k, sums + i);
        for (; i < count; i++) dot_rows(1, matrix + i * v->stride, v->stride, x, k, sums + i);
    }
}

/* sums[i] += x[0] M[0][i] + ... + x[7] M[7][i]. */
static void add_8_rows(const float *restrict m, int64_t stride, const float *x, int64_t x_stride, int64_t count,
                       float *restrict sums)
{
    const float x0 = x[0], x1 = x[x_stride], x2 = x[2 * x_stride], x3 = x[3 * x_stride];
    const float x4 = x[4 * x_stride], x5 = x[5 * x_stride], x6 = x[6 * x_stride], x7 = x[7 * x_stride];

    for (int64_t i = 0; i < count; i++) {
        float low  = x0 * m[i] + x1 * m[stride + i] + x2 * m[2 * stride + i] + x3 * m[3 * stride + i];
        float high = x4 * m[4 * stride + i] + x5 * m[5 * stride + i] + x6 * m[6 * stride + i] + x7 * m[7 * stride + i];

        sums[i] += low + high;
    }
}

static void scaled_rows(const vector_product *v, int64_t begin, int64_t count, float *restrict sums)
{
    const float *m = v->matrix + begin;
    int64_t      p = 0;

    for (; p + 8 <= v->g->k; p += 8) {
        add_8_rows(m + p * v->stride, v->stride, v->x + p * v->x_stride, v->x_stride, count, sums);
    }
    for (; p < v->g->k; p++) {
        const float x = v->x[p * v->x_stride];

        for (int64_t i = 0; i < count; i++) sums[i] += x * m[p * v->stride + i];
    }
}

static void vector_task(void *arg, int64_t task, int thread)
{
    const vector_product *v               = arg;
    const est_gemm       *g               = v->g;
    int64_t               begin           = task * v->block;
    int64_t               count           = v->n - begin < v->block ? v->n - begin : v->block;
    float                 sums[BLOCK_MAX] = { 0 };
    float                *y               = (float *)g->c + begin * v->y_stride;

    (void)thread;
    if (v->layout == EST_ALONG) {
        dots(v, begin, count, sums);
    } else {
        scaled_rows(v, begin, count, sums);
    }
    for (int64_t i = 0; i < count; i++) y[i * v->y_stride] = g->accumulate ? y[i * v->y_stride] + sums[i] : sums[i];
    if (g->done == NULL) return;
    if (g->n == 1) {
        g->done(g->done_arg, begin, count, 0, 1);
    } else {
        g->done(g->done_arg, 0, 1, begin, count);
    }
}

void est_gemm_vector_f32(est_pool *pool, const est_gemm *g)
{
    vector_product v;
    int64_t        n_tasks;

    if (g->n == 1) {
        v = (vector_product){ g, g->a, g->lda, est_gemm_layout_a(g), g->m, g->b, g->trans_b ? 1 : g->ldb, g->ldc, 0 };
    } else {
        v = (vector_product){ g, g->b, g->ldb, est_gemm_layout_b(g), g->n, g->a, g->trans_a ? g->lda : 1, 1, 0 };
    }
    n_tasks = (v.n + BLOCK_MAX - 1) / BLOCK_MAX;
    v.block = ((v.n + n_tasks - 1) / n_tasks + LANES - 1) / LANES * LANES;
    if (v.n * g->k < SMALL_FLOATS) pool = NULL;
    est_pool_for(pool, (v.n + v.block - 1) / v.block, vector_task, &v);
}
