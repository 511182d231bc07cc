/* SPDX-License-Identifier: Apache-2.0
 *
 * StridedSlice and StridedSliceGrad on a GPU. What an entry takes of its axis is known before a run; of one that picks a
 * single element the device alone may know which. */
#include "cuda/strided.cuh"
#include "ops/slice_bounds.h"

/* The entries, in memory of the device, and the tensor that they are about. */
struct slice_entries {
    est_shape    x;
    int          n;
    const void  *begin, *end, *stride;
    bool         wide;
    int64_t      begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
    est_reporter reporter;
};

/* What is taken of an axis. */
struct slice_part {
    int64_t first, stride, length;
};

static __device__ slice_part part_of(const slice_entries &e, int i, int axis)
{
    int64_t    dim  = e.x.dim[axis];
    slice_part part = { 0, 1, 1 };

    if (est_slice_has(e.shrink_axis_mask, i)) {
        int64_t at = est_index_at(e.begin, e.wide, i);

        part.first = at < 0 ? at + dim : at;
        return part;
    }
    part.stride = est_index_at(e.stride, e.wide, i);
    part.first  = est_slice_first(est_index_at(e.begin, e.wide, i), est_slice_has(e.begin_mask, i), part.stride, dim);
    part.length = est_slice_length(part.first, est_index_at(e.end, e.wide, i), est_slice_has(e.end_mask, i),
                                   part.stride, dim);
    return part;
}

/* The parts of all axes; false: an entry picks what is not there, which is reported. */
static __device__ bool parts_of(const slice_entries &e, slice_part *part)
{
    int  axis = 0, used = 0;
    bool fine = true;

    for (int i = 0; i < e.n; i++) used += !est_slice_has(e.ellipsis_mask | e.new_axis_mask, i);
    for (int i = 0; i <= e.n; i++) {
        bool rest = i == e.n; /* axes after the last entry are taken whole */

        if (rest || est_slice_has(e.ellipsis_mask, i)) {
            for (int n = rest ? e.x.rank - axis : e.x.rank - used; n > 0; n--, axis++) {
                part[axis] = slice_part{ 0, 1, e.x.dim[axis] };
            }
        } else if (!est_slice_has(e.new_axis_mask, i)) {
            part[axis] = part_of(e, i, axis);
            if (part[axis].length > 0 && (part[axis].first < 0 || part[axis].first >= e.x.dim[axis])) {
                if (blockIdx.x == 0) est_report(e.reporter, axis, est_index_at(e.begin, e.wide, i), 0);
                fine = false;
            }
            axis++;
        }
    }
    return fine;
}

struct strided_slice_sources {
    slice_entries e;

    __device__ bool operator()(est_sources *s) const
    {
        slice_part part[EST_RANK_MAX];

        if (!parts_of(e, part)) return false;
        for (int a = e.x.rank - 1; a >= 0; a--) {
            int64_t stride = est_stride_of(e.x, a);

            s->first += part[a].first * stride;
            est_sources_push(s, part[a].length, part[a].stride * stride);
        }
        return true;
    }
};

struct strided_slice_box {
    slice_entries e;

    __device__ bool operator()(est_box *b) const
    {
        slice_part part[EST_RANK_MAX];

        if (!parts_of(e, part)) return false;
        for (int a = e.x.rank - 1; a >= 0; a--) {
            est_box_push(b, e.x.dim[a], part[a].first, part[a].stride, part[a].length);
        }
        return true;
    }
};

/* Of a tensor of shape `x`; the entries are inputs 1 to 3, the masks what prepare() has kept. */
static slice_entries entries_of(const est_call *c, const est_shape &x)
{
    slice_entries e = { x,
                        (int)c->in[1]->count,
                        c->in[1]->data,
                        c->in[2]->data,
                        c->in[3]->data,
                        c->in[1]->dtype == EST_I64,
                        c->param[0].i,
                        c->param[1].i,
                        c->param[2].i,
                        c->param[3].i,
                        c->param[4].i,
                        est_reporter_of(c) };

    return e;
}

EST_DEFINE_LAUNCHER(strided_slice)
{
    strided_slice_sources find = { entries_of(c, c->in[0]->shape) };

    return EST_BY_WIDTH(c->out[0].dtype, est_take_launch, c, c->in[0], find);
}

EST_DEFINE_LAUNCHER(strided_slice_grad)
{
    strided_slice_box find = { entries_of(c, c->out[0].shape) };

    return EST_BY_WIDTH(c->out[0].dtype, est_box_launch, c, c->in[4], NULL, find);
}
