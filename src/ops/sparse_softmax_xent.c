/* SPDX-License-Identifier: Apache-2.0
 *
 * SparseSoftmaxCrossEntropyWithLogits: for each row of logits x and its class number k,
 *   loss = log(sum_i exp(x_i)) - x_k, and its derivative backprop_j = softmax(x)_j - (j == k) on the way. */
#include <inttypes.h>
#include <math.h>

#include "cuda/launchers.h"
#include "kernels/softmax_rows.h"
#include "ops/loss_total.h"
#include "ops/ops.h"

static est_status sparse_xent_infer(est_infer *c)
{
    int64_t rows = est_infer_dim(&c->in[0], 0), labels = est_infer_dim(&c->in[1], 0);
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 1));
    if (rows >= 0 && labels >= 0 && rows != labels) {
        return est_fail(EST_INVALID_ARGUMENT, "logits %s need one label for each row, got labels of shape %s",
                        est_shape_text(&c->in[0], a), est_shape_text(&c->in[1], b));
    }
    rows      = rows >= 0 ? rows : labels;
    c->out[0] = EST_SHAPE(rows);
    c->out[1] = EST_SHAPE(rows, est_infer_dim(&c->in[0], 1));
    return EST_OK;
}

static void sparse_xent_grad(est_grad *g)
{
    if (g->dout[0].graph != NULL) g->din[0].values = est_mul(est_expand_dims(g->dout[0], -1), g->out[1]);
}

static int64_t label_at(const est_call *c, int64_t row)
{
    return c->in[1]->dtype == EST_I32 ? ((const int32_t *)c->in[1]->data)[row] : ((const int64_t *)c->in[1]->data)[row];
}

#define SPARSE_XENT_ROWS(T, suffix)                                                                                    \
    static void sparse_xent_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                        \
    {                                                                                                                  \
        est_call *c    = arg;                                                                                          \
        int64_t   cols = c->in[0]->shape.dim[1], n;                                                                    \
        T         top[EST_SOFTMAX_ROWS_MAX], sum[EST_SOFTMAX_ROWS_MAX];                                                \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r += n) {                                                                     \
            const T *restrict x = (const T *)c->in[0]->data + r * cols;                                                \
            T *restrict loss    = (T *)c->out[0].data + r;                                                             \
            T *restrict back    = (T *)c->out[1].data + r * cols;                                                      \
                                                                                                                       \
            n = est_softmax_rows_at_once(cols, end - r);                                                               \
            est_softmax_rows_##suffix(x, back, n, cols, top, sum);                                                     \
            for (int64_t i = 0; i < n; i++, x += cols, back += cols) {                                                 \
                int64_t label = label_at(c, r + i);                                                                    \
                T       share = 1 / sum[i];                                                                            \
                                                                                                                       \
                loss[i] = (T)log((double)sum[i]) - (x[label] - top[i]);                                                \
                for (int64_t j = 0; j < cols; j++) back[j] *= share;                                                   \
                back[label] -= 1;                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
SPARSE_XENT_ROWS(float, f32)
SPARSE_XENT_ROWS(double, f64)

static est_status not_a_class(const est_call *c, int64_t row, const int64_t value[2])
{
    return est_fail(EST_INVALID_ARGUMENT,
                    "label %" PRId64 " of row %" PRId64 " is not a class number: logits have %" PRId64 " classes",
                    value[0], row, c->in[0]->shape.dim[1]);
}

static est_status sparse_xent_cpu(est_call *c)
{
    int64_t rows = c->in[0]->shape.dim[0], cols = c->in[0]->shape.dim[1];

    for (int64_t r = 0; r < rows; r++) {
        int64_t label = label_at(c, r);

        if (label < 0 || label >= cols) return not_a_class(c, r, (int64_t[2]){ label });
    }
    est_parallel_for(c->pool, rows, 1, EST_SOFTMAX_NS * (double)cols,
                     c->in[0]->dtype == EST_F32 ? sparse_xent_rows_f32 : sparse_xent_rows_f64, c);
    return EST_OK;
}

const est_op est_op_sparse_softmax_xent = {
    .name      = "SparseSoftmaxCrossEntropyWithLogits",
    .signature = "features: T, labels: Tlabels -> loss: T, backprop: T; T: {float32, float64}; "
                 "Tlabels: {int32, int64} = int64",
    .infer     = sparse_xent_infer,
    .grad      = sparse_xent_grad,
    .cpu       = EST_KERNELS({ .run = sparse_xent_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(sparse_softmax_xent), .fail = not_a_class }),
};

/* --- with the gradient towards the logits ------------------------------------------------------------------------- */

/* EstSparseXentAndGrad: total = the sum of the losses, or their mean, and dlogits = backprop * dy, where dy is the
 * gradient of that. Made only by runtime/fuse.c, for devices that run by themselves. */
static est_status both_infer(est_infer *c)
{
    EST_TRY(sparse_xent_infer(c));
    c->out[2] = EST_SHAPE_SCALAR;
    return EST_OK;
}

static est_status both_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "mean");
    return EST_OK;
}

static est_status both_cpu(est_call *c)
{
    int64_t rows  = c->in[0]->shape.dim[0];
    double  share = c->param[0].i != 0 && rows > 0 ? 1 / (double)rows : 1;

    EST_TRY(sparse_xent_cpu(c));
    est_loss_total(&c->out[0], c->param[0].i != 0, &c->out[2]);
    for (int64_t i = 0; i < c->out[1].count; i++) {
        if (c->out[1].dtype == EST_F32) {
            ((float *)c->out[1].data)[i] *= *(const float *)c->in[2]->data * (float)share;
        } else {
            ((double *)c->out[1].data)[i] *= *(const double *)c->in[2]->data * share;
        }
    }
    return EST_OK;
}

const est_op est_op_sparse_xent_and_grad = {
    .name      = "EstSparseXentAndGrad",
    .signature = "features: T, labels: Tlabels, dy: T -> loss: T, dlogits: T, total: T; mean: bool; "
                 "T: {float32, float64}; Tlabels: {int32, int64} = int64",
    .infer     = both_infer,
    .cpu       = EST_KERNELS({ .run = both_cpu, .prepare = both_prepare }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(sparse_xent_and_grad),
                               .prepare = both_prepare,
                               .scratch = est_loss_cuda_scratch,
                               .fail    = not_a_class }),
    .planned   = true,
};

/* The op takes a matrix and a vector; other ranks are flattened and the losses brought back. */
est_node est_sparse_softmax_xent(est_node logits, est_node labels)
{
    int      rank = est_node_shape(logits)->rank;
    est_node loss;

    if (est_def(logits) != NULL &&
        (rank == 0 || (est_node_dtype(logits) != EST_F32 && est_node_dtype(logits) != EST_F64))) {
        char text[EST_SHAPE_TEXT_MAX];
        return est_graph_poison(
            logits.graph, est_fail(EST_INVALID_ARGUMENT,
                                   "est_sparse_softmax_xent: logits '%s' are %s %s; logits come first and are floats "
                                   "with an axis of classes, labels second",
                                   est_node_name(logits), est_dtype_name(est_node_dtype(logits)),
                                   est_shape_text(est_node_shape(logits), text)));
    }
    if (rank < 0 || rank == 2) return est_build2(&est_op_sparse_softmax_xent, logits, labels, EST_NO_ATTRS);
    loss = est_build2(&est_op_sparse_softmax_xent, est_reshape(logits, EST_I64S(-1, est_node_dim(logits, -1))),
                      est_reshape(labels, EST_I64S(-1)), EST_NO_ATTRS);
    return est_reshape_to(loss, est_shape_of(labels));
}
