/* SPDX-License-Identifier: Apache-2.0
 *
 * Placeholder: a value that every run must feed. No kernel runs: the plan points at the fed memory. */
#include "ops/ops.h"
#include "tensor/shape.h"

static est_status placeholder_infer(est_infer *c)
{
    c->out[0] = est_node_attr(c->node, "shape")->shape;
    return est_shape_check(&c->out[0], "the placeholder's shape");
}

/* Stateful in the sense that it differs between runs: two placeholders of one shape are two things. */
const est_op est_op_placeholder = {
    .name      = "Placeholder",
    .signature = "() -> output: dtype; dtype: type; shape: shape = ?",
    .infer     = placeholder_infer,
    .source    = EST_SOURCE_FEED,
    .stateful  = true,
};

est_node est_placeholder(est_graph *graph, const char *name, est_dtype dtype, est_shape shape)
{
    est_node node = est_build0(graph, &est_op_placeholder,
                               EST_ATTRS(est_attr_type("dtype", dtype), est_attr_shape("shape", shape)));

    return name != NULL ? est_named(node, name) : node;
}
