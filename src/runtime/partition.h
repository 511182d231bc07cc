/* SPDX-License-Identifier: Apache-2.0
 *
 * What partition.c, cut_tasks.c, pieces.c and step_core.c share: where and when the nodes of a step run. */
#ifndef EST_RUNTIME_PARTITION_H
#define EST_RUNTIME_PARTITION_H

#include "runtime/plan.h"
#include "runtime/remote.h"

#define EST_HERE       (-1)
#define EST_PIECES_MAX 4 /* of one phase at one task */
#define EST_READING    (-1)

typedef struct est_partition_phases {
    const est_order *whole; /* the order of the step as a whole, or of its core */
    int              n_tasks;
    const int32_t   *task, *phase; /* per node; EST_HERE: this one */
    est_incoming     in;
} est_partition_phases;

/* What a node is to a step that is made together (runtime/partition_sync.c). */
typedef enum est_role {
    EST_ROLE_PLAIN = 0, /* sees no change of the step */
    EST_ROLE_UPDATE,    /* changes variables, or is needed for that and sees changes */
    EST_ROLE_LATE       /* sees changes, and no update needs it */
} est_role;

/* Orders the core alone; *out is as est_plan_order leaves it. */
EST_MUST_CHECK est_status est_partition_core(const est_order *whole, est_arena *arena, est_order *out);

/* Fills role[], which is EST_ROLE_PLAIN for all, of what is in the whole step; `in` is of that. */
void est_partition_roles(const est_order *whole, const est_incoming *in, const est_order *core, est_role *role);

/* est_pass_extract of something in the core, with names and an order that are the same whatever else is in the graph. */
EST_MUST_CHECK est_status est_partition_extract(const est_order *core, est_io *io, est_graph **out);

/* A step whose variables have their places. */
typedef struct est_partition_step {
    est_graph        *graph;
    const est_io     *io;
    const est_store  *store;
    const est_remote *remote;
    const est_order  *whole;
    int32_t           n; /* nodes of the graph */
} est_partition_step;

/* Fills task[], one for each node. moves: what only one other task uses may go there; without, where something is does not depend on
 * who else uses it (C5). */
EST_MUST_CHECK est_status est_partition_place(const est_partition_step *step, bool moves, est_arena *arena,
                                              int32_t *task);

/* Which piece of its phase a node is in, from 1 to EST_PIECES_MAX; piece[] stays as it was for all that are in none (C4). */
EST_MUST_CHECK est_status est_partition_early(est_arena *arena, const est_partition_phases *phases, int32_t *piece);

/* Handles and constants are wherever they are needed (C3). A constant that waits for something is not: repeated elsewhere it would
 * take what it waits for along. */
static inline bool est_is_free(est_graph *graph, int32_t id)
{
    const est_node_def *def = est_graph_node(graph, id);

    return def->op->source == EST_SOURCE_VARIABLE || (def->op->source == EST_SOURCE_CONST && def->n_control == 0);
}

#endif
