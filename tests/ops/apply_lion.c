/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

#define GRAD 5

/* s: lr, beta1, beta2; v: var, m */
static void lion(double v[4], double g, const double *s, const est_node_def *node)
{
    double way = s[1] * v[1] + (1 - s[1]) * g;

    (void)node;
    v[0] -= s[0] * (way > 0 ? 1 : way < 0 ? -1 : 0);
    v[1] = s[2] * v[1] + (1 - s[2]) * g;
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
    apply_ref(r, 2, GRAD, 0, lion);
}

/* Rows without a gradient move as with one of zeros. */
static void sparse(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[0]), cols = n / r->in_shape[0].dim[0];
    double  s[GRAD - 2];

    apply_ref(r, 2, GRAD, GRAD + 1, lion);
    for (int i = 2; i < GRAD; i++) s[i - 2] = r->in[i][0];
    for (int64_t i = 0; i < n; i++) {
        double v[4] = { r->in[0][i], r->in[1][i] };

        if (has_gradient(r, GRAD + 1, i / cols)) continue;
        lion(v, 0, s, r->node);
        for (int k = 0; k < 2; k++) r->out[k][i] = v[k];
    }
}

#define DENSE   .op = "EstApplyLion", .tol = 2e-6, .ref = dense
#define SPARSE  .op = "EstSparseLion", .tol = 2e-6, .ref = sparse
#define SCALARS NUMBER(0.01), NUMBER(0.9), NUMBER(0.99)

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), VAR(7), SCALARS, IN(7) } },
        { DENSE, .in = { VAR(3, 5), VAR(3, 5), SCALARS, IN(3, 5) } },
        { DENSE, .in = { SCALAR_VAR, SCALAR_VAR, SCALARS, SCALAR } },
        { DENSE, .in = { VAR(0), VAR(0), SCALARS, IN(0) } },
        { DENSE, .in = { VAR(30001), VAR(30001), SCALARS, IN(30001) } },
        { DENSE, .in = { VAR(3), VAR(3), SCALARS, IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "gradient" },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), VAR(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), SCALARS, IN(0, 5), INDICES(EST_I64, 0, few) } },
        { SPARSE, .in = { VAR(5000, 16), VAR(5000, 16), SCALARS, IN(N_MANY, 16), INDICES(EST_I64, N_MANY, many) } },
        { SPARSE, .in = { VAR(11, 0), VAR(11, 0), SCALARS, IN(4, 0), INDICES(EST_I64, 4, few) } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
