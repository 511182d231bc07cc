/* SPDX-License-Identifier: Apache-2.0
 *
 * States of metrics that are the same on all workers after every step: what each replica adds is summed over all of
 * them before it is added. So the states of a worker that is lost are not, and go to the one that comes back. */
#include "estoc/ops.h"
#include "graph/op.h"
#include "graph/replicas.h"
#include "nn/metric.h"
#include "nn/replicas_reduce.h"
#include "ops/ops.h"

/* What a replica adds to a state. */
typedef struct addend {
    est_node state, value;
    bool     subtract;
} addend;

static est_node add_sum(est_graph *graph, void *const *args, int n)
{
    const est_replicas   *replicas  = est_graph_replicas(graph);
    est_replica_reduction reduction = est_replica_reduction_begin(graph, EST_REDUCE_OP_SUM, replicas->weight);
    const addend         *first     = args[0];
    est_node             *values    = est_arena_alloc(est_graph_arena(graph), (size_t)n * sizeof *values);
    est_node              sum;

    if (values == NULL) return est_graph_poison(graph, est_no_memory());
    for (int i = 0; i < n; i++) values[i] = ((const addend *)args[i])->value;
    sum = est_replica_reduce_value(&reduction, values);
    est_graph_collect(graph, EST_SUMMED_STATES, first->state);
    return first->subtract ? est_assign_sub(first->state, sum) : est_assign_add(first->state, sum);
}

static bool are_shared(const est_graph *graph)
{
    return est_in_replica(graph) && est_graph_replicas(graph)->shares_states;
}

est_node est_metric_add(est_node state, est_node value)
{
    addend own = { .state = state, .value = value };

    return are_shared(state.graph) ? est_replicas_merge(state.graph, add_sum, &own) : est_assign_add(state, value);
}

static est_node input_of(est_node node, int i)
{
    est_edge edge = est_def(node)->in[i];

    return (est_node){ .graph = node.graph, .id = edge.node, .output = edge.output };
}

est_node est_metric_share(est_node update)
{
    const est_op *op  = est_def(update)->op;
    addend        own = { .state = input_of(update, 0), .value = input_of(update, est_def(update)->n_in - 1) };

    if (!are_shared(update.graph)) return update;
    own.subtract = op == &est_op_assign_sub_variable || op == &est_op_resource_scatter_sub;
    if (op == &est_op_resource_scatter_add || op == &est_op_resource_scatter_sub) {
        own.value = est_nn_densify((est_gradient){ .values = own.value, .indices = input_of(update, 1) }, own.state);
    }
    return est_replicas_merge(update.graph, add_sum, &own);
}
