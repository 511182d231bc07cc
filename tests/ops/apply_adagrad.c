/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* s: lr [, epsilon] */
static void adagrad(double v[4], double g, const double *s, const est_node_def *node)
{
    if (est_node_bool(node, "update_slots")) v[1] += g * g;
    v[0] -= s[0] * g / sqrt(v[1]);
}

static void adagrad_v2(double v[4], double g, const double *s, const est_node_def *node)
{
    if (est_node_bool(node, "update_slots")) v[1] += g * g;
    v[0] -= s[0] * g / (sqrt(v[1]) + s[1]);
}

static void dense(est_ref *r)
{
    apply_ref(r, 2, 3, 0, adagrad);
}

static void sparse(est_ref *r)
{
    apply_ref(r, 2, 3, 4, adagrad);
}

static void dense_v2(est_ref *r)
{
    apply_ref(r, 2, 4, 0, adagrad_v2);
}

static void sparse_v2(est_ref *r)
{
    apply_ref(r, 2, 4, 5, adagrad_v2);
}

static void sums(est_ref *r)
{
    apply_sums_ref(r, 2, 3, adagrad);
}

static void sums_v2(est_ref *r)
{
    apply_sums_ref(r, 2, 4, adagrad_v2);
}

/* From 0 with accumulator 0.1 and g = 1, as TensorFlow gives it. */
static void first_step(est_ref *r)
{
    r->out[0][0] = -0.0476731294622796;
    r->out[1][0] = 1.1;
}

static void first_step_v2(est_ref *r)
{
    r->out[0][0] = -0.000953462498;
    r->out[1][0] = 1.1;
}

#define DENSE     .op = "ResourceApplyAdagrad", .tol = 2e-6, .ref = dense
#define SPARSE    .op = "ResourceSparseApplyAdagrad", .tol = 2e-6, .ref = sparse
#define DENSE_V2  .op = "ResourceApplyAdagradV2", .tol = 2e-6, .ref = dense_v2
#define SPARSE_V2 .op = "ResourceSparseApplyAdagradV2", .tol = 2e-6, .ref = sparse_v2
#define SUMS(at)  .op = "EstSumApplyAdagrad", .tol = 2e-5, .ref = sums, .attrs = EST_ATTRS(est_attr_int("column", at))
#define SUMS_V2(at)                                                                                                    \
    .op = "EstSumApplyAdagradV2", .tol = 2e-5, .ref = sums_v2, .attrs = EST_ATTRS(est_attr_int("column", at))
#define REPEATED   INDICES(EST_I64, N_REPEATED, repeated), INDICES(EST_I64, N_REPEATED, repeated_sorted)
#define LR         NUMBER(0.05)
#define EPSILON    NUMBER(1e-3)
#define KEEP_SLOTS .attrs = EST_ATTRS(est_attr_bool("update_slots", false))
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
        { DENSE, .in = { VAR(7), POSITIVE(7), LR, IN(7) } },
        { DENSE, .in = { VAR(3, 5), POSITIVE(3, 5), LR, IN(3, 5) }, KEEP_SLOTS },
        { DENSE, .in = { VAR(0, 2), POSITIVE(0, 2), LR, IN(0, 2) } },
        { DENSE, .in = { VAR(300001), POSITIVE(300001), LR, IN(300001) } },
        { .op = "ResourceApplyAdagrad",
          { VALUE_VAR(0), VALUE_VAR(0.1), LR, NUMBER(1) },
          .tol   = 1e-7,
          .dtype = EST_F64,
          .ref   = first_step },
        { SPARSE, .in = { VAR(11, 5), POSITIVE(11, 5), LR, IN(4, 5), INDICES(EST_I64, 4, few) } },
        { SPARSE, .in = { VAR(11), POSITIVE(11), LR, IN(4), INDICES(EST_I32, 4, few) } },
        { SPARSE, .in = { VAR(11, 3, 2), POSITIVE(11, 3, 2), LR, IN(4, 3, 2), INDICES(EST_I32, 4, few) }, KEEP_SLOTS },
        { SPARSE, .in = { VAR(5000, 16), POSITIVE(5000, 16), LR, IN(N_MANY, 16), INDICES(EST_I64, N_MANY, many) } },
        { SPARSE, .in = { VAR(5000), POSITIVE(5000), LR, IN(N_MANY), INDICES(EST_I64, N_MANY, many) } },
        { DENSE_V2, .in = { VAR(3, 5), POSITIVE(3, 5), LR, EPSILON, IN(3, 5) } },
        { .op = "ResourceApplyAdagradV2",
          { VALUE_VAR(0), VALUE_VAR(0.1), NUMBER(0.001), NUMBER(1e-7), NUMBER(1) },
          .tol   = 1e-4,
          .dtype = EST_F64,
          .ref   = first_step_v2 },
        { SPARSE_V2, .in = { VAR(11, 5), POSITIVE(11, 5), LR, EPSILON, IN(4, 5), INDICES(EST_I32, 4, few) } },
        { SPARSE_V2, .in = { VAR(11, 5), POSITIVE(11, 5), LR, EPSILON, IN(4, 5), INDICES(EST_I32, 4, few) },
          KEEP_SLOTS },
        { SUMS(0), .in = { VAR(90, 16), POSITIVE(90, 16), LR, IN(N_REPEATED, 16), REPEATED } },
        { SUMS(4), .in = { VAR(90, 8), POSITIVE(90, 8), LR, IN(N_REPEATED, 16), REPEATED } },
        { SUMS(3), .in = { VAR(90, 5), POSITIVE(90, 5), LR, IN(N_REPEATED, 9), REPEATED } },
        { SUMS(0), .in = { VAR(90, 1), POSITIVE(90, 1), LR, IN(N_REPEATED, 1), REPEATED } },
        { SUMS(0), .in = { VAR(90, 200), POSITIVE(90, 200), LR, IN(N_REPEATED, 200), REPEATED } },
        { SUMS(0), .in = { VAR(90, 40), POSITIVE(90, 40), LR, IN(N_REPEATED, 41), REPEATED } },
        { SUMS(0),
          .in = { VAR(90, 4), POSITIVE(90, 4), LR, IN(0, 4), INDICES(EST_I64, 0, few), INDICES(EST_I64, 0, few) } },
        { SUMS(2),
          .in    = { VAR(90, 4), POSITIVE(90, 4), LR, IN(4, 6), INDICES(EST_I32, 4, beyond),
                     INDICES(EST_I64, 4, beyond_sorted) },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "indices[1] = 90 is not a row of variable 'in0' [90,4]: rows are 0 to 89" },
        { SUMS(3), .in = { VAR(90, 4), POSITIVE(90, 4), LR, IN(N_REPEATED, 6), REPEATED },
          .fails = EST_INVALID_ARGUMENT, .says = "the gradient is [700,6], and has no 4 columns from 3 on" },
        { SUMS(0), .in = { VAR(90, 4), POSITIVE(90, 4), LR, IN(6, 4), REPEATED }, .fails = EST_INVALID_ARGUMENT,
          .says = "the gradient is [6,4], the indices [700]" },
        { SUMS_V2(1), .in = { VAR(90, 8), POSITIVE(90, 8), LR, EPSILON, IN(N_REPEATED, 12), REPEATED } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
