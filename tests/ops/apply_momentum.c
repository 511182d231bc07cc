/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

/* s: lr, momentum */
static void momentum(double v[4], double g, const double *s, const est_node_def *node)
{
    v[1] = s[1] * v[1] + g;
    v[0] -= est_node_bool(node, "use_nesterov") ? s[0] * g + s[0] * s[1] * v[1] : s[0] * v[1];
}

static void keras(double v[4], double g, const double *s, const est_node_def *node)
{
    v[1] = s[1] * v[1] - s[0] * g;
    v[0] += est_node_bool(node, "use_nesterov") ? s[1] * v[1] - s[0] * g : v[1];
}

static void dense(est_ref *r)
{
    apply_ref(r, 2, 3, 0, momentum);
}

static void sparse(est_ref *r)
{
    apply_ref(r, 2, 3, 4, momentum);
}

static void keras_dense(est_ref *r)
{
    apply_ref(r, 2, 3, 0, keras);
}

static void keras_sparse(est_ref *r)
{
    apply_ref(r, 2, 3, 4, keras);
}

#define DENSE        .op = "ResourceApplyMomentum", .tol = 1e-6, .ref = dense
#define SPARSE       .op = "ResourceSparseApplyMomentum", .tol = 1e-6, .ref = sparse
#define KERAS        .op = "ResourceApplyKerasMomentum", .tol = 1e-6, .ref = keras_dense
#define KERAS_SPARSE .op = "ResourceSparseApplyKerasMomentum", .tol = 1e-6, .ref = keras_sparse
#define NESTEROV     .attrs = EST_ATTRS(est_attr_bool("use_nesterov", true))
#define LR           NUMBER(0.1)
#define M            NUMBER(0.9)

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DENSE, .in = { VAR(7), VAR(7), LR, IN(7), M } },
        { DENSE, .in = { VAR(3, 5), VAR(3, 5), LR, IN(3, 5), M }, NESTEROV },
        { DENSE, .in = { SCALAR_VAR, SCALAR_VAR, LR, SCALAR, M } },
        { DENSE, .in = { VAR(0), VAR(0), LR, IN(0), M } },
        { DENSE, .in = { VAR(300001), VAR(300001), LR, IN(300001), M } },
        { DENSE, .in = { VAR(3), VAR(4), LR, IN(3), M }, .fails = EST_INVALID_ARGUMENT, .says = "slot 1" },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), LR, IN(4, 5), INDICES(EST_I64, 4, few), M } },
        { SPARSE, .in = { VAR(11), VAR(11), LR, IN(4), INDICES(EST_I32, 4, few), M }, NESTEROV },
        { SPARSE, .in = { VAR(5000, 16), VAR(5000, 16), LR, IN(N_MANY, 16), INDICES(EST_I64, N_MANY, many), M } },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), LR, IN(0, 5), INDICES(EST_I64, 0, few), M } },
        { SPARSE, .in = { VAR(10, 5), VAR(10, 5), LR, IN(4, 5), INDICES(EST_I64, 4, few), M },
          .fails = EST_INVALID_ARGUMENT, .says = "indices[2] = 10" },
        { SPARSE, .in = { VAR(11, 5), VAR(11, 5), LR, IN(4, 6), INDICES(EST_I64, 4, few), M },
          .fails = EST_INVALID_ARGUMENT, .says = "[4,6]" },
        { KERAS, .in = { VAR(3, 5), VAR(3, 5), LR, IN(3, 5), M } },
        { KERAS, .in = { VAR(3, 5), VAR(3, 5), LR, IN(3, 5), M }, NESTEROV },
        { KERAS_SPARSE, .in = { VAR(11, 5), VAR(11, 5), LR, IN(4, 5), INDICES(EST_I32, 4, few), M } },
        { KERAS_SPARSE, .in = { VAR(11, 16), VAR(11, 16), LR, IN(4, 16), INDICES(EST_I64, 4, few), M }, NESTEROV },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
