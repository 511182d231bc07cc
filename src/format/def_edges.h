/* SPDX-License-Identifier: Apache-2.0
 *
 * The edges of a GraphDef as numbers, for walks through it. */
#ifndef EST_FORMAT_DEF_EDGES_H
#define EST_FORMAT_DEF_EDGES_H

#include "base/map.h"
#include "format/graph_def.h"

typedef struct est_def_edge {
    int32_t node;   /* position in the GraphDef */
    int32_t output; /* -1: control */
} est_def_edge;

/* Everything but the map is in the arena of the GraphDef. */
typedef struct est_def_edges {
    const est_graph_def *def;
    est_map              names; /* name -> 1 + position */
    est_def_edge       **in;    /* [node][its inputs] */
} est_def_edges;

/* Resolves the inputs of all nodes. EST_INVALID_ARGUMENT: a node without a name, two of one name, an input that is not
 * in the graph, or a data input after a control input. To be cleared also after a failure. */
EST_MUST_CHECK est_status est_def_edges_init(est_def_edges *edges, const est_graph_def *def);
void                      est_def_edges_clear(est_def_edges *edges);

/* The node and output that "name", "name:1" or "^name" stands for. */
EST_MUST_CHECK est_status est_def_edges_parse(const est_def_edges *edges, const char *input, est_def_edge *out);

/* Marks what `node` depends on, itself included. Nodes that are marked already are not visited. `stack` has room for
 * all nodes. */
void est_def_edges_reach(const est_def_edges *edges, int32_t node, bool *reached, int32_t *stack);

#endif
