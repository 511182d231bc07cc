/* SPDX-License-Identifier: Apache-2.0
 *
 * Embedding bags on a GPU, without max_norm. Forward a group of threads makes a row of the result: each has some of its
 * columns. Backward a thread a row finds which ids count and with which factor; then it is cuda/rows.cuh. Bags of many
 * tables are one launch (cuda/batch.cuh). */
#include <math.h>

#include "cuda/rows.cuh"
#include "kernels/variable_access.h"
#include "ops/embedding_bag.h"

template <typename T> struct bag {
    const T       *table;
    const void    *ids;
    const int64_t *splits;
    const T       *weights; /* NULL: all 1 */
    T             *out;     /* forward: the result; backward: factors */
    int32_t       *row_of;  /* backward */
    int64_t        n, rows, table_rows, step;
    int            cols;
    int8_t         combiner;
    bool           wide, packed;
    est_reporter   reporter;
};

template <typename T> static __device__ T weight_at(const bag<T> &b, int64_t i)
{
    return b.weights != NULL ? b.weights[i] : (T)1;
}

template <typename T> static __device__ bool keeps(const bag<T> &b, int64_t id, T weight)
{
    return id >= 0 && id < b.table_rows && (weight > 0 || b.combiner == EST_BAG_SUM);
}

template <typename T> static __device__ T divisor_of(const bag<T> &b, T total)
{
    return b.combiner == EST_BAG_SUM ? (T)1 : b.combiner == EST_BAG_MEAN ? total : (T)sqrt(total);
}

/* The ids of row r, [*begin, *end): none if its splits are wrong, which one thread reports. */
template <typename T>
static __device__ void open_row(const bag<T> &b, int64_t r, bool reports, int64_t *begin, int64_t *end)
{
    int64_t from = b.splits[r], to = b.splits[r + 1];
    bool    good = from >= 0 && from <= to && to <= b.n;

    if (reports && r == 0 && from != 0) est_report(b.reporter, EST_BAG_BAD_START, from, 0);
    if (reports && !good) est_report(b.reporter, EST_BAG_BAD_ROW + r, from, to);
    if (reports && r == b.rows - 1 && to != b.n) est_report(b.reporter, EST_BAG_BAD_END, to, 0);
    *begin = from;
    *end   = good ? to : from;
}

/* Where there are no rows no thread would look at the splits, which are one number. */
template <typename T> static __global__ void check_no_rows(bag<T> b)
{
    if (b.splits[0] != 0) {
        est_report(b.reporter, EST_BAG_BAD_START, b.splits[0], 0);
    } else if (b.n != 0) {
        est_report(b.reporter, EST_BAG_BAD_END, 0, 0);
    }
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

template <typename T, int N> static __device__ void combine_row(const bag<T> &b, int64_t r, int lane, int lanes)
{
    T       total = 0, divisor;
    int64_t begin, end;

    open_row(b, r, lane == 0, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t id = est_index_at(b.ids, b.wide, i);
        T       w  = weight_at(b, i);

        if (id >= b.table_rows && lane == 0) est_report(b.reporter, i, id, 0);
        if (keeps(b, id, w)) total += b.combiner == EST_BAG_SQRTN ? w * w : w;
    }
    divisor = divisor_of(b, total);
    for (int c = lane * N; c < b.cols; c += lanes * N) {
        est_pack<T, N> sum = {};

        for (int64_t i = begin; i < end; i++) {
            int64_t id = est_index_at(b.ids, b.wide, i);
            T       w  = weight_at(b, i);

            if (!keeps(b, id, w)) continue;
            est_pack<T, N> e = *(const est_pack<T, N> *)(b.table + id * b.cols + c);
            for (int k = 0; k < N; k++) sum.v[k] += w * e.v[k];
        }
        for (int k = 0; k < N; k++) {
            if (divisor != 1) sum.v[k] = divisor != 0 ? sum.v[k] / divisor : (T)0;
        }
        *(est_pack<T, N> *)(b.out + r * b.step + c) = sum;
    }
}

template <typename T> static __global__ void combine(const __grid_constant__ est_many<bag<T>> m)
{
    unsigned      block;
    const bag<T> &b     = m.call[est_own_call(m, &block)];
    int           lanes = est_row_lanes(b.cols, b.packed ? 4 : 1);
    int64_t       i = (int64_t)block * blockDim.x + threadIdx.x, r = est_divide(i, lanes);

    if (r >= b.rows) return;
    if (b.packed) {
        combine_row<T, 4>(b, r, (int)(i - r * lanes), lanes);
    } else {
        combine_row<T, 1>(b, r, (int)(i - r * lanes), lanes);
    }
}

template <typename T> static int launch_combine(const est_call *c, const bag<T> *calls, int n)
{
    return est_launch_many(
        c, combine<T>,
        est_many_of(calls, n,
                    [](const bag<T> &b) { return est_blocks(b.rows * est_row_lanes(b.cols, b.packed ? 4 : 1)); }),
        EST_BLOCK);
}

/* The inputs of a bag from `first` on. */
template <typename T> static bag<T> bag_of(const est_call *c, int first, bool weighted, int64_t combiner)
{
    const est_view *table = &est_call_variable(c, first)->value;
    bag<T>          b     = {};

    b.table      = est_data<T>(table);
    b.table_rows = est_row_count(table);
    b.cols       = (int)est_row_size(table);
    b.ids        = c->in[first + 1]->data;
    b.wide       = c->in[first + 1]->dtype == EST_I64;
    b.n          = c->in[first + 1]->count;
    b.splits     = est_data<int64_t>(c->in[first + 2]);
    b.rows       = c->in[first + 2]->count - 1;
    b.weights    = weighted ? est_data<T>(c->in[first + 3]) : NULL;
    b.combiner   = (int8_t)combiner;
    b.reporter   = est_reporter_of(c);
    return b;
}

template <typename T> static void set_out(bag<T> *b, T *out, int64_t step)
{
    b->out    = out;
    b->step   = step;
    b->packed = sizeof(T) == 4 && b->cols % 4 == 0 && step % 4 == 0 && est_aligned(out) && est_aligned(b->table);
}

template <typename T> static int launch_bag(const est_call *c)
{
    bag<T> b = bag_of<T>(c, 0, c->n_in > 3, c->param[EST_BAG_PARAM].i);

    if (b.rows == 0) return est_launch(c, check_no_rows<T>, dim3(1), 1, b);
    set_out(&b, est_data<T>(&c->out[0]), b.cols);
    return est_batch_add(c, launch_combine<T>, b);
}

EST_DEFINE_LAUNCHER(embedding_bag)
{
    return c->out[0].dtype == EST_F32 ? launch_bag<float>(c) : launch_bag<double>(c);
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

/* Which row of dy each id takes, and times what; -1: none. */
template <typename T> static __global__ void find_factors(const __grid_constant__ est_many<bag<T>> m)
{
    unsigned      block;
    const bag<T> &b     = m.call[est_own_call(m, &block)];
    int64_t       r     = (int64_t)block * blockDim.x + threadIdx.x, begin, end, low, high;
    T             total = 0, divisor;

    if (r >= b.rows) return;
    open_row(b, r, true, &begin, &end);
    low  = r == 0 ? 0 : begin; /* of wrong splits: all ids get a row, or none */
    high = r == b.rows - 1 ? b.n : b.splits[r + 1];
    if (low > high) {
        int64_t other = low;

        low  = high;
        high = other;
    }
    for (int64_t i = low > 0 ? low : 0; i < high && i < b.n; i++) {
        int64_t id     = est_index_at(b.ids, b.wide, i);
        T       w      = weight_at(b, i);
        bool    counts = i >= begin && i < end && keeps(b, id, w);

        if (id >= b.table_rows) est_report(b.reporter, i, id, 0);
        b.row_of[i] = counts ? (int32_t)r : -1;
        if (counts) total += b.combiner == EST_BAG_SQRTN ? w * w : w;
    }
    divisor = divisor_of(b, total);
    for (int64_t i = begin; i < end; i++) {
        T w = weight_at(b, i);

        b.out[i] = divisor == 1 ? w : divisor != 0 ? w / divisor : (T)0;
    }
}

/* What both kinds of kernels need. */
template <typename T> struct bag_grad {
    bag<T>      b;
    est_runs<T> runs;
};

template <typename T> static int launch_grads(const est_call *c, const bag_grad<T> *calls, int n)
{
    bag<T>      bags[EST_BATCH_MAX];
    est_runs<T> runs[EST_BATCH_MAX];
    int         error;

    for (int i = 0; i < n; i++) {
        bags[i] = calls[i].b;
        runs[i] = calls[i].runs;
    }
    error = est_launch_many(c, find_factors<T>,
                            est_many_of((const bag<T> *)bags, n, [](const bag<T> &b) { return est_blocks(b.rows); }),
                            EST_BLOCK);
    return error != 0 ? error : est_runs_launch(c, (const est_runs<T> *)runs, n);
}

template <typename T> static int launch_grad(const est_call *c, int64_t column, int64_t step)
{
    bag_grad<T> g = {};

    g.b = bag_of<T>(c, 1, c->n_in > 4, c->param[EST_BAG_PARAM].i);
    if (g.b.rows == 0) return est_launch(c, check_no_rows<T>, dim3(1), 1, g.b);
    g.runs.ids       = g.b.ids;
    g.runs.wide      = g.b.wide;
    g.runs.rows.n    = g.b.n;
    g.runs.rows.cols = g.b.cols;
    g.runs.rows.step = step > 0 ? step : g.b.cols;
    g.runs.rows.dy   = est_data<T>(c->in[0]) + column;
    g.runs.sums      = est_data<T>(&c->out[0]);
    g.runs.indices   = c->out[1].data;
    g.runs.packed = sizeof(T) == 4 && g.b.cols % 4 == 0 && g.runs.rows.step % 4 == 0 && est_aligned(g.runs.rows.dy) &&
                    est_aligned(g.runs.sums);
    est_runs_scratch(&g.runs, c->scratch);
    g.b.out            = (T *)((char *)c->scratch + (size_t)g.b.n * EST_RUNS_BYTES);
    g.b.row_of         = (int32_t *)(g.b.out + g.b.n);
    g.runs.rows.factor = g.b.out;
    g.runs.rows.row_of = g.b.row_of;
    if (g.b.n == 0) { /* only the splits are to be checked */
        return est_launch_many(c, find_factors<T>,
                               est_many_of(&g.b, 1, [](const bag<T> &b) { return est_blocks(b.rows); }), EST_BLOCK);
    }
    return est_batch_add(c, launch_grads<T>, g, (size_t)g.b.n * (EST_RUNS_BYTES + sizeof(T) + sizeof(int32_t)));
}

EST_DEFINE_LAUNCHER(embedding_bag_grad)
{
    return c->out[0].dtype == EST_F32 ? launch_grad<float>(c, 0, 0) : launch_grad<double>(c, 0, 0);
}

EST_DEFINE_LAUNCHER(embedding_bag_slice_grad)
{
    int64_t step = c->in[0]->shape.dim[1];

    return c->out[0].dtype == EST_F32 ? launch_grad<float>(c, c->param[2].i, step)
                                      : launch_grad<double>(c, c->param[2].i, step);
}
