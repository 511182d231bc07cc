/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports TensorFlow's GraphDef as a graph. */
#ifndef EST_GRAPH_IMPORT_H
#define EST_GRAPH_IMPORT_H

#include "format/graph_def.h"
#include "graph/graph.h"

/* The op of a name, NULL if unknown: est_op_find_public() of ops/ops.h; est_op_find() for what the planner of another
 * task has sent. */
typedef const est_op *(*est_op_lookup)(const char *name);

/* Adds every node of `def` to `graph`, under its name, which must be free. Nodes may come in any order. Errors name the
 * node: EST_UNIMPLEMENTED for an op that lookup does not know or an attribute value that is not supported;
 * EST_INVALID_ARGUMENT for missing inputs, duplicate names, cycles, and inputs that the op rejects.
 *
 * Attributes that start with "_" are ignored, as is "debug_name". Other attributes that the op does not have must be
 * neutral: false, 0, "", an empty list, or DT_INT32 as the type of an index.
 *
 * A failure poisons the caller's graph and changes nothing else of it. */
EST_MUST_CHECK est_status est_graph_import(const est_graph_def *def, est_op_lookup lookup, est_graph *graph);

/* The same, but a node that cannot be added is left out, as are those that need it: missing[node] of `def` says why, in
 * its arena; NULL: it was added. */
EST_MUST_CHECK est_status est_graph_import_part(const est_graph_def *def, est_op_lookup lookup, est_graph *graph,
                                                const char **missing);

#endif
