/* SPDX-License-Identifier: Apache-2.0
 *
 * SparseSoftmaxCrossEntropyWithLogits and EstSparseXentAndGrad on a GPU: as many
 * threads a row as it has classes, a warp at most. A label that is no class is reported; its row adds nothing to the
 * total. */
#include "cuda/reduction.cuh"
#include "cuda/softmax.cuh"

#define CLASSES 4 /* of a lane, where few lanes do */

/* With dy, the gradient of the losses' sum or mean: back is that of the logits, and the last block makes the sum or
 * mean. */
template <typename T> struct sparse_xent_total {
    const T  *dy; /* NULL: none of this */
    T        *y;
    double   *part;
    uint32_t *counter;
    bool      mean;
};

template <typename T, typename L>
static __global__ void __launch_bounds__(EST_CUT_BLOCK)
    sparse_xent_rows(const T *x, const L *labels, T *loss, T *back, int64_t rows, int64_t cols, int lanes,
                     sparse_xent_total<T> total, est_reporter reporter)
{
    int    lane = (int)threadIdx.x & (lanes - 1), line = (int)threadIdx.x / lanes, lines = (int)blockDim.x / lanes;
    T      scale = total.dy == NULL ? (T)1 : *total.dy * (total.mean ? (T)(1 / (double)rows) : (T)1);
    double own   = 0;

    for (int64_t first = (int64_t)blockIdx.x * lines; first < rows; first += (int64_t)gridDim.x * lines) {
        int64_t  row = first + line < rows ? first + line : rows - 1, label = (int64_t)labels[row];
        const T *from = x + row * cols;
        T        top = 0, sum = 0;

        if (cols > 0) est_softmax_row(from, cols, &top, &sum, lanes); /* by whole warps, also behind the last row */
        if (first + line >= rows) continue;
        if (label < 0 || label >= cols) {
            if (lane == 0) est_report(reporter, row, label, 0);
            continue;
        }
        for (int64_t j = lane; j < cols; j += lanes) {
            back[row * cols + j] = (exp(from[j] - top) / sum - (j == label ? 1 : 0)) * scale;
        }
        if (lane == 0) own += (double)(loss[row] = log(sum) - (from[label] - top));
    }
    if (total.dy == NULL) return;
    if (total.mean) {
        est_reduce_grid<est_reduce_mean<T>>(own, total.part, total.counter, total.y, rows);
    } else {
        est_reduce_grid<est_reduce_sum<T>>(own, total.part, total.counter, total.y, rows);
    }
}

/* As many as there are classes; a few classes each if then one block is enough, which has nothing to join. */
static int lanes_of(int64_t rows, int64_t cols)
{
    int all = 1, few;

    while (all < EST_WARP && all < cols) all *= 2;
    few = all;
    while (few > 1 && rows * few > EST_CUT_BLOCK) few /= 2;
    return rows * few <= EST_CUT_BLOCK && cols <= CLASSES * few ? few : all;
}

template <typename T, typename L> static int launch(const est_call *c, const sparse_xent_total<T> &total)
{
    int64_t        rows = c->in[0]->shape.dim[0], cols = c->in[0]->shape.dim[1];
    int            lanes = lanes_of(rows, cols);
    est_reduce_cut cut   = est_reduce_cut_of(rows * lanes);

    return est_launch(c, sparse_xent_rows<T, L>, dim3(cut.blocks), cut.block, est_data<T>(c->in[0]),
                      est_data<L>(c->in[1]), est_data<T>(&c->out[0]), est_data<T>(&c->out[1]), rows, cols, lanes, total,
                      est_reporter_of(c));
}

template <typename T> static int launch_any(const est_call *c, const sparse_xent_total<T> &total)
{
    return c->in[1]->dtype == EST_I64 ? launch<T, int64_t>(c, total) : launch<T, int32_t>(c, total);
}

EST_DEFINE_LAUNCHER(sparse_softmax_xent)
{
    return c->in[0]->dtype == EST_F32 ? launch_any(c, sparse_xent_total<float>())
                                      : launch_any(c, sparse_xent_total<double>());
}

template <typename T> static int launch_and_grad(const est_call *c)
{
    sparse_xent_total<T> total = { est_data<T>(c->in[2]), est_data<T>(&c->out[2]), (double *)c->scratch, c->counters,
                                   c->param[0].i != 0 };

    return launch_any(c, total);
}

EST_DEFINE_LAUNCHER(sparse_xent_and_grad)
{
    return c->in[0]->dtype == EST_F32 ? launch_and_grad<float>(c) : launch_and_grad<double>(c);
}
