/* SPDX-License-Identifier: Apache-2.0
 *
 * LogSoftmax: y_i = x_i - max x - log(sum_j exp(x_j - max x)), over the last axis. Exact where the logarithm of a
 * softmax would be that of 0. */
#include <math.h>

#include "cuda/launchers.h"
#include "kernels/softmax_rows.h"
#include "ops/ops.h"

static est_status log_softmax_infer(est_infer *c)
{
    if (c->in[0].rank == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "log softmax needs at least one axis, got a scalar");
    }
    c->out[0] = c->in[0];
    return EST_OK;
}

/* dx = dy - exp(y) * sum(dy). */
static void log_softmax_grad(est_grad *g)
{
    est_node y = g->out[0], dy = g->dout[0];

    g->din[0].values = est_sub(dy, est_mul(est_exp(y), est_reduce_sum(dy, EST_I64S(-1), true)));
}

/* The exponentials are only summed: they are made a piece at a time in a buffer, so that x stays readable in place. */
#define LOG_SOFTMAX_ROWS(T, suffix, exp_fn)                                                                            \
    static T log_of_sum_##suffix(const T *x, int64_t cols, T top)                                                      \
    {                                                                                                                  \
        T e[EST_SOFTMAX_CHUNK_ELEMENTS], sum = 0;                                                                      \
                                                                                                                       \
        for (int64_t at = 0; at < cols; at += EST_SOFTMAX_CHUNK_ELEMENTS) {                                            \
            int64_t n = cols - at < EST_SOFTMAX_CHUNK_ELEMENTS ? cols - at : EST_SOFTMAX_CHUNK_ELEMENTS;               \
            for (int64_t i = 0; i < n; i++) e[i] = exp_fn(x[at + i] - top);                                            \
            sum += est_row_sum_##suffix(e, n);                                                                         \
        }                                                                                                              \
        return (T)log((double)sum);                                                                                    \
    }                                                                                                                  \
    static void log_softmax_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                        \
    {                                                                                                                  \
        est_call *c    = arg;                                                                                          \
        int64_t   cols = c->in[0]->shape.dim[c->in[0]->shape.rank - 1];                                                \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            const T *x   = (const T *)c->in[0]->data + r * cols;                                                       \
            T       *y   = (T *)c->out[0].data + r * cols;                                                             \
            T        top = est_row_max_##suffix(x, cols), log_sum = log_of_sum_##suffix(x, cols, top);                 \
            EST_INDEPENDENT for (int64_t i = 0; i < cols; i++) y[i] = (x[i] - top) - log_sum;                          \
        }                                                                                                              \
    }
LOG_SOFTMAX_ROWS(float, f32, est_expf)
LOG_SOFTMAX_ROWS(double, f64, exp)

static est_status log_softmax_cpu(est_call *c)
{
    int64_t cols = c->in[0]->shape.dim[c->in[0]->shape.rank - 1];
    int64_t rows = cols > 0 ? c->in[0]->count / cols : 0;

    est_parallel_for(c->pool, rows, 1, EST_SOFTMAX_NS * (double)cols,
                     c->in[0]->dtype == EST_F32 ? log_softmax_rows_f32 : log_softmax_rows_f64, c);
    return EST_OK;
}

const est_op est_op_log_softmax = {
    .name      = "LogSoftmax",
    .signature = "logits: T -> logsoftmax: T; T: {float32, float64}",
    .infer     = log_softmax_infer,
    .grad      = log_softmax_grad,
    .cpu       = EST_KERNELS({ .run = log_softmax_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(log_softmax) }),
    .inplace   = 1u << 0,
};

est_node est_log_softmax(est_node logits, int axis)
{
    est_node last = est_axis_to_last(logits, axis);

    return est_axis_from_last(est_build1(&est_op_log_softmax, last, EST_NO_ATTRS), axis);
}
