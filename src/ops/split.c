/* SPDX-License-Identifier: Apache-2.0
 *
 * Split: equal parts of a tensor along an axis; backwards they are concatenated again. */
#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status split_infer(est_infer *c)
{
    int       axis;
    est_shape part = c->in[1];

    EST_TRY(est_infer_axis(c, 0, part.rank, &axis));
    if (axis < 0 || part.rank < 0) {
        part = part.rank < 0 ? part : est_shape_of_rank(part.rank);
    } else if (part.dim[axis] >= 0) {
        if (part.dim[axis] % c->n_out != 0) {
            char text[EST_SHAPE_TEXT_MAX];

            return est_fail(EST_INVALID_ARGUMENT, "axis %d of %s cannot be split into %d equal parts", axis,
                            est_shape_text(&part, text), c->n_out);
        }
        part.dim[axis] /= c->n_out;
    }
    for (int i = 0; i < c->n_out; i++) c->out[i] = part;
    return EST_OK;
}

static void split_grad(est_grad *g)
{
    g->din[1].values = est_concat_flows(g, g->in[0]);
}

static est_status split_cpu(est_call *c)
{
    const est_view *x      = c->in[1];
    int64_t         axis   = est_view_int(c->in[0], 0);
    est_strips      strips = { .element = est_dtype_size(x->dtype), .n = c->n_out, .whole = x->data, .out = c->out };

    strips.outer = est_shape_product(&x->shape, 0, (int)(axis < 0 ? axis + x->shape.rank : axis));
    if (x->count > 0) est_strips_copy(c->pool, &strips);
    return EST_OK;
}

static bool split_cuda_accepts(const est_call *c)
{
    return c->n_out <= EST_STRIPS_MAX;
}

const est_op est_op_split = {
    .name      = "Split",
    .signature = "split_dim: int32, value: T -> output: num_split*T; num_split: int; T: type",
    .infer     = split_infer,
    .grad      = split_grad,
    .cpu       = EST_KERNELS({ .run = split_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(split), .accepts = split_cuda_accepts }),
};

void est_split(est_node x, int n, int axis, est_node *out)
{
    est_node first;

    if (n < 1 && x.graph != NULL) {
        first = est_graph_poison(x.graph, est_fail(EST_INVALID_ARGUMENT, "cannot split into %d parts", n));
    } else {
        first = est_build2(&est_op_split, est_scalar(x.graph, EST_I32, axis), x,
                           EST_ATTRS(est_attr_int("num_split", n)));
    }
    for (int i = 0; out != NULL && i < n; i++) out[i] = est_output(first, i);
}
