/* SPDX-License-Identifier: Apache-2.0
 *
 * Slice: the box of `size` elements per axis that starts at `begin`; a size of -1 reaches to the end of the axis. */
#include <inttypes.h>

#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* What is known of entry i of an integer vector input. */
static int64_t entry(const est_infer *c, int input, int i)
{
    const est_value *value = est_infer_value(c, input);

    return value != NULL && i < value->n ? value->v[i] : EST_VALUE_UNKNOWN;
}

static est_status slice_axis(est_infer *c, int axis, int64_t dim, int64_t *out)
{
    int64_t begin = entry(c, 1, axis), size = entry(c, 2, axis);
    char    text[EST_SHAPE_TEXT_MAX];

    *out = -1;
    if (size == -1 && dim >= 0 && begin != EST_VALUE_UNKNOWN) size = dim - begin;
    if (size >= 0) *out = size;
    if (begin == EST_VALUE_UNKNOWN || size == EST_VALUE_UNKNOWN) return EST_OK;
    if (begin < 0 || size < -1 || (dim >= 0 && (begin > dim || size > dim - begin))) {
        return est_fail(EST_INVALID_ARGUMENT, "slice of %" PRId64 " from %" PRId64 " does not fit axis %d of %s",
                        entry(c, 2, axis), begin, axis, est_shape_text(&c->in[0], text));
    }
    return EST_OK;
}

/* The vectors have one entry per axis, which tells the rank when the input does not. */
static est_status slice_rank(est_infer *c, int *rank)
{
    *rank = c->in[0].rank;
    for (int i = 1; i <= 2; i++) {
        char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
        int64_t n;

        EST_TRY(est_infer_rank(c, i, 1));
        n = est_infer_dim(&c->in[i], 0);
        if (n >= 0 && ((*rank >= 0 && n != *rank) || n > EST_RANK_MAX)) {
            return est_fail(EST_INVALID_ARGUMENT, "%s has shape %s for an input of shape %s", i == 1 ? "begin" : "size",
                            est_shape_text(&c->in[i], a), est_shape_text(&c->in[0], b));
        }
        if (n >= 0) *rank = (int)n;
    }
    return EST_OK;
}

static est_status slice_infer(est_infer *c)
{
    int rank;

    EST_TRY(slice_rank(c, &rank));
    if (rank < 0) return EST_OK;
    c->out[0].rank = rank;
    for (int i = 0; i < rank; i++) EST_TRY(slice_axis(c, i, est_infer_dim(&c->in[0], i), &c->out[0].dim[i]));
    if (rank == 1 && est_infer_value(c, 0) != NULL && c->out[0].dim[0] >= 0 && entry(c, 1, 0) != EST_VALUE_UNKNOWN) {
        c->out_value[0].n = (int32_t)c->out[0].dim[0];
        for (int i = 0; i < c->out_value[0].n; i++) c->out_value[0].v[i] = entry(c, 0, (int)entry(c, 1, 0) + i);
    }
    return EST_OK;
}

/* The end of the slice as StridedSliceGrad wants it: constants stay constants, for a batch of unknown size too. */
static est_node slice_end(est_grad *g, int64_t *end_mask)
{
    const est_value *begin = est_node_value(g->in[1]), *size = est_node_value(g->in[2]);
    est_dtype        dtype = est_node_dtype(g->in[1]);
    int64_t          end[EST_RANK_MAX];

    *end_mask = 0;
    for (int i = 0; begin != NULL && size != NULL && i < size->n; i++) {
        if (size->v[i] == EST_VALUE_UNKNOWN || (begin->v[i] == EST_VALUE_UNKNOWN && size->v[i] != -1)) goto computed;
        if (size->v[i] == -1) *end_mask |= INT64_C(1) << i;
        end[i] = size->v[i] == -1 ? 0 : begin->v[i] + size->v[i];
    }
    if (begin != NULL && size != NULL) return est_const_ints(g->in[0].graph, dtype, (est_i64s){ end, size->n });
computed:
    *end_mask = 0;
    return est_add(g->in[1], est_shape_as(g->out[0], dtype));
}

static void slice_grad(est_grad *g)
{
    est_dtype        dtype              = est_node_dtype(g->in[1]);
    const est_shape *begin              = est_node_shape(g->in[1]);
    int64_t          ones[EST_RANK_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1 }, end_mask;
    est_node         end                = slice_end(g, &end_mask), strides;

    if (begin != NULL && begin->rank == 1 && begin->dim[0] >= 0) {
        strides = est_const_ints(g->in[0].graph, dtype, (est_i64s){ ones, (int)begin->dim[0] });
    } else {
        strides = est_ones_like(g->in[1]);
    }
    g->din[0].values = est_strided_slice_grad(est_shape_as(g->in[0], dtype), g->in[1], end, strides, g->dout[0],
                                              (est_strided_slice_options){ .end_mask = end_mask });
}

/* Axis `place` cannot be read from value[0] on. */
static est_status slice_fail(const est_call *c, int64_t place, const int64_t *value)
{
    return est_fail(EST_INVALID_ARGUMENT,
                    "slice of %" PRId64 " from %" PRId64 " does not fit axis %" PRId64 " of size %" PRId64,
                    c->out[0].shape.dim[place], value[0], place, c->in[0]->shape.dim[place]);
}

static est_status slice_cpu(est_call *c)
{
    const est_view *x       = c->in[0];
    est_view       *y       = &c->out[0];
    size_t          element = est_dtype_size(x->dtype);
    int64_t         from[EST_RANK_MAX], to[EST_RANK_MAX], offset = 0;
    est_strided     layout = { 0 };

    est_shape_strides(&x->shape, from);
    est_shape_strides(&y->shape, to);
    for (int i = 0; i < x->shape.rank; i++) {
        int64_t begin = est_view_int(c->in[1], i);

        if (begin < 0 || begin > x->shape.dim[i] - y->shape.dim[i]) return slice_fail(c, i, &begin);
        offset += begin * from[i];
        est_strided_push(&layout, y->shape.dim[i], from[i], to[i]);
    }
    if (y->count > 0) {
        est_strided_copy(c->pool, element, &layout, y->data, (const char *)x->data + offset * (int64_t)element);
    }
    return EST_OK;
}

const est_op est_op_slice = {
    .name      = "Slice",
    .signature = "input: T, begin: Index, size: Index -> output: T; T: type; Index: {int32, int64}",
    .infer     = slice_infer,
    .grad      = slice_grad,
    .cpu       = EST_KERNELS({ .run = slice_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(slice), .fail = slice_fail }),
};

est_node est_slice(est_node x, est_i64s begin, est_i64s size)
{
    return est_build3(&est_op_slice, x, est_const_ints(x.graph, EST_I32, begin), est_const_ints(x.graph, EST_I32, size),
                      EST_NO_ATTRS);
}
