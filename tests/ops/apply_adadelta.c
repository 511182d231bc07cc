/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* s: lr, rho, epsilon */
static void adadelta(double v[4], double g, const double *s, const est_node_def *node)
{
    double u;

    (void)node;
    v[1] = s[1] * v[1] + (1 - s[1]) * g * g;
    u    = sqrt(v[2] + s[2]) / sqrt(v[1] + s[2]) * g;
    v[0] -= s[0] * u;
    v[2] = s[1] * v[2] + (1 - s[1]) * u * u;
}

static void dense(est_ref *r)
{
    apply_ref(r, 3, 6, 0, adadelta);
}

static void sparse(est_ref *r)
{
    apply_ref(r, 3, 6, 7, adadelta);
}

#define DENSE   .op = "ResourceApplyAdadelta", .tol = 5e-6, .ref = dense
#define SPARSE  .op = "ResourceSparseApplyAdadelta", .tol = 5e-6, .ref = sparse
#define SCALARS NUMBER(0.5), NUMBER(0.95), NUMBER(1e-4)

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), POSITIVE(7), POSITIVE(7), SCALARS, IN(7) } },
        { DENSE, .in = { VAR(3, 5), POSITIVE(3, 5), POSITIVE(3, 5), SCALARS, IN(3, 5) } },
        { DENSE, .in = { VAR(0), POSITIVE(0), POSITIVE(0), SCALARS, IN(0) } },
        { DENSE, .in = { VAR(200001), POSITIVE(200001), POSITIVE(200001), SCALARS, IN(200001) } },
        { SPARSE, .in = { VAR(11, 5), POSITIVE(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), POSITIVE(11), POSITIVE(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { SPARSE, .in = { VAR(5000, 16), POSITIVE(5000, 16), POSITIVE(5000, 16), SCALARS, IN(N_MANY, 16),
                          INDICES(EST_I64, N_MANY, many) } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
