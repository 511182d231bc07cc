/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of partitioning share: where and when the nodes of a step run. */
#ifndef EST_RUNTIME_PARTITION_H
#define EST_RUNTIME_PARTITION_H

#include "runtime/pass.h"
#include "runtime/remote.h"

#define EST_HERE       (-1)
#define EST_PIECES_MAX 4 /* early pieces of one phase at one task */
#define EST_READING    (-1)

typedef struct est_partition_phases {
    const est_order *whole; /* the order of the step, or of its core */
    int              n_tasks;
    const int32_t   *task, *phase; /* per node; EST_HERE: this one */
    est_incoming     in;
    bool             direct; /* as est_remote.direct */
} est_partition_phases;

/* A set of edges in the order they were added; found by a hash table. A zeroed struct is empty. */
typedef struct est_edges {
    est_edge *data;
    int32_t  *slots; /* [2 max]: position in data, plus one; 0: free */
    int32_t   n, max;
} est_edges;

EST_MUST_CHECK est_status est_edges_add(est_arena *arena, est_edges *set, est_edge edge);
int32_t                   est_edges_find(const est_edges *set, est_edge edge); /* its position; -1: it is not there */

/* The role of a node in a step of sync_replicas (partition_sync.c). */
typedef enum est_role {
    EST_ROLE_PLAIN = 0, /* sees no change of the step */
    EST_ROLE_UPDATE,    /* writes variables, or is needed for that and sees changes */
    EST_ROLE_LATE       /* sees changes, and is needed by no update */
} est_role;

/* The order of the core: of the updates of a step and what they need. */
EST_MUST_CHECK est_status est_partition_core(const est_order *whole, est_arena *arena, est_order *out);

/* Fills role[], which is EST_ROLE_PLAIN for all; `in`: of the whole step. */
void est_partition_roles(const est_order *whole, const est_incoming *in, const est_order *core, est_role *role);

/* est_pass_extract from the core, with names and an order that do not depend on the rest of the graph. */
EST_MUST_CHECK est_status est_partition_extract(const est_order *core, est_io *io, est_graph **out);

/* A step whose variables have been placed. */
typedef struct est_partition_step {
    est_graph        *graph;
    const est_io     *io;
    const est_store  *store;
    const est_remote *remote;
    const est_order  *whole;
    int32_t           n; /* nodes of the graph */
} est_partition_step;

/* Fills task[], one for each node. moves: a node that only one other task uses may run there; without, the task of a
 * node does not depend on its users (C5). */
EST_MUST_CHECK est_status est_partition_place(const est_partition_step *step, bool moves, est_arena *arena,
                                              int32_t *task);

/* Sets the piece of nodes that leave early, from 1 to EST_PIECES_MAX; piece[] of others is unchanged (C4). */
EST_MUST_CHECK est_status est_partition_early(est_arena *arena, const est_partition_phases *phases, int32_t *piece);

/* Handles and constants are repeated wherever they are needed (C3); not a constant with control inputs, which would be
 * repeated as well. */
static inline bool est_is_free(est_graph *graph, int32_t id)
{
    const est_node_def *def = est_graph_node(graph, id);

    return def->op->source == EST_SOURCE_VARIABLE || def->op->source == EST_SOURCE_TABLE ||
           (def->op->source == EST_SOURCE_CONST && def->n_control == 0);
}

#endif
