/* SPDX-License-Identifier: Apache-2.0
 *
 * BroadcastTo: the tensor repeated along axes of size 1, and along new leading axes, until it has the shape. Backwards
 * the repeats are summed. */
#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status broadcast_to_infer(est_infer *c)
{
    const est_shape *in  = &c->in[0];
    est_shape        out = EST_SHAPE_UNKNOWN;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 1));
    if (!est_infer_shape_from_value(c, 1, &out)) return EST_OK;
    for (int i = 0; i < in->rank; i++) {
        int64_t from = in->dim[in->rank - 1 - i], to = i < out.rank ? out.dim[out.rank - 1 - i] : -1;

        if (in->rank > out.rank || (from >= 0 && to >= 0 && from != 1 && from != to)) {
            return est_fail(EST_INVALID_ARGUMENT, "cannot broadcast %s to %s", est_shape_text(in, a),
                            est_shape_text(&out, b));
        }
    }
    c->out[0] = out;
    return EST_OK;
}

static void broadcast_to_grad(est_grad *g)
{
    g->din[0].values = est_sum_to_shape(g->dout[0], g->in[0]);
}

static est_status broadcast_to_cpu(est_call *c)
{
    const est_view *x = c->in[0];
    est_view       *y = &c->out[0];
    int64_t         from[EST_RANK_MAX], to[EST_RANK_MAX];
    est_strided     layout = { 0 };

    est_shape_broadcast_strides(&x->shape, &y->shape, from);
    est_shape_strides(&y->shape, to);
    for (int i = 0; i < y->shape.rank; i++) est_strided_push(&layout, y->shape.dim[i], from[i], to[i]);
    if (y->count > 0) est_strided_copy(c->pool, est_dtype_size(x->dtype), &layout, y->data, x->data);
    return EST_OK;
}

const est_op est_op_broadcast_to = {
    .name      = "BroadcastTo",
    .signature = "input: T, shape: Tidx -> output: T; T: type; Tidx: {int32, int64} = int32",
    .infer     = broadcast_to_infer,
    .grad      = broadcast_to_grad,
    .cpu       = EST_KERNELS({ .run = broadcast_to_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(broadcast_to) }),
};

est_node est_broadcast_to(est_node x, est_node shape)
{
    return est_build2(&est_op_broadcast_to, x, shape, EST_NO_ATTRS);
}
