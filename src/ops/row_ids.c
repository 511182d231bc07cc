/* SPDX-License-Identifier: Apache-2.0
 *
 * EstRowIds: which row each value of a ragged tensor is in, from where the rows start: out[i] = r for
 * splits[r] <= i < splits[r + 1]. TensorFlow counts the rows that start at or before i, with UpperBound. */
#include "kernels/ragged.h"
#include "ops/array.h"

static est_status row_ids_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 0, 1));
    if (c->in[1].rank == 0) return est_fail(EST_INVALID_ARGUMENT, "values of ragged rows cannot be a scalar");
    c->out[0] = EST_SHAPE(est_infer_dim(&c->in[1], 0));
    return EST_OK;
}

static est_status row_ids_cpu(est_call *c)
{
    const int64_t *splits = c->in[0]->data;
    int64_t       *out    = c->out[0].data;
    int64_t        rows   = c->in[0]->count - 1;

    EST_TRY(est_splits_check(c->in[0], c->out[0].count));
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = splits[r]; i < splits[r + 1]; i++) out[i] = r;
    }
    return EST_OK;
}

static void row_ids_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node one = est_scalar(graph, EST_I64, 1);
    est_node n   = est_strided_slice(est_shape_as(in[1], EST_I64), EST_I64S(0), EST_I64S(1), EST_I64S(1),
                                     (est_strided_slice_options){ .shrink_axis_mask = 1 });
    est_node all = est_range(est_scalar(graph, EST_I64, 0), n, one);
    est_node started;

    (void)node;
    started = est_build2(&est_op_upper_bound, est_expand_dims(in[0], 0), est_expand_dims(all, 0),
                         EST_ATTRS(est_attr_type("out_type", EST_I64)));
    out[0]  = est_sub(est_squeeze(started, EST_I64S(0)), one);
}

const est_op est_op_row_ids = {
    .name       = "EstRowIds",
    .signature  = "splits: int64, values: T -> row_ids: int64; T: type",
    .infer      = row_ids_infer,
    .cpu        = EST_KERNELS({ .run = row_ids_cpu }),
    .lower      = row_ids_lower,
    .shape_only = 1u << 1,
};

est_node est_row_ids(est_node splits, est_node values)
{
    return est_build2(&est_op_row_ids, splits, values, EST_NO_ATTRS);
}
