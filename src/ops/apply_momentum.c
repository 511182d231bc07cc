/* SPDX-License-Identifier: Apache-2.0
 *
 * Momentum, in the two forms that differ in where the learning rate goes.
 *
 *   ResourceApplyMomentum:       a = m a + g,     w -= lr a     Nesterov: w -= lr g + lr m a
 *   ResourceApplyKerasMomentum:  a = m a - lr g,  w += a        Nesterov: w += m a - lr g
 *
 * Both are a = k0 a + k1 g, w += k2 a + k3 g. */
#include "kernels/apply.h"
#include "ops/ops.h"

#define MOMENTUM(T, suffix)                                                                                            \
    static inline void momentum_##suffix(T *restrict w, T *restrict a, T *restrict s2, T *restrict s3,                 \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        T k0 = k[0], k1 = k[1], k2 = k[2], k3 = k[3];                                                                  \
                                                                                                                       \
        (void)s2;                                                                                                      \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T next = k0 * a[i] + k1 * g[i];                                                                            \
            a[i]   = next;                                                                                             \
            w[i] += k2 * next + k3 * g[i];                                                                             \
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
    double    lr, momentum;
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    lr       = a.in[0];
    momentum = a.in[1];
    a.k[0]   = momentum;
    a.k[1]   = keras ? -lr : 1;
    a.k[2]   = (keras ? 1 : -lr) * (nesterov ? momentum : 1);
    a.k[3]   = nesterov ? -lr : 0;
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
    .stateful  = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 3),
};

const est_op est_op_sparse_apply_momentum = {
    .name      = "ResourceSparseApplyMomentum",
    .signature = SPARSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = momentum_prepare }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 3, .indices = 4),
};

const est_op est_op_apply_keras_momentum = {
    .name      = "ResourceApplyKerasMomentum",
    .signature = DENSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = keras_momentum_prepare }),
    .stateful  = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 3),
};

const est_op est_op_sparse_apply_keras_momentum = {
    .name      = "ResourceSparseApplyKerasMomentum",
    .signature = SPARSE_SIGNATURE,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = momentum_run, .prepare = keras_momentum_prepare }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 3, .indices = 4),
};
