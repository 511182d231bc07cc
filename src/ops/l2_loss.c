/* SPDX-License-Identifier: Apache-2.0
 *
 * L2Loss: sum(t * t) / 2, as a scalar. */
#include "cuda/launchers.h"
#include "kernels/reduction.h"
#include "ops/ops.h"

static size_t l2_loss_scratch(const est_call *c)
{
    return est_reduce_scratch(c->in[0]->count);
}

static est_status l2_loss_cpu(est_call *c)
{
    const est_view    *t       = c->in[0];
    const est_reducer *reducer = est_reducer_find(EST_REDUCE_HALF_SQUARES, t->dtype);

    est_reduce_run(c->pool, reducer, &t->shape, (1u << t->shape.rank) - 1, t->data, c->out[0].data, c->scratch);
    return EST_OK;
}

static void l2_loss_grad(est_grad *g)
{
    g->din[0].values = est_mul(g->in[0], g->dout[0]);
}

static size_t l2_loss_cuda_scratch(const est_call *c)
{
    (void)c;
    return EST_REDUCE_PARTS * sizeof(double);
}

const est_op est_op_l2_loss = {
    .name      = "L2Loss",
    .signature = "t: T -> output: T; T: {float32, float64}",
    .infer     = est_infer_scalar,
    .grad      = l2_loss_grad,
    .cpu       = EST_KERNELS({ .run = l2_loss_cpu, .scratch = l2_loss_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(l2_loss), .scratch = l2_loss_cuda_scratch }),
};

est_node est_l2_loss(est_node x)
{
    return est_build1(&est_op_l2_loss, x, EST_NO_ATTRS);
}
