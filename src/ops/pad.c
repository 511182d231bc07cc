/* SPDX-License-Identifier: Apache-2.0
 *
 * Pad and PadV2: paddings[i] = (before, after) more elements along axis i, zero or a given value. Backwards, the middle
 * of dy is what came from the input; the rest came from the value. */
#include <inttypes.h>

#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status pad_axis(const est_infer *c, int axis, int64_t *out)
{
    const est_value *pads   = est_infer_value(c, 1);
    int64_t          dim    = est_infer_dim(&c->in[0], axis);
    int64_t          before = pads != NULL ? pads->v[2 * axis] : EST_VALUE_UNKNOWN;
    int64_t          after  = pads != NULL ? pads->v[2 * axis + 1] : EST_VALUE_UNKNOWN;

    *out = -1;
    if ((before < 0 && before != EST_VALUE_UNKNOWN) || (after < 0 && after != EST_VALUE_UNKNOWN)) {
        return est_fail(EST_INVALID_ARGUMENT, "padding of axis %d is (%" PRId64 ", %" PRId64 "), must not be negative",
                        axis, before, after);
    }
    if (dim < 0 || before == EST_VALUE_UNKNOWN || after == EST_VALUE_UNKNOWN) return EST_OK;
    if (__builtin_add_overflow(dim, before, &dim) || __builtin_add_overflow(dim, after, out)) {
        return est_fail(EST_INVALID_ARGUMENT, "padding of axis %d is (%" PRId64 ", %" PRId64 "), which is too much",
                        axis, before, after);
    }
    return EST_OK;
}

static est_status pad_infer(est_infer *c)
{
    const est_shape *pads = &c->in[1];
    int              rank = c->in[0].rank;
    int64_t          n    = est_infer_dim(pads, 0), pair;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 2));
    pair = est_infer_dim(pads, 1);
    if ((pair >= 0 && pair != 2) || (rank >= 0 && n >= 0 && n != rank) || n > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "paddings of shape %s for an input of shape %s; expected [rank,2]",
                        est_shape_text(pads, a), est_shape_text(&c->in[0], b));
    }
    if (c->n_in == 3) EST_TRY(est_infer_rank(c, 2, 0));
    if (rank < 0) rank = (int)n;
    if (rank < 0) return EST_OK;
    c->out[0].rank = rank;
    for (int i = 0; i < rank; i++) EST_TRY(pad_axis(c, i, &c->out[0].dim[i]));
    return EST_OK;
}

/* The first column of the paddings: where the input starts in the result. */
static est_node pad_begin(est_node paddings)
{
    const est_value *pads  = est_node_value(paddings);
    est_dtype        dtype = est_node_dtype(paddings);
    est_node         ends[3];
    int64_t          begin[EST_RANK_MAX];
    bool             known = pads != NULL;

    for (int i = 0; known && i < pads->n / 2; i++) {
        begin[i] = pads->v[2 * i];
        known    = begin[i] != EST_VALUE_UNKNOWN;
    }
    if (known) return est_const_ints(paddings.graph, dtype, (est_i64s){ begin, pads->n / 2 });
    for (int i = 0; i < 3; i++) {
        static const int64_t bounds[3][2] = { { 0, 0 }, { 0, 0 }, { 1, 1 } };
        ends[i]                           = est_const_ints(paddings.graph, EST_I32, (est_i64s){ bounds[i], 2 });
    }
    return est_build(
        paddings.graph, &est_op_strided_slice, EST_NODES(paddings, ends[0], ends[1], ends[2]),
        EST_ATTRS(est_attr_int("begin_mask", 1), est_attr_int("end_mask", 1), est_attr_int("shrink_axis_mask", 2)));
}

static void pad_grad(est_grad *g)
{
    est_dtype dtype  = est_node_dtype(g->in[1]);
    est_node  middle = est_build3(&est_op_slice, g->dout[0], pad_begin(g->in[1]), est_shape_as(g->in[0], dtype),
                                  EST_NO_ATTRS);

    g->din[0].values = middle;
    if (g->n_in == 3) g->din[2].values = est_sub(est_sum(g->dout[0]), est_sum(middle));
}

/* Everything is filled with the value first; writing the middle twice is cheaper than finding its borders. */
static est_status pad_cpu(est_call *c)
{
    static const est_str  nothing = { "", 0 };
    static const uint64_t zero    = 0;
    const est_view       *x       = c->in[0];
    est_view             *y       = &c->out[0];
    size_t                element = est_dtype_size(x->dtype);
    const void           *value   = x->dtype == EST_STRING ? (const void *)&nothing : &zero;
    int64_t               from[EST_RANK_MAX], to[EST_RANK_MAX], offset = 0;
    est_strided           layout = { 0 };

    if (c->n_in == 3) value = c->in[2]->data;
    if (y->count > x->count) est_strided_fill(c->pool, element, y->data, value, y->count);
    est_shape_strides(&x->shape, from);
    est_shape_strides(&y->shape, to);
    for (int i = 0; i < x->shape.rank; i++) {
        offset += est_view_int(c->in[1], 2 * i) * to[i];
        est_strided_push(&layout, x->shape.dim[i], from[i], to[i]);
    }
    if (x->count > 0) {
        est_strided_copy(c->pool, element, &layout, (char *)y->data + offset * (int64_t)element, x->data);
    }
    return EST_OK;
}

const est_op est_op_pad = {
    .name      = "Pad",
    .signature = "input: T, paddings: Tpaddings -> output: T; T: type; Tpaddings: {int32, int64} = int32",
    .infer     = pad_infer,
    .grad      = pad_grad,
    .cpu       = EST_KERNELS({ .run = pad_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(pad) }),
};

const est_op est_op_pad_v2 = {
    .name      = "PadV2",
    .signature = "input: T, paddings: Tpaddings, constant_values: T -> output: T; T: type; "
                 "Tpaddings: {int32, int64} = int32",
    .infer     = pad_infer,
    .grad      = pad_grad,
    .cpu       = EST_KERNELS({ .run = pad_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(pad) }),
};

est_node est_pad(est_node x, est_i64s paddings, double value)
{
    int32_t  pairs[2 * EST_RANK_MAX];
    est_node pads;

    if (x.graph == NULL) return EST_NO_NODE;
    if (paddings.n % 2 != 0 || paddings.n > 2 * EST_RANK_MAX) {
        return est_graph_poison(
            x.graph, est_fail(EST_INVALID_ARGUMENT, "paddings come in pairs, two per axis; got %d", paddings.n));
    }
    for (int i = 0; i < paddings.n; i++) {
        if (paddings.data[i] < 0 || paddings.data[i] > INT32_MAX) {
            return est_graph_poison(x.graph, est_fail(EST_INVALID_ARGUMENT, "a padding of %lld: it must be 0 or more",
                                                      (long long)paddings.data[i]));
        }
        pairs[i] = (int32_t)paddings.data[i];
    }
    pads = est_const_i32(x.graph, EST_SHAPE(paddings.n / 2, 2), pairs);
    if (value == 0) return est_build2(&est_op_pad, x, pads, EST_NO_ATTRS);
    return est_build3(&est_op_pad_v2, x, pads, est_scalar(x.graph, est_node_dtype(x), value), EST_NO_ATTRS);
}
