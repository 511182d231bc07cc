/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the machine: registers full of multiply-adds, and a += b over large arrays. */
#include "support/machine.h"

#include <string.h>

#include "base/alloc.h"
#include "support/bench.h"

#define CHAINS   12 /* independent sums: hides the latency of a multiply-add */
#define REPEATS  200000
#define WINDOWS  7
#define ELEMENTS ((int64_t)32 << 20) /* floats in each of two arrays */
#define STRIPE   ((int64_t)1 << 16)

typedef float vec __attribute__((vector_size(32)));

static volatile float sink; /* so that the loops are not optimised away */

static void multiply_add(void *arg, int64_t task, int thread)
{
    vec sum[CHAINS], x, y;

    (void)arg;
    (void)thread;
    for (int i = 0; i < 8; i++) {
        x[i] = 1.0f + 1e-7f * (float)(task + i);
        y[i] = 1e-9f * (float)i;
    }
    for (int i = 0; i < CHAINS; i++) sum[i] = x;
    for (int64_t r = 0; r < REPEATS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * x + y;
        __asm__ volatile("" : "+x"(x));
    }
    for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];
    sink = sum[0][0];
}

typedef struct arrays {
    float *a, *b;
} arrays;

static void add_stripe(void *arg, int64_t task, int thread)
{
    const arrays *m         = arg;
    float *restrict a       = m->a + task * STRIPE;
    const float *restrict b = m->b + task * STRIPE;

    (void)thread;
    for (int64_t i = 0; i < STRIPE; i++) a[i] += b[i];
}

static double best_secs(est_pool *pool, int64_t tasks, est_task_fn fn, void *arg)
{
    double best = 1e9;

    for (int i = 0; i < WINDOWS; i++) {
        double start = bench_now_secs();
        est_pool_for(pool, tasks, fn, arg);
        double secs = bench_now_secs() - start;
        if (secs < best) best = secs;
    }
    return best;
}

bench_machine bench_machine_measure(est_pool *pool)
{
    bench_machine m     = { 0 };
    int64_t       tasks = 4 * (int64_t)est_pool_threads(pool);
    arrays        pair  = { est_alloc_aligned(ELEMENTS * sizeof(float)), est_alloc_aligned(ELEMENTS * sizeof(float)) };

    m.flops = (double)tasks * REPEATS * CHAINS * 8 * 2 / best_secs(pool, tasks, multiply_add, NULL);
    if (pair.a != NULL && pair.b != NULL) {
        memset(pair.a, 0, ELEMENTS * sizeof(float));
        memset(pair.b, 0, ELEMENTS * sizeof(float));
        m.bytes_per_sec = 3.0 * ELEMENTS * sizeof(float) / best_secs(pool, ELEMENTS / STRIPE, add_stripe, &pair);
    }
    est_free_aligned(pair.a);
    est_free_aligned(pair.b);
    return m;
}
