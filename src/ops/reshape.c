/* SPDX-License-Identifier: Apache-2.0
 *
 * Reshape, ExpandDims, Squeeze: the same elements in the same memory under another shape. */
#include <inttypes.h>

#include "ops/array.h"

/* The elements do not change, so neither does what is known of them. */
static void keep_value(est_infer *c)
{
    if (c->in_value[0] != NULL) c->out_value[0] = *c->in_value[0];
}

/* Fills in the entry given as -1, or the only unknown one, from the number of elements; checks that they fit. */
static est_status solve_shape(const est_shape *in, est_shape *out, int wildcard)
{
    int64_t count = est_shape_count(in), known = 1;
    int     open = -1, n_open = 0;
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < out->rank; i++) {
        if (out->dim[i] >= 0) {
            known *= out->dim[i];
        } else {
            open = i;
            n_open++;
        }
    }
    if (count < 0 || n_open > 1) return EST_OK;
    if (n_open == 1 && known > 0 && count % known == 0) {
        out->dim[open] = count / known;
        return EST_OK;
    }
    if (n_open == 1 && known == 0 && count == 0 && wildcard < 0) return EST_OK;
    if (n_open == 0 && count == known) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "cannot reshape %s (%" PRId64 " elements) to %s", est_shape_text(in, a),
                    count, est_shape_text(out, b));
}

static est_status reshape_infer(est_infer *c)
{
    const est_value *value    = est_infer_value(c, 1);
    est_shape       *out      = &c->out[0];
    int              wildcard = -1;

    EST_TRY(est_infer_rank(c, 1, 1));
    keep_value(c);
    if (value == NULL) {
        if (c->in[1].rank == 1 && c->in[1].dim[0] >= 0 && c->in[1].dim[0] <= EST_RANK_MAX) {
            *out = est_shape_of_rank((int)c->in[1].dim[0]);
        }
        return EST_OK;
    }
    if (value->n > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a shape has at most %d axes, got %d", EST_RANK_MAX, value->n);
    }
    out->rank = value->n;
    for (int i = 0; i < value->n; i++) {
        int64_t dim = value->v[i];

        if (dim == -1 && wildcard >= 0) {
            return est_fail(EST_INVALID_ARGUMENT, "only one entry of a shape may be -1; entries %d and %d are",
                            wildcard, i);
        }
        if (dim < -1 && dim != EST_VALUE_UNKNOWN) {
            return est_fail(EST_INVALID_ARGUMENT, "entry %d of the new shape is %" PRId64, i, dim);
        }
        if (dim == -1) wildcard = i;
        out->dim[i] = dim < 0 ? -1 : dim;
    }
    return solve_shape(&c->in[0], out, wildcard);
}

/* Of all three: dy under the shape that went in. */
static void reshape_grad(est_grad *g)
{
    g->din[0].values = est_reshape_like(g->dout[0], g->in[0]);
}

const est_op est_op_reshape = {
    .name      = "Reshape",
    .signature = "tensor: T, shape: Tshape -> output: T; T: type; Tshape: {int32, int64} = int32",
    .infer     = reshape_infer,
    .grad      = reshape_grad,
    .alias     = true,
};

est_node est_reshape_to(est_node x, est_node shape)
{
    return est_build2(&est_op_reshape, x, shape, EST_NO_ATTRS);
}

est_node est_reshape(est_node x, est_i64s shape)
{
    return est_reshape_to(x, est_const_list(x.graph, shape));
}

/* --- ExpandDims --------------------------------------------------------------------------------------------------- */

static est_status expand_dims_infer(est_infer *c)
{
    const est_shape *in = &c->in[0];
    int              axis;

    keep_value(c);
    EST_TRY(est_infer_axis(c, 1, in->rank < 0 ? -1 : in->rank + 1, &axis)); /* -1 is behind the last axis */
    if (in->rank < 0) return EST_OK;
    if (in->rank == EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a shape has at most %d axes", EST_RANK_MAX);
    }
    if (axis < 0) {
        c->out[0] = est_shape_of_rank(in->rank + 1);
        return EST_OK;
    }
    c->out[0].rank = in->rank + 1;
    for (int i = 0; i <= in->rank; i++) c->out[0].dim[i] = i < axis ? in->dim[i] : i == axis ? 1 : in->dim[i - 1];
    return EST_OK;
}

const est_op est_op_expand_dims = {
    .name      = "ExpandDims",
    .signature = "input: T, dim: Tdim -> output: T; T: type; Tdim: {int32, int64} = int32",
    .infer     = expand_dims_infer,
    .grad      = reshape_grad,
    .alias     = true,
};

est_node est_expand_dims(est_node x, int axis)
{
    return est_build2(&est_op_expand_dims, x, est_scalar(x.graph, EST_I32, axis), EST_NO_ATTRS);
}

/* --- Squeeze ------------------------------------------------------------------------------------------------------ */

static est_status squeeze_infer(est_infer *c)
{
    est_i64s         axes               = est_node_ints(c->node, "squeeze_dims");
    const est_shape *in                 = &c->in[0];
    est_shape        out                = { 0 };
    bool             drop[EST_RANK_MAX] = { false };

    keep_value(c);
    if (in->rank < 0) return EST_OK;
    for (int i = 0; i < axes.n; i++) {
        int axis;

        EST_TRY(est_infer_axis_attr(axes.data[i], in->rank, &axis));
        if (in->dim[axis] > 1 || in->dim[axis] == 0) {
            char text[EST_SHAPE_TEXT_MAX];

            return est_fail(EST_INVALID_ARGUMENT, "cannot squeeze axis %d of %s: its size is not 1", axis,
                            est_shape_text(in, text));
        }
        drop[axis] = true;
    }
    for (int i = 0; i < in->rank; i++) {
        if (axes.n == 0 && in->dim[i] < 0) return EST_OK; /* may or may not go: not even the rank is known */
        if (axes.n == 0 ? in->dim[i] == 1 : drop[i]) continue;
        out.dim[out.rank++] = in->dim[i];
    }
    c->out[0] = out;
    return EST_OK;
}

const est_op est_op_squeeze = {
    .name      = "Squeeze",
    .signature = "input: T -> output: T; T: type; squeeze_dims: ints = []",
    .infer     = squeeze_infer,
    .grad      = reshape_grad,
    .alias     = true,
};

est_node est_squeeze(est_node x, est_i64s axes)
{
    return est_build1(&est_op_squeeze, x, EST_ATTRS(est_attr_ints("squeeze_dims", axes)));
}
