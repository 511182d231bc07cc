/* SPDX-License-Identifier: Apache-2.0 — AddN. */
#include "support/op_check.h"

static void add_n_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        r->out[0][i] = 0;
        for (int k = 0; k < r->n_in; k++) r->out[0][i] += r->in[k][i];
    }
}

static const est_op_case cases[] = {
    { "AddN", { IN(5, 7) }, .n_in = 1, .tol = 1e-6, .ref = add_n_ref },
    { "AddN", { IN(5, 7), IN(5, 7) }, .n_in = 2, .tol = 1e-6, .ref = add_n_ref },
    { "AddN", { IN(5, 7), IN(5, 7), IN(5, 7), IN(5, 7), IN(5, 7) }, .n_in = 5, .tol = 1e-6, .ref = add_n_ref },
    { "AddN", { IN(100003), IN(100003), IN(100003) }, .n_in = 3, .tol = 1e-6, .ref = add_n_ref },
    { "AddN", { IN(0), IN(0) }, .n_in = 2, .ref = add_n_ref },
    { "AddN", { IN(9), IN(9), IN(9) }, .n_in = 3, .dtype = EST_I32, .lo = -9, .hi = 9, .ref = add_n_ref },
    { "AddN", { IN(9), IN(9), IN(9) }, .n_in = 3, .dtype = EST_I64, .lo = -9, .hi = 9, .ref = add_n_ref },
    { "AddN", { IN(3), IN(3), IN(4) }, .n_in = 3, .fails = EST_INVALID_ARGUMENT, .says = "input 2 has [4]" },
};

EST_OP_CHECK_MAIN(cases)
