/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of the ops that move data around: reading axes and bounds, shapes as nodes. */
#include "ops/array.h"

#include <inttypes.h>

#include "base/argument.h"
#include "tensor/shape.h"

est_status est_infer_axis_attr(int64_t given, int rank, int *axis)
{
    *axis = -1;
    if (rank < 0) {
        if (given >= 0 && given < EST_RANK_MAX) *axis = (int)given;
        return EST_OK;
    }
    if (given < -rank || given >= rank) {
        return est_fail(EST_INVALID_ARGUMENT, "axis %" PRId64 " is not in [%d, %d)", given, -rank, rank);
    }
    *axis = (int)(given < 0 ? given + rank : given);
    return EST_OK;
}

est_status est_infer_axis(const est_infer *c, int input, int rank, int *axis)
{
    const est_value *value = est_infer_value(c, input);

    *axis = -1;
    if (c->in[input].rank > 0 && est_shape_count(&c->in[input]) > 1) {
        char text[EST_SHAPE_TEXT_MAX];

        return est_fail(EST_INVALID_ARGUMENT, "the axis must be one number, got shape %s",
                        est_shape_text(&c->in[input], text));
    }
    if (value == NULL || value->n < 1 || value->v[0] == EST_VALUE_UNKNOWN) return EST_OK;
    return est_infer_axis_attr(value->v[0], rank, axis);
}

est_shape est_shape_of_rank(int rank)
{
    est_shape shape = { .rank = rank };

    for (int i = 0; i < rank; i++) shape.dim[i] = -1;
    return shape;
}

const est_value *est_node_value(est_node node)
{
    const est_node_def *def = est_def(node);

    return def != NULL && def->value[node.output].n >= 0 ? &def->value[node.output] : NULL;
}

/* A bound such as INT64_MAX, "as far as there is something", keeps its meaning in 32 bits. */
static int32_t saturated(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

est_node est_const_ints(est_graph *graph, est_dtype dtype, est_i64s values)
{
    est_tensor *tensor = NULL;
    est_node    node;
    est_status  status = EST_LIST_OK(values)
                             ? est_tensor_create(dtype, EST_SHAPE(values.n), &tensor)
                             : est_fail(EST_INVALID_ARGUMENT, "%d numbers given, but the pointer is NULL", values.n);

    if (status != EST_OK) return est_graph_poison(graph, status);
    for (int i = 0; i < values.n; i++) {
        if (dtype == EST_I64) {
            ((int64_t *)est_tensor_mutable_data(tensor))[i] = values.data[i];
        } else {
            ((int32_t *)est_tensor_mutable_data(tensor))[i] = saturated(values.data[i]);
        }
    }
    node = est_const(graph, tensor);
    est_tensor_free(tensor);
    return node;
}

est_node est_shape_as(est_node x, est_dtype dtype)
{
    const est_shape *shape = est_node_shape(x);

    if (shape != NULL && est_shape_is_known(shape)) {
        return est_const_ints(x.graph, dtype, (est_i64s){ shape->dim, shape->rank });
    }
    return est_build1(&est_op_shape, x, EST_ATTRS(est_attr_type("out_type", dtype)));
}

/* One unknown dimension (the batch) can be left to Reshape as -1, which keeps the shape a constant; not beside a
 * dimension of 0, where it would be ambiguous. */
est_node est_reshape_like(est_node dy, est_node x)
{
    const est_shape *shape   = est_node_shape(x);
    int              unknown = 0;

    for (int i = 0; shape != NULL && i < shape->rank; i++) {
        unknown += shape->dim[i] < 0 ? 1 : shape->dim[i] == 0 ? EST_RANK_MAX : 0;
    }
    if (shape != NULL && shape->rank >= 0 && unknown <= 1) {
        return est_reshape(dy, (est_i64s){ shape->dim, shape->rank });
    }
    return est_reshape_to(dy, est_shape_as(x, EST_I32));
}
