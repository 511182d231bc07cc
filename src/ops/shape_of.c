/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape, Size, Rank: what a tensor's shape is, as numbers in the graph. Only the shape of the input is looked at, so
 * the input's memory need not be kept for them. */
#include "cuda/launchers.h"
#include "ops/array.h"

static void write_int(est_view *out, int64_t i, int64_t value)
{
    if (out->dtype == EST_I64) {
        ((int64_t *)out->data)[i] = value;
    } else {
        ((int32_t *)out->data)[i] = (int32_t)value;
    }
}

static est_status shape_infer(est_infer *c)
{
    const est_shape *in = &c->in[0];

    if (in->rank < 0) {
        c->out[0] = EST_SHAPE(-1);
        return EST_OK;
    }
    c->out[0]         = EST_SHAPE(in->rank);
    c->out_value[0].n = in->rank;
    for (int i = 0; i < in->rank; i++) c->out_value[0].v[i] = in->dim[i] < 0 ? EST_VALUE_UNKNOWN : in->dim[i];
    return EST_OK;
}

static est_status shape_cpu(est_call *c)
{
    for (int i = 0; i < c->in[0]->shape.rank; i++) write_int(&c->out[0], i, c->in[0]->shape.dim[i]);
    return EST_OK;
}

const est_op est_op_shape = {
    .name       = "Shape",
    .signature  = "input: T -> output: out_type; T: type; out_type: {int32, int64} = int32",
    .infer      = shape_infer,
    .cpu        = EST_KERNELS({ .run = shape_cpu }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(shape) }),
    .shape_only = 1u << 0,
};

static est_status size_infer(est_infer *c)
{
    int64_t count = est_shape_count(&c->in[0]);

    c->out[0]            = EST_SHAPE_SCALAR;
    c->out_value[0].n    = 1;
    c->out_value[0].v[0] = count < 0 ? EST_VALUE_UNKNOWN : count;
    return EST_OK;
}

static est_status size_cpu(est_call *c)
{
    write_int(&c->out[0], 0, c->in[0]->count);
    return EST_OK;
}

const est_op est_op_size = {
    .name       = "Size",
    .signature  = "input: T -> output: out_type; T: type; out_type: {int32, int64} = int32",
    .infer      = size_infer,
    .cpu        = EST_KERNELS({ .run = size_cpu }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(size) }),
    .shape_only = 1u << 0,
};

static est_status rank_infer(est_infer *c)
{
    c->out[0]            = EST_SHAPE_SCALAR;
    c->out_value[0].n    = 1;
    c->out_value[0].v[0] = c->in[0].rank < 0 ? EST_VALUE_UNKNOWN : c->in[0].rank;
    return EST_OK;
}

static est_status rank_cpu(est_call *c)
{
    write_int(&c->out[0], 0, c->in[0]->shape.rank);
    return EST_OK;
}

const est_op est_op_rank = {
    .name       = "Rank",
    .signature  = "input: T -> output: int32; T: type",
    .infer      = rank_infer,
    .cpu        = EST_KERNELS({ .run = rank_cpu }),
    .shape_only = 1u << 0,
};

est_node est_shape_of(est_node x)
{
    return est_build1(&est_op_shape, x, EST_NO_ATTRS);
}

est_node est_size(est_node x)
{
    return est_build1(&est_op_size, x, EST_NO_ATTRS);
}
