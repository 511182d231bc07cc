/* SPDX-License-Identifier: Apache-2.0
 *
 * GatherV2, its gradient and EstGatherOrZero on a GPU. The axis may be known to the device alone: one thread of each
 * block finds the loops batch x outer x picks x inner out. An index that is out of range is reported. */
#include "cuda/strided.cuh"

struct gather_call {
    est_shape    params, indices;
    const void  *ids, *axis; /* axis: NULL: 0 */
    bool         wide, axis_wide, negative_is_zero;
    int64_t      batch_dims; /* from the end if below 0 */
    est_reporter reporter;
};

struct gather_loops {
    int64_t batch, outer, picks, rows, inner;
};

static __device__ int64_t product_of(const est_shape &s, int begin, int end)
{
    int64_t n = 1;

    for (int a = begin; a < end; a++) n *= s.dim[a];
    return n;
}

static __device__ gather_loops loops_of(const gather_call &g)
{
    int          axis  = g.axis != NULL ? (int)est_index_at(g.axis, g.axis_wide, 0) : 0;
    int          batch = (int)(g.batch_dims < 0 ? g.batch_dims + g.indices.rank : g.batch_dims);
    gather_loops l;

    if (axis < 0) axis += g.params.rank;
    l.batch = product_of(g.params, 0, batch);
    l.outer = product_of(g.params, batch, axis);
    l.picks = product_of(g.indices, batch, g.indices.rank);
    l.rows  = g.params.dim[axis];
    l.inner = product_of(g.params, axis + 1, g.params.rank);
    return l;
}

/* The row that index `i` names; below 0: none. */
static __device__ int64_t row_at(const gather_call &g, const gather_loops &l, int64_t i, bool reports)
{
    int64_t row = est_index_at(g.ids, g.wide, i);

    if (row >= 0 && row < l.rows) return row;
    if (reports && (row >= 0 || !g.negative_is_zero)) est_report(g.reporter, i, row, l.rows);
    return -1;
}

template <typename W>
static __global__ void gather_elements(const W *params, W *out, int64_t count, const __grid_constant__ gather_call g)
{
    __shared__ gather_loops l;

    if (threadIdx.x == 0) l = loops_of(g);
    __syncthreads();
    EST_UNROLL(EST_MOVE_EACH)
    for (int k = 0; k < EST_MOVE_EACH; k++) {
        int64_t i = ((int64_t)blockIdx.x * EST_MOVE_EACH + k) * EST_BLOCK + threadIdx.x, slice, at, pick, place, row;

        if (i >= count) continue;
        slice  = est_divide(i, l.inner);
        place  = i - slice * l.inner;
        at     = est_divide(slice, l.picks);
        pick   = est_divide(at, l.outer) * l.picks + slice - at * l.picks;
        row    = row_at(g, l, pick, place == 0);
        out[i] = row >= 0 ? params[(at * l.rows + row) * l.inner + place] : (W)0;
    }
}

static gather_call gather_of(const est_call *c, const est_view *axis)
{
    gather_call g = {};

    g.params     = c->in[0]->shape;
    g.indices    = c->in[1]->shape;
    g.ids        = c->in[1]->data;
    g.wide       = c->in[1]->dtype == EST_I64;
    g.axis       = axis != NULL ? axis->data : NULL;
    g.axis_wide  = axis != NULL && axis->dtype == EST_I64;
    g.batch_dims = c->param[0].i; /* kept by prepare() */
    g.reporter   = est_reporter_of(c);
    return g;
}

template <typename W> static int launch(const est_call *c, const gather_call &g)
{
    return est_launch(c, gather_elements<W>, dim3(est_blocks(c->out[0].count, EST_MOVE_EACH * EST_BLOCK)), EST_BLOCK,
                      est_data<W>(c->in[0]), est_data<W>(&c->out[0]), c->out[0].count, g);
}

EST_DEFINE_LAUNCHER(gather_v2)
{
    return EST_BY_WIDTH(c->out[0].dtype, launch, c, gather_of(c, c->in[2]));
}

EST_DEFINE_LAUNCHER(gather_or_zero)
{
    gather_call g = gather_of(c, NULL);

    g.negative_is_zero = true;
    return EST_BY_WIDTH(c->out[0].dtype, launch, c, g);
}

/* --- backwards ------------------------------------------------------------------------------------------------------ */

#define GRAD_BLOCKS 2048 /* at most */

/* A thread adds up all picks of a column of (batch, outer, inner), in order: no other thread touches it. */
template <typename T> static __global__ void scatter_columns(const T *dy, T *dx, const __grid_constant__ gather_call g)
{
    __shared__ gather_loops l;
    int64_t                 columns;

    if (threadIdx.x == 0) l = loops_of(g);
    __syncthreads();
    columns = l.batch * l.outer * l.inner;
    for (int64_t i = est_thread(); i < columns; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at = est_divide(i, l.inner), place = i - at * l.inner, first = est_divide(at, l.outer) * l.picks;

        for (int64_t r = 0; r < l.rows; r++) dx[(at * l.rows + r) * l.inner + place] = 0;
        for (int64_t p = 0; p < l.picks; p++) {
            int64_t row = row_at(g, l, first + p, place == 0);

            if (row >= 0) dx[(at * l.rows + row) * l.inner + place] += dy[(at * l.picks + p) * l.inner + place];
        }
    }
}

template <typename T> static int launch_grad(const est_call *c)
{
    unsigned blocks = est_blocks(c->out[0].count);

    return est_launch(c, scatter_columns<T>, dim3(blocks < GRAD_BLOCKS ? blocks : GRAD_BLOCKS), EST_BLOCK,
                      est_data<T>(c->in[2]), est_data<T>(&c->out[0]), gather_of(c, c->in[3]));
}

EST_DEFINE_LAUNCHER(gather_grad)
{
    switch (c->out[0].dtype) {
    case EST_F32: return launch_grad<float>(c);
    case EST_F64: return launch_grad<double>(c);
    case EST_I32: return launch_grad<uint32_t>(c); /* unsigned: an overflow wraps */
    default: return launch_grad<uint64_t>(c);
    }
}
