/* SPDX-License-Identifier: Apache-2.0
 *
 * EstRaggedToDense: out[r, j] = values[splits[r] + j], the default where row r has no such value; as many columns as
 * the longest row has values. What TensorFlow's RaggedTensorToTensor makes of one list of rows. */
#include "kernels/parallel.h"
#include "kernels/ragged.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status to_dense_infer(est_infer *c)
{
    int64_t rows;

    EST_TRY(est_infer_ragged(c, 0, 1, &rows));
    c->out[0] = EST_SHAPE(rows, -1);
    return EST_OK;
}

static est_status to_dense_measure(est_call *c)
{
    const int64_t *splits = c->in[1]->data;
    int64_t        rows = c->in[1]->count - 1, longest = 0;

    EST_TRY(est_splits_check(c->in[1], c->in[0]->count));
    for (int64_t r = 0; r < rows; r++) {
        if (splits[r + 1] - splits[r] > longest) longest = splits[r + 1] - splits[r];
    }
    c->out[0].shape = EST_SHAPE(rows, longest);
    return est_shape_size(&c->out[0].shape, c->out[0].dtype, &c->out[0].count, NULL);
}

static est_status to_dense_prepare(est_call *c)
{
    c->param[0].f = est_node_float(c->node, "default_value");
    return EST_OK;
}

#define TO_DENSE(T, suffix)                                                                                            \
    static void to_dense_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                \
    {                                                                                                                  \
        const est_call *c       = arg;                                                                                 \
        const int64_t  *splits  = c->in[1]->data;                                                                      \
        int64_t         longest = c->out[0].shape.dim[1];                                                              \
        T               filler  = (T)c->param[0].f;                                                                    \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            const T *from = (const T *)c->in[0]->data + splits[r];                                                     \
            T       *to   = (T *)c->out[0].data + r * longest;                                                         \
            int64_t  n    = splits[r + 1] - splits[r];                                                                 \
                                                                                                                       \
            for (int64_t j = 0; j < n; j++) to[j] = from[j];                                                           \
            for (int64_t j = n; j < longest; j++) to[j] = filler;                                                      \
        }                                                                                                              \
    }
TO_DENSE(float, f32)
TO_DENSE(double, f64)
TO_DENSE(int32_t, i32)
TO_DENSE(int64_t, i64)

static est_status to_dense_cpu(est_call *c)
{
    est_dtype    dtype = c->out[0].dtype;
    est_range_fn fill  = dtype == EST_F32   ? to_dense_f32
                         : dtype == EST_F64 ? to_dense_f64
                         : dtype == EST_I32 ? to_dense_i32
                                            : to_dense_i64;

    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, c->out[0].shape.dim[0], 1, 3.0 + 0.5 * (double)c->out[0].shape.dim[1], fill, c);
    return EST_OK;
}

/* The default stands behind the values, and every place without a value picks it. */
static void to_dense_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_ragged_node x    = { in[0], in[1] };
    est_node        zero = est_scalar(graph, EST_I64, 0), one = est_scalar(graph, EST_I64, 1);
    est_node        filler  = est_scalar(graph, est_node_dtype(in[0]), est_node_float(node, "default_value"));
    est_node        all     = est_concat(EST_NODES(in[0], est_expand_dims(filler, 0)), 0);
    est_node        lengths = est_ragged_lengths(x);
    est_node        longest = est_reduce_max(est_concat(EST_NODES(lengths, est_expand_dims(zero, 0)), 0), EST_ALL_AXES,
                                             false); /* 0 of no rows */
    est_node        starts  = est_strided_slice(in[1], EST_I64S(0), EST_I64S(-1), EST_I64S(1),
                                                (est_strided_slice_options){ .begin_mask = 1 });
    est_node        column  = est_range(zero, longest, one);
    est_node        filled  = est_less(est_expand_dims(column, 0), est_expand_dims(lengths, 1));
    est_node        place   = est_add(est_expand_dims(column, 0), est_expand_dims(starts, 1));

    out[0] = est_gather(all, est_select(filled, place, est_cast(est_size(in[0]), EST_I64)), 0);
}

const est_op est_op_ragged_to_dense = {
    .name      = "EstRaggedToDense",
    .signature = "values: T, splits: int64 -> output: T; default_value: float; T: {float32, float64, int32, int64}",
    .infer     = to_dense_infer,
    .cpu       = EST_KERNELS({ .run = to_dense_cpu, .prepare = to_dense_prepare, .measure = to_dense_measure }),
    .lower     = to_dense_lower,
};

est_node est_ragged_to_dense(est_ragged_node x, double default_number)
{
    return est_build2(&est_op_ragged_to_dense, x.values, x.splits,
                      EST_ATTRS(est_attr_float("default_value", default_number)));
}

est_node est_ragged_lengths(est_ragged_node x)
{
    return est_sub(
        est_strided_slice(x.splits, EST_I64S(1), EST_I64S(0), EST_I64S(1),
                          (est_strided_slice_options){ .end_mask = 1 }),
        est_strided_slice(x.splits, EST_I64S(0), EST_I64S(-1), EST_I64S(1), (est_strided_slice_options){ 0 }));
}
