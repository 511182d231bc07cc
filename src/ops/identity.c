/* SPDX-License-Identifier: Apache-2.0
 *
 * Identity and StopGradient: y = x, in x's own memory. The one passes the gradient on, the other ends it. */
#include "ops/ops.h"

static est_status identity_infer(est_infer *c)
{
    if (c->in_dtype[0] == EST_RESOURCE) {
        return est_fail(EST_INVALID_ARGUMENT, "the input is a variable's handle: read it first (est_read_variable)");
    }
    c->out[0] = c->in[0];
    if (c->in_value[0] != NULL) c->out_value[0] = *c->in_value[0];
    return EST_OK;
}

static void identity_grad(est_grad *g)
{
    g->din[0].values = g->dout[0];
}

const est_op est_op_identity = {
    .name        = "Identity",
    .signature   = "input: T -> output: T; T: type",
    .infer       = identity_infer,
    .grad        = identity_grad,
    .passes_rows = true,
    .alias       = true,
};

const est_op est_op_stop_gradient = {
    .name      = "StopGradient",
    .signature = "input: T -> output: T; T: type",
    .infer     = identity_infer,
    .alias     = true,
};

est_node est_identity(est_node x)
{
    return est_build1(&est_op_identity, x, EST_NO_ATTRS);
}

est_node est_stop_gradient(est_node x)
{
    return est_build1(&est_op_stop_gradient, x, EST_NO_ATTRS);
}
