/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by plain loops, with a row of sums on the stack: float64, which is not performance critical, and
 * float32 as the fallback that needs no memory. A task is a fixed number of rows. */
#include <string.h>

#include "kernels/gemm_parts.h"

#define COLS       256 /* sums on the stack */
#define TASK_FLOPS 1e6

typedef struct rows {
    const est_gemm *g;
    int64_t         step;
} rows;

#define DEFINE_SIMPLE(name, type)                                                                                      \
    static void name##_row(const est_gemm *g, int64_t i, int64_t col, int64_t n)                                       \
    {                                                                                                                  \
        const type *a          = (const type *)g->a + (g->trans_a ? i : i * g->lda);                                   \
        const type *b          = (const type *)g->b + (g->trans_b ? col * g->ldb : col);                               \
        type       *c          = (type *)g->c + i * g->ldc + col;                                                      \
        int64_t     a_step     = g->trans_a ? g->lda : 1;                                                              \
        type        sums[COLS] = { 0 };                                                                                \
                                                                                                                       \
        if (g->trans_b) {                                                                                              \
            for (int64_t j = 0; j < n; j++) {                                                                          \
                for (int64_t p = 0; p < g->k; p++) sums[j] += a[p * a_step] * b[j * g->ldb + p];                       \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t p = 0; p < g->k; p++) {                                                                       \
                for (int64_t j = 0; j < n; j++) sums[j] += a[p * a_step] * b[p * g->ldb + j];                          \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t j = 0; j < n; j++) c[j] = g->accumulate ? c[j] + sums[j] : sums[j];                               \
    }                                                                                                                  \
                                                                                                                       \
    static void name##_task(void *arg, int64_t task, int thread)                                                       \
    {                                                                                                                  \
        const rows     *r     = arg;                                                                                   \
        const est_gemm *g     = r->g;                                                                                  \
        int64_t         begin = task * r->step;                                                                        \
        int64_t         end   = begin + r->step < g->m ? begin + r->step : g->m;                                       \
                                                                                                                       \
        (void)thread;                                                                                                  \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            for (int64_t j = 0; j < g->n; j += COLS) name##_row(g, i, j, g->n - j < COLS ? g->n - j : COLS);           \
        }                                                                                                              \
        if (g->done != NULL && g->n > 0) g->done(g->done_arg, begin, end - begin, 0, g->n);                            \
    }                                                                                                                  \
                                                                                                                       \
    void est_gemm_##name(est_pool *pool, const est_gemm *g)                                                            \
    {                                                                                                                  \
        double row_flops = 2.0 * (double)g->n * (double)g->k + 1;                                                      \
        rows   r         = { g, 1 + (int64_t)(TASK_FLOPS / row_flops) };                                               \
                                                                                                                       \
        est_pool_for(pool, (g->m + r.step - 1) / r.step, name##_task, &r);                                             \
    }

DEFINE_SIMPLE(simple_f32, float)
DEFINE_SIMPLE(simple_f64, double)
