/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSProp: ms += (1 - rho) (g^2 - ms), mom = momentum mom + lr g / sqrt(ms + epsilon), w -= mom.
 * Centered: also mg += (1 - rho) (g - mg), and ms - mg^2 in place of ms under the root. */
#include "kernels/apply.h"
#include "ops/ops.h"

static const est_apply_form dense_form           = { .n_vars = 3, .grad = 7 };
static const est_apply_form sparse_form          = { .n_vars = 3, .grad = 7, .indices = 8 };
static const est_apply_form centered_form        = { .n_vars = 4, .grad = 8 };
static const est_apply_form sparse_centered_form = { .n_vars = 4, .grad = 8, .indices = 9 };

#define RMS_PROP(T, suffix, sqrt_fn)                                                                                   \
    static inline void rms_prop_##suffix(T *restrict w, T *restrict ms, T *restrict mom, T *restrict s3,               \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        T lr = k[0], rate = k[1], momentum = k[2], epsilon = k[3];                                                     \
                                                                                                                       \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T square = ms[i] + rate * (g[i] * g[i] - ms[i]);                                                           \
            T step   = momentum * mom[i] + lr * g[i] / sqrt_fn(square + epsilon);                                      \
            ms[i]    = square;                                                                                         \
            mom[i]   = step;                                                                                           \
            w[i] -= step;                                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static inline void centered_##suffix(T *restrict w, T *restrict mg, T *restrict ms, T *restrict mom,               \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        T lr = k[0], rate = k[1], momentum = k[2], epsilon = k[3];                                                     \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T square = ms[i] + rate * (g[i] * g[i] - ms[i]);                                                           \
            T mean   = mg[i] + rate * (g[i] - mg[i]);                                                                  \
            T step   = momentum * mom[i] + lr * g[i] / sqrt_fn(square - mean * mean + epsilon);                        \
            ms[i]    = square;                                                                                         \
            mg[i]    = mean;                                                                                           \
            mom[i]   = step;                                                                                           \
            w[i] -= step;                                                                                              \
        }                                                                                                              \
    }
RMS_PROP(float, f32, __builtin_sqrtf)
RMS_PROP(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(rms_prop, 0.35);
EST_APPLY_LOOPS(centered, 0.5);

static est_status rms_prop_infer(est_infer *c)
{
    return est_apply_infer(c, dense_form);
}

static est_status sparse_rms_prop_infer(est_infer *c)
{
    return est_apply_infer(c, sparse_form);
}

static est_status centered_infer(est_infer *c)
{
    return est_apply_infer(c, centered_form);
}

static est_status sparse_centered_infer(est_infer *c)
{
    return est_apply_infer(c, sparse_centered_form);
}

static est_status rms_prop_run(est_call *c, est_apply_form form, const est_apply_loops *loops)
{
    est_apply a;

    EST_TRY(est_apply_open(c, form, &a));
    a.k[0] = a.in[0];
    a.k[1] = 1 - a.in[1];
    a.k[2] = a.in[2];
    a.k[3] = a.in[3];
    est_apply_run(c->pool, &a, loops);
    return EST_OK;
}

static est_status rms_prop_cpu(est_call *c)
{
    return rms_prop_run(c, dense_form, &rms_prop_loops);
}

static est_status sparse_rms_prop_cpu(est_call *c)
{
    return rms_prop_run(c, sparse_form, &rms_prop_loops);
}

static est_status centered_cpu(est_call *c)
{
    return rms_prop_run(c, centered_form, &centered_loops);
}

static est_status sparse_centered_cpu(est_call *c)
{
    return rms_prop_run(c, sparse_centered_form, &centered_loops);
}

const est_op est_op_apply_rms_prop = {
    .name      = "ResourceApplyRMSProp",
    .signature = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T -> (); "
                 "T: {float32, float64}; use_locking: bool = false",
    .infer     = rms_prop_infer,
    .cpu       = EST_KERNELS({ .run = rms_prop_cpu }),
    .stateful  = true,
    .writes    = 7u,
};

const est_op est_op_sparse_apply_rms_prop = {
    .name      = "ResourceSparseApplyRMSProp",
    .signature = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T, "
                 "indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; use_locking: bool = false",
    .infer     = sparse_rms_prop_infer,
    .cpu       = EST_KERNELS({ .run = sparse_rms_prop_cpu }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
};

const est_op est_op_apply_centered_rms_prop = {
    .name      = "ResourceApplyCenteredRMSProp",
    .signature = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, "
                 "grad: T -> (); T: {float32, float64}; use_locking: bool = false",
    .infer     = centered_infer,
    .cpu       = EST_KERNELS({ .run = centered_cpu }),
    .stateful  = true,
    .writes    = 15u,
};

const est_op est_op_sparse_apply_centered_rms_prop = {
    .name      = "ResourceSparseApplyCenteredRMSProp",
    .signature = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, "
                 "grad: T, indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; "
                 "use_locking: bool = false",
    .infer     = sparse_centered_infer,
    .cpu       = EST_KERNELS({ .run = sparse_centered_cpu }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 15u,
};

est_node est_apply_rms_prop(est_node var, est_node ms, est_node mom, est_node lr, est_node rho, est_node momentum,
                            est_node epsilon, est_gradient g)
{
    if (g.indices.graph == NULL) {
        return est_build_update(&est_op_apply_rms_prop, EST_NODES(var, ms, mom, lr, rho, momentum, epsilon, g.values),
                                EST_NO_ATTRS);
    }
    return est_build_update(&est_op_sparse_apply_rms_prop,
                            EST_NODES(var, ms, mom, lr, rho, momentum, epsilon, g.values, g.indices), EST_NO_ATTRS);
}

est_node est_apply_centered_rms_prop(est_node var, est_node mg, est_node ms, est_node mom, est_node lr, est_node rho,
                                     est_node momentum, est_node epsilon, est_gradient g)
{
    if (g.indices.graph == NULL) {
        return est_build_update(&est_op_apply_centered_rms_prop,
                                EST_NODES(var, mg, ms, mom, lr, rho, momentum, epsilon, g.values), EST_NO_ATTRS);
    }
    return est_build_update(&est_op_sparse_apply_centered_rms_prop,
                            EST_NODES(var, mg, ms, mom, lr, rho, momentum, epsilon, g.values, g.indices), EST_NO_ATTRS);
}
