/* SPDX-License-Identifier: Apache-2.0
 *
 * BatchMatMulV2: the matrix product of the last two axes for every index of the leading ones, which broadcast.
 *
 * Many small products are handed out whole, a product to a thread; few large ones are cut up one after the other. A
 * single right-hand matrix for all makes one tall product. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "tensor/shape.h"

/* Leading axes of a shape. */
static est_shape batch_axes(const est_shape *s)
{
    est_shape batch = *s;

    if (s->rank >= 0) batch.rank = s->rank - 2;
    return batch;
}

static est_status batch_matmul_infer(est_infer *c)
{
    const est_shape *x = &c->in[0], *y = &c->in[1];
    est_shape        bx = batch_axes(x), by = batch_axes(y), *out = &c->out[0];
    int64_t          m, n;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if ((x->rank >= 0 && x->rank < 2) || (y->rank >= 0 && y->rank < 2)) {
        return est_fail(EST_INVALID_ARGUMENT, "matrices have at least two axes, got %s and %s", est_shape_text(x, a),
                        est_shape_text(y, b));
    }
    EST_TRY(est_matmul_sizes(x, est_node_bool(c->node, "adj_x"), y, est_node_bool(c->node, "adj_y"), &m, &n));
    if (x->rank < 0 || y->rank < 0) return EST_OK;
    if (est_shape_broadcast(&bx, &by, out) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "cannot multiply %s with %s: the leading axes do not broadcast",
                        est_shape_text(x, a), est_shape_text(y, b));
    }
    out->dim[out->rank++] = m;
    out->dim[out->rank++] = n;
    return EST_OK;
}

/* dx brought back to x's shape, unless its leading axes are known to be those of dy. */
static est_node undo_broadcast(est_node dx, est_node x, est_node dy)
{
    const est_shape *s = est_node_shape(x), *d = est_node_shape(dy);
    bool             same = s->rank >= 0 && s->rank == d->rank;

    for (int i = 0; same && i < s->rank - 2; i++) same = s->dim[i] == d->dim[i] && s->dim[i] >= 0;
    return same ? dx : est_sum_to_shape(dx, x);
}

/* As MatMul's, then summed over the axes that were broadcast. */
static void batch_matmul_grad(est_grad *g)
{
    est_node x = g->in[0], y = g->in[1], d = est_round_gradient(g), dx, dy;
    bool     tx = est_node_bool(g->node, "adj_x"), ty = est_node_bool(g->node, "adj_y");

    dx = tx ? est_batch_matmul(y, d, ty, true) : est_batch_matmul(d, y, false, !ty);
    dy = ty ? est_batch_matmul(d, x, true, tx) : est_batch_matmul(x, d, !tx, false);

    g->din[0].values = undo_broadcast(dx, x, d);
    g->din[1].values = undo_broadcast(dy, y, d);
}

/* --- kernel ------------------------------------------------------------------------------------------------------- */

/* How the products of a call are handed out. */
typedef enum split {
    ONE_TALL,   /* one right-hand side for all: a single product of all rows */
    MANY_SMALL, /* whole products to the threads, each block of them with scratch of its own */
    FEW_LARGE   /* one after the other, each cut up */
} split;

typedef struct products {
    est_gemm         one; /* the first product, or the tall one; its scratch is where all of it begins */
    est_dtype        dtype;
    split            how;
    int64_t          count;
    double           ns; /* one product takes */
    const est_shape *out;
    int              n_batch_axes;
    int64_t          x_step[EST_RANK_MAX], y_step[EST_RANK_MAX]; /* matrices per index of an axis; 0: broadcast */
    int64_t          x_size, y_size, out_size;                   /* bytes of a matrix */
    size_t           scratch_size;                               /* bytes of a product's scratch */
} products;

/* Matrices from one index of each output axis to the next, in an input with perhaps fewer axes. */
static void batch_steps(const est_shape *in, const est_shape *out, int64_t *step)
{
    int64_t matrices = 1;

    for (int axis = out->rank - 3, i = in->rank - 3; axis >= 0; axis--, i--) {
        int64_t dim = i >= 0 ? in->dim[i] : 1;

        step[axis] = dim == 1 ? 0 : matrices;
        matrices *= dim;
    }
}

#define SMALL_PRODUCT_NS 200000.0 /* below this a product is not worth cutting up */

static products products_of(const est_call *c, bool tx, bool ty)
{
    const est_shape *x = &c->in[0]->shape, *y = &c->in[1]->shape, *out = &c->out[0].shape;
    int64_t          m = out->dim[out->rank - 2], n = out->dim[out->rank - 1];
    int64_t          k    = x->dim[x->rank - (tx ? 2 : 1)];
    int64_t          size = (int64_t)est_dtype_size(c->out[0].dtype);
    products         p    = { .dtype = c->out[0].dtype, .out = out, .n_batch_axes = out->rank - 2 };

    p.count    = m * n > 0 ? c->out[0].count / (m * n) : 0;
    p.ns       = 2.0 * (double)m * (double)n * (double)k / 40.0 + 100.0;
    p.one      = (est_gemm){ .trans_a = tx, .trans_b = ty, .m = m, .n = n, .k = k, .ldc = n };
    p.one.lda  = x->dim[x->rank - 1] > 0 ? x->dim[x->rank - 1] : 1;
    p.one.ldb  = y->dim[y->rank - 1] > 0 ? y->dim[y->rank - 1] : 1;
    p.x_size   = m * k * size;
    p.y_size   = k * n * size;
    p.out_size = m * n * size;
    batch_steps(x, out, p.x_step);
    batch_steps(y, out, p.y_step);
    p.how = p.ns < SMALL_PRODUCT_NS ? MANY_SMALL : FEW_LARGE;
    if (!tx && c->in[1]->count == k * n && c->in[0]->count == p.count * m * k) {
        p.how   = ONE_TALL;
        p.one.m = p.count * m;
    }
    if (p.dtype == EST_F32 && p.count > 0) {
        p.scratch_size = (est_gemm_scratch(p.how == MANY_SMALL ? NULL : c->pool, &p.one) + 63) / 64 * 64;
    }
    return p;
}

static void run_product(const products *p, est_pool *pool, int64_t index, int64_t scratch)
{
    est_gemm g = p->one;
    int64_t  x = 0, y = 0, left = index;

    for (int axis = p->n_batch_axes - 1; axis >= 0; axis--) {
        int64_t i = left % p->out->dim[axis];

        left /= p->out->dim[axis];
        x += i * p->x_step[axis];
        y += i * p->y_step[axis];
    }
    g.a = (const char *)g.a + x * p->x_size;
    g.b = (const char *)g.b + y * p->y_size;
    g.c = (char *)g.c + index * p->out_size;
    if (p->scratch_size > 0) g.scratch = (char *)g.scratch + (size_t)scratch * p->scratch_size;
    est_matmul_any(pool, p->dtype, &g);
}

static void run_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    for (int64_t i = begin; i < end; i++) run_product(arg, NULL, i, block);
}

static size_t batch_matmul_scratch(const est_call *c)
{
    products p = products_of(c, est_node_bool(c->node, "adj_x"), est_node_bool(c->node, "adj_y"));

    return p.scratch_size * (size_t)(p.how == MANY_SMALL ? est_parallel_blocks(p.count, p.ns) : 1);
}

enum { ADJ_X, ADJ_Y }; /* in param[] */

static est_status batch_matmul_prepare(est_call *c)
{
    c->param[ADJ_X].i = est_node_bool(c->node, "adj_x");
    c->param[ADJ_Y].i = est_node_bool(c->node, "adj_y");
    return EST_OK;
}

static est_status batch_matmul_cpu(est_call *c)
{
    products p = products_of(c, c->param[ADJ_X].i != 0, c->param[ADJ_Y].i != 0);

    if (p.count == 0) return EST_OK;
    p.one.a       = c->in[0]->data;
    p.one.b       = c->in[1]->data;
    p.one.c       = c->out[0].data;
    p.one.scratch = p.scratch_size > 0 ? c->scratch : NULL;
    switch (p.how) {
    case ONE_TALL: est_matmul_any(c->pool, p.dtype, &p.one); break;
    case MANY_SMALL: est_parallel_for(c->pool, p.count, 1, p.ns, run_range, &p); break;
    case FEW_LARGE:
        for (int64_t i = 0; i < p.count; i++) run_product(&p, c->pool, i, 0);
        break;
    }
    return EST_OK;
}

static size_t batch_matmul_cuda_scratch(const est_call *c)
{
    return c->out[0].dtype == EST_F32 ? est_product_scratch(false, 0) : 0;
}

const est_op est_op_batch_matmul = {
    .name      = "BatchMatMulV2",
    .signature = "x: T, y: T -> output: T; adj_x: bool = false; adj_y: bool = false; "
                 "T: {float32, float64, int32, int64}",
    .infer     = batch_matmul_infer,
    .grad      = batch_matmul_grad,
    .cpu  = EST_KERNELS({ .run = batch_matmul_cpu, .prepare = batch_matmul_prepare, .scratch = batch_matmul_scratch }),
    .cuda = EST_KERNELS(
        { .launch = EST_LAUNCH(batch_matmul), .prepare = batch_matmul_prepare, .scratch = batch_matmul_cuda_scratch }),
    .heavy = true,
};

est_node est_batch_matmul(est_node a, est_node b, bool transpose_a, bool transpose_b)
{
    return est_build2(&est_op_batch_matmul, a, b,
                      EST_ATTRS(est_attr_bool("adj_x", transpose_a), est_attr_bool("adj_y", transpose_b)));
}
