/* SPDX-License-Identifier: Apache-2.0
 *
 * LogSoftmax, also where the softmax itself would be 0. */
#include <math.h>

#include "support/op_check.h"

static void log_softmax_ref(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[0]), cols = r->in_shape[0].dim[r->in_shape[0].rank - 1];

    for (int64_t row = 0; row < n; row += cols) {
        double top = -INFINITY, sum = 0;
        for (int64_t i = row; i < row + cols; i++) top = fmax(top, r->in[0][i]);
        for (int64_t i = row; i < row + cols; i++) sum += exp(r->in[0][i] - top);
        for (int64_t i = row; i < row + cols; i++) r->out[0][i] = r->in[0][i] - top - log(sum);
    }
}

static const double apart[] = { 0, 500, -500, 1, 2, 3 };

static const est_op_case cases[] = {
    { "LogSoftmax", { IN(1) }, .tol = 1e-6, .ref = log_softmax_ref },
    { "LogSoftmax", { IN(7, 33) }, .lo = -4, .hi = 4, .tol = 1e-6, .ref = log_softmax_ref },
    { "LogSoftmax", { IN(2, 3, 5) }, .lo = 80, .hi = 95, .tol = 1e-6, .ref = log_softmax_ref },
    { "LogSoftmax", { { .shape = EST_SHAPE(2, 3), .values = apart } }, .tol = 1e-6, .ref = log_softmax_ref },
    { "LogSoftmax", { IN(0, 4) }, .tol = 0, .ref = log_softmax_ref },
    { "LogSoftmax", { IN(3, 0) }, .tol = 0, .ref = log_softmax_ref },
    { "LogSoftmax", { IN(900, 131) }, .lo = -4, .hi = 4, .tol = 2e-6, .ref = log_softmax_ref },
    { "LogSoftmax", { IN(2, 5000) }, .lo = -4, .hi = 4, .tol = 2e-6, .ref = log_softmax_ref },
    { "LogSoftmax", { { .shape = EST_SHAPE_SCALAR } }, .fails = EST_INVALID_ARGUMENT, .says = "scalar" },
};

EST_OP_CHECK_MAIN(cases)
