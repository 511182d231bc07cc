/* SPDX-License-Identifier: Apache-2.0
 *
 * Const: a tensor that belongs to the graph. No kernel runs: the plan points at the attribute's memory. */
#include "ops/array.h"

/* Small integers are remembered, so that shapes and axes given as constants are known while the graph is built. */
static void remember_value(const est_tensor *tensor, est_value *value)
{
    est_dtype   dtype = est_tensor_dtype(tensor);
    int64_t     count = est_tensor_count(tensor);
    const void *data  = est_tensor_data(tensor);

    if ((dtype != EST_I32 && dtype != EST_I64) || count > EST_VALUE_MAX) return;
    value->n = (int32_t)count;
    for (int64_t i = 0; i < count; i++) {
        value->v[i] = dtype == EST_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
    }
}

static est_status const_infer(est_infer *c)
{
    const est_tensor *tensor = est_node_attr(c->node, "value")->tensor;
    est_dtype         dtype  = est_node_type(c->node, "dtype");

    if (tensor == NULL) return est_fail(EST_INVALID_ARGUMENT, "a constant needs a value");
    if (est_tensor_dtype(tensor) != dtype) {
        return est_fail(EST_INVALID_ARGUMENT, "the value is %s but dtype is %s",
                        est_dtype_name(est_tensor_dtype(tensor)), est_dtype_name(dtype));
    }
    c->out[0] = *est_tensor_shape(tensor);
    remember_value(tensor, &c->out_value[0]);
    return EST_OK;
}

const est_op est_op_const = {
    .name      = "Const",
    .signature = "() -> output: dtype; value: tensor; dtype: type",
    .infer     = const_infer,
    .source    = EST_SOURCE_CONST,
};

est_node est_const(est_graph *graph, est_tensor *value)
{
    if (value == NULL) {
        return est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "a constant needs a tensor, got NULL"));
    }
    return est_build0(graph, &est_op_const,
                      EST_ATTRS(est_attr_tensor("value", value), est_attr_type("dtype", est_tensor_dtype(value))));
}

static est_node const_from(est_graph *graph, est_dtype dtype, est_shape shape, const void *values)
{
    est_tensor *tensor = NULL;
    est_status  status = est_tensor_create_from(dtype, shape, values, &tensor);
    est_node    node;

    if (status != EST_OK) return est_graph_poison(graph, status);
    node = est_const(graph, tensor);
    est_tensor_free(tensor);
    return node;
}

est_node est_scalar(est_graph *graph, est_dtype dtype, double value)
{
    union {
        float   f32;
        double  f64;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } number;

    switch (dtype) {
    case EST_F32: number.f32 = (float)value; break;
    case EST_F64: number.f64 = value; break;
    case EST_I32: number.i32 = (int32_t)value; break;
    case EST_I64: number.i64 = (int64_t)value; break;
    case EST_U8: number.u8 = (uint8_t)value; break;
    case EST_BOOL: number.u8 = value != 0; break;
    default:
        return est_graph_poison(
            graph, est_fail(EST_INVALID_ARGUMENT, "a scalar constant cannot be %s", est_dtype_name(dtype)));
    }
    return const_from(graph, dtype, EST_SHAPE_SCALAR, &number);
}

est_node est_const_f32(est_graph *graph, est_shape shape, const float *values)
{
    return const_from(graph, EST_F32, shape, values);
}

est_node est_const_i64(est_graph *graph, est_shape shape, const int64_t *values)
{
    return const_from(graph, EST_I64, shape, values);
}

est_node est_const_i32(est_graph *graph, est_shape shape, const int32_t *values)
{
    return const_from(graph, EST_I32, shape, values);
}

/* A list too large for int32 becomes int64, which every op that takes lists accepts. */
est_node est_const_list(est_graph *graph, est_i64s values)
{
    est_dtype dtype = EST_I32;

    for (int i = 0; values.data != NULL && i < values.n; i++) {
        if (values.data[i] != (int32_t)values.data[i]) dtype = EST_I64;
    }
    return est_const_ints(graph, dtype, values);
}
