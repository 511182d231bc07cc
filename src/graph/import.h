/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorFlow's GraphDef as a graph of ours. */
#ifndef EST_GRAPH_IMPORT_H
#define EST_GRAPH_IMPORT_H

#include "format/graph_def.h"
#include "graph/graph.h"

/* The op of a name, NULL when there is none: est_op_find() of ops/ops.h. */
typedef const est_op *(*est_op_lookup)(const char *name);

/* Adds every node of `def` to `graph`, under its name, which must be free. Nodes may come in any order. What is refused,
 * naming the node: an op that lookup does not know or an attribute whose value we cannot have (EST_UNIMPLEMENTED);
 * inputs that are not there, names twice, cycles, and whatever the op itself refuses (EST_INVALID_ARGUMENT).
 *
 * Attributes that start with "_" are ignored, as is "debug_name". Others that our op does not have must say nothing:
 * false, 0, "", an empty list, or DT_INT32 as the type of an index.
 *
 * A graph of the caller is poisoned by a failure; nothing else of it is touched. */
EST_MUST_CHECK est_status est_graph_import(const est_graph_def *def, est_op_lookup lookup, est_graph *graph);

#endif
