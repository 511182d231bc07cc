/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSProp: ms += (1 - rho) (g^2 - ms), mom = momentum mom + lr g / sqrt(ms + epsilon), w -= mom.
 * Centered: also mg += (1 - rho) (g - mg), and ms - mg^2 in place of ms under the root. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define RMS_PROP(T, suffix, sqrt_fn)                                                                                   \
    static inline void rms_prop_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_RMS_PROP(T, sqrt_fn)                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static inline void centered_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_CENTERED_RMS_PROP(T, sqrt_fn)                                                                          \
        }                                                                                                              \
    }
RMS_PROP(float, f32, __builtin_sqrtf)
RMS_PROP(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(rms_prop, 0.35);
EST_APPLY_LOOPS(centered, 0.5);

static est_status rms_prop_run(est_call *c)
{
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    est_rms_prop_scalars(a.in, a.n_in, false, a.k);
    est_apply_run(c->pool, &a, a.n_vars == 4 ? &centered_loops : &rms_prop_loops);
    return EST_OK;
}

const est_op est_op_apply_rms_prop = {
    .name      = "ResourceApplyRMSProp",
    .signature = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T -> (); "
                 "T: {float32, float64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = rms_prop_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_rms_prop), .fail = est_apply_fail }),
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 7),
};

const est_op est_op_sparse_apply_rms_prop = {
    .name      = "ResourceSparseApplyRMSProp",
    .signature = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T, "
                 "indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = rms_prop_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_rms_prop), .fail = est_apply_fail }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 7, .indices = 8),
};

const est_op est_op_apply_centered_rms_prop = {
    .name      = "ResourceApplyCenteredRMSProp",
    .signature = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, "
                 "grad: T -> (); T: {float32, float64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = rms_prop_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_centered_rms_prop), .fail = est_apply_fail }),
    .stateful  = true,
    .writes    = 15u,
    .update    = EST_UPDATE(.gradient = 8),
};

const est_op est_op_sparse_apply_centered_rms_prop = {
    .name      = "ResourceSparseApplyCenteredRMSProp",
    .signature = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, "
                 "grad: T, indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; "
                 "use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = rms_prop_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_centered_rms_prop), .fail = est_apply_fail }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 15u,
    .update    = EST_UPDATE(.gradient = 8, .indices = 9),
};
