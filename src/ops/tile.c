/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile: the tensor repeated multiples[i] times along axis i. EstTileGrad adds the copies up again: TensorFlow has an op
 * TileGrad, too, but it is another one.
 *
 * As a copy, every axis of the result is a pair [repeat, position] of which the first does not move the source. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* out = in with every dimension changed by `change(dim, multiple)`, as far as both are known. */
static est_status infer_multiples(est_infer *c, est_status (*change)(int64_t dim, int64_t multiple, int64_t *out))
{
    const est_value *value = est_infer_value(c, 1);
    int64_t          n     = est_infer_dim(&c->in[1], 0);
    int              rank  = c->in[0].rank;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 1));
    if (n >= 0 && ((rank >= 0 && n != rank) || n > EST_RANK_MAX)) {
        return est_fail(EST_INVALID_ARGUMENT, "multiples of shape %s for an input of shape %s",
                        est_shape_text(&c->in[1], a), est_shape_text(&c->in[0], b));
    }
    if (rank < 0) rank = (int)n;
    if (rank < 0) return EST_OK;
    c->out[0] = est_shape_of_rank(rank);
    for (int i = 0; i < rank && value != NULL; i++) {
        int64_t dim = est_infer_dim(&c->in[0], i);

        if (value->v[i] == EST_VALUE_UNKNOWN) continue;
        if (value->v[i] < 0) {
            return est_fail(EST_INVALID_ARGUMENT, "multiple %" PRId64 " of axis %d is negative", value->v[i], i);
        }
        if (dim >= 0) EST_TRY(change(dim, value->v[i], &c->out[0].dim[i]));
    }
    return EST_OK;
}

static est_status times(int64_t dim, int64_t multiple, int64_t *out)
{
    if (!__builtin_mul_overflow(dim, multiple, out)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " times %" PRId64 " elements are more than can be counted", dim,
                    multiple);
}

static est_status divided(int64_t dim, int64_t multiple, int64_t *out)
{
    if (multiple == 0 || dim % multiple != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "an axis of %" PRId64 " is no multiple of %" PRId64, dim, multiple);
    }
    *out = dim / multiple;
    return EST_OK;
}

static est_status tile_infer(est_infer *c)
{
    return infer_multiples(c, times);
}

/* The result of 0 copies does not have the shape of the input. */
static void tile_grad(est_grad *g)
{
    const est_value *multiples = est_node_value(g->in[1]);

    for (int i = 0; multiples != NULL && i < multiples->n; i++) {
        if (multiples->v[i] == 0) {
            g->din[0].values = est_zeros_like(g->in[0]);
            return;
        }
    }
    g->din[0].values = est_build2(&est_op_tile_grad, g->dout[0], g->in[1], EST_NO_ATTRS);
}

static est_status tile_cpu(est_call *c)
{
    const est_view *x = c->in[0];
    est_view       *y = &c->out[0];
    int64_t         from[EST_RANK_MAX], to[EST_RANK_MAX];
    est_strided     layout = { 0 };

    est_shape_strides(&x->shape, from);
    est_shape_strides(&y->shape, to);
    for (int i = 0; i < x->shape.rank; i++) {
        est_strided_push(&layout, est_view_int(c->in[1], i), 0, to[i] * x->shape.dim[i]);
        est_strided_push(&layout, x->shape.dim[i], from[i], to[i]);
    }
    if (y->count > 0) est_strided_copy(c->pool, est_dtype_size(x->dtype), &layout, y->data, x->data);
    return EST_OK;
}

const est_op est_op_tile = {
    .name      = "Tile",
    .signature = "input: T, multiples: Tmultiples -> output: T; T: type; Tmultiples: {int32, int64} = int32",
    .infer     = tile_infer,
    .grad      = tile_grad,
    .cpu       = EST_KERNELS({ .run = tile_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(tile) }),
};

est_node est_tile(est_node x, est_i64s multiples)
{
    return est_build2(&est_op_tile, x, est_const_ints(x.graph, EST_I32, multiples), EST_NO_ATTRS);
}

/* --- EstTileGrad -------------------------------------------------------------------------------------------------- */

/* tile_grad does not build it for 0 copies. */
static est_status tile_grad_infer(est_infer *c)
{
    return infer_multiples(c, divided);
}

static void tile_grad_grad(est_grad *g)
{
    g->din[0].values = est_build2(&est_op_tile, g->dout[0], g->in[1], EST_NO_ATTRS);
}

typedef struct tile_sum {
    const est_call *call;
    int             rank;
    int64_t         multiple[EST_RANK_MAX], dim[EST_RANK_MAX], stride[EST_RANK_MAX]; /* of dy */
} tile_sum;

/* Where row `row` of the result lies in copy `copy` of dy: both numbered over all axes but the last. */
static int64_t row_offset(const tile_sum *t, int64_t row, int64_t copy)
{
    int64_t offset = 0;

    for (int i = t->rank - 2; i >= 0; i--) {
        offset += (copy % t->multiple[i] * t->dim[i] + row % t->dim[i]) * t->stride[i];
        copy /= t->multiple[i];
        row /= t->dim[i];
    }
    return offset;
}

#define TILE_SUM_ROWS(T, suffix)                                                                                       \
    static void tile_sum_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                           \
    {                                                                                                                  \
        const tile_sum *t      = arg;                                                                                  \
        int64_t         cols   = t->dim[t->rank - 1];                                                                  \
        int64_t         copies = 1;                                                                                    \
        (void)block;                                                                                                   \
        for (int i = 0; i < t->rank - 1; i++) copies *= t->multiple[i];                                                \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            T *restrict y = (T *)t->call->out[0].data + r * cols;                                                      \
            memset(y, 0, (size_t)cols * sizeof(T));                                                                    \
            for (int64_t k = 0; k < copies; k++) {                                                                     \
                const T *restrict dy = (const T *)t->call->in[0]->data + row_offset(t, r, k);                          \
                for (int64_t m = 0; m < t->multiple[t->rank - 1]; m++) {                                               \
                    for (int64_t i = 0; i < cols; i++) y[i] += dy[m * cols + i];                                       \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
TILE_SUM_ROWS(float, f32)
TILE_SUM_ROWS(double, f64)
TILE_SUM_ROWS(int32_t, i32)
TILE_SUM_ROWS(int64_t, i64)

static est_status tile_grad_cpu(est_call *c)
{
    est_view    *y = &c->out[0];
    tile_sum     t = { .call = c, .rank = y->shape.rank };
    int64_t      rows;
    est_range_fn sum = y->dtype == EST_F32   ? tile_sum_rows_f32
                       : y->dtype == EST_F64 ? tile_sum_rows_f64
                       : y->dtype == EST_I32 ? tile_sum_rows_i32
                                             : tile_sum_rows_i64;

    if (y->count == 0) return EST_OK;
    est_shape_strides(&c->in[0]->shape, t.stride);
    for (int i = 0; i < t.rank; i++) {
        t.multiple[i] = est_view_int(c->in[1], i);
        t.dim[i]      = y->shape.dim[i];
    }
    if (t.rank == 0) { /* a scalar, as a vector of one */
        t.rank        = 1;
        t.multiple[0] = t.dim[0] = t.stride[0] = 1;
    }
    rows = y->count / t.dim[t.rank - 1];
    est_parallel_for(c->pool, rows, 1, 0.5 * (double)(c->in[0]->count / rows) + 10, sum, &t);
    return EST_OK;
}

/* A sum over the first of each pair [copy, position] that an axis is cut into, as far as there are several copies. One
 * dimension of the Reshape may be unknown. */
static void tile_grad_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    const est_value *multiples = est_node_value(in[1]);
    const est_shape *shape     = est_node_shape(in[0]);
    int64_t          pairs[2 * EST_RANK_MAX], copies[EST_RANK_MAX];
    int              n = 0, n_copies = 0, n_unknown = 0;

    (void)node;
    (void)graph;
    if (shape->rank < 0 || multiples == NULL || multiples->n != shape->rank) return;
    for (int i = 0; i < shape->rank; i++) {
        int64_t multiple = multiples->v[i];

        if (multiple == EST_VALUE_UNKNOWN || multiple == 0) return;
        if (multiple > 1) {
            copies[n_copies++] = n;
            pairs[n++]         = multiple;
        }
        pairs[n++] = shape->dim[i] < 0 ? -1 : shape->dim[i] / multiple;
        n_unknown += shape->dim[i] < 0;
    }
    if (n > EST_RANK_MAX || n_unknown > 1) return;
    out[0] = n_copies == 0
                 ? est_identity(in[0])
                 : est_reduce_sum(est_reshape(in[0], (est_i64s){ pairs, n }), (est_i64s){ copies, n_copies }, false);
}

const est_op est_op_tile_grad = {
    .name      = "EstTileGrad",
    .signature = "input: T, multiples: Tmultiples -> output: T; T: {float32, float64, int32, int64}; "
                 "Tmultiples: {int32, int64} = int32",
    .infer     = tile_grad_infer,
    .grad      = tile_grad_grad,
    .cpu       = EST_KERNELS({ .run = tile_grad_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(tile_grad) }),
    .lower     = tile_grad_lower,
};
