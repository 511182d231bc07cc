/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ops that move data around share: integer inputs (axes, shapes, bounds) as a shape function and as a kernel
 * see them, and shapes as nodes for gradients. */
#ifndef EST_OPS_ARRAY_H
#define EST_OPS_ARRAY_H

#include "ops/ops.h"

/* Element i of an int32 or int64 tensor. */
static inline int64_t est_view_int(const est_view *view, int64_t i)
{
    return view->dtype == EST_I64 ? ((const int64_t *)view->data)[i] : ((const int32_t *)view->data)[i];
}

/* What is known of an integer input before the step runs, or NULL. */
static inline const est_value *est_infer_value(const est_infer *c, int input)
{
    const est_value *value = c->in_value[input];

    return value != NULL && value->n >= 0 ? value : NULL;
}

/* The axis that scalar input `input` names, made non-negative. *axis is -1 when it is not known yet (or needs a rank
 * that is not). It must lie in [-rank, rank). */
est_status est_infer_axis(const est_infer *c, int input, int rank, int *axis);

/* The same for an axis that is an attribute. */
est_status est_infer_axis_attr(int64_t given, int rank, int *axis);

/* Writes one value of to's type into all of it. */
void est_fill_elements(est_pool *pool, const est_view *to, const void *value);

/* A shape of that rank with no dimension known. */
est_shape est_shape_of_rank(int rank);

/* What is known of a node's contents while the graph is built, or NULL. */
const est_value *est_node_value(est_node node);

/* The shape of x as a node of the integer dtype; a constant when it is known. */
est_node est_shape_as(est_node x, est_dtype dtype);

/* A vector constant of the integer dtype; numbers that do not fit become the nearest that does. */
est_node est_const_ints(est_graph *graph, est_dtype dtype, est_i64s values);

/* dy under the shape of x. */
est_node est_reshape_like(est_node dy, est_node x);

/* ConcatV2 of what flows into the outputs of the op that g belongs to, zeros where nothing does. */
est_node est_concat_flows(const est_grad *g, est_node axis);

/* Backward of GatherV2 for any axis: zeros like `params`, every slice of dy added where it was taken from. */
est_node est_gather_grad(est_node params, est_node indices, est_node dy, est_node axis, int64_t batch_dims);

/* Backward of StridedSlice: zeros of `shape` with dy where the slice was taken from. */
est_node est_strided_slice_grad(est_node shape, est_node begin, est_node end, est_node strides, est_node dy,
                                est_strided_slice_options options);

#endif
