/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

static void descent(double v[4], double g, const double *s, const est_node_def *node)
{
    (void)node;
    v[0] -= s[0] * g;
}

static void dense(est_ref *r)
{
    apply_ref(r, 1, 2, 0, descent);
}

#define OP .op = "ResourceApplyGradientDescent", .tol = 1e-6, .ref = dense

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { OP, .in = { VAR(7), NUMBER(0.3), IN(7) } },
        { OP, .in = { VAR(3, 5), NUMBER(-2), IN(3, 5) } },
        { OP, .in = { SCALAR_VAR, NUMBER(0.5), SCALAR } },
        { OP, .in = { VAR(0, 4), NUMBER(0.5), IN(0, 4) } },
        { OP, .in = { VAR(501, 701), NUMBER(0.01), IN(501, 701) } }, /* large enough to be cut */
        { OP, .in = { VAR(3, 5), NUMBER(1), IN(5, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "[5,3]" },
        { OP, .in = { VAR(3), IN(2), IN(3) }, .fails = EST_INVALID_ARGUMENT, .says = "rank 0" },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
