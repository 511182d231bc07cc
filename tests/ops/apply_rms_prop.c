/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* s: lr, rho, momentum, epsilon; v: var, ms, mom */
static void rms_prop(double v[4], double g, const double *s, const est_node_def *node)
{
    (void)node;
    v[1] = s[1] * v[1] + (1 - s[1]) * g * g;
    v[2] = s[2] * v[2] + s[0] * g / sqrt(v[1] + s[3]);
    v[0] -= v[2];
}

/* v: var, mg, ms, mom */
static void centered(double v[4], double g, const double *s, const est_node_def *node)
{
    (void)node;
    v[1] = s[1] * v[1] + (1 - s[1]) * g;
    v[2] = s[1] * v[2] + (1 - s[1]) * g * g;
    v[3] = s[2] * v[3] + s[0] * g / sqrt(v[2] - v[1] * v[1] + s[3]);
    v[0] -= v[3];
}

static void dense(est_ref *r)
{
    apply_ref(r, 3, 7, 0, rms_prop);
}

static void sparse(est_ref *r)
{
    apply_ref(r, 3, 7, 8, rms_prop);
}

static void centered_dense(est_ref *r)
{
    apply_ref(r, 4, 8, 0, centered);
}

static void centered_sparse(est_ref *r)
{
    apply_ref(r, 4, 8, 9, centered);
}

#define DENSE           .op = "ResourceApplyRMSProp", .tol = 5e-6, .ref = dense
#define SPARSE          .op = "ResourceSparseApplyRMSProp", .tol = 5e-6, .ref = sparse
#define CENTERED        .op = "ResourceApplyCenteredRMSProp", .tol = 2e-5, .ref = centered_dense
#define CENTERED_SPARSE .op = "ResourceSparseApplyCenteredRMSProp", .tol = 2e-5, .ref = centered_sparse
#define SCALARS         NUMBER(0.01), NUMBER(0.9), NUMBER(0.3), NUMBER(1e-3)
/* ms must be at least mg squared. */
#define SMALL(...)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .variable = true, .lo = -0.3, .hi = 0.3                                       \
    }

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), POSITIVE(7), VAR(7), SCALARS, IN(7) } },
        { DENSE, .in = { VAR(3, 5), POSITIVE(3, 5), VAR(3, 5), SCALARS, IN(3, 5) } },
        { DENSE, .in = { VAR(0), POSITIVE(0), VAR(0), SCALARS, IN(0) } },
        { DENSE, .in = { VAR(300001), POSITIVE(300001), VAR(300001), SCALARS, IN(300001) } },
        { SPARSE, .in = { VAR(11, 5), POSITIVE(11, 5), VAR(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), POSITIVE(11), VAR(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { SPARSE, .in = { VAR(5000, 16), POSITIVE(5000, 16), VAR(5000, 16), SCALARS, IN(N_MANY, 16),
                          INDICES(EST_I64, N_MANY, many) } },
        { CENTERED, .in = { VAR(3, 5), SMALL(3, 5), POSITIVE(3, 5), VAR(3, 5), SCALARS, IN(3, 5) } },
        { CENTERED, .in = { VAR(70001), SMALL(70001), POSITIVE(70001), VAR(70001), SCALARS, IN(70001) } },
        { CENTERED_SPARSE, .in = { VAR(11, 16), SMALL(11, 16), POSITIVE(11, 16), VAR(11, 16), SCALARS, IN(4, 16),
                                   INDICES(EST_I64, 4, few) } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
