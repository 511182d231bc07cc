/* SPDX-License-Identifier: Apache-2.0
 *
 * Adagrad: a += g^2, w -= lr g / (sqrt(a) + epsilon). The first form has no epsilon; with update_slots false a stays as
 * it is. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define ADAGRAD(T, suffix, sqrt_fn)                                                                                    \
    static inline void adagrad_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                 \
                                        const T *restrict g, int64_t n, const T *restrict k)                           \
    {                                                                                                                  \
        (void)s2;                                                                                                      \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_ADAGRAD(T, sqrt_fn)                                                                                    \
        }                                                                                                              \
    }
ADAGRAD(float, f32, __builtin_sqrtf)
ADAGRAD(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(adagrad, 0.3);

static est_status adagrad_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "update_slots");
    est_apply_prepare(c);
    return EST_OK;
}

static est_status adagrad_run(est_call *c)
{
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    est_adagrad_scalars(a.in, a.n_in, c->param[0].i != 0, a.k);
    est_apply_run(c->pool, &a, &adagrad_loops);
    return EST_OK;
}

/* What all forms have. inputs: those behind the learning rate; types, more: attributes. */
#define FORM(as, inputs, types, more, scratch_of, ...)                                                                 \
    {                                                                                                                  \
        .name      = as,                                                                                               \
        .signature = "var: resource, accum: resource, lr: T, " inputs " -> (); T: {float32, float64}; " types          \
                     "use_locking: bool = false; update_slots: bool = true" more,                                      \
        .infer = est_apply_infer,                                                                                      \
        .cpu   = EST_KERNELS({ .run = adagrad_run, .prepare = adagrad_prepare, .scratch = scratch_of }),               \
        .cuda  = EST_KERNELS(                                                                                          \
             { .launch = EST_LAUNCH(apply_adagrad), .prepare = adagrad_prepare, .fail = est_apply_fail }),             \
        .stateful = true, .writes = 3u, __VA_ARGS__                                                                    \
    }
#define ROWS "Tindices: {int32, int64}; "

const est_op est_op_apply_adagrad = FORM("ResourceApplyAdagrad", "grad: T", "", "", NULL,
                                         .update = EST_UPDATE(.gradient = 3));

const est_op est_op_sum_apply_adagrad = FORM(
    "EstSumApplyAdagrad", "grad: T, indices: Tindices, sorted: int64", ROWS, "; column: int", est_apply_sums_scratch,
    .update = EST_UPDATE(.gradient = 3, .indices = 4, .sorted = 5), .by_rows = true, .planned = true);

const est_op est_op_sparse_apply_adagrad = FORM("ResourceSparseApplyAdagrad", "grad: T, indices: Tindices", ROWS, "",
                                                NULL, .update = EST_UPDATE(.gradient = 3, .indices = 4),
                                                .by_rows = true, .sums = &est_op_sum_apply_adagrad);

const est_op est_op_apply_adagrad_v2 = FORM("ResourceApplyAdagradV2", "epsilon: T, grad: T", "", "", NULL,
                                            .update = EST_UPDATE(.gradient = 4));

const est_op est_op_sum_apply_adagrad_v2 = FORM(
    "EstSumApplyAdagradV2", "epsilon: T, grad: T, indices: Tindices, sorted: int64", ROWS, "; column: int",
    est_apply_sums_scratch, .update = EST_UPDATE(.gradient = 4, .indices = 5, .sorted = 6), .by_rows = true,
    .planned = true);

const est_op est_op_sparse_apply_adagrad_v2 = FORM(
    "ResourceSparseApplyAdagradV2", "epsilon: T, grad: T, indices: Tindices", ROWS, "", NULL,
    .update = EST_UPDATE(.gradient = 4, .indices = 5), .by_rows = true, .sums = &est_op_sum_apply_adagrad_v2);
