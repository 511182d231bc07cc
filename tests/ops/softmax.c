/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax: ordinary, shifted far from 0, odd, empty. */
#include <math.h>

#include "support/op_check.h"

static void softmax_ref(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[0]), cols = r->in_shape[0].dim[r->in_shape[0].rank - 1];

    for (int64_t row = 0; row < n; row += cols) {
        double top = -INFINITY, sum = 0;
        for (int64_t i = row; i < row + cols; i++) top = fmax(top, r->in[0][i]);
        for (int64_t i = row; i < row + cols; i++) sum += exp(r->in[0][i] - top);
        for (int64_t i = row; i < row + cols; i++) r->out[0][i] = exp(r->in[0][i] - top) / sum;
    }
}

static const est_op_case cases[] = {
    { "Softmax", { IN(1) }, .tol = 1e-6, .ref = softmax_ref },
    { "Softmax", { IN(7, 33) }, .lo = -4, .hi = 4, .tol = 1e-6, .ref = softmax_ref },    /* odd: no vector width fits */
    { "Softmax", { IN(2, 3, 5) }, .lo = 80, .hi = 95, .tol = 1e-6, .ref = softmax_ref }, /* overflows unless shifted */
    { "Softmax", { IN(3, 4) }, .lo = -900, .hi = -700, .tol = 1e-6, .ref = softmax_ref },
    { "Softmax", { IN(130, 10) }, .lo = -4, .hi = 4, .tol = 1e-6, .ref = softmax_ref },
    { "Softmax", { IN(0, 4) }, .tol = 0, .ref = softmax_ref },
    { "Softmax", { IN(3, 0) }, .tol = 0, .ref = softmax_ref },
    { "Softmax", { IN(900, 131) }, .lo = -4, .hi = 4, .tol = 1e-6, .ref = softmax_ref }, /* parallel */
    { "Softmax", { IN(2, 5000) }, .lo = -4, .hi = 4, .tol = 1e-6, .ref = softmax_ref },  /* rows beyond a chunk */
    { "Softmax", { { .shape = EST_SHAPE_SCALAR } }, .fails = EST_INVALID_ARGUMENT, .says = "scalar" },
};

EST_OP_CHECK_MAIN(cases)
