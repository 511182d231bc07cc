/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* v: var, accum, linear */
static void ftrl_step(double v[4], double g, double lr, double l1, double l2, double shrinkage, double power)
{
    double n = v[1] + g * g, q;

    v[2] += g + 2 * shrinkage * v[0] - (pow(n, -power) - pow(v[1], -power)) / lr * v[0];
    q    = pow(n, -power) / lr + 2 * l2;
    v[0] = fabs(v[2]) > l1 ? (copysign(l1, v[2]) - v[2]) / q : 0;
    v[1] = n;
}

/* s: lr, l1, l2, lr_power; the stored linear term is lr times as large when the op multiplies it. */
static void ftrl(double v[4], double g, const double *s, const est_node_def *node)
{
    double by_lr = est_node_bool(node, "multiply_linear_by_lr") ? s[0] : 1;

    v[2] /= by_lr;
    ftrl_step(v, g, s[0], s[1], s[2], 0, s[3]);
    v[2] *= by_lr;
}

/* s: lr, l1, l2, l2_shrinkage, lr_power */
static void ftrl_v2(double v[4], double g, const double *s, const est_node_def *node)
{
    double by_lr = est_node_bool(node, "multiply_linear_by_lr") ? s[0] : 1;

    v[2] /= by_lr;
    ftrl_step(v, g, s[0], s[1], s[2], s[3], s[4]);
    v[2] *= by_lr;
}

static void dense(est_ref *r)
{
    apply_ref(r, 3, 3, 0, ftrl);
}

static void sparse(est_ref *r)
{
    apply_ref(r, 3, 3, 4, ftrl);
}

static void dense_v2(est_ref *r)
{
    apply_ref(r, 3, 3, 0, ftrl_v2);
}

static void sparse_v2(est_ref *r)
{
    apply_ref(r, 3, 3, 4, ftrl_v2);
}

static void sums(est_ref *r)
{
    apply_sums_ref(r, 3, 3, ftrl);
}

static void sums_v2(est_ref *r)
{
    apply_sums_ref(r, 3, 3, ftrl_v2);
}

/* From 0 with accumulator 0.1, g = 1, lr 0.2, as TensorFlow gives it. */
static void first_step(est_ref *r)
{
    r->out[0][0] = -0.190692517849118;
    r->out[1][0] = 1.1;
    r->out[2][0] = 1;
}

#define DENSE     .op = "ResourceApplyFtrl", .tol = 1e-5, .ref = dense
#define SPARSE    .op = "ResourceSparseApplyFtrl", .tol = 1e-5, .ref = sparse
#define DENSE_V2  .op = "ResourceApplyFtrlV2", .tol = 1e-5, .ref = dense_v2
#define SPARSE_V2 .op = "ResourceSparseApplyFtrlV2", .tol = 1e-5, .ref = sparse_v2
#define SUMS(at)  .op = "EstSumApplyFtrl", .tol = 2e-4, .ref = sums, .attrs = EST_ATTRS(est_attr_int("column", at))
#define SUMS_V2(at)                                                                                                    \
    .op = "EstSumApplyFtrlV2", .tol = 2e-4, .ref = sums_v2, .attrs = EST_ATTRS(est_attr_int("column", at))
#define REPEATED  INDICES(EST_I64, N_REPEATED, repeated)
#define SORTED    INDICES(EST_I64, N_REPEATED, repeated_sorted)
#define BY_LR     .attrs = EST_ATTRS(est_attr_bool("multiply_linear_by_lr", true))
#define SCALARS   NUMBER(0.2), NUMBER(0.1), NUMBER(0.05)
#define SHRINKAGE NUMBER(0.02)
#define ROOT      NUMBER(-0.5)
#define VALUE_VAR(x)                                                                                                   \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .variable = true, .values = (const double[])                                        \
        {                                                                                                              \
            x                                                                                                          \
        }                                                                                                              \
    }

int main(int argc, char **argv)
{
    apply_indices();
    apply_repeated();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), POSITIVE(7), VAR(7), IN(7), SCALARS, ROOT } },
        { DENSE, .in = { VAR(3, 5), POSITIVE(3, 5), VAR(3, 5), IN(3, 5), SCALARS, NUMBER(-0.75) } },
        { DENSE, .in = { VAR(3, 5), POSITIVE(3, 5), VAR(3, 5), IN(3, 5), SCALARS, ROOT }, BY_LR },
        { DENSE, .in = { VAR(2), POSITIVE(2), VAR(2), IN(2), NUMBER(0), NUMBER(0), NUMBER(0), ROOT },
          .fails = EST_INVALID_ARGUMENT, .says = "learning rate" },
        { DENSE_V2, .in = { VAR(7), POSITIVE(7), VAR(7), IN(7), SCALARS, SHRINKAGE, ROOT } },
        { DENSE_V2, .in = { VAR(0), POSITIVE(0), VAR(0), IN(0), SCALARS, SHRINKAGE, ROOT } },
        { DENSE_V2, .in = { VAR(200001), POSITIVE(200001), VAR(200001), IN(200001), SCALARS, SHRINKAGE, ROOT } },
        { DENSE_V2, .in = { VAR(9001), POSITIVE(9001), VAR(9001), IN(9001), SCALARS, SHRINKAGE, NUMBER(-0.3) } },
        { .op = "ResourceApplyFtrlV2",
          { VALUE_VAR(0), VALUE_VAR(0.1), VALUE_VAR(0), NUMBER(1), NUMBER(0.2), NUMBER(0), NUMBER(0), NUMBER(0), ROOT },
          .tol   = 1e-6,
          .dtype = EST_F64,
          .ref   = first_step },
        { SPARSE,
          .in = { VAR(11, 5), POSITIVE(11, 5), VAR(11, 5), IN(4, 5), INDICES(EST_I64, 4, few), SCALARS, ROOT } },
        { SPARSE, .in = { VAR(11), POSITIVE(11), VAR(11), IN(4), INDICES(EST_I32, 4, few), SCALARS, ROOT }, BY_LR },
        { SPARSE_V2,
          .in = { VAR(11), POSITIVE(11), VAR(11), IN(4), INDICES(EST_I32, 4, few), SCALARS, SHRINKAGE, NUMBER(-0.6) } },
        { SPARSE_V2, .in = { VAR(5000, 16), POSITIVE(5000, 16), VAR(5000, 16), IN(N_MANY, 16),
                             INDICES(EST_I64, N_MANY, many), SCALARS, SHRINKAGE, ROOT } },
        { SUMS(0),
          .in = { VAR(90, 1), POSITIVE(90, 1), VAR(90, 1), IN(N_REPEATED, 1), REPEATED, SCALARS, ROOT, SORTED } },
        { SUMS(4),
          .in = { VAR(90, 8), POSITIVE(90, 8), VAR(90, 8), IN(N_REPEATED, 16), REPEATED, SCALARS, ROOT, SORTED } },
        { SUMS(0),
          .in = { VAR(90, 1), POSITIVE(90, 1), VAR(90, 1), IN(N_REPEATED, 1), REPEATED, NUMBER(0), NUMBER(0), NUMBER(0),
                  ROOT, SORTED },
          .fails = EST_INVALID_ARGUMENT, .says = "learning rate" },
        { SUMS_V2(1), .in = { VAR(90, 3), POSITIVE(90, 3), VAR(90, 3), IN(N_REPEATED, 7), REPEATED, SCALARS, SHRINKAGE,
                              NUMBER(-0.6), SORTED } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
