/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioning (runtime/partition.c): the core of a training step of sync_replicas (C5): its updates and what they
 * need, as if nothing was fetched. Workers that fetch different results have the same core. */
#include <inttypes.h>

#include "base/alloc.h"
#include "runtime/partition.h"

static const est_node_def *node_of(const est_order *order, int32_t id)
{
    return est_graph_node(order->graph, id);
}

est_status est_partition_core(const est_order *whole, est_arena *arena, est_order *out)
{
    est_node *updates = est_arena_alloc(arena, sizeof *updates * ((size_t)whole->n + 1));
    int       n       = 0;

    if (updates == NULL) return est_no_memory();
    for (int32_t k = 0; k < whole->n; k++) {
        if (node_of(whole, whole->nodes[k])->op->writes != 0) {
            updates[n++] = (est_node){ whole->graph, whole->nodes[k], 0 };
        }
    }
    return est_order_make(whole->graph, &(est_io){ .targets = updates, .n_targets = n }, arena, out);
}

void est_partition_roles(const est_order *whole, const est_incoming *in, const est_order *core, est_role *role)
{
    for (int32_t k = 0; k < whole->n; k++) {
        int32_t id = whole->nodes[k];

        for (int32_t e = in->first[id]; e < in->first[id + 1]; e++) {
            if (role[in->from[e]] != EST_ROLE_PLAIN) role[id] = EST_ROLE_LATE;
        }
        if (node_of(whole, id)->op->writes != 0) role[id] = EST_ROLE_UPDATE;
    }
    for (int32_t k = 0; k < core->n; k++) {
        if (role[core->nodes[k]] == EST_ROLE_LATE) role[core->nodes[k]] = EST_ROLE_UPDATE;
    }
}

/* Names nodes after their first user: names must not depend on merges, or on how many nodes passes have made. */
static est_status name_after_users(est_graph *graph)
{
    for (int32_t id = est_graph_size(graph) - 1; id >= 0; id--) {
        const est_node_def *user = est_graph_node(graph, id);

        for (int32_t i = 0; i < user->n_in; i++) {
            est_node_def *def = est_graph_node(graph, user->in[i].node);

            if (def->op->writes != 0) continue;
            def->name = est_arena_printf(est_graph_arena(graph), "%s/%" PRId32, user->name, i);
            if (def->name == NULL) return est_no_memory();
        }
    }
    return EST_OK;
}

est_status est_partition_extract(const est_order *core, est_io *io, est_graph **out)
{
    EST_TRY(est_pass_extract_in_order(core, io, out));
    return name_after_users(*out);
}
