/* SPDX-License-Identifier: Apache-2.0
 *
 * BiasAdd and BiasAddGrad. */
#include "support/op_check.h"

static void bias_add_ref(est_ref *r)
{
    int64_t cols = r->in_shape[1].dim[0], n = est_shape_count(&r->in_shape[0]);

    for (int64_t i = 0; i < n; i++) r->out[0][i] = r->in[0][i] + r->in[1][i % cols];
}

static void bias_add_grad_ref(est_ref *r)
{
    int64_t cols = r->out_shape[0].dim[0], n = est_shape_count(&r->in_shape[0]);

    for (int64_t j = 0; j < cols; j++) r->out[0][j] = 0;
    for (int64_t i = 0; i < n; i++) r->out[0][i % cols] += r->in[0][i];
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "BiasAdd", { IN(3, 4), IN(4) }, .tol = 1e-6, .ref = bias_add_ref },
        { "BiasAdd", { IN(2, 3, 5, 7), IN(7) }, .tol = 1e-6, .ref = bias_add_ref },
        { "BiasAdd", { IN(2, 33), IN(33) }, .tol = 1e-6, .ref = bias_add_ref },
        { "BiasAdd", { IN(0, 4), IN(4) }, .tol = 0, .ref = bias_add_ref },
        { "BiasAdd", { IN(3, 0), IN(0) }, .tol = 0, .ref = bias_add_ref },
        { "BiasAdd", { IN(3000, 131), IN(131) }, .tol = 1e-6, .ref = bias_add_ref },
        { "BiasAdd", { IN(3, 4), IN(4) }, .dtype = EST_I32, .lo = -9, .hi = 9, .ref = bias_add_ref },
        { "BiasAdd", { IN(3, 4), IN(4) }, .dtype = EST_I64, .lo = -9, .hi = 9, .ref = bias_add_ref },
        { "BiasAdd", { IN(3, 4), IN(5) }, .fails = EST_INVALID_ARGUMENT, .says = "[3,4]" },
        { "BiasAdd", { IN(4), IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "two axes" },
        { "BiasAdd",
          { IN(1, 2, 3, 4), IN(2) },
          .attrs = EST_ATTRS(est_attr_string("data_format", "NCHW")),
          .fails = EST_UNIMPLEMENTED,
          .says  = "NCHW" },
        { "BiasAddGrad", { IN(3, 4) }, .tol = 1e-6, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(2, 3, 5, 7) }, .tol = 1e-6, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(130, 1) }, .tol = 1e-6, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(517, 132) }, .tol = 1e-5, .ref = bias_add_grad_ref }, /* four columns at a time */
        { "BiasAddGrad", { IN(300, 1028) }, .tol = 1e-5, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(517, 132) }, .dtype = EST_F64, .tol = 1e-12, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(517, 131) }, .dtype = EST_F64, .tol = 1e-12, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(0, 4) }, .tol = 0, .ref = bias_add_grad_ref },
        { "BiasAddGrad", { IN(3, 0) }, .tol = 0, .ref = bias_add_grad_ref },
        { "BiasAddGrad",
          { IN(5003, 131) },
          .lo  = 0,
          .hi  = 1,
          .tol = 1e-6,
          .ref = bias_add_grad_ref }, /* sums near 2500 */
        { "BiasAddGrad", { IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "two axes" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
