/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax: y_i = exp(x_i - max x) / sum_j exp(x_j - max x), over the last axis.
 *
 * Subtracting the row maximum changes nothing mathematically and keeps exp() from overflowing; a row of all -inf is the
 * one input that yields NaN. */
#include "cuda/launchers.h"
#include "kernels/softmax_rows.h"
#include "ops/ops.h"

static est_status softmax_infer(est_infer *c)
{
    if (c->in[0].rank == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "softmax needs at least one axis, got a scalar");
    }
    c->out[0] = c->in[0];
    return EST_OK;
}

/* dx = y * (dy - sum(y * dy)): written with y, so that x need not be kept alive. */
static void softmax_grad(est_grad *g)
{
    est_node y = g->out[0], dy = g->dout[0];

    g->din[0].values = est_mul(y, est_sub(dy, est_reduce_sum(est_mul(y, dy), EST_I64S(-1), true)));
}

#define SOFTMAX_ROWS(T, suffix)                                                                                        \
    static void softmax_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        est_call *c    = arg;                                                                                          \
        int64_t   cols = c->in[0]->shape.dim[c->in[0]->shape.rank - 1], n;                                             \
        T         top[EST_SOFTMAX_ROWS_MAX], sum[EST_SOFTMAX_ROWS_MAX];                                                \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r += n) {                                                                     \
            T *y = (T *)c->out[0].data + r * cols;                                                                     \
                                                                                                                       \
            n = est_softmax_rows_at_once(cols, end - r);                                                               \
            est_softmax_rows_##suffix((const T *)c->in[0]->data + r * cols, y, n, cols, top, sum);                     \
            for (int64_t i = 0; i < n; i++, y += cols) {                                                               \
                T share = 1 / sum[i];                                                                                  \
                for (int64_t j = 0; j < cols; j++) y[j] *= share;                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
SOFTMAX_ROWS(float, f32)
SOFTMAX_ROWS(double, f64)

static est_status softmax_cpu(est_call *c)
{
    int64_t cols = c->in[0]->shape.dim[c->in[0]->shape.rank - 1];
    int64_t rows = cols > 0 ? c->in[0]->count / cols : 0;

    est_parallel_for(c->pool, rows, 1, EST_SOFTMAX_NS * (double)cols,
                     c->in[0]->dtype == EST_F32 ? softmax_rows_f32 : softmax_rows_f64, c);
    return EST_OK;
}

const est_op est_op_softmax = {
    .name      = "Softmax",
    .signature = "logits: T -> softmax: T; T: {float32, float64}",
    .infer     = softmax_infer,
    .grad      = softmax_grad,
    .cpu       = EST_KERNELS({ .run = softmax_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(softmax) }),
    .inplace   = 1u << 0,
};

est_node est_softmax(est_node logits, int axis)
{
    est_node last = est_axis_to_last(logits, axis);

    return est_axis_from_last(est_build1(&est_op_softmax, last, EST_NO_ATTRS), axis);
}

est_node est_softmax_last(est_node logits)
{
    return est_softmax(logits, -1);
}
