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
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define FTRL(name, T, suffix, power)                                                                                   \
    static inline void name##_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                  \
                                       const T *restrict g, int64_t count, const T *restrict k)                        \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            EST_FTRL(T, power)                                                                                         \
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
    est_apply_prepare(c);
    return EST_OK;
}

static est_status refuse_lr(double lr)
{
    return est_fail(EST_INVALID_ARGUMENT, "ftrl needs a learning rate above 0, got %g", lr);
}

static est_status refuse_power(double power)
{
    return est_fail(EST_INVALID_ARGUMENT, "ftrl needs lr_power at most 0, got %g", power);
}

static est_status ftrl_run(est_call *c)
{
    double    power;
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    power = a.in[a.n_in - 1];
    if (!(a.in[0] > 0)) return refuse_lr(a.in[0]);
    if (!(power <= 0)) return refuse_power(power);
    est_ftrl_scalars(a.in, a.n_in, c->param[0].i != 0, a.k);
    est_apply_run(c->pool, &a, power == -0.5 ? &ftrl_loops : &ftrl_pow_loops);
    return EST_OK;
}

/* What the kernel of a GPU has found: a row, or below 0 a scalar, whose bits the value has. */
static est_status ftrl_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    double scalar;

    if (place >= 0) return est_apply_fail(c, place, value);
    memcpy(&scalar, value, sizeof scalar);
    return place == -1 ? refuse_lr(scalar) : refuse_power(scalar);
}

/* What all forms have. inputs: those behind the slots; types, more: attributes. */
#define FORM(as, inputs, types, more, scratch_of, ...)                                                                 \
    {                                                                                                                  \
        .name      = as,                                                                                               \
        .signature = "var: resource, accum: resource, linear: resource, " inputs                                       \
                     " -> (); T: {float32, float64}; " types                                                           \
                     "use_locking: bool = false; multiply_linear_by_lr: bool = false" more,                            \
        .infer    = est_apply_infer,                                                                                   \
        .cpu      = EST_KERNELS({ .run = ftrl_run, .prepare = ftrl_prepare, .scratch = scratch_of }),                  \
        .cuda     = EST_KERNELS({ .launch = EST_LAUNCH(apply_ftrl), .prepare = ftrl_prepare, .fail = ftrl_fail }),     \
        .stateful = true, .writes = 7u, __VA_ARGS__                                                                    \
    }
#define ROWS "Tindices: {int32, int64}; "

const est_op est_op_apply_ftrl = FORM("ResourceApplyFtrl", "grad: T, lr: T, l1: T, l2: T, lr_power: T", "", "", NULL,
                                      .update = EST_UPDATE(.gradient = 3));

const est_op est_op_sum_apply_ftrl = FORM(
    "EstSumApplyFtrl", "grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T, sorted: int64", ROWS,
    "; column: int", est_apply_sums_scratch, .update = EST_UPDATE(.gradient = 3, .indices = 4, .sorted = 9),
    .by_rows = true, .planned = true);

const est_op est_op_sparse_apply_ftrl = FORM(
    "ResourceSparseApplyFtrl", "grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T", ROWS, "", NULL,
    .update = EST_UPDATE(.gradient = 3, .indices = 4), .by_rows = true, .sums = &est_op_sum_apply_ftrl);

const est_op est_op_apply_ftrl_v2 = FORM("ResourceApplyFtrlV2",
                                         "grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T", "", "", NULL,
                                         .update = EST_UPDATE(.gradient = 3));

const est_op est_op_sum_apply_ftrl_v2 = FORM(
    "EstSumApplyFtrlV2", "grad: T, indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T, sorted: int64",
    ROWS, "; column: int", est_apply_sums_scratch, .update = EST_UPDATE(.gradient = 3, .indices = 4, .sorted = 10),
    .by_rows = true, .planned = true);

const est_op est_op_sparse_apply_ftrl_v2 = FORM(
    "ResourceSparseApplyFtrlV2", "grad: T, indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T", ROWS,
    "", NULL, .update = EST_UPDATE(.gradient = 3, .indices = 4), .by_rows = true, .sums = &est_op_sum_apply_ftrl_v2);
