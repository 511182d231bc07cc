/* SPDX-License-Identifier: Apache-2.0
 *
 * SparseSoftmaxCrossEntropyWithLogits, with both label dtypes and labels out of range. */
#include <math.h>

#include "support/op_check.h"

static void sparse_xent_ref(est_ref *r)
{
    int64_t rows = r->in_shape[0].dim[0], cols = r->in_shape[0].dim[1];

    for (int64_t row = 0; row < rows; row++) {
        const double *x     = r->in[0] + row * cols;
        int64_t       label = (int64_t)r->in[1][row];
        double        top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < cols; i++) top = fmax(top, x[i]);
        for (int64_t i = 0; i < cols; i++) sum += exp(x[i] - top);
        r->out[0][row] = log(sum) + top - x[label];
        for (int64_t i = 0; i < cols; i++) r->out[1][row * cols + i] = exp(x[i] - top) / sum - (i == label);
    }
}

static void and_grad_ref(est_ref *r)
{
    int64_t rows = r->in_shape[0].dim[0], cols = r->in_shape[0].dim[1];
    double  share = est_node_bool(r->node, "mean") ? (double)rows : 1, dy = r->in[2][0] / share;

    sparse_xent_ref(r);
    r->out[2][0] = 0;
    for (int64_t i = 0; i < rows; i++) r->out[2][0] += r->out[0][i];
    r->out[2][0] /= share; /* NaN is the mean of none */
    for (int64_t i = 0; i < rows * cols; i++) r->out[1][i] *= dy;
}

#define AND_GRAD(m)                                                                                                    \
    "EstSparseXentAndGrad", .attrs = EST_ATTRS(est_attr_bool("mean", m)), .tol = 1e-6, .ref = and_grad_ref
#define DY                                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .lo = 1, .hi = 3                                                                    \
    }
#define OP        "SparseSoftmaxCrossEntropyWithLogits"
#define ONLY_LOSS .grad_outs = 1u << 0
#define LABELS(type, rows, classes)                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(rows), .dtype = type, .lo = 0, .hi = (classes)-1                                            \
    }
static const double too_high[] = { 0, 2, 3 }, negative[] = { 0, -1, 2 };

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { OP, { IN(2, 3), LABELS(EST_I64, 2, 3) }, ONLY_LOSS, .tol = 1e-6, .ref = sparse_xent_ref },
        { OP,
          { IN(64, 10), LABELS(EST_I32, 64, 10) },
          ONLY_LOSS,
          .lo  = -5,
          .hi  = 5,
          .tol = 1e-6,
          .ref = sparse_xent_ref },
        { OP,
          { { .shape = EST_SHAPE(7, 33), .lo = 80, .hi = 99 }, LABELS(EST_I64, 7, 33) },
          ONLY_LOSS,
          .tol = 1e-5,
          .ref = sparse_xent_ref },
        { OP, { IN(0, 3), LABELS(EST_I64, 0, 3) }, ONLY_LOSS, .tol = 0, .ref = sparse_xent_ref },
        { OP, { IN(900, 131), LABELS(EST_I32, 900, 131) }, ONLY_LOSS, .tol = 2e-6, .ref = sparse_xent_ref },
        { OP,
          { IN(3, 3), { .shape = EST_SHAPE(3), .dtype = EST_I64, .values = too_high } },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "label 3 of row 2" },
        { OP,
          { IN(3, 3), { .shape = EST_SHAPE(3), .dtype = EST_I32, .values = negative } },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "label -1 of row 1" },
        { OP, { IN(2, 3), LABELS(EST_I64, 3, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "[3]" },
        { AND_GRAD(true), .in = { IN(64, 10), LABELS(EST_I32, 64, 10), DY } },
        { AND_GRAD(false), .in = { IN(7, 33), LABELS(EST_I64, 7, 33), DY } },
        { AND_GRAD(true), .in = { IN(301, 10), LABELS(EST_I32, 301, 10), DY } },
        { AND_GRAD(true), .in = { IN(0, 3), LABELS(EST_I64, 0, 3), DY } },
        { AND_GRAD(true), .in = { IN(3, 3), { .shape = EST_SHAPE(3), .dtype = EST_I64, .values = too_high }, DY },
          .fails = EST_INVALID_ARGUMENT, .says = "label 3 of row 2" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
