/* SPDX-License-Identifier: Apache-2.0
 *
 * FTRL-proximal, with n the accumulator, z the linear term, p = -lr_power:
 *
 *   n' = n + g^2,  z += g + 2 l2_shrinkage w - (n'^p - n^p) / lr w
 *   w = (clip(z, -l1, l1) - z) / (n'^p / lr + 2 l2),  n = n'
 *
 * so w is 0 wherever |z| <= l1. The usual p = 1/2 is a square root and a vector loop. With multiply_linear_by_lr z is
 * kept multiplied by lr; both sides of the formula are then lr times as large. */
#include <math.h>

#include "kernels/apply.h"
#include "ops/ops.h"

/* No sum has two products, of which the compiler would round one, in a vector perhaps another than in the rest after
 * it: the same row must get the same bits in whatever tensor it is.
 * k: 0 scale of g in z, 1 two l2_shrinkage, 2 scale of the powers, 3 l1, 4 two l2, 5 p */
#define FTRL(name, T, suffix, power)                                                                                   \
    static inline void name##_##suffix(T *restrict w, T *restrict n, T *restrict z, T *restrict s3,                    \
                                       const T *restrict g, int64_t count, const T *restrict k)                        \
    {                                                                                                                  \
        T by_g = k[0], shrink = k[1], by_power = k[2], l1 = k[3], l2 = k[4], p = k[5];                                 \
                                                                                                                       \
        (void)s3;                                                                                                      \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            T next    = n[i] + g[i] * g[i];                                                                            \
            T root    = power(next, p);                                                                                \
            T linear  = z[i] + by_g * (g[i] + shrink * w[i]) - by_power * (root - power(n[i], p)) * w[i];              \
            T clipped = linear > l1 ? l1 : linear;                                                                     \
            clipped   = clipped < -l1 ? -l1 : clipped;                                                                 \
            n[i]      = next;                                                                                          \
            z[i]      = linear;                                                                                        \
            w[i]      = (clipped - linear) / (by_power * root + l2);                                                   \
        }                                                                                                              \
    }
#define SQRT_F32(x, p) __builtin_sqrtf(x)
#define SQRT_F64(x, p) __builtin_sqrt(x)
FTRL(ftrl, float, f32, SQRT_F32)
FTRL(ftrl, double, f64, SQRT_F64)
FTRL(ftrl_pow, float, f32, powf)
FTRL(ftrl_pow, double, f64, pow)
EST_APPLY_LOOPS(ftrl, 0.5);
EST_APPLY_LOOPS(ftrl_pow, 30.0);

static est_status ftrl_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "multiply_linear_by_lr");
    return EST_OK;
}

/* Scalars are lr, l1, l2, [l2_shrinkage,] lr_power. */
static est_status ftrl_run(est_call *c)
{
    double    lr, power, by_lr, shrinkage;
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    lr        = a.in[0];
    power     = a.in[a.n_in - 1];
    shrinkage = a.n_in == 5 ? a.in[3] : 0;
    if (!(lr > 0)) return est_fail(EST_INVALID_ARGUMENT, "ftrl needs a learning rate above 0, got %g", lr);
    if (!(power <= 0)) return est_fail(EST_INVALID_ARGUMENT, "ftrl needs lr_power at most 0, got %g", power);
    by_lr  = c->param[0].i != 0 ? lr : 1;
    a.k[0] = by_lr;
    a.k[1] = 2 * shrinkage;
    a.k[2] = by_lr / lr;
    a.k[3] = by_lr * a.in[1];
    a.k[4] = by_lr * 2 * a.in[2];
    a.k[5] = -power;
    est_apply_run(c->pool, &a, power == -0.5 ? &ftrl_loops : &ftrl_pow_loops);
    return EST_OK;
}

#define ATTRIBUTES "use_locking: bool = false; multiply_linear_by_lr: bool = false"

const est_op est_op_apply_ftrl = {
    .name      = "ResourceApplyFtrl",
    .signature = "var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, lr_power: T -> (); "
                 "T: {float32, float64}; " ATTRIBUTES,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = ftrl_run, .prepare = ftrl_prepare }),
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 3),
};

const est_op est_op_sparse_apply_ftrl = {
    .name      = "ResourceSparseApplyFtrl",
    .signature = "var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, "
                 "lr_power: T -> (); T: {float32, float64}; Tindices: {int32, int64}; " ATTRIBUTES,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = ftrl_run, .prepare = ftrl_prepare }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 3, .indices = 4),
};

const est_op est_op_apply_ftrl_v2 = {
    .name      = "ResourceApplyFtrlV2",
    .signature = "var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, "
                 "lr_power: T -> (); T: {float32, float64}; " ATTRIBUTES,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = ftrl_run, .prepare = ftrl_prepare }),
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 3),
};

const est_op est_op_sparse_apply_ftrl_v2 = {
    .name      = "ResourceSparseApplyFtrlV2",
    .signature = "var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, "
                 "l2_shrinkage: T, lr_power: T -> (); T: {float32, float64}; Tindices: {int32, int64}; " ATTRIBUTES,
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = ftrl_run, .prepare = ftrl_prepare }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 3, .indices = 4),
};
