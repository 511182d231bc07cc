/* SPDX-License-Identifier: Apache-2.0
 *
 * UpperBound: for every value, how many elements of a sorted row are not greater: where it would go behind its equals.
 * Rows of values belong to rows of sorted_inputs. NaN goes behind everything, as in TensorFlow.
 *
 * Buckets are this with one row: TensorFlow's Bucketize is the same search with the boundaries in an attribute. */
#include "kernels/parallel.h"
#include "ops/array.h"

static est_status upper_bound_infer(est_infer *c)
{
    int64_t rows, values;
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 2));
    rows   = est_infer_dim(&c->in[0], 0);
    values = est_infer_dim(&c->in[1], 0);
    if (rows >= 0 && values >= 0 && rows != values) {
        return est_fail(EST_INVALID_ARGUMENT, "sorted_inputs %s and values %s must have the same number of rows",
                        est_shape_text(&c->in[0], a), est_shape_text(&c->in[1], b));
    }
    c->out[0] = EST_SHAPE(rows >= 0 ? rows : values, est_infer_dim(&c->in[1], 1));
    return EST_OK;
}

#define BOUNDS(T, suffix)                                                                                              \
    static int64_t bound_##suffix(const T *row, int64_t n, T value)                                                    \
    {                                                                                                                  \
        int64_t first = 0, last = n;                                                                                   \
                                                                                                                       \
        while (first < last) {                                                                                         \
            int64_t middle = first + (last - first) / 2;                                                               \
                                                                                                                       \
            if (value < row[middle]) {                                                                                 \
                last = middle;                                                                                         \
            } else {                                                                                                   \
                first = middle + 1;                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        return first;                                                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    static void bounds_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                  \
    {                                                                                                                  \
        const est_call *c      = arg;                                                                                  \
        const T        *sorted = c->in[0]->data, *values = c->in[1]->data;                                             \
        int64_t         n = c->in[0]->shape.dim[1], per_row = c->in[1]->shape.dim[1];                                  \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            int64_t at = bound_##suffix(sorted + i / per_row * n, n, values[i]);                                       \
                                                                                                                       \
            if (c->out[0].dtype == EST_I64) {                                                                          \
                ((int64_t *)c->out[0].data)[i] = at;                                                                   \
            } else {                                                                                                   \
                ((int32_t *)c->out[0].data)[i] = (int32_t)at;                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
BOUNDS(float, f32)
BOUNDS(double, f64)
BOUNDS(int32_t, i32)
BOUNDS(int64_t, i64)

static est_status upper_bound_cpu(est_call *c)
{
    est_dtype    dtype  = c->in[0]->dtype;
    est_range_fn bounds = dtype == EST_F32   ? bounds_f32
                          : dtype == EST_F64 ? bounds_f64
                          : dtype == EST_I32 ? bounds_i32
                                             : bounds_i64;

    est_parallel_for(c->pool, c->in[1]->count, 16, 50.0, bounds, c);
    return EST_OK;
}

const est_op est_op_upper_bound = {
    .name      = "UpperBound",
    .signature = "sorted_inputs: T, values: T -> output: out_type; T: {float32, float64, int32, int64}; "
                 "out_type: {int32, int64} = int32",
    .infer     = upper_bound_infer,
    .cpu       = EST_KERNELS({ .run = upper_bound_cpu }),
};

est_node est_bucketize(est_node x, est_f32s boundaries)
{
    est_node flat, bounds, buckets;

    if (x.graph == NULL || est_graph_poisoned(x.graph)) return x;
    if (boundaries.data == NULL || boundaries.n < 0) {
        return est_graph_poison(
            x.graph,
            est_fail(EST_INVALID_ARGUMENT, "%d boundaries of buckets given, but the pointer is NULL", boundaries.n));
    }
    for (int i = 0; i + 1 < boundaries.n; i++) {
        if (boundaries.data[i] <= boundaries.data[i + 1]) continue;
        return est_graph_poison(x.graph,
                                est_fail(EST_INVALID_ARGUMENT, "boundaries must not descend: [%d] is %g and [%d] is %g",
                                         i, (double)boundaries.data[i], i + 1, (double)boundaries.data[i + 1]));
    }
    if (est_node_dtype(x) != EST_F64) x = est_cast(x, EST_F32);
    bounds  = est_cast(est_const_f32(x.graph, EST_SHAPE(1, boundaries.n), boundaries.data), est_node_dtype(x));
    flat    = est_reshape(x, EST_I64S(1, -1));
    buckets = est_build2(&est_op_upper_bound, bounds, flat, EST_NO_ATTRS);
    return est_reshape_like(buckets, x);
}
