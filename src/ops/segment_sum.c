/* SPDX-License-Identifier: Apache-2.0
 *
 * UnsortedSegmentSum: out[s, ...] = sum of data[i, ...] where segment_ids[i] = s; a negative id drops its element.
 * segment_ids has the shape of the first axes of data. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/distinct.h"
#include "kernels/parallel.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status segment_sum_infer(est_infer *c)
{
    const est_shape *data = &c->in[0], *ids = &c->in[1];
    const est_value *n = est_infer_value(c, 2);
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (c->in[2].rank > 0 && est_shape_count(&c->in[2]) != 1) {
        return est_fail(EST_INVALID_ARGUMENT, "num_segments must be one number, got shape %s",
                        est_shape_text(&c->in[2], a));
    }
    if (n != NULL && n->v[0] < 0 && n->v[0] != EST_VALUE_UNKNOWN) {
        return est_fail(EST_INVALID_ARGUMENT, "num_segments is %" PRId64, n->v[0]);
    }
    if (data->rank < 0 || ids->rank < 0) return EST_OK;
    for (int i = 0; i < ids->rank; i++) {
        if (i >= data->rank || (data->dim[i] >= 0 && ids->dim[i] >= 0 && data->dim[i] != ids->dim[i])) {
            return est_fail(EST_INVALID_ARGUMENT, "data of shape %s does not start with the shape of segment_ids, %s",
                            est_shape_text(data, a), est_shape_text(ids, b));
        }
    }
    if (data->rank - ids->rank + 1 > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the result would have more than %d axes", EST_RANK_MAX);
    }
    c->out[0].rank   = data->rank - ids->rank + 1;
    c->out[0].dim[0] = n == NULL || n->v[0] == EST_VALUE_UNKNOWN ? -1 : n->v[0];
    for (int i = ids->rank; i < data->rank; i++) c->out[0].dim[i - ids->rank + 1] = data->dim[i];
    return EST_OK;
}

/* Every element gets the gradient of the segment it went into. */
static void segment_sum_grad(est_grad *g)
{
    g->din[0].values = est_build2(&est_op_gather_or_zero, g->dout[0], g->in[1], EST_NO_ATTRS);
}

typedef struct segment_job {
    const est_view *data, *ids;
    est_view       *out;
    int64_t         segments, width; /* width: elements of one row */
    int64_t         blocks;
} segment_job;

/* A block owns a range of segments and reads all ids: rows are added in order whatever the number of threads. */
#define SUM_SEGMENTS(T, suffix)                                                                                        \
    static void sum_segments_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const segment_job *job   = arg;                                                                                \
        int64_t            width = job->width, first = begin * job->segments / job->blocks;                            \
        int64_t            last = end * job->segments / job->blocks;                                                   \
        (void)block;                                                                                                   \
        if (last > first)                                                                                              \
            memset((T *)job->out->data + first * width, 0, (size_t)((last - first) * width) * sizeof(T));              \
        for (int64_t i = 0; i < job->ids->count; i++) {                                                                \
            int64_t id = est_view_int(job->ids, i);                                                                    \
            if (id < first || id >= last) continue;                                                                    \
            T *restrict to         = (T *)job->out->data + id * width;                                                 \
            const T *restrict from = (const T *)job->data->data + i * width;                                           \
            for (int64_t k = 0; k < width; k++) to[k] += from[k];                                                      \
        }                                                                                                              \
    }
SUM_SEGMENTS(float, f32)
SUM_SEGMENTS(double, f64)
SUM_SEGMENTS(int32_t, i32)
SUM_SEGMENTS(int64_t, i64)

/* Element `place` of the ids is value[0], and there are value[1] segments. */
static est_status segment_fail(const est_call *c, int64_t place, const int64_t *value)
{
    (void)c;
    return est_fail(EST_INVALID_ARGUMENT, "segment_ids element %" PRId64 " = %" PRId64 " is not below %" PRId64, place,
                    value[0], value[1]);
}

static est_status check_ids(const est_call *c, int64_t segments)
{
    for (int64_t i = 0; i < c->in[1]->count; i++) {
        int64_t id = est_view_int(c->in[1], i);

        if (id >= segments) return segment_fail(c, i, (int64_t[]){ id, segments });
    }
    return EST_OK;
}

/* Reading all ids once more per block pays when rows are wide. */
#define WIDE_ROW 8
#define BLOCKS   8

static est_status segment_sum_cpu(est_call *c)
{
    segment_job  job   = { .data = c->in[0], .ids = c->in[1], .out = &c->out[0] };
    est_dtype    dtype = c->out[0].dtype;
    double       ns;
    est_range_fn sum = dtype == EST_F32   ? sum_segments_f32
                       : dtype == EST_F64 ? sum_segments_f64
                       : dtype == EST_I32 ? sum_segments_i32
                                          : sum_segments_i64;

    job.segments = c->out[0].shape.dim[0];
    job.width    = est_shape_product(&c->out[0].shape, 1, c->out[0].shape.rank);
    EST_TRY(check_ids(c, job.segments));
    if (c->out[0].count == 0) return EST_OK;
    job.blocks = job.width >= WIDE_ROW && job.segments >= BLOCKS ? BLOCKS : 1;
    ns         = (double)c->out[0].count * 0.1 + (double)job.ids->count * (1 + 0.3 * (double)job.width);
    est_parallel_for(c->pool, job.blocks, 1, ns / (double)job.blocks, sum, &job);
    return EST_OK;
}

/* On a GPU: cuda/rows.cuh. */
static size_t segment_sum_cuda_scratch(const est_call *c)
{
    return EST_SCATTER_SUMS(c->in[1]->count) + (size_t)c->in[0]->count * est_dtype_size(c->in[0]->dtype);
}

static bool segment_sum_cuda_accepts(const est_call *c)
{
    return (c->out[0].dtype == EST_F32 || c->out[0].dtype == EST_F64) && c->in[1]->count <= EST_DISTINCT_MAX;
}

const est_op est_op_unsorted_segment_sum = {
    .name      = "UnsortedSegmentSum",
    .signature = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T; "
                 "T: {float32, float64, int32, int64}; Tindices: {int32, int64}; "
                 "Tnumsegments: {int32, int64} = int32",
    .infer     = segment_sum_infer,
    .grad      = segment_sum_grad,
    .cpu       = EST_KERNELS({ .run = segment_sum_cpu }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(unsorted_segment_sum),
                               .accepts = segment_sum_cuda_accepts,
                               .scratch = segment_sum_cuda_scratch,
                               .fail    = segment_fail }),
};

est_node est_unsorted_segment_sum(est_node x, est_node ids, est_node n_segments)
{
    return est_build3(&est_op_unsorted_segment_sum, x, ids, n_segments, EST_NO_ATTRS);
}
