/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax on a GPU: a warp a row. */
#include "cuda/softmax.cuh"

template <typename T> static __global__ void softmax_rows(const T *x, T *y, int64_t rows, int64_t cols)
{
    int64_t row = est_warp_row();
    T       top, sum;

    if (row >= rows) return;
    x += row * cols;
    y += row * cols;
    est_softmax_row(x, cols, &top, &sum);
    for (int64_t j = est_lane(); j < cols; j += EST_WARP) y[j] = exp(x[j] - top) / sum;
}

template <typename T> static int launch(const est_call *c)
{
    int64_t cols = c->in[0]->shape.dim[c->in[0]->shape.rank - 1], rows = cols > 0 ? c->in[0]->count / cols : 0;

    return est_launch(c, softmax_rows<T>, dim3(est_row_blocks(rows)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(&c->out[0]), rows, cols);
}

EST_DEFINE_LAUNCHER(softmax)
{
    return c->in[0]->dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
