/* SPDX-License-Identifier: Apache-2.0
 *
 * EstRaggedKeep: ragged rows without the values whose `keep` is false. With p the sorted positions of the values kept,
 * TensorFlow's ops are values[p], and for every split the number of p below it. */
#include "kernels/ragged.h"
#include "ops/array.h"

static est_status keep_infer(est_infer *c)
{
    int64_t   rows;
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_ragged(c, 0, 1, &rows));
    EST_TRY(est_infer_rank(c, 2, 1));
    if (est_infer_merge(&c->in[0], &c->in[2], &merged) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "values %s need a `keep` each, got %s", est_shape_text(&c->in[0], a),
                        est_shape_text(&c->in[2], b));
    }
    c->out[0] = EST_SHAPE(est_infer_at_most(c, est_infer_dim(&merged, 0)));
    c->out[1] = EST_SHAPE(rows < 0 ? -1 : rows + 1);
    return EST_OK;
}

#define KEEP(T)                                                                                                        \
    static int64_t keep_##T(const T *restrict from, const uint8_t *keep, const int64_t *splits, int64_t rows,          \
                            T *restrict to, int64_t *ends)                                                             \
    {                                                                                                                  \
        int64_t n = 0;                                                                                                 \
                                                                                                                       \
        ends[0] = 0;                                                                                                   \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            for (int64_t i = splits[r]; i < splits[r + 1]; i++) {                                                      \
                if (keep[i] != 0) to[n++] = from[i];                                                                   \
            }                                                                                                          \
            ends[r + 1] = n;                                                                                           \
        }                                                                                                              \
        return n;                                                                                                      \
    }
KEEP(uint32_t)
KEEP(uint64_t)
KEEP(est_str)

static est_status keep_cpu(est_call *c)
{
    const est_view *values = c->in[0], *splits = c->in[1];
    const uint8_t  *keep = c->in[2]->data;
    int64_t         rows = splits->count - 1, n;
    void           *to   = c->out[0].data;

    EST_TRY(est_splits_check(splits, values->count));
    switch (est_dtype_size(values->dtype)) {
    case 4: n = keep_uint32_t(values->data, keep, splits->data, rows, to, c->out[1].data); break;
    case 8: n = keep_uint64_t(values->data, keep, splits->data, rows, to, c->out[1].data); break;
    default: n = keep_est_str(values->data, keep, splits->data, rows, to, c->out[1].data); break;
    }
    c->out[0].shape = EST_SHAPE(n);
    c->out[0].count = n;
    return EST_OK;
}

static void keep_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node kept  = est_squeeze(est_where(in[2]), EST_I64S(1));
    est_node below = est_sub(in[1], est_scalar(graph, EST_I64, 1)); /* the last position before each split */
    est_node ends  = est_build2(&est_op_upper_bound, est_expand_dims(kept, 0), est_expand_dims(below, 0),
                                EST_ATTRS(est_attr_type("out_type", EST_I64)));

    (void)node;
    out[0] = est_gather(in[0], kept, 0);
    out[1] = est_squeeze(ends, EST_I64S(0));
}

const est_op est_op_ragged_keep = {
    .name      = "EstRaggedKeep",
    .signature = "values: T, splits: int64, keep: bool -> kept_values: T, kept_splits: int64; "
                 "T: {float32, float64, int32, int64, string}",
    .infer     = keep_infer,
    .cpu       = EST_KERNELS({ .run = keep_cpu }),
    .lower     = keep_lower,
    .shrinks   = true,
};

est_ragged_node est_ragged_keep(est_ragged_node x, est_node keep)
{
    est_node values = est_build3(&est_op_ragged_keep, x.values, x.splits, keep, EST_NO_ATTRS);

    return (est_ragged_node){ values, est_output(values, 1) };
}

/* --- from dense rows ---------------------------------------------------------------------------------------------- */

static est_node missing_value(est_graph *graph, est_dtype dtype)
{
    est_tensor *empty = NULL;
    est_status  status;
    est_node    node;

    if (dtype != EST_STRING) return est_scalar(graph, dtype, dtype == EST_I32 || dtype == EST_I64 ? -1 : 0);
    status = est_tensor_create(EST_STRING, EST_SHAPE_SCALAR, &empty);
    if (status != EST_OK) return est_graph_poison(graph, status);
    node = est_const(graph, empty);
    est_tensor_free(empty);
    return node;
}

/* One entry of a shape that is a vector of int64. */
static est_node entry(est_node shape, int i)
{
    return est_strided_slice(shape, EST_I64S(i), EST_I64S(i + 1), EST_I64S(1),
                             (est_strided_slice_options){ .shrink_axis_mask = 1 });
}

est_ragged_node est_ragged_from_dense(est_node x)
{
    est_graph *graph = x.graph;
    int        rank;
    est_node   shape, zero, one, batch, n, splits;

    if (graph == NULL || est_graph_poisoned(graph)) return (est_ragged_node){ x, x };
    rank = est_node_shape(x)->rank;
    if (rank != 1 && rank != 2) {
        char     text[EST_SHAPE_TEXT_MAX];
        est_node poison = est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT,
                                                           "dense rows are [batch] or [batch, n], got '%s' of shape %s",
                                                           est_node_name(x), est_shape_text(est_node_shape(x), text)));

        return (est_ragged_node){ poison, poison };
    }
    shape  = est_shape_as(x, EST_I64);
    zero   = est_scalar(graph, EST_I64, 0);
    one    = est_scalar(graph, EST_I64, 1);
    batch  = entry(shape, 0);
    n      = rank == 2 ? entry(shape, 1) : one;
    splits = est_mul(est_range(zero, est_add(batch, one), one), n);
    x      = est_reshape(x, EST_I64S(-1));
    return est_ragged_keep((est_ragged_node){ x, splits }, est_not_equal(x, missing_value(graph, est_node_dtype(x))));
}
