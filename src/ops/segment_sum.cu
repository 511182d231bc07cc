/* SPDX-License-Identifier: Apache-2.0
 *
 * UnsortedSegmentSum on a GPU: rows of the same id are summed (cuda/rows.cuh), then go to their segments. */
#include "cuda/rows.cuh"

template <typename T> static __global__ void clear_segments(T *out, int64_t count)
{
    int64_t i = est_thread();

    if (i < count) out[i] = 0;
}

/* Where an id was not the first of its kind the index is below 0 as well. */
template <typename T>
static __global__ void place_segments(est_runs<T> r, T *out, int64_t segments, est_reporter reporter)
{
    int64_t i = est_thread(), at = est_divide(i, r.rows.cols), column = i - at * r.rows.cols, id;

    if (i >= r.rows.n * r.rows.cols) return;
    id = est_index_at(r.indices, r.wide, at);
    if (id >= segments) {
        if (column == 0) est_report(reporter, at, id, segments);
    } else if (id >= 0) {
        out[id * r.rows.cols + column] = r.sums[i];
    }
}

template <typename T> static int launch(const est_call *c)
{
    est_runs<T> r    = {};
    char       *room = (char *)c->scratch;
    int64_t     cols = 1;
    int         error;

    for (int a = 1; a < c->out[0].shape.rank; a++) cols *= c->out[0].shape.dim[a];
    r.ids       = c->in[1]->data;
    r.wide      = c->in[1]->dtype == EST_I64;
    r.rows.n    = c->in[1]->count;
    r.rows.dy   = est_data<T>(c->in[0]);
    r.rows.cols = (int)cols;
    r.rows.step = cols;
    r.sums      = (T *)(room + EST_SCATTER_SUMS(r.rows.n));
    r.indices   = (void *)(room + (size_t)r.rows.n * EST_RUNS_BYTES);
    r.packed    = sizeof(T) == 4 && cols % 4 == 0 && est_aligned(r.rows.dy) && est_aligned(r.sums);
    est_runs_scratch(&r, room);
    error = est_launch(c, clear_segments<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(&c->out[0]),
                       c->out[0].count);
    if (error != 0 || r.rows.n == 0 || cols == 0) return error;
    error = est_runs_launch(c, &r, 1);
    if (error != 0) return error;
    return est_launch(c, place_segments<T>, dim3(est_blocks(r.rows.n * cols)), EST_BLOCK, r, est_data<T>(&c->out[0]),
                      c->out[0].shape.dim[0], est_reporter_of(c));
}

EST_DEFINE_LAUNCHER(unsorted_segment_sum)
{
    return c->out[0].dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
