/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMul: y[i, j] = sum over l of a[i, l] * b[l, j], where a and b may each be stored transposed.
 *
 * Floats go to kernels/gemm.h; integers, which are rare and small, to a plain loop. */
#include "ops/matmul.h"
#include "cuda/launchers.h"

#include <string.h>

#include "kernels/parallel.h"
#include "ops/ops.h"

est_status est_matmul_sizes(const est_shape *a, bool trans_a, const est_shape *b, bool trans_b, int64_t *m, int64_t *n)
{
    int64_t k_a = est_infer_dim(a, trans_a ? -2 : -1), k_b = est_infer_dim(b, trans_b ? -1 : -2);
    char    at[EST_SHAPE_TEXT_MAX], bt[EST_SHAPE_TEXT_MAX];

    if (k_a >= 0 && k_b >= 0 && k_a != k_b) {
        return est_fail(EST_INVALID_ARGUMENT, "cannot multiply %s%s with %s%s: the inner sizes differ",
                        est_shape_text(a, at), trans_a ? " transposed" : "", est_shape_text(b, bt),
                        trans_b ? " transposed" : "");
    }
    *m = est_infer_dim(a, trans_a ? -1 : -2);
    *n = est_infer_dim(b, trans_b ? -2 : -1);
    return EST_OK;
}

static est_status matmul_infer(est_infer *c)
{
    int64_t m, n;

    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 2));
    EST_TRY(est_matmul_sizes(&c->in[0], est_node_bool(c->node, "transpose_a"), &c->in[1],
                             est_node_bool(c->node, "transpose_b"), &m, &n));
    c->out[0] = EST_SHAPE(m, n);
    return EST_OK;
}

/* With y = a b: da = dy b', db = a' dy; each transpose of an input moves to the other side. */
static void matmul_grad(est_grad *g)
{
    est_node a = g->in[0], b = g->in[1], dy = est_round_gradient(g);
    bool     ta = est_node_bool(g->node, "transpose_a"), tb = est_node_bool(g->node, "transpose_b");

    g->din[0].values = ta ? est_matmul_t(b, dy, tb, true) : est_matmul_t(dy, b, false, !tb);
    g->din[1].values = tb ? est_matmul_t(dy, a, true, ta) : est_matmul_t(a, dy, !ta, false);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

#define INTEGER_ROWS(T, suffix)                                                                                        \
    static void integer_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const est_gemm *g = arg;                                                                                       \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            T *restrict y = (T *)g->c + i * g->ldc;                                                                    \
            memset(y, 0, (size_t)g->n * sizeof(T));                                                                    \
            for (int64_t l = 0; l < g->k; l++) {                                                                       \
                T a                 = ((const T *)g->a)[g->trans_a ? l * g->lda + i : i * g->lda + l];                 \
                const T *restrict b = (const T *)g->b + (g->trans_b ? l : l * g->ldb);                                 \
                int64_t step        = g->trans_b ? g->ldb : 1;                                                         \
                for (int64_t j = 0; j < g->n; j++) y[j] += a * b[j * step];                                            \
            }                                                                                                          \
        }                                                                                                              \
    }
/* Unsigned, so that an overflow wraps instead of being undefined. */
INTEGER_ROWS(uint32_t, i32)
INTEGER_ROWS(uint64_t, i64)

void est_matmul_any(est_pool *pool, est_dtype dtype, const est_gemm *g)
{
    est_gemm integer = *g;

    if (dtype == EST_F32) {
        est_gemm_f32(pool, g);
    } else if (dtype == EST_F64) {
        est_gemm_f64(pool, g);
    } else {
        est_parallel_for(pool, g->m, 1, (double)g->n * (double)g->k,
                         dtype == EST_I32 ? integer_rows_i32 : integer_rows_i64, &integer);
    }
}

/* The columns of a stored matrix of rank 2: what one row to the next is apart, at least 1. */
static int64_t stored_columns(const est_view *v)
{
    return v->shape.dim[1] > 0 ? v->shape.dim[1] : 1;
}

static est_gemm product_of(const est_call *c, bool trans_a, bool trans_b)
{
    const est_view *a = c->in[0], *b = c->in[1], *product = &c->out[0];

    return (est_gemm){ .trans_a = trans_a,
                       .trans_b = trans_b,
                       .m       = product->shape.dim[0],
                       .n       = product->shape.dim[1],
                       .k       = a->shape.dim[trans_a ? 0 : 1],
                       .a       = a->data,
                       .lda     = stored_columns(a),
                       .b       = b->data,
                       .ldb     = stored_columns(b),
                       .c       = product->data,
                       .ldc     = stored_columns(product),
                       .scratch = c->scratch };
}

size_t est_matmul_scratch(const est_call *c, bool trans_a, bool trans_b)
{
    est_gemm g = product_of(c, trans_a, trans_b);

    return c->out[0].dtype == EST_F32 ? est_gemm_scratch(c->pool, &g) : 0;
}

void est_matmul_run(const est_call *c, bool trans_a, bool trans_b, est_gemm_done_fn done, void *done_arg)
{
    est_gemm g = product_of(c, trans_a, trans_b);

    g.done     = done;
    g.done_arg = done_arg;
    est_matmul_any(c->pool, c->out[0].dtype, &g);
}

enum { TRANS_A, TRANS_B }; /* in param[] */

static est_status matmul_prepare(est_call *c)
{
    c->param[TRANS_A].i = est_node_bool(c->node, "transpose_a");
    c->param[TRANS_B].i = est_node_bool(c->node, "transpose_b");
    return EST_OK;
}

static size_t matmul_scratch(const est_call *c)
{
    return est_matmul_scratch(c, est_node_bool(c->node, "transpose_a"), est_node_bool(c->node, "transpose_b"));
}

static size_t matmul_cuda_scratch(const est_call *c)
{
    if (c->out[0].dtype != EST_F32) return 0;
    return est_product_scratch(est_node_bool(c->node, "transpose_a"), c->in[0]->count);
}

bool est_matmul_is_narrow(const est_call *c)
{
    bool    trans_a = est_node_bool(c->node, "transpose_a"), trans_b = est_node_bool(c->node, "transpose_b");
    int64_t m = c->out[0].shape.dim[0], n = c->out[0].shape.dim[1], k = c->in[0]->shape.dim[trans_a ? 0 : 1];

    return c->out[0].dtype == EST_F32 && est_product_narrow(trans_a, trans_b, m, n, k) != EST_NARROW_NOT;
}

static est_status matmul_cpu(est_call *c)
{
    est_matmul_run(c, c->param[TRANS_A].i != 0, c->param[TRANS_B].i != 0, NULL, NULL);
    return EST_OK;
}

const est_op est_op_matmul = {
    .name      = "MatMul",
    .signature = "a: T, b: T -> product: T; transpose_a: bool = false; transpose_b: bool = false; "
                 "T: {float32, float64, int32, int64}",
    .infer     = matmul_infer,
    .grad      = matmul_grad,
    .cpu       = EST_KERNELS({ .run = matmul_cpu, .prepare = matmul_prepare, .scratch = matmul_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(matmul),
                               .prepare = matmul_prepare,
                               .scratch = matmul_cuda_scratch,
                               .light   = est_matmul_is_narrow }),
    .heavy     = true,
};

est_node est_matmul_t(est_node a, est_node b, bool transpose_a, bool transpose_b)
{
    return est_build2(&est_op_matmul, a, b,
                      EST_ATTRS(est_attr_bool("transpose_a", transpose_a), est_attr_bool("transpose_b", transpose_b)));
}

est_node est_matmul(est_node a, est_node b)
{
    return est_matmul_t(a, b, false, false);
}
