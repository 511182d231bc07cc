/* SPDX-License-Identifier: Apache-2.0
 *
 * Float matrix products of training steps: ours, OpenBLAS and oneDNN in GFLOP/s, with 1 and 2 threads.
 *
 *   gemm [rounds [milliseconds of a window [part of a shape's name]]]
 *
 * Each number is the median over the rounds, with the lowest and the highest in brackets; the three take turns window
 * by window. oneDNN uses its own threads. OpenBLAS is the serial build, called on slices of C that our pool hands out.
 * Both are looked for when the program runs and left out when they are not there. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/gemm_parts.h"
#include "support/bench.h"

typedef struct shape {
    int64_t     m, n, k;
    const char *trans; /* of A and B: N or T */
} shape;

static const shape shapes[] = {
    /* MLP 784-1024-512-256-10, batch 128 */
    { 128, 1024, 784, "NN" },
    { 128, 512, 1024, "NN" },
    { 128, 256, 512, "NN" },
    { 128, 10, 256, "NN" },
    { 128, 784, 1024, "NT" },
    { 128, 1024, 512, "NT" },
    { 128, 512, 256, "NT" },
    { 128, 256, 10, "NT" },
    { 784, 1024, 128, "TN" },
    { 1024, 512, 128, "TN" },
    { 512, 256, 128, "TN" },
    { 256, 10, 128, "TN" },
    /* the dense layers of a CNN, batch 64 */
    { 64, 64, 5408, "NN" },
    { 64, 5408, 64, "NT" },
    { 5408, 64, 64, "TN" },
    { 64, 10, 64, "NN" },
    { 64, 64, 10, "NT" },
    { 64, 10, 64, "TN" },
    /* the deep part of wide & deep, batch 512 */
    { 512, 256, 429, "NN" },
    { 512, 429, 256, "NT" },
    { 429, 256, 512, "TN" },
    { 512, 128, 256, "NN" },
    { 512, 256, 128, "NT" },
    { 256, 128, 512, "TN" },
    { 512, 64, 128, "NN" },
    { 512, 128, 64, "NT" },
    { 128, 64, 512, "TN" },
    { 512, 1, 64, "NN" },
    { 512, 64, 1, "NT" },
    { 64, 1, 512, "TN" },
    /* large, small batch, odd, vectors */
    { 1024, 1024, 1024, "NN" },
    { 4096, 256, 256, "NN" },
    { 16, 1024, 784, "NN" },
    { 16, 784, 1024, "NT" },
    { 784, 1024, 16, "TN" },
    { 37, 29, 113, "NN" },
    { 1, 1024, 784, "NN" },
    { 1, 784, 1024, "NT" },
    { 784, 1, 1024, "NN" },
    { 1024, 1, 784, "TN" },
    { 512, 512, 1, "NN" },
};

/* --- the others --------------------------------------------------------------------------------------------------- */

typedef void (*cblas_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                               int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef int (*dnnl_sgemm_fn)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                             int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static cblas_sgemm_fn cblas_sgemm;
static dnnl_sgemm_fn  dnnl_sgemm;
static void (*omp_set_num_threads)(int n);

/* Stores the function's address, or leaves NULL. (A function pointer cannot be assigned from dlsym in plain C.) */
static void find_function(void *library, const char *name, void *out)
{
    void *symbol = library != NULL ? dlsym(library, name) : NULL;

    memcpy(out, &symbol, sizeof symbol);
}

static void find_others(void)
{
    void *blas = dlopen("/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0",
                        RTLD_NOW); /* Debian's serial one */
    void *dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_GLOBAL);

    if (blas == NULL) blas = dlopen("libopenblas.so.0", RTLD_NOW);
    find_function(blas, "cblas_sgemm", &cblas_sgemm);
    find_function(dnnl, "dnnl_sgemm", &dnnl_sgemm);
    find_function(dnnl, "omp_set_num_threads", &omp_set_num_threads);
    if (omp_set_num_threads == NULL) dnnl_sgemm = NULL;
}

/* --- the contestants ---------------------------------------------------------------------------------------------- */

typedef struct job {
    est_pool *pool;
    est_gemm  g;
} job;

static void run_ours(void *arg)
{
    job *j = arg;

    est_gemm_f32(j->pool, &j->g);
}

#define SLICE_FLOPS 8e6
#define SLICE_GRAIN 48

typedef struct slices {
    const est_gemm *g;
    int64_t         step;
} slices;

static void run_slice(void *arg, int64_t task, int thread)
{
    enum { row_major = 101, no_trans = 111, trans = 112 };
    const slices   *s       = arg;
    const est_gemm *g       = s->g;
    bool            by_rows = g->m >= g->n;
    int64_t         side = by_rows ? g->m : g->n, begin = task * s->step;
    int64_t         count = side - begin < s->step ? side - begin : s->step;
    int64_t         row = by_rows ? begin : 0, col = by_rows ? 0 : begin;

    (void)thread;
    cblas_sgemm(row_major, g->trans_a ? trans : no_trans, g->trans_b ? trans : no_trans, (int)(by_rows ? count : g->m),
                (int)(by_rows ? g->n : count), (int)g->k, 1, (const float *)g->a + (g->trans_a ? row : row * g->lda),
                (int)g->lda, (const float *)g->b + (g->trans_b ? col * g->ldb : col), (int)g->ldb, 0,
                (float *)g->c + row * g->ldc + col, (int)g->ldc);
}

static void run_openblas(void *arg)
{
    job    *j        = arg;
    slices  s        = { &j->g, 0 };
    int64_t side     = j->g.m >= j->g.n ? j->g.m : j->g.n;
    int64_t n_slices = 1 + (int64_t)(2.0 * (double)j->g.m * (double)j->g.n * (double)j->g.k / SLICE_FLOPS);

    if (est_pool_threads(j->pool) == 1) n_slices = 1;
    s.step = ((side + n_slices - 1) / n_slices + SLICE_GRAIN - 1) / SLICE_GRAIN * SLICE_GRAIN;
    est_pool_for(j->pool, (side + s.step - 1) / s.step, run_slice, &s);
}

static void run_dnnl(void *arg)
{
    job      *j = arg;
    est_gemm *g = &j->g;

    omp_set_num_threads(est_pool_threads(j->pool));
    dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->m, g->n, g->k, 1, g->a, g->lda, g->b, g->ldb, 0, g->c,
               g->ldc);
}

/* --- the most the machine can do ---------------------------------------------------------------------------------- */

#define PEAK_STEPS 100000

#if defined(__x86_64__)
#include <immintrin.h>

#define PEAK_SUMS  12
#define PEAK_FLOPS (2.0 * 8 * PEAK_SUMS * PEAK_STEPS)

/* Eight floats wide: with sixteen the peak is the same on some machines and twice as high on others. */
__attribute__((target("avx2,fma"))) static void multiply_add(void *arg)
{
    __m256 sums[PEAK_SUMS], factor = _mm256_set1_ps(0.999f);
    float *out = arg;

    for (int i = 0; i < PEAK_SUMS; i++) sums[i] = _mm256_set1_ps((float)i);
    for (int step = 0; step < PEAK_STEPS; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_SUMS; i++) sums[i] = _mm256_fmadd_ps(sums[i], factor, factor);
    }
    for (int i = 1; i < PEAK_SUMS; i++) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    _mm256_storeu_ps(out, sums[0]);
}

#define PEAK_SUMS_512  24
#define PEAK_FLOPS_512 (2.0 * 16 * PEAK_SUMS_512 * PEAK_STEPS)

__attribute__((target("avx512f"))) static void multiply_add_512(void *arg)
{
    __m512 sums[PEAK_SUMS_512], factor = _mm512_set1_ps(0.999f);
    float *out = arg;

    for (int i = 0; i < PEAK_SUMS_512; i++) sums[i] = _mm512_set1_ps((float)i);
    for (int step = 0; step < PEAK_STEPS; step++) {
#pragma GCC unroll 24
        for (int i = 0; i < PEAK_SUMS_512; i++) sums[i] = _mm512_fmadd_ps(sums[i], factor, factor);
    }
    for (int i = 1; i < PEAK_SUMS_512; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    _mm512_storeu_ps(out, sums[0]);
}

static void print_peak(void)
{
    float            out[16];
    bench_contestant peak[] = { { .fn = multiply_add, .arg = out }, { .fn = multiply_add_512, .arg = out } };

    if (!__builtin_cpu_supports("fma")) return;
    if (!__builtin_cpu_supports("avx512f")) peak[1].fn = NULL;
    bench_run(peak, 2, 15, 0.002);
    printf("multiply-add peak of one core: %.1f GFLOP/s with AVX2", 1e-9 * PEAK_FLOPS / peak[0].secs.min);
    if (peak[1].fn != NULL) printf(", %.1f with AVX-512", 1e-9 * PEAK_FLOPS_512 / peak[1].secs.min);
    printf("\n");
}
#else
static void print_peak(void) {}
#endif

/* --- the table ---------------------------------------------------------------------------------------------------- */

static float *random_matrix(int64_t count)
{
    static uint64_t state = 1;
    float          *x     = est_alloc_aligned((size_t)count * sizeof *x);

    if (x == NULL) {
        fprintf(stderr, "gemm: no memory for a matrix of %lld\n", (long long)count);
        exit(1);
    }
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i]  = (float)(int32_t)(state >> 32) / 2147483648.0f;
    }
    return x;
}

static void print_rate(double flops, const bench_contestant *c)
{
    if (c->fn == NULL) {
        printf(" %21s", "-");
        return;
    }
    printf(" %7.1f (%5.1f %5.1f)", 1e-9 * flops / c->secs.median, 1e-9 * flops / c->secs.max,
           1e-9 * flops / c->secs.min);
}

static void measure(shape s, est_pool *pool, int n_rounds, double window_secs)
{
    bool             ta = s.trans[0] == 'T', tb = s.trans[1] == 'T';
    float           *a = random_matrix(s.m * s.k), *b = random_matrix(s.k * s.n), *c = random_matrix(s.m * s.n);
    job              j            = { pool,
                                      { .trans_a = ta,
                                        .trans_b = tb,
                                        .m       = s.m,
                                        .n       = s.n,
                                        .k       = s.k,
                                        .a       = a,
                                        .lda     = ta ? s.m : s.k,
                                        .b       = b,
                                        .ldb     = tb ? s.k : s.n,
                                        .c       = c,
                                        .ldc     = s.n } };
    size_t           scratch      = est_gemm_scratch(pool, &j.g);
    bench_contestant contestant[] = { { .fn = run_ours, .arg = &j },
                                      { .fn = cblas_sgemm != NULL ? run_openblas : NULL, .arg = &j },
                                      { .fn = dnnl_sgemm != NULL ? run_dnnl : NULL, .arg = &j } };

    if (scratch > 0) j.g.scratch = random_matrix((int64_t)(scratch / sizeof(float)));
    bench_run(contestant, 3, n_rounds, window_secs);
    for (int i = 0; i < 3; i++) print_rate(2.0 * (double)s.m * (double)s.n * (double)s.k, &contestant[i]);
    est_free_aligned(a);
    est_free_aligned(b);
    est_free_aligned(c);
    est_free_aligned(j.g.scratch);
}

int main(int argc, char **argv)
{
    int         n_rounds    = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 15;
    double      window_secs = argc > 2 ? 1e-3 * strtod(argv[2], NULL) : 0.003;
    const char *only        = argc > 3 ? argv[3] : "";
    est_pool   *pools[2]    = { NULL, NULL };

    for (int i = 0; i < 2; i++) {
        if (est_pool_create(i + 1, &pools[i]) != EST_OK) {
            fprintf(stderr, "gemm: %s\n", est_error_message());
            return 1;
        }
    }
    find_others();
    print_peak();
    printf("%-19s %7s %21s %21s %21s\n", "m x n x k", "threads", "estoc", "OpenBLAS", "oneDNN");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char name[64];

        snprintf(name, sizeof name, "%dx%dx%d %s", (int)shapes[i].m, (int)shapes[i].n, (int)shapes[i].k,
                 shapes[i].trans);
        if (strstr(name, only) == NULL) continue;
        for (int t = 0; t < 2; t++) {
            printf("%-19s %7d", t == 0 ? name : "", t + 1);
            measure(shapes[i], pools[t], n_rounds > 0 ? n_rounds : 1, window_secs);
            printf("\n");
            fflush(stdout);
        }
    }
    for (int i = 0; i < 2; i++) est_pool_free(pools[i]);
    return 0;
}
