/* SPDX-License-Identifier: Apache-2.0
 *
 * SoftmaxCrossEntropyWithLogits on a GPU: a warp a row. */
#include "cuda/softmax.cuh"

template <typename T>
static __global__ void xent_rows(const T *x, const T *p, T *loss, T *back, int64_t rows, int64_t cols)
{
    int64_t row = est_warp_row();
    T       top = 0, sum = 0, log_sum, total = 0;

    if (row >= rows) return;
    x += row * cols;
    p += row * cols;
    back += row * cols;
    if (cols > 0) est_softmax_row(x, cols, &top, &sum);
    log_sum = (T)log((double)sum);
    for (int64_t j = est_lane(); j < cols; j += EST_WARP) {
        total += p[j] * (log_sum - (x[j] - top));
        back[j] = exp(x[j] - top) / sum - p[j];
    }
    total = est_warp_all(total, est_join_sum());
    if (est_lane() == 0) loss[row] = total; /* 0 without classes: an empty sum */
}

template <typename T> static int launch(const est_call *c)
{
    int64_t rows = c->in[0]->shape.dim[0], cols = c->in[0]->shape.dim[1];

    return est_launch(c, xent_rows<T>, dim3(est_row_blocks(rows)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(c->in[1]), est_data<T>(&c->out[0]), est_data<T>(&c->out[1]), rows, cols);
}

EST_DEFINE_LAUNCHER(softmax_xent)
{
    return c->in[0]->dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
