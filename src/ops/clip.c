/* SPDX-License-Identifier: Apache-2.0
 *
 * ClipByValue: low where t < low, high where t > high, else t. The limits broadcast to t; usually they are scalars. */
#include "cuda/launchers.h"
#include "kernels/broadcast.h"
#include "kernels/vmath.h"
#include "ops/ops.h"
#include "tensor/shape.h"

static est_status clip_infer(est_infer *c)
{
    est_shape wide;
    char      text[2][EST_SHAPE_TEXT_MAX];

    for (int i = 1; i <= 2; i++) {
        if (est_shape_broadcast(&c->in[0], &c->in[i], &wide) != EST_OK ||
            (est_shape_is_known(&c->in[0]) && est_shape_is_known(&wide) && !est_shape_equal(&wide, &c->in[0]))) {
            return est_fail(EST_INVALID_ARGUMENT, "limits of shape %s do not fit a tensor of shape %s",
                            est_shape_text(&c->in[i], text[0]), est_shape_text(&c->in[0], text[1]));
        }
    }
    c->out[0] = c->in[0];
    return EST_OK;
}

/* Inside dy goes to t, outside to the limit that was taken; that of a NaN goes nowhere. */
static void clip_grad(est_grad *g)
{
    est_node t = g->in[0], dy = g->dout[0];
    est_node zero = est_scalar(dy.graph, est_node_dtype(dy), 0);
    est_node low = est_less(t, g->in[1]), high = est_greater(t, g->in[2]);
    est_node inside = est_logical_and(est_greater_equal(t, g->in[1]), est_less_equal(t, g->in[2]));

    g->din[0].values = est_select(inside, dy, zero);
    g->din[1].values = est_sum_to_shape(est_select(low, dy, zero), g->in[1]);
    g->din[2].values = est_sum_to_shape(est_select(high, dy, zero), g->in[2]);
}

#define CLIP_LOOP(T)                                                                                                   \
    static void clip_##T(void *out, const void *const *in, const int64_t *step, int64_t n)                             \
    {                                                                                                                  \
        const T *t = in[0], *low = in[1], *high = in[2];                                                               \
        int64_t  sl = step[1], sh = step[2];                                                                           \
        T       *z = out;                                                                                              \
                                                                                                                       \
        if (sl == 0 && sh == 0) {                                                                                      \
            const T lo = low[0], hi = high[0];                                                                         \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T x = t[i];                                                                                      \
                z[i]      = x < lo ? lo : x > hi ? hi : x;                                                             \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T x = t[i], lo = low[i * sl], hi = high[i * sh];                                                 \
                z[i] = x < lo ? lo : x > hi ? hi : x;                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }
CLIP_LOOP(float)
CLIP_LOOP(double)
CLIP_LOOP(int32_t)
CLIP_LOOP(int64_t)

static est_status clip_cpu(est_call *c)
{
    est_broadcast_fn fn = c->in[0]->dtype == EST_F32   ? clip_float
                          : c->in[0]->dtype == EST_F64 ? clip_double
                          : c->in[0]->dtype == EST_I32 ? clip_int32_t
                                                       : clip_int64_t;

    est_broadcast_run(c, 3, fn, 0.4);
    return EST_OK;
}

const est_op est_op_clip_by_value = {
    .name        = "ClipByValue",
    .signature   = "t: T, clip_value_min: T, clip_value_max: T -> output: T; T: {float32, float64, int32, int64}",
    .infer       = clip_infer,
    .grad        = clip_grad,
    .cpu         = EST_KERNELS({ .run = clip_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(clip_by_value) }),
    .elementwise = true,
    .inplace     = 1u << 0,
};

est_node est_clip_by_value(est_node x, double low, double high)
{
    est_dtype dtype = est_node_dtype(x);

    if (est_def(x) == NULL) return est_build3(&est_op_clip_by_value, x, x, x, EST_NO_ATTRS); /* poison, or the error */
    return est_build3(&est_op_clip_by_value, x, est_scalar(x.graph, dtype, low), est_scalar(x.graph, dtype, high),
                      EST_NO_ATTRS);
}
