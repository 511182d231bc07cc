/* SPDX-License-Identifier: Apache-2.0 — EstSumToShape. */
#include "support/broadcast_ref.h"
#include "support/op_check.h"

static void sum_to_shape_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) {
        r->out[0][broadcast_source(&r->in_shape[1], &r->in_shape[0], i)] += r->in[0][i];
    }
}

static const est_op_case cases[] = {
    { "EstSumToShape", { IN(4, 3), IN(3) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(4, 3), IN(4, 1) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(4, 3), IN(4, 3) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(4, 3), IN(1, 1) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(4, 3), { .shape = EST_SHAPE_SCALAR } }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(1, 1, 3), IN(3) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(2, 3, 4, 5), IN(3, 1, 5) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(0, 3), IN(3) }, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(0, 3), IN(0, 1) }, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(1000, 257), IN(257) }, .lo = 0, .hi = 2, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(1000, 257), IN(1000, 257) }, .tol = 1e-6, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(5, 2), IN(2) }, .dtype = EST_I32, .hi = 9, .ref = sum_to_shape_ref },
    { "EstSumToShape", { IN(4, 3), IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "[4,3]" },
    { "EstSumToShape", { IN(3), IN(4, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "broadcasting" },
};

EST_OP_CHECK_MAIN(cases)
