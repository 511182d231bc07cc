/* SPDX-License-Identifier: Apache-2.0
 *
 * EstLineUp: the weights of ragged values, or an error that says which row is the first with another number of them.
 * The result is as long as the values are: so nothing after it can fail first for a reason that says less. In
 * TensorFlow's ops it is an Identity that waits for an Assert. */
#include <inttypes.h>
#include <string.h>

#include "kernels/ragged.h"
#include "ops/ops.h"

static est_status line_up_infer(est_infer *c)
{
    int64_t rows;

    EST_TRY(est_infer_ragged(c, 0, 1, &rows));
    EST_TRY(est_infer_ragged(c, 2, 3, &rows));
    c->out[0] = c->in[0].rank == 1 ? c->in[0] : EST_SHAPE(-1);
    return EST_OK;
}

static est_status line_up_cpu(est_call *c)
{
    const est_view *values = c->in[0], *splits = c->in[1], *weights = c->in[2], *weight_splits = c->in[3];
    const int64_t  *a = splits->data, *b = weight_splits->data;

    EST_TRY(est_splits_check(splits, values->count));
    EST_TRY(est_splits_check(weight_splits, weights->count));
    if (splits->count != weight_splits->count) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "column \"%s\": there are %" PRId64 " rows of values and %" PRId64 " of weights",
                        est_node_string(c->node, "column"), splits->count - 1, weight_splits->count - 1);
    }
    for (int64_t r = 0; r + 1 < splits->count; r++) {
        int64_t n = a[r + 1] - a[r], n_weights = b[r + 1] - b[r];

        if (n == n_weights) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "column \"%s\": row %" PRId64 " has %" PRId64 " values and %" PRId64
                        " weights; there must be one for each",
                        est_node_string(c->node, "column"), r, n, n_weights);
    }
    if (weights->count > 0) {
        memcpy(c->out[0].data, weights->data, est_dtype_size(weights->dtype) * (size_t)weights->count);
    }
    return EST_OK;
}

static void line_up_grad(est_grad *g)
{
    g->din[2].values = g->dout[0];
}

static void line_up_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    const char *column  = est_node_string(node, "column");
    int64_t     types[] = { EST_STRING, EST_STRING };
    est_tensor *what = NULL, *of = NULL;
    est_status  status = est_tensor_string("weights and values do not line up: column", 41, &what);
    est_node    good   = est_reduce_all(est_equal(in[1], in[3]), EST_ALL_AXES, false), check;

    if (status == EST_OK) status = est_tensor_string(column, strlen(column), &of);
    if (status != EST_OK) {
        out[0] = est_graph_poison(graph, status);
    } else {
        check  = est_build3(&est_op_assert, good, est_const(graph, what), est_const(graph, of),
                            EST_ATTRS(est_attr_types("T", (est_i64s){ types, 2 })));
        out[0] = est_after(est_identity(in[2]), check);
    }
    est_tensor_free(what);
    est_tensor_free(of);
}

const est_op est_op_line_up = {
    .name      = "EstLineUp",
    .signature = "values: T, splits: int64, weights: W, weight_splits: int64 -> lined_up: W; column: string; "
                 "T: {float32, float64, int32, int64, string}; W: {float32, float64}",
    .infer     = line_up_infer,
    .grad      = line_up_grad,
    .cpu       = EST_KERNELS({ .run = line_up_cpu }),
    .lower     = line_up_lower,
};

est_node est_line_up(est_ragged_node values, est_ragged_node weights, const char *column)
{
    est_node in[] = { values.values, values.splits, weights.values, weights.splits };

    return est_build(values.values.graph, &est_op_line_up, (est_nodes){ in, 4 },
                     EST_ATTRS(est_attr_string("column", column)));
}
