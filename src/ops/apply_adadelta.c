/* SPDX-License-Identifier: Apache-2.0
 *
 * Adadelta: a = rho a + (1 - rho) g^2, u = sqrt(d + epsilon) / sqrt(a + epsilon) g, w -= lr u,
 * d = rho d + (1 - rho) u^2. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define ADADELTA(T, suffix, sqrt_fn)                                                                                   \
    static inline void adadelta_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_ADADELTA(T, sqrt_fn)                                                                                   \
        }                                                                                                              \
    }
ADADELTA(float, f32, __builtin_sqrtf)
ADADELTA(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(adadelta, 0.5);

static est_status adadelta_run(est_call *c)
{
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    est_adadelta_scalars(a.in, a.n_in, false, a.k);
    est_apply_run(c->pool, &a, &adadelta_loops);
    return EST_OK;
}

const est_op est_op_apply_adadelta = {
    .name      = "ResourceApplyAdadelta",
    .signature = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T -> (); "
                 "T: {float32, float64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = adadelta_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_adadelta), .fail = est_apply_fail }),
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 6),
};

const est_op est_op_sparse_apply_adadelta = {
    .name      = "ResourceSparseApplyAdadelta",
    .signature = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T, "
                 "indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = adadelta_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_adadelta), .fail = est_apply_fail }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 6, .indices = 7),
};
