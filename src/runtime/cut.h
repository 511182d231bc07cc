/* SPDX-License-Identifier: Apache-2.0
 *
 * What partition.c and pieces.c share: where and when the nodes of a step run. */
#ifndef EST_RUNTIME_CUT_H
#define EST_RUNTIME_CUT_H

#include "runtime/plan.h"
#include "runtime/remote.h"

#define EST_HERE       (-1)
#define EST_PIECES_MAX 4 /* of one phase at one task */

typedef struct est_phases {
    const est_plan *whole; /* the order of the step as a whole */
    int             n_tasks;
    const int32_t  *task, *phase; /* per node; EST_HERE: this one */
    const int32_t  *first, *from; /* node i waits for from[first[i]] up to from[first[i + 1] - 1] */
} est_phases;

/* Which piece of its phase a node is in, from 1 to EST_PIECES_MAX; piece[] is 0 for all that are in none, and was before (C4). */
EST_MUST_CHECK est_status est_cut_pieces(const est_phases *phases, int32_t *piece);

/* Handles and constants are wherever they are needed (C3). A constant that waits for something is not: repeated elsewhere it would
 * take what it waits for along. */
static inline bool est_is_free(est_graph *graph, int32_t id)
{
    const est_node_def *def = est_graph_node(graph, id);

    return def->op->source == EST_SOURCE_VARIABLE || (def->op->source == EST_SOURCE_CONST && def->n_control == 0);
}

#endif
