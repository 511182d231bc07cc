/* SPDX-License-Identifier: Apache-2.0
 *
 * SoftmaxCrossEntropyWithLogits: for each row of logits x and of labels p (a distribution),
 *   loss = sum_j p_j * (log(sum_i exp(x_i)) - x_j), and its derivative backprop_j = softmax(x)_j - p_j on the way. */
#include <math.h>

#include "cuda/launchers.h"
#include "kernels/softmax_rows.h"
#include "ops/ops.h"

static est_status xent_infer(est_infer *c)
{
    est_shape both;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 2));
    if (est_infer_merge(&c->in[0], &c->in[1], &both) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "logits %s and labels %s must have the same shape",
                        est_shape_text(&c->in[0], a), est_shape_text(&c->in[1], b));
    }
    c->out[0] = EST_SHAPE(est_infer_dim(&both, 0));
    c->out[1] = EST_SHAPE(est_infer_dim(&both, 0), est_infer_dim(&both, 1));
    return EST_OK;
}

/* A gradient that flows into backprop itself would be a second derivative, which is not offered. */
static void xent_grad(est_grad *g)
{
    est_node dloss;

    if (g->dout[0].graph == NULL) return;
    dloss            = est_expand_dims(g->dout[0], -1); /* [rows, 1] */
    g->din[0].values = est_mul(dloss, g->out[1]);
    g->din[1].values = est_neg(est_mul(dloss, est_log_softmax(g->in[0], -1)));
}

#define XENT_ROWS(T, suffix)                                                                                           \
    static T cross_##suffix(const T *p, const T *x, int64_t cols, T top, T log_sum)                                    \
    {                                                                                                                  \
        T       lane[EST_ROW_LANES] = { 0 }, loss = 0;                                                                 \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        for (; i + EST_ROW_LANES <= cols; i += EST_ROW_LANES) {                                                        \
            for (int j = 0; j < EST_ROW_LANES; j++) lane[j] += p[i + j] * (log_sum - (x[i + j] - top));                \
        }                                                                                                              \
        for (; i < cols; i++) loss += p[i] * (log_sum - (x[i] - top));                                                 \
        for (int j = 0; j < EST_ROW_LANES; j++) loss += lane[j];                                                       \
        return loss;                                                                                                   \
    }                                                                                                                  \
    static void xent_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                               \
    {                                                                                                                  \
        est_call *c    = arg;                                                                                          \
        int64_t   cols = c->in[0]->shape.dim[1], n;                                                                    \
        T         top[EST_SOFTMAX_ROWS_MAX], sum[EST_SOFTMAX_ROWS_MAX];                                                \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r += n) {                                                                     \
            const T *restrict x = (const T *)c->in[0]->data + r * cols;                                                \
            const T *restrict p = (const T *)c->in[1]->data + r * cols;                                                \
            T *restrict loss    = (T *)c->out[0].data + r;                                                             \
            T *restrict back    = (T *)c->out[1].data + r * cols;                                                      \
                                                                                                                       \
            n = est_softmax_rows_at_once(cols, end - r);                                                               \
            est_softmax_rows_##suffix(x, back, n, cols, top, sum);                                                     \
            for (int64_t i = 0; i < n; i++, x += cols, p += cols, back += cols) {                                      \
                T share = 1 / sum[i];                                                                                  \
                                                                                                                       \
                loss[i] = cross_##suffix(p, x, cols, top[i], (T)log((double)sum[i]));                                  \
                for (int64_t j = 0; j < cols; j++) back[j] = back[j] * share - p[j];                                   \
            }                                                                                                          \
        }                                                                                                              \
    }
XENT_ROWS(float, f32)
XENT_ROWS(double, f64)

static est_status xent_cpu(est_call *c)
{
    int64_t   rows = c->in[0]->shape.dim[0], cols = c->in[0]->shape.dim[1];
    est_dtype dtype = c->in[0]->dtype;

    if (cols == 0) { /* an empty sum */
        for (int64_t r = 0; r < rows; r++) {
            if (dtype == EST_F32) ((float *)c->out[0].data)[r] = 0;
            if (dtype == EST_F64) ((double *)c->out[0].data)[r] = 0;
        }
        return EST_OK;
    }
    est_parallel_for(c->pool, rows, 1, EST_SOFTMAX_NS * (double)cols, dtype == EST_F32 ? xent_rows_f32 : xent_rows_f64,
                     c);
    return EST_OK;
}

const est_op est_op_softmax_xent = {
    .name      = "SoftmaxCrossEntropyWithLogits",
    .signature = "features: T, labels: T -> loss: T, backprop: T; T: {float32, float64}",
    .infer     = xent_infer,
    .grad      = xent_grad,
    .cpu       = EST_KERNELS({ .run = xent_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(softmax_xent) }),
};

/* The shape of x without its last axis, as a node. */
static est_node leading_shape(est_node x, int rank)
{
    return est_slice(est_shape_of(x), EST_I64S(0), EST_I64S(rank - 1));
}

/* The op takes matrices; other ranks are flattened to one and the losses brought back. */
est_node est_softmax_xent(est_node logits, est_node labels)
{
    int      rank    = est_node_shape(logits)->rank;
    int64_t  classes = est_node_dim(logits, -1);
    est_node loss, rows;

    if (rank < 0 || rank == 2) return est_build2(&est_op_softmax_xent, logits, labels, EST_NO_ATTRS);
    rows = est_reshape(logits, EST_I64S(-1, classes));
    loss = est_build2(&est_op_softmax_xent, rows, est_reshape(labels, EST_I64S(-1, classes)), EST_NO_ATTRS);
    return est_reshape_to(loss, leading_shape(logits, rank));
}
