/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSigmoidCrossEntropy. The derivative towards a logit of exactly 0 is fine, so no case avoids it. */
#include <math.h>

#include "support/op_check.h"

static void sigmoid_xent_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) {
        double x = r->in[0][i], z = r->in[1][i];
        r->out[0][i] = fmax(x, 0) - x * z + log1p(exp(-fabs(x)));
    }
}

static void and_grad_ref(est_ref *r)
{
    int64_t n     = est_shape_count(&r->in_shape[0]);
    double  share = est_node_bool(r->node, "mean") ? (double)n : 1, dy = r->in[2][0] / share;

    r->out[2][0] = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = r->in[0][i], z = r->in[1][i];

        for (int k = 3; k < r->n_in; k++) x += r->in[k][i];
        r->out[0][i] = fmax(x, 0) - x * z + log1p(exp(-fabs(x)));
        r->out[1][i] = dy * (1 / (1 + exp(-x)) - z);
        r->out[2][0] += r->out[0][i];
    }
    r->out[2][0] /= share; /* NaN is the mean of none */
}

#define AND_GRAD(m)                                                                                                    \
    "EstSigmoidXentAndGrad", .attrs = EST_ATTRS(est_attr_bool("mean", m)), .n_in = 3, .tol = 1e-6, .ref = and_grad_ref
#define OF_SUM(n)                                                                                                      \
    "EstSigmoidXentAndGrad", .attrs = EST_ATTRS(est_attr_bool("mean", true), est_attr_int("N", n)), .n_in = 3 + (n),   \
                             .tol = 1e-6, .ref = and_grad_ref
#define DY                                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .lo = 1, .hi = 3                                                                    \
    }
#define OP "EstSigmoidCrossEntropy"
#define LABELS(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .lo = 0, .hi = 1                                                              \
    }

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { OP,
          { { .shape = EST_SHAPE_SCALAR }, { .shape = EST_SHAPE_SCALAR, .lo = 0, .hi = 1 } },
          .tol = 1e-6,
          .ref = sigmoid_xent_ref },
        { OP, { IN(7, 5), LABELS(7, 5) }, .tol = 1e-6, .ref = sigmoid_xent_ref },
        { OP,
          { { .shape = EST_SHAPE(4, 9), .lo = -120, .hi = 120 }, LABELS(4, 9) },
          .tol = 1e-6,
          .ref = sigmoid_xent_ref },
        { OP, { IN(0, 5), LABELS(0, 5) }, .tol = 0, .ref = sigmoid_xent_ref },
        { OP,
          { { .shape = EST_SHAPE(301, 211), .lo = -9, .hi = 9 }, LABELS(301, 211) },
          .tol = 1e-6,
          .ref = sigmoid_xent_ref },
        { OP, { IN(3, 2), LABELS(2, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "[2,3]" },
        { AND_GRAD(true), .in = { IN(301, 1), LABELS(301, 1), DY } },
        { AND_GRAD(false), .in = { { .shape = EST_SHAPE(4, 9), .lo = -120, .hi = 120 }, LABELS(4, 9), DY } },
        { AND_GRAD(true), .in = { IN(0, 5), LABELS(0, 5), DY } },
        { OF_SUM(1), .in = { IN(3001, 1), LABELS(3001, 1), DY, IN(3001, 1) } },
        { OF_SUM(1), .in = { IN(4, 9), LABELS(4, 9), DY, IN(9, 4) }, .fails = EST_INVALID_ARGUMENT, .says = "[9,4]" },
        { OF_SUM(2), .in = { IN(2, 1), LABELS(2, 1), DY, IN(2, 1), IN(2, 1) } }, /* not on a GPU */
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
