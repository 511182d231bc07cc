/* SPDX-License-Identifier: Apache-2.0 — LeakyRelu and LeakyReluGrad. */
#include "support/op_check.h"

/* One attribute, as a constant table can hold it. */
#define ONE_ATTR(...)                                                                                                  \
    {                                                                                                                  \
        (const est_attr[]){ { __VA_ARGS__ } }, 1                                                                       \
    }

static void leaky_ref(est_ref *r)
{
    double alpha = est_node_float(r->node, "alpha");

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        r->out[0][i] = r->in[r->n_in - 1][i] > 0 ? r->in[0][i] : alpha * r->in[0][i];
    }
}

#define ALPHA(value)                                                                                                   \
    .attrs = ONE_ATTR(.name = "alpha", .kind = EST_ATTR_FLOAT, .f = value), .tol = 1e-6, .ref = leaky_ref
#define BELOW(...)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .lo = -2, .hi = -0.1                                                          \
    }
#define ABOVE(...)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .lo = 0.1, .hi = 2                                                            \
    }

static const est_op_case cases[] = {
    { "LeakyRelu", { BELOW(5, 7) }, ALPHA(0.25) },
    { "LeakyRelu", { ABOVE(5, 7) }, ALPHA(0.25) },
    { "LeakyRelu", { BELOW(9) }, .tol = 1e-6, .ref = leaky_ref },
    { "LeakyRelu", { IN(301, 501) }, ALPHA(0.3), .no_grad = true },
    { "LeakyRelu", { IN(0) }, ALPHA(0.3) },
    { "LeakyReluGrad", { IN(5, 7), BELOW(5, 7) }, ALPHA(0.25) },
    { "LeakyReluGrad", { IN(5, 7), ABOVE(5, 7) }, ALPHA(0.25) },
    { "LeakyReluGrad", { IN(301, 501), IN(301, 501) }, ALPHA(0.3), .no_grad = true },
    { "LeakyReluGrad", { IN(3), IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "[4]" },
};

EST_OP_CHECK_MAIN(cases)
