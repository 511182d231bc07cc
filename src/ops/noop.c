/* SPDX-License-Identifier: Apache-2.0
 *
 * NoOp: does nothing, after everything it depends on; how many updates become one target. */
#include "base/argument.h"
#include "ops/ops.h"

const est_op est_op_no_op = {
    .name      = "NoOp",
    .signature = "() -> ()",
    .infer     = est_infer_none,
};

est_node est_group(est_graph *graph, est_nodes nodes)
{
    est_node group = est_build0(graph, &est_op_no_op, EST_NO_ATTRS);

    if (!EST_LIST_OK(nodes)) {
        return est_graph_poison(
            graph, est_fail(EST_INVALID_ARGUMENT, "a group: %d nodes given, but the pointer is NULL", nodes.n));
    }
    for (int i = 0; i < nodes.n; i++) group = est_after(group, nodes.data[i]);
    return group;
}
