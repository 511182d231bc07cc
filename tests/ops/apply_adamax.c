/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

#define GRAD 8

/* s: beta1_power, lr, beta1, beta2, epsilon; v: var, m, v */
static void adamax(double v[4], double g, const double *s, const est_node_def *node)
{
    (void)node;
    v[1] = s[2] * v[1] + (1 - s[2]) * g;
    v[2] = fmax(s[3] * v[2], fabs(g));
    v[0] -= s[1] / (1 - s[0]) * v[1] / (v[2] + s[4]);
}

static bool has_gradient(const est_ref *r, int indices, int64_t row)
{
    for (int64_t i = 0; i < r->in_shape[indices].dim[0]; i++) {
        if ((int64_t)r->in[indices][i] == row) return true;
    }
    return false;
}

static void dense(est_ref *r)
{
    apply_ref(r, 3, GRAD, 0, adamax);
}

static void lazy(est_ref *r)
{
    apply_ref(r, 3, GRAD, GRAD + 1, adamax);
}

/* Rows without a gradient move as with one of zeros. */
static void sparse(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[0]), cols = n / r->in_shape[0].dim[0];
    double  s[GRAD - 3];

    apply_ref(r, 3, GRAD, GRAD + 1, adamax);
    for (int i = 3; i < GRAD; i++) s[i - 3] = r->in[i][0];
    for (int64_t i = 0; i < n; i++) {
        double v[4] = { r->in[0][i], r->in[1][i], r->in[2][i] };

        if (has_gradient(r, GRAD + 1, i / cols)) continue;
        adamax(v, 0, s, r->node);
        for (int k = 0; k < 3; k++) r->out[k][i] = v[k];
    }
}

#define DENSE   .op = "ResourceApplyAdaMax", .tol = 5e-6, .ref = dense
#define LAZY    .op = "EstLazyAdaMax", .tol = 5e-6, .ref = lazy
#define SPARSE  .op = "EstSparseAdaMax", .tol = 5e-6, .ref = sparse
#define SCALARS NUMBER(0.81), NUMBER(0.01), NUMBER(0.9), NUMBER(0.999), NUMBER(1e-4)

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), VAR(7), POSITIVE(7), SCALARS, IN(7) } },
        { DENSE, .in = { VAR(3, 5), VAR(3, 5), POSITIVE(3, 5), SCALARS, IN(3, 5) } },
        { DENSE, .in = { SCALAR_VAR, SCALAR_VAR, SCALAR_VAR, SCALARS, SCALAR } },
        { DENSE, .in = { VAR(0), VAR(0), POSITIVE(0), SCALARS, IN(0) } },
        { DENSE, .in = { VAR(300001), VAR(300001), POSITIVE(300001), SCALARS, IN(300001) } },
        { DENSE, .in = { VAR(3), VAR(3), POSITIVE(3), SCALARS, IN(4) }, .fails = EST_INVALID_ARGUMENT,
          .says = "gradient" },
        { LAZY, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { LAZY, .in = { VAR(11), VAR(11), POSITIVE(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { LAZY, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(0, 5), INDICES(EST_I64, 0, few) } },
        { LAZY, .in = { VAR(5000, 16), VAR(5000, 16), POSITIVE(5000, 16), SCALARS, IN(N_MANY, 16),
                        INDICES(EST_I64, N_MANY, many) } },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), VAR(11), POSITIVE(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(0, 5), INDICES(EST_I64, 0, few) } },
        { SPARSE, .in = { VAR(5000, 16), VAR(5000, 16), POSITIVE(5000, 16), SCALARS, IN(N_MANY, 16),
                          INDICES(EST_I64, N_MANY, many) } },
        { SPARSE, .in = { VAR(11, 0), VAR(11, 0), POSITIVE(11, 0), SCALARS, IN(4, 0), INDICES(EST_I64, 4, few) } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
