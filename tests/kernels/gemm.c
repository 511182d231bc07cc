/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products against a plain loop in double: every instruction set this machine has, all transpositions, sizes
 * around every tile and block edge, rows longer than the matrix. Everything around C and beyond the ends of A and B is
 * guarded: A and B end where their memory ends (for the address sanitizer) and the gaps between rows are NaN, so a
 * value that does not belong to the product poisons it.
 *
 * Under a sanitizer every product is still made, since every access of it is what is looked at; of a large one only
 * some elements are compared, as the plain loop is most of the time and says nothing there that other builds do not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/gemm_parts.h"
#include "support/sanitized.h"
#include "support/test.h"

typedef struct shape {
    int64_t m, n, k;
} shape;

static const shape shapes[] = {
    { 1, 1, 1 },       { 2, 3, 1 },      { 3, 2, 5 },      { 8, 48, 16 },    { 9, 49, 17 },     { 7, 47, 15 },
    { 6, 16, 8 },      { 13, 33, 31 },   { 16, 96, 300 },  { 37, 29, 113 },  { 5, 7, 0 },       { 0, 4, 3 },
    { 4, 0, 3 },       { 64, 10, 64 },   { 128, 256, 10 }, { 130, 200, 70 }, { 200, 130, 257 }, { 40, 700, 40 },
    { 700, 40, 40 },   { 20, 30, 1100 }, { 64, 64, 2100 }, { 200, 600, 90 }, { 600, 590, 65 },  { 300, 40, 513 },
    { 1, 300, 70 },    { 1, 65, 1030 },  { 300, 1, 70 },   { 131, 1, 1030 }, { 1, 1, 1000 },    { 1, 700, 9 },
    { 150, 1200, 20 }, { 17, 800, 520 }, { 1, 520, 300 },  { 530, 1, 260 },
};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* A stored matrix whose last row ends at the end of its memory. */
typedef struct matrix {
    float  *x;
    int64_t rows, cols, ld;
} matrix;

static uint64_t random_state = 1;

static float random_float(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) / 2147483648.0f;
}

static size_t matrix_floats(const matrix *m)
{
    return m->rows == 0 || m->cols == 0 ? 0 : (size_t)((m->rows - 1) * m->ld + m->cols);
}

static matrix matrix_create(int64_t rows, int64_t cols, int64_t extra)
{
    matrix m = { NULL, rows, cols, cols + extra };
    size_t n = matrix_floats(&m);

    m.x = malloc(n > 0 ? n * sizeof *m.x : 1);
    assert_non_null(m.x);
    for (size_t i = 0; i < n; i++) m.x[i] = (int64_t)i % m.ld < cols ? random_float() : NAN;
    return m;
}

static double at(const matrix *m, bool transposed, int64_t i, int64_t j)
{
    return transposed ? m->x[j * m->ld + i] : m->x[i * m->ld + j];
}

typedef struct problem {
    matrix   a, b, c, before;
    double  *sums, *sizes; /* of the plain loop, and of its summands without signs: made by the first check */
    est_gemm g;
} problem;

static problem problem_create(shape s, bool trans_a, bool trans_b, bool accumulate, int64_t extra)
{
    problem p = {
        .a      = trans_a ? matrix_create(s.k, s.m, extra) : matrix_create(s.m, s.k, extra),
        .b      = trans_b ? matrix_create(s.n, s.k, extra) : matrix_create(s.k, s.n, extra),
        .c      = matrix_create(s.m, s.n, extra),
        .before = matrix_create(s.m, s.n, extra),
    };

    if (!accumulate) { /* what is there must not matter */
        for (size_t i = 0; i < matrix_floats(&p.c); i++) p.c.x[i] = NAN;
    }
    memcpy(p.before.x, p.c.x, matrix_floats(&p.c) * sizeof *p.c.x);
    p.g = (est_gemm){ .trans_a    = trans_a,
                      .trans_b    = trans_b,
                      .m          = s.m,
                      .n          = s.n,
                      .k          = s.k,
                      .a          = p.a.x,
                      .lda        = p.a.ld,
                      .b          = p.b.x,
                      .ldb        = p.b.ld,
                      .c          = p.c.x,
                      .ldc        = p.c.ld,
                      .accumulate = accumulate };
    return p;
}

static void problem_reset(problem *p)
{
    memcpy(p->c.x, p->before.x, matrix_floats(&p->c) * sizeof *p->c.x);
}

static void problem_free(problem *p)
{
    free(p->a.x);
    free(p->b.x);
    free(p->c.x);
    free(p->before.x);
    free(p->sums);
    free(p->sizes);
}

/* A step from one element that is compared to the next: a prime, so that all rows and columns of all tiles have their
 * turn. */
static int64_t compare_step(const est_gemm *g)
{
    return EST_TEST_SANITIZED && g->m * g->n * g->k > 10000 ? 31 : 1;
}

/* The plain loop, of the elements that are compared. */
static void add_up(problem *p)
{
    const est_gemm *g    = &p->g;
    int64_t         step = compare_step(g);

    p->sums  = calloc((size_t)(g->m * g->n) + 1, sizeof *p->sums);
    p->sizes = calloc((size_t)(g->m * g->n) + 1, sizeof *p->sizes);
    assert_true(p->sums != NULL && p->sizes != NULL);
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = i * g->n % step; j < g->n; j += step) {
            double sum = 0, size = 0;

            for (int64_t k = 0; k < g->k; k++) {
                double product = at(&p->a, g->trans_a, i, k) * at(&p->b, g->trans_b, k, j);

                sum += product;
                size += fabs(product);
            }
            if (g->accumulate) {
                sum += p->before.x[i * p->c.ld + j];
                size += fabs(p->before.x[i * p->c.ld + j]);
            }
            p->sums[i * g->n + j]  = sum;
            p->sizes[i * g->n + j] = size;
        }
    }
}

static void check_product(problem *p, const char *what)
{
    const est_gemm *g    = &p->g;
    int64_t         step = compare_step(g);

    if (p->sums == NULL) add_up(p);
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = i * g->n % step; j < g->n; j += step) {
            double sum = p->sums[i * g->n + j], got = p->c.x[i * p->c.ld + j];

            if (!(fabs(got - sum) <= 2e-6 * p->sizes[i * g->n + j] + 1e-30)) {
                fail_msg("%s: %d x %d x %d %c%c%s: c[%d, %d] is %.9g, not %.9g", what, (int)g->m, (int)g->n, (int)g->k,
                         g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->accumulate ? " +=" : "", (int)i, (int)j,
                         got, sum);
            }
        }
    }
    for (size_t i = 0; i < matrix_floats(&p->c); i++) { /* the gaps between rows are as they were */
        if ((int64_t)i % p->c.ld >= p->c.cols) assert_memory_equal(&p->c.x[i], &p->before.x[i], sizeof(float));
    }
}

/* A product by every instruction set. */
static void check_isas(problem *p, est_pool *pool)
{
    for (const est_gemm_isa *const *isa = est_gemm_isas; *isa != NULL; isa++) {
        if (!(*isa)->supported()) continue;
        problem_reset(p);
        est_gemm_f32_isa(*isa, pool, &p->g);
        check_product(p, (*isa)->name);
    }
}

TEST(each_instruction_set)
{
    est_pool *pool = NULL;

    assert_int_equal(est_pool_create(2, &pool), EST_OK);
    for (const est_gemm_isa *const *isa = est_gemm_isas; *isa != NULL; isa++) {
        if (!(*isa)->supported()) print_message("no %s here\n", (*isa)->name);
    }
    for (int s = 0; s < N_SHAPES; s++) {
        for (int flags = 0; flags < 16; flags++) {
            problem p = problem_create(shapes[s], flags & 1, flags & 2, flags & 4, flags & 8 ? 3 : 0);

            check_isas(&p, pool);
            problem_free(&p);
        }
    }
    est_pool_free(pool);
}

TEST(without_memory)
{
    for (int flags = 0; flags < 8; flags++) {
        problem p = problem_create((shape){ 33, 300, 70 }, flags & 1, flags & 2, flags & 4, 2);

        est_gemm_simple_f32(NULL, &p.g);
        check_product(&p, "simple");
        problem_free(&p);
    }
}

/* The same bits with any number of threads, with the caller's scratch and without. Scratch is exactly as long as
 * said. */
TEST(threads_do_not_matter)
{
    static const int n_threads[] = { 1, 2, 3, 5 };
    est_pool        *pools[4];

    for (int t = 0; t < 4; t++) assert_int_equal(est_pool_create(n_threads[t], &pools[t]), EST_OK);
    for (int s = 0; s < N_SHAPES; s++) {
        for (int flags = 0; flags < 8; flags++) {
            problem p     = problem_create(shapes[s], flags & 1, flags & 2, flags & 4, 1);
            size_t  n     = matrix_floats(&p.c) * sizeof(float);
            float  *first = malloc(n + 1);

            assert_non_null(first);
            est_gemm_f32(NULL, &p.g);
            memcpy(first, p.c.x, n);
            for (int t = 0; t < 4; t++) {
                size_t scratch = est_gemm_scratch(pools[t], &p.g);

                if (scratch > 0) {
                    p.g.scratch = aligned_alloc(EST_ALIGNMENT, scratch);
                    assert_non_null(p.g.scratch);
                    memset(p.g.scratch, 0xff, scratch); /* NaN */
                }
                problem_reset(&p);
                est_gemm_f32(pools[t], &p.g);
                assert_memory_equal(first, p.c.x, n);
                free(p.g.scratch);
                p.g.scratch = NULL;
            }
            free(first);
            problem_free(&p);
        }
    }
    for (int t = 0; t < 4; t++) est_pool_free(pools[t]);
}

/* Adds 1 to every element it is shown: together with the reference this proves that each is shown once, and
 * finished. */
static void add_one(void *arg, int64_t row, int64_t n_rows, int64_t col, int64_t n_cols)
{
    matrix *c = arg;

    assert_true(n_rows > 0 && n_cols > 0);
    for (int64_t i = row; i < row + n_rows; i++) {
        for (int64_t j = col; j < col + n_cols; j++) c->x[i * c->ld + j] += 1;
    }
}

TEST(done_sees_each_element_once)
{
    est_pool *pool = NULL;

    assert_int_equal(est_pool_create(3, &pool), EST_OK);
    for (int s = 0; s < N_SHAPES; s++) {
        for (int flags = 0; flags < 8; flags++) {
            problem p     = problem_create(shapes[s], flags & 1, flags & 2, flags & 4, 2);
            size_t  n     = matrix_floats(&p.c);
            float  *plain = malloc(n * sizeof(float) + 1);

            assert_non_null(plain);
            est_gemm_f32(pool, &p.g);
            memcpy(plain, p.c.x, n * sizeof(float));
            problem_reset(&p);
            p.g.done     = add_one;
            p.g.done_arg = &p.c;
            est_gemm_f32(pool, &p.g);
            for (size_t i = 0; i < n; i++) {
                if ((int64_t)i % p.c.ld < p.c.cols) assert_true(p.c.x[i] == plain[i] + 1);
            }
            free(plain);
            problem_free(&p);
        }
    }
    est_pool_free(pool);
}

/* One NaN or infinity in A reaches its row of C and no other; one in B its column. */
TEST(nan_and_infinity_go_where_they_belong)
{
    for (int s = 0; s < N_SHAPES; s++) {
        for (int flags = 0; flags < 8; flags++) {
            problem p   = problem_create(shapes[s], flags & 1, flags & 2, false, 1);
            int64_t row = p.g.m / 2, col = p.g.n / 2;
            int64_t k     = p.g.k - 1;
            float   value = flags & 4 ? INFINITY : NAN;

            if (p.g.m == 0 || p.g.n == 0 || k < 0) {
                problem_free(&p);
                continue;
            }
            p.a.x[p.g.trans_a ? k * p.a.ld + row : row * p.a.ld + k] = value;
            p.b.x[p.g.trans_b ? col * p.b.ld + k : k * p.b.ld + col] = value;
            est_gemm_f32(NULL, &p.g);
            for (int64_t i = 0; i < p.g.m; i++) {
                for (int64_t j = 0; j < p.g.n; j++) {
                    assert_int_equal(!isfinite(p.c.x[i * p.c.ld + j]), i == row || j == col);
                }
            }
            problem_free(&p);
        }
    }
}

TEST(double_precision)
{
    est_pool *pool = NULL;

    assert_int_equal(est_pool_create(2, &pool), EST_OK);
    for (int s = 0; s < N_SHAPES; s++) {
        for (int flags = 0; flags < 8; flags++) {
            problem  p = problem_create(shapes[s], flags & 1, flags & 2, flags & 4, 0);
            est_gemm g = p.g;
            double  *a, *b, *c;

            a = malloc((matrix_floats(&p.a) + 1) * sizeof *a);
            b = malloc((matrix_floats(&p.b) + 1) * sizeof *b);
            c = malloc((matrix_floats(&p.c) + 1) * sizeof *c);
            assert_true(a != NULL && b != NULL && c != NULL);
            for (size_t i = 0; i < matrix_floats(&p.a); i++) a[i] = (double)p.a.x[i];
            for (size_t i = 0; i < matrix_floats(&p.b); i++) b[i] = (double)p.b.x[i];
            for (size_t i = 0; i < matrix_floats(&p.c); i++) c[i] = (double)p.c.x[i];
            g.a = a;
            g.b = b;
            g.c = c;
            est_gemm_f64(pool, &g);
            for (size_t i = 0; i < matrix_floats(&p.c); i++) p.c.x[i] = (float)c[i];
            check_product(&p, "float64");
            free(a);
            free(b);
            free(c);
            problem_free(&p);
        }
    }
    est_pool_free(pool);
}

/* Memory planned for the largest sizes seen must do for every smaller one. */
TEST(scratch_for_a_product_suits_smaller_ones)
{
    est_pool *pool = NULL;
    uint64_t  r    = 1;

    assert_int_equal(est_pool_create(3, &pool), EST_OK);
    for (int i = 0; i < 200000; i++) {
        int64_t  size[6];
        est_gemm large, small;
        for (int d = 0; d < 3; d++) {
            r           = r * 6364136223846793005u + 1442695040888963407u;
            size[d]     = (int64_t)(r >> 33) % ((int64_t)2 << (r >> 60)) + 1; /* from 1 to 65536, small ones often */
            r           = r * 6364136223846793005u + 1442695040888963407u;
            size[d + 3] = (r >> 62) == 0 ? size[d] : (int64_t)(r >> 33) % size[d] + 1;
        }
        large = (est_gemm){
            .trans_a = r & 1u << 20, .trans_b = r & 1u << 21, .m = size[0], .n = size[1], .k = size[2]
        };
        small     = large;
        small.m   = size[3];
        small.n   = size[4];
        small.k   = size[5];
        large.lda = large.trans_a ? large.m : large.k;
        large.ldb = large.trans_b ? large.k : large.n;
        small.lda = small.trans_a ? small.m : small.k;
        small.ldb = small.trans_b ? small.k : small.n;
        assert_true(est_gemm_scratch_exact(pool, &small) <= est_gemm_scratch(pool, &large));
        assert_true(est_gemm_scratch(pool, &small) <= est_gemm_scratch(pool, &large));
    }
    est_pool_free(pool);
}
