/* SPDX-License-Identifier: Apache-2.0 — L2Loss. */
#include "support/op_check.h"

static void l2_loss_ref(est_ref *r)
{
    r->out[0][0] = 0;
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][0] += r->in[0][i] * r->in[0][i] / 2;
}

static const est_op_case cases[] = {
    { "L2Loss", { IN(7) }, .tol = 1e-6, .ref = l2_loss_ref },
    { "L2Loss", { IN(3, 4, 5) }, .lo = -3, .hi = 3, .tol = 1e-6, .ref = l2_loss_ref },
    { "L2Loss", { { .shape = EST_SHAPE_SCALAR } }, .tol = 1e-6, .ref = l2_loss_ref },
    { "L2Loss", { IN(0, 3) }, .ref = l2_loss_ref },
    { "L2Loss", { IN(501, 701) }, .tol = 1e-6, .ref = l2_loss_ref },
};

EST_OP_CHECK_MAIN(cases)
