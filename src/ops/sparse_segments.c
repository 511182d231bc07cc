/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over segments whose ids do not fall, as TensorFlow's embedding columns have them; these run loaded models:
 *
 *   SegmentSum          out[s] = sum of data[i] where segment_ids[i] = s
 *   SparseSegmentSum    the same of data[indices[i]]
 *   SparseSegmentMean   divided by the number of terms
 *   SparseSegmentSqrtN  divided by its square root
 *
 * There are as many segments as the last id says; one without terms is 0. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/array.h"
#include "tensor/shape.h"

static bool is_indexed(const est_node_def *node)
{
    return node->n_in == 3;
}

static est_status segments_infer(est_infer *c)
{
    est_shape out = c->in[0], merged;

    for (int i = 1; i < c->n_in; i++) EST_TRY(est_infer_rank(c, i, 1));
    if (c->n_in == 3) EST_TRY(est_infer_merge(&c->in[1], &c->in[2], &merged));
    if (out.rank == 0) return est_fail(EST_INVALID_ARGUMENT, "data is a scalar; it has no rows");
    if (out.rank > 0) out.dim[0] = -1;
    c->out[0] = out;
    return EST_OK;
}

static est_status segments_measure(est_call *c)
{
    const est_view *data = c->in[0], *indices = c->in[1], *ids = c->in[c->n_in - 1];
    bool            indexed = is_indexed(c->node);
    int64_t         last    = 0;

    if (ids->count != (indexed ? indices->count : data->shape.dim[0])) {
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " segment_ids for %" PRId64 " rows", ids->count,
                        indexed ? indices->count : data->shape.dim[0]);
    }
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id = est_view_int(ids, i), row = indexed ? est_view_int(indices, i) : i;

        if (id < last) {
            return est_fail(EST_INVALID_ARGUMENT, "segment_ids element %" PRId64 " = %" PRId64 " is below %" PRId64, i,
                            id, last);
        }
        if (row < 0 || row >= data->shape.dim[0]) {
            return est_fail(EST_INVALID_ARGUMENT, "indices element %" PRId64 " = %" PRId64 " is not below %" PRId64, i,
                            row, data->shape.dim[0]);
        }
        last = id;
    }
    c->out[0].shape        = data->shape;
    c->out[0].shape.dim[0] = ids->count > 0 ? last + 1 : 0;
    return est_shape_size(&c->out[0].shape, c->out[0].dtype, &c->out[0].count, NULL);
}

enum { SUM, MEAN, SQRT_N };

#define SEGMENTS(T, suffix)                                                                                            \
    static void segments_##suffix(const est_call *c, int kind)                                                         \
    {                                                                                                                  \
        const est_view *ids     = c->in[c->n_in - 1];                                                                  \
        bool            indexed = c->n_in == 3;                                                                        \
        int64_t         width   = est_shape_product(&c->out[0].shape, 1, c->out[0].shape.rank);                        \
        int64_t         i       = 0;                                                                                   \
                                                                                                                       \
        memset(c->out[0].data, 0, (size_t)c->out[0].count * sizeof(T));                                                \
        while (i < ids->count) {                                                                                       \
            int64_t id = est_view_int(ids, i), first = i;                                                              \
            T *restrict to = (T *)c->out[0].data + id * width;                                                         \
                                                                                                                       \
            for (; i < ids->count && est_view_int(ids, i) == id; i++) {                                                \
                int64_t row            = indexed ? est_view_int(c->in[1], i) : i;                                      \
                const T *restrict from = (const T *)c->in[0]->data + row * width;                                      \
                for (int64_t k = 0; k < width; k++) to[k] += from[k];                                                  \
            }                                                                                                          \
            if (kind == SUM || i - first == 1) continue;                                                               \
            for (int64_t k = 0; k < width; k++) {                                                                      \
                to[k] /= kind == MEAN ? (T)(i - first) : (T)sqrt((double)(i - first));                                 \
            }                                                                                                          \
        }                                                                                                              \
    }
SEGMENTS(float, f32)
SEGMENTS(double, f64)
SEGMENTS(int32_t, i32)
SEGMENTS(int64_t, i64)

static est_status run(est_call *c, int kind)
{
    switch (c->out[0].dtype) {
    case EST_F32: segments_f32(c, kind); break;
    case EST_F64: segments_f64(c, kind); break;
    case EST_I32: segments_i32(c, kind); break;
    default: segments_i64(c, kind); break;
    }
    return EST_OK;
}

static est_status sum_cpu(est_call *c)
{
    return run(c, SUM);
}

static est_status mean_cpu(est_call *c)
{
    return run(c, MEAN);
}

static est_status sqrt_n_cpu(est_call *c)
{
    return run(c, SQRT_N);
}

#define INDEXED(types)                                                                                                 \
    "data: T, indices: Tidx, segment_ids: Tsegmentids -> output: T; T: " types "; Tidx: {int32, int64} = int32; "      \
    "Tsegmentids: {int32, int64} = int32"

const est_op est_op_segment_sum = {
    .name      = "SegmentSum",
    .signature = "data: T, segment_ids: Tindices -> output: T; T: {float32, float64, int32, int64}; "
                 "Tindices: {int32, int64}",
    .infer     = segments_infer,
    .cpu       = EST_KERNELS({ .run = sum_cpu, .measure = segments_measure }),
};

const est_op est_op_sparse_segment_sum = {
    .name      = "SparseSegmentSum",
    .signature = INDEXED("{float32, float64, int32, int64}"),
    .infer     = segments_infer,
    .cpu       = EST_KERNELS({ .run = sum_cpu, .measure = segments_measure }),
};

const est_op est_op_sparse_segment_mean = {
    .name      = "SparseSegmentMean",
    .signature = INDEXED("{float32, float64}"),
    .infer     = segments_infer,
    .cpu       = EST_KERNELS({ .run = mean_cpu, .measure = segments_measure }),
};

const est_op est_op_sparse_segment_sqrt_n = {
    .name      = "SparseSegmentSqrtN",
    .signature = INDEXED("{float32, float64}"),
    .infer     = segments_infer,
    .cpu       = EST_KERNELS({ .run = sqrt_n_cpu, .measure = segments_measure }),
};
