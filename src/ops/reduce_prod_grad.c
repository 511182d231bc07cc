/* SPDX-License-Identifier: Apache-2.0
 *
 * EstProdGrad: dx_i = dy * (product of all x_j but x_i).
 *
 * y / x_i is that product unless x_i is 0. So the product is taken of the elements that are not 0, and the zeros are
 * counted: with one of them only its own place gets something, with two nobody does. */
#include "ops/array.h"

typedef struct column {
    double  product; /* of the elements that are not 0 */
    int64_t zeros;
} column;

static est_status reduce_prod_grad_infer(est_infer *c)
{
    c->out[0] = c->in[1];
    return EST_OK;
}

static size_t reduce_prod_grad_scratch(const est_call *c)
{
    return sizeof(column) * (size_t)c->in[0]->count;
}

/* Walks the elements of x in order; `at` is the place each has in the reduced tensor. */
typedef struct walker {
    const est_shape *shape;
    int64_t          stride[EST_RANK_MAX]; /* in the reduced tensor; 0 along reduced axes */
    int64_t          index[EST_RANK_MAX];
    int64_t          at;
} walker;

static walker start_walk(const est_shape *shape, const est_view *axes)
{
    walker   w    = { .shape = shape };
    uint32_t mask = 0;
    int64_t  step = 1;

    for (int64_t i = 0; i < axes->count; i++) {
        int64_t a = est_view_int(axes, i);
        mask |= 1u << (a < 0 ? a + shape->rank : a);
    }
    for (int a = shape->rank - 1; a >= 0; a--) {
        if (mask >> a & 1) continue;
        w.stride[a] = step;
        step *= shape->dim[a];
    }
    return w;
}

static void next(walker *w)
{
    for (int a = w->shape->rank - 1; a >= 0; a--) {
        w->at += w->stride[a];
        if (++w->index[a] < w->shape->dim[a]) return;
        w->at -= w->stride[a] * w->shape->dim[a];
        w->index[a] = 0;
    }
}

#define PROD_GRAD(T)                                                                                                   \
    static void prod_grad_##T(est_call *c, column *columns)                                                            \
    {                                                                                                                  \
        const T *dy = c->in[0]->data, *x = c->in[1]->data;                                                             \
        T       *dx = c->out[0].data;                                                                                  \
        walker   w  = start_walk(&c->in[1]->shape, c->in[2]);                                                          \
                                                                                                                       \
        for (int64_t i = 0; i < c->in[0]->count; i++) columns[i] = (column){ 1, 0 };                                   \
        for (int64_t i = 0; i < c->in[1]->count; i++, next(&w)) {                                                      \
            if (x[i] == 0) {                                                                                           \
                columns[w.at].zeros++;                                                                                 \
            } else {                                                                                                   \
                columns[w.at].product *= x[i];                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        w = start_walk(&c->in[1]->shape, c->in[2]);                                                                    \
        for (int64_t i = 0; i < c->in[1]->count; i++, next(&w)) {                                                      \
            const column *k      = &columns[w.at];                                                                     \
            int64_t       zeros  = k->zeros - (x[i] == 0); /* among the others */                                      \
            double        others = zeros > 0 ? 0 : x[i] == 0 ? k->product : k->product / x[i];                         \
            dx[i]                = (T)(dy[w.at] * others);                                                             \
        }                                                                                                              \
    }
PROD_GRAD(float)
PROD_GRAD(double)

static est_status reduce_prod_grad_cpu(est_call *c)
{
    if (c->in[1]->dtype == EST_F32) {
        prod_grad_float(c, c->scratch);
    } else {
        prod_grad_double(c, c->scratch);
    }
    return EST_OK;
}

/* The same in ops: products of x with ones for zeros, and the number of zeros. */
static void reduce_prod_grad_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_dtype dtype   = est_node_dtype(in[1]);
    est_attrs keep    = EST_ATTRS(est_attr_bool("keep_dims", true));
    est_node  zero    = est_scalar(graph, dtype, 0);
    est_node  is_zero = est_equal(in[1], zero);
    est_node  count   = est_cast(is_zero, dtype);
    est_node  x       = est_select(is_zero, est_scalar(graph, dtype, 1), in[1]);
    est_node  product = est_build2(&est_op_reduce_prod, x, in[2], keep);
    est_node  others  = est_sub(est_build2(&est_op_reduce_sum, count, in[2], keep), count); /* zeros but itself */

    (void)node;
    others = est_select(est_greater(others, zero), zero, est_div(product, x));
    out[0] = est_mul(est_reshape_like(in[0], product), others);
}

const est_op est_op_reduce_prod_grad = {
    .name      = "EstProdGrad",
    .signature = "dy: T, x: T, reduction_indices: Tidx -> dx: T; keep_dims: bool = false; T: {float32, float64}; "
                 "Tidx: {int32, int64} = int32",
    .infer     = reduce_prod_grad_infer,
    .cpu       = EST_KERNELS({ .run = reduce_prod_grad_cpu, .scratch = reduce_prod_grad_scratch }),
    .lower     = reduce_prod_grad_lower,
};
