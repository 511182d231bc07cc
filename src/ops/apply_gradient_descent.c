/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient descent: w -= lr * g.
 *
 * TensorFlow has no sparse form: rows are subtracted by ResourceScatterSub, which also takes duplicate rows. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define DESCENT(T, suffix)                                                                                             \
    static inline void descent_##suffix(T *restrict w, const T *restrict g, int64_t n, const T *restrict k)            \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) EST_DESCENT(T)                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static void descent_dense_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                           \
    {                                                                                                                  \
        const est_apply *a = arg;                                                                                      \
        T                k = (T)a->in[0];                                                                              \
                                                                                                                       \
        (void)block;                                                                                                   \
        descent_##suffix((T *)a->var[0] + begin, (const T *)a->grad + begin, end - begin, &k);                         \
    }
DESCENT(float, f32)
DESCENT(double, f64)

static const est_apply_loops descent_loops = { .dense = { descent_dense_f32, descent_dense_f64 }, .ns = 0.1 };

static est_status descent_run(est_call *c)
{
    est_apply a;

    EST_TRY(est_apply_open(c, &a));
    est_apply_run(c->pool, &a, &descent_loops);
    return EST_OK;
}

const est_op est_op_apply_gradient_descent = {
    .name      = "ResourceApplyGradientDescent",
    .signature = "var: resource, alpha: T, delta: T -> (); T: {float32, float64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = descent_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_gradient_descent) }),
    .stateful  = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 2),
};
