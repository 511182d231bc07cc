/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers a graph to TensorFlow's ops: Estoc's own ops ("Est...") are replaced by the nodes that their descriptor's
 * lower() builds. */
#ifndef EST_GRAPH_LOWER_H
#define EST_GRAPH_LOWER_H

#include "graph/graph.h"

/* Returns an equivalent new graph, independent of `graph`; the caller frees it. With n_nodes 0 everything is kept,
 * otherwise only nodes[] and their dependencies; nodes[] receive the corresponding nodes of the new graph (an operation
 * without outputs: the operation that replaces it). Operations keep their names; if several operations replace one with
 * a single output, the last of them gets its name. Initializers and collections of the kept nodes are kept.
 *
 * EST_UNIMPLEMENTED names an operation that needs more known dimensions to be lowered. On failure nodes[] are
 * untouched.
 *
 * The order of operations on a variable is lost when another library runs the graph: only Estoc runs operations without
 * an edge between them in the order of creation. Exports add control edges (estimator/meta_graph.c). */
EST_MUST_CHECK est_status est_graph_lower(const est_graph *graph, est_node *nodes, int n_nodes, est_graph **out);

#endif
