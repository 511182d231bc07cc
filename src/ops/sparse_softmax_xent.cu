/* SPDX-License-Identifier: Apache-2.0
 *
 * SparseSoftmaxCrossEntropyWithLogits and EstSparseXentAndGrad on a GPU: a warp a row. A label that is no class is
 * reported. */
#include "cuda/softmax.cuh"

template <typename T, typename L>
static __global__ void sparse_xent_rows(const T *x, const L *labels, T *loss, T *back, int64_t rows, int64_t cols,
                                        const T *dy, T share, est_reporter reporter)
{
    int64_t row = est_warp_row(), label;
    T       top, sum, scale = dy != NULL ? *dy * share : (T)1;

    if (row >= rows) return;
    x += row * cols;
    back += row * cols;
    label = (int64_t)labels[row];
    if (label < 0 || label >= cols) { /* all threads of the warp go */
        if (est_lane() == 0) est_report(reporter, row, label, 0);
        return;
    }
    est_softmax_row(x, cols, &top, &sum);
    for (int64_t j = est_lane(); j < cols; j += EST_WARP) {
        back[j] = (exp(x[j] - top) / sum - (j == label ? 1 : 0)) * scale;
    }
    if (est_lane() == 0) loss[row] = (T)log((double)sum) - (x[label] - top);
}

/* dy: NULL, or the gradient of the losses' sum or mean. */
template <typename T, typename L> static int launch(const est_call *c, const est_view *dy, bool mean)
{
    int64_t rows = c->in[0]->shape.dim[0], cols = c->in[0]->shape.dim[1];

    return est_launch(c, sparse_xent_rows<T, L>, dim3(est_row_blocks(rows)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<L>(c->in[1]), est_data<T>(&c->out[0]), est_data<T>(&c->out[1]), rows, cols,
                      dy != NULL ? est_data<T>(dy) : NULL, mean ? (T)(1 / (double)rows) : (T)1, est_reporter_of(c));
}

static int launch_any(const est_call *c, const est_view *dy, bool mean)
{
    bool wide = c->in[1]->dtype == EST_I64;

    if (c->in[0]->dtype == EST_F32) {
        return wide ? launch<float, int64_t>(c, dy, mean) : launch<float, int32_t>(c, dy, mean);
    }
    return wide ? launch<double, int64_t>(c, dy, mean) : launch<double, int32_t>(c, dy, mean);
}

EST_DEFINE_LAUNCHER(sparse_softmax_xent)
{
    return launch_any(c, NULL, false);
}

EST_DEFINE_LAUNCHER(sparse_xent_and_grad)
{
    return launch_any(c, c->in[2], c->param[0].i != 0);
}
