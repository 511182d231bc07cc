/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions across the workers of multi-worker training (runtime/communicator.h): EstReduce of a tensor, EstReduceRows
 * of rows by index, EstGather of the values of all workers in order of rank, with the row at which those of this worker
 * begin.
 *
 * These ops only describe the reduction; the planner replaces them by operations that run it in packs
 * (runtime/reduce_packs.c). Every worker has the same ones and begins them in the order in which the program made their
 * values (`made`). With one worker they return their input, and exports contain them as such. */
#include "ops/ops.h"

static est_status reduce_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 1, 0));
    if (est_node_bool(c->node, "mean") && c->in_dtype[0] == EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT, "the mean of integers over workers: cast them to float first");
    }
    return est_infer_same_as_input(c);
}

static est_status rows_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 0, 1));
    EST_TRY(est_infer_rank(c, 2, 0));
    if (c->in[1].rank == 0) return est_fail(EST_INVALID_ARGUMENT, "values of rank 0 have no rows");
    c->out[0] = EST_SHAPE(-1);
    c->out[1] = c->in[1];
    if (c->out[1].rank > 0) c->out[1].dim[0] = -1;
    return EST_OK;
}

static est_status gather_infer(est_infer *c)
{
    if (c->in[0].rank == 0) return est_fail(EST_INVALID_ARGUMENT, "a scalar cannot be gathered: give it a dimension");
    c->out[0] = c->in[0];
    if (c->out[0].rank > 0) c->out[0].dim[0] = -1;
    c->out[1] = EST_SHAPE_SCALAR;
    return EST_OK;
}

static void lower_to_inputs(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    (void)graph;
    for (int i = 0; i < node->n_out; i++) out[i] = est_identity(in[i]);
}

static void gather_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    (void)node;
    out[0] = est_identity(in[0]);
    out[1] = est_scalar(graph, EST_I64, 0);
}

const est_op est_op_reduce_across = {
    .name      = "EstReduce",
    .signature = "value: T, weight: float32 -> reduced: T; mean: bool; made: int; T: {float32, float64, int64}",
    .infer     = reduce_infer,
    .lower     = lower_to_inputs,
    .replaced  = true,
    .stateful  = true,
};

const est_op est_op_reduce_rows_across = {
    .name      = "EstReduceRows",
    .signature = "indices: Tindices, values: T, weight: float32 -> all_indices: Tindices, all_values: T; mean: bool; "
                 "made: int; T: {float32, float64}; Tindices: {int32, int64}",
    .infer     = rows_infer,
    .lower     = lower_to_inputs,
    .replaced  = true,
    .stateful  = true,
    .distinct  = 1u << 0,
};

const est_op est_op_gather_across = {
    .name      = "EstGather",
    .signature = "value: T -> gathered: T, begin: int64; made: int; T: {float32, float64, int32, int64, uint8, bool}",
    .infer     = gather_infer,
    .lower     = gather_lower,
    .replaced  = true,
    .stateful  = true,
};

est_node est_reduce_across(est_node value, est_node weight, bool mean)
{
    return est_build2(&est_op_reduce_across, value, weight,
                      EST_ATTRS(est_attr_bool("mean", mean), est_attr_int("made", value.id)));
}

est_gradient est_reduce_rows_across(est_gradient rows, est_node weight, bool mean)
{
    int32_t  made = rows.values.id > rows.indices.id ? rows.values.id : rows.indices.id;
    est_node all  = est_build3(&est_op_reduce_rows_across, rows.indices, rows.values, weight,
                               EST_ATTRS(est_attr_bool("mean", mean), est_attr_int("made", made)));

    return (est_gradient){ .values = est_output(all, 1), .indices = all };
}

est_node est_gather_across(est_node value)
{
    return est_build1(&est_op_gather_across, value, EST_ATTRS(est_attr_int("made", value.id)));
}
