/* SPDX-License-Identifier: Apache-2.0
 *
 * SoftmaxCrossEntropyWithLogits. The op's gradient towards the logits holds for labels that sum to 1, so the cases that
 * check it have such labels. */
#include <math.h>

#include "support/op_check.h"

static void xent_ref(est_ref *r)
{
    int64_t rows = r->in_shape[0].dim[0], cols = r->in_shape[0].dim[1];

    for (int64_t row = 0; row < rows; row++) {
        const double *x = r->in[0] + row * cols, *p = r->in[1] + row * cols;
        double        top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < cols; i++) top = fmax(top, x[i]);
        for (int64_t i = 0; i < cols; i++) sum += exp(x[i] - top);
        r->out[0][row] = 0;
        for (int64_t i = 0; i < cols; i++) {
            r->out[0][row] += p[i] * (log(sum) + top - x[i]);
            r->out[1][row * cols + i] = exp(x[i] - top) / sum - p[i];
        }
    }
}

#define OP        "SoftmaxCrossEntropyWithLogits"
#define ONLY_LOSS .grad_outs = 1u << 0
#define LABELS(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .lo = 0, .hi = 0.1, .no_grad = true                                           \
    }
static const double thirds[] = { 0.25, 0.5, 0.25, 0, 0, 1 };

static const est_op_case cases[] = {
    { OP, { IN(2, 3), { .shape = EST_SHAPE(2, 3), .values = thirds } }, ONLY_LOSS, .tol = 1e-6, .ref = xent_ref },
    { OP,
      { { .shape = EST_SHAPE(2, 3), .lo = 90, .hi = 120 }, { .shape = EST_SHAPE(2, 3), .values = thirds } },
      ONLY_LOSS,
      .tol = 1e-5,
      .ref = xent_ref },
    { OP, { IN(7, 33), LABELS(7, 33) }, .tol = 1e-5, .no_grad = true, .ref = xent_ref },
    { OP, { IN(0, 3), LABELS(0, 3) }, .tol = 0, .no_grad = true, .ref = xent_ref },
    { OP, { IN(3, 0), LABELS(3, 0) }, .tol = 0, .no_grad = true, .ref = xent_ref },
    { OP, { IN(900, 131), LABELS(900, 131) }, .tol = 2e-5, .no_grad = true, .ref = xent_ref },
    { OP, { IN(2, 5000), LABELS(2, 5000) }, .tol = 2e-5, .no_grad = true, .ref = xent_ref },
    { OP, { IN(2, 3), IN(2, 4) }, .fails = EST_INVALID_ARGUMENT, .says = "[2,4]" },
    { OP, { IN(3), IN(3) }, .fails = EST_INVALID_ARGUMENT, .says = "rank 2" },
};

EST_OP_CHECK_MAIN(cases)
