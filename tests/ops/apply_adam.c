/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* s: beta1_power, beta2_power, lr, beta1, beta2, epsilon */
static void adam_step(double v[4], double g, const double *s, bool nesterov)
{
    double alpha = s[2] * sqrt(1 - s[1]) / (1 - s[0]);

    v[1] = s[3] * v[1] + (1 - s[3]) * g;
    v[2] = s[4] * v[2] + (1 - s[4]) * g * g;
    v[0] -= alpha * (nesterov ? s[3] * v[1] + (1 - s[3]) * g : v[1]) / (sqrt(v[2]) + s[5]);
}

static void adam(double v[4], double g, const double *s, const est_node_def *node)
{
    adam_step(v, g, s, est_node_bool(node, "use_nesterov"));
}

static void lazy_adam(double v[4], double g, const double *s, const est_node_def *node)
{
    (void)node;
    adam_step(v, g, s, false);
}

static void dense(est_ref *r)
{
    apply_ref(r, 3, 9, 0, adam);
}

static void lazy(est_ref *r)
{
    apply_ref(r, 3, 9, 10, lazy_adam);
}

static bool has_gradient(const est_ref *r, int64_t row)
{
    for (int64_t i = 0; i < r->in_shape[10].dim[0]; i++) {
        if ((int64_t)r->in[10][i] == row) return true;
    }
    return false;
}

/* Rows without a gradient move as with one of zeros. */
static void sparse(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[0]), cols = n / r->in_shape[0].dim[0];

    apply_ref(r, 3, 9, 10, adam);
    for (int64_t i = 0; i < n; i++) {
        double v[4] = { r->in[0][i], r->in[1][i], r->in[2][i] };
        double s[]  = { r->in[3][0], r->in[4][0], r->in[5][0], r->in[6][0], r->in[7][0], r->in[8][0] };

        if (has_gradient(r, i / cols)) continue;
        adam(v, 0, s, r->node);
        for (int k = 0; k < 3; k++) r->out[k][i] = v[k];
    }
}

#define DENSE   .op = "ResourceApplyAdam", .tol = 5e-6, .ref = dense
#define LAZY    .op = "EstLazyAdam", .tol = 5e-6, .ref = lazy
#define SPARSE  .op = "EstSparseAdam", .tol = 5e-6, .ref = sparse
#define SCALARS NUMBER(0.81), NUMBER(0.998), NUMBER(0.01), NUMBER(0.9), NUMBER(0.999), NUMBER(1e-4)

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), VAR(7), POSITIVE(7), SCALARS, IN(7) } },
        { DENSE, .in = { VAR(3, 5), VAR(3, 5), POSITIVE(3, 5), SCALARS, IN(3, 5) },
          .attrs = EST_ATTRS(est_attr_bool("use_nesterov", true)) },
        { DENSE, .in = { SCALAR_VAR, SCALAR_VAR, SCALAR_VAR, SCALARS, SCALAR } },
        { DENSE, .in = { VAR(0), VAR(0), POSITIVE(0), SCALARS, IN(0) } },
        { DENSE, .in = { VAR(300001), VAR(300001), POSITIVE(300001), SCALARS, IN(300001) } },
        { DENSE, .in = { VAR(3), VAR(3), POSITIVE(3), SCALARS, IN(4) }, .fails = EST_INVALID_ARGUMENT,
          .says = "gradient" },
        { LAZY, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { LAZY, .in = { VAR(11), VAR(11), POSITIVE(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) } },
        { LAZY, .in = { VAR(5000, 16), VAR(5000, 16), POSITIVE(5000, 16), SCALARS, IN(N_MANY, 16),
                        INDICES(EST_I64, N_MANY, many) } },
        { LAZY, .in = { VAR(11, 0), VAR(11, 0), POSITIVE(11, 0), SCALARS, IN(4, 0), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), VAR(11), POSITIVE(11), SCALARS, IN(4), INDICES(EST_I32, 4, few) },
          .attrs = EST_ATTRS(est_attr_bool("use_nesterov", true)) },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), POSITIVE(11, 5), SCALARS, IN(0, 5), INDICES(EST_I64, 0, few) } },
        { SPARSE, .in = { VAR(5000, 16), VAR(5000, 16), POSITIVE(5000, 16), SCALARS, IN(N_MANY, 16),
                          INDICES(EST_I64, N_MANY, many) } },
        { SPARSE, .in = { VAR(11, 0), VAR(11, 0), POSITIVE(11, 0), SCALARS, IN(4, 0), INDICES(EST_I64, 4, few) } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
