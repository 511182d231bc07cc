/* SPDX-License-Identifier: Apache-2.0
 *
 * Momentum, in the two forms that differ in where the learning rate goes.
 *
 *   ResourceApplyMomentum:       a = m a + g,     w -= lr a     Nesterov: w -= lr g + lr m a
 *   ResourceApplyKerasMomentum:  a = m a - lr g,  w += a        Nesterov: w += m a - lr g
 *
 * Both are a = k0 a + k1 g, w += k2 a + k3 g. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define MOMENTUM(T, suffix)                                                                                            \
    static inline void momentum_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        (void)s2;                                                                                                      \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_MOMENTUM(T)                                                                                            \
        }                                                                                                              \
    }
MOMENTUM(float, f32)
MOMENTUM(double, f64)
EST_APPLY_LOOPS(momentum, 0.15);

static est_status momentum_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "use_nesterov");
    return EST_OK;
}

static est_status keras_momentum_prepare(est_call *c)
{
    c->param[1].i = 1;
    return momentum_prepare(c);
}

static est_status momentum_run(est_call *c)
{
    bool      nesterov = c->param[0].i != 0, keras = c->param[1].i != 0;
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    if (keras) {
        est_keras_momentum_scalars(a.in, a.n_in, nesterov, a.k);
    } else {
        est_momentum_scalars(a.in, a.n_in, nesterov, a.k);
    }
    est_apply_run(c->pool, &a, &momentum_loops);
    return EST_OK;
}

#define DENSE_SIGNATURE                                                                                                \
    "var: resource, accum: resource, lr: T, grad: T, momentum: T -> (); T: {float32, float64}; "                       \
    "use_locking: bool = false; use_nesterov: bool = false"
#define SPARSE_SIGNATURE                                                                                               \
    "var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: T -> (); T: {float32, float64}; "    \
    "Tindices: {int32, int64}; use_locking: bool = false; use_nesterov: bool = false"

const est_op est_op_apply_momentum = {
    .name      = "ResourceApplyMomentum",
    .signature = DENSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = momentum_prepare }),
    .cuda = EST_KERNELS({ .launch = EST_LAUNCH(apply_momentum), .prepare = momentum_prepare, .fail = est_apply_fail }),
    .stateful = true,
    .writes   = 3u,
    .update   = EST_UPDATE(.gradient = 3),
};

const est_op est_op_sparse_apply_momentum = {
    .name      = "ResourceSparseApplyMomentum",
    .signature = SPARSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = momentum_prepare }),
    .cuda = EST_KERNELS({ .launch = EST_LAUNCH(apply_momentum), .prepare = momentum_prepare, .fail = est_apply_fail }),
    .stateful = true,
    .by_rows  = true,
    .writes   = 3u,
    .update   = EST_UPDATE(.gradient = 3, .indices = 4),
};

const est_op est_op_apply_keras_momentum = {
    .name      = "ResourceApplyKerasMomentum",
    .signature = DENSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = keras_momentum_prepare }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(apply_keras_momentum), .prepare = momentum_prepare, .fail = est_apply_fail }),
    .stateful = true,
    .writes   = 3u,
    .update   = EST_UPDATE(.gradient = 3),
};

const est_op est_op_sparse_apply_keras_momentum = {
    .name      = "ResourceSparseApplyKerasMomentum",
    .signature = SPARSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = keras_momentum_prepare }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(apply_keras_momentum), .prepare = momentum_prepare, .fail = est_apply_fail }),
    .stateful = true,
    .by_rows  = true,
    .writes   = 3u,
    .update   = EST_UPDATE(.gradient = 3, .indices = 4),
};
