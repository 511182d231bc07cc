/* SPDX-License-Identifier: Apache-2.0
 *
 * Adadelta: a = rho a + (1 - rho) g^2, u = sqrt(d + epsilon) / sqrt(a + epsilon) g, w -= lr u,
 * d = rho d + (1 - rho) u^2. */
#include "kernels/apply.h"
#include "ops/ops.h"

static const est_apply_form dense_form  = { .n_vars = 3, .grad = 6 };
static const est_apply_form sparse_form = { .n_vars = 3, .grad = 6, .indices = 7 };

#define ADADELTA(T, suffix, sqrt_fn)                                                                                   \
    static inline void adadelta_##suffix(T *restrict w, T *restrict a, T *restrict d, T *restrict s3,                  \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        T lr = k[0], rho = k[1], rate = k[2], epsilon = k[3];                                                          \
                                                                                                                       \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T square = rho * a[i] + rate * g[i] * g[i];                                                                \
            T update = sqrt_fn(d[i] + epsilon) / sqrt_fn(square + epsilon) * g[i];                                     \
            a[i]     = square;                                                                                         \
            d[i]     = rho * d[i] + rate * update * update;                                                            \
            w[i] -= lr * update;                                                                                       \
        }                                                                                                              \
    }
ADADELTA(float, f32, __builtin_sqrtf)
ADADELTA(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(adadelta, 0.5);

static est_status adadelta_infer(est_infer *c)
{
    return est_apply_infer(c, dense_form);
}

static est_status sparse_adadelta_infer(est_infer *c)
{
    return est_apply_infer(c, sparse_form);
}

static est_status adadelta_run(est_call *c, est_apply_form form)
{
    est_apply a;

    EST_TRY(est_apply_open(c, form, &a));
    a.k[0] = a.in[0];
    a.k[1] = a.in[1];
    a.k[2] = 1 - a.in[1];
    a.k[3] = a.in[2];
    est_apply_run(c->pool, &a, &adadelta_loops);
    return EST_OK;
}

static est_status adadelta_cpu(est_call *c)
{
    return adadelta_run(c, dense_form);
}

static est_status sparse_adadelta_cpu(est_call *c)
{
    return adadelta_run(c, sparse_form);
}

const est_op est_op_apply_adadelta = {
    .name      = "ResourceApplyAdadelta",
    .signature = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T -> (); "
                 "T: {float32, float64}; use_locking: bool = false",
    .infer     = adadelta_infer,
    .cpu       = EST_KERNELS({ .run = adadelta_cpu }),
    .stateful  = true,
    .writes    = 7u,
};

const est_op est_op_sparse_apply_adadelta = {
    .name      = "ResourceSparseApplyAdadelta",
    .signature = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T, "
                 "indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; use_locking: bool = false",
    .infer     = sparse_adadelta_infer,
    .cpu       = EST_KERNELS({ .run = sparse_adadelta_cpu }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
};

est_node est_apply_adadelta(est_node var, est_node accum, est_node accum_update, est_node lr, est_node rho,
                            est_node epsilon, est_gradient g)
{
    if (g.indices.graph == NULL) {
        return est_build_update(&est_op_apply_adadelta, EST_NODES(var, accum, accum_update, lr, rho, epsilon, g.values),
                                EST_NO_ATTRS);
    }
    return est_build_update(&est_op_sparse_apply_adadelta,
                            EST_NODES(var, accum, accum_update, lr, rho, epsilon, g.values, g.indices), EST_NO_ATTRS);
}
