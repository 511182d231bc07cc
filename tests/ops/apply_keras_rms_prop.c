/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* s: lr, rho, epsilon; v: var, ms */
static void rms_prop(double v[4], double g, const double *s, const est_node_def *node)
{
    bool inside = est_node_bool(node, "epsilon_inside");

    v[1] = s[1] * v[1] + (1 - s[1]) * g * g;
    v[0] -= s[0] * g / (inside ? sqrt(v[1] + s[2]) : sqrt(v[1]) + s[2]);
}

/* v: var, mg, ms */
static void centered(double v[4], double g, const double *s, const est_node_def *node)
{
    bool   inside = est_node_bool(node, "epsilon_inside");
    double variance;

    v[1]     = s[1] * v[1] + (1 - s[1]) * g;
    v[2]     = s[1] * v[2] + (1 - s[1]) * g * g;
    variance = v[2] - v[1] * v[1];
    if (g != 0) v[0] -= s[0] * g / (inside ? sqrt(variance + s[2]) : sqrt(variance) + s[2]);
}

static bool has_gradient(const est_ref *r, int indices, int64_t row)
{
    for (int64_t i = 0; i < r->in_shape[indices].dim[0]; i++) {
        if ((int64_t)r->in[indices][i] == row) return true;
    }
    return false;
}

/* Slots of rows without a gradient decay. */
static void apply_all(est_ref *r, int n_vars, apply_formula formula)
{
    int     grad = n_vars + 3, indices = n_vars + 4;
    int64_t n = est_shape_count(&r->in_shape[0]), cols = n / r->in_shape[0].dim[0];

    apply_ref(r, n_vars, grad, indices, formula);
    for (int64_t i = 0; i < n; i++) {
        if (has_gradient(r, indices, i / cols)) continue;
        for (int k = 1; k < n_vars; k++) r->out[k][i] = r->in[n_vars + 1][0] * r->in[k][i];
    }
}

static void dense(est_ref *r)
{
    apply_ref(r, 2, 5, 0, rms_prop);
}

static void sparse(est_ref *r)
{
    apply_all(r, 2, rms_prop);
}

static void centered_dense(est_ref *r)
{
    apply_ref(r, 3, 6, 0, centered);
}

static void centered_sparse(est_ref *r)
{
    apply_all(r, 3, centered);
}

#define DENSE           .op = "EstKerasRMSProp", .tol = 5e-6, .ref = dense
#define SPARSE          .op = "EstSparseKerasRMSProp", .tol = 5e-6, .ref = sparse
#define CENTERED        .op = "EstCenteredKerasRMSProp", .tol = 2e-5, .ref = centered_dense
#define CENTERED_SPARSE .op = "EstSparseCenteredKerasRMSProp", .tol = 2e-5, .ref = centered_sparse
#define INSIDE          EST_ATTRS(est_attr_bool("epsilon_inside", true))
#define SCALARS         NUMBER(0.01), NUMBER(0.9), NUMBER(1e-3)
/* ms must be at least mg squared. */
#define SMALL(...)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .variable = true, .lo = -0.3, .hi = 0.3                                       \
    }

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), POSITIVE(7), SCALARS, IN(7) } },
        { DENSE, .in = { VAR(3, 5), POSITIVE(3, 5), SCALARS, IN(3, 5) } },
        { DENSE, .in = { VAR(0), POSITIVE(0), SCALARS, IN(0) } },
        { DENSE, .in = { VAR(300001), POSITIVE(300001), SCALARS, IN(300001) } },
        { SPARSE, .in = { VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), POSITIVE(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { SPARSE,
          .in = { VAR(5000, 16), POSITIVE(5000, 16), SCALARS, IN(N_MANY, 16), INDICES(EST_I64, N_MANY, many) } },
        { CENTERED, .in = { VAR(3, 5), SMALL(3, 5), POSITIVE(3, 5), SCALARS, IN(3, 5) } },
        { CENTERED, .in = { VAR(70001), SMALL(70001), POSITIVE(70001), SCALARS, IN(70001) } },
        { CENTERED_SPARSE,
          .in = { VAR(11, 16), SMALL(11, 16), POSITIVE(11, 16), SCALARS, IN(4, 16), INDICES(EST_I64, 4, few) } },
        { DENSE, .in = { VAR(7), POSITIVE(7), SCALARS, IN(7) }, .attrs = INSIDE },
        { SPARSE, .in = { VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) }, .attrs = INSIDE },
        { CENTERED, .in = { VAR(3, 5), SMALL(3, 5), POSITIVE(3, 5), SCALARS, IN(3, 5) }, .attrs = INSIDE },
        { CENTERED_SPARSE,
          .in    = { VAR(11, 16), SMALL(11, 16), POSITIVE(11, 16), SCALARS, IN(4, 16), INDICES(EST_I64, 4, few) },
          .attrs = INSIDE },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
