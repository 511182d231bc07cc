/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph in TensorFlow's ops only: our own ops ("Est...") are replaced by what their descriptor lowers them to. */
#ifndef EST_GRAPH_LOWER_H
#define EST_GRAPH_LOWER_H

#include "graph/graph.h"

/* A new graph of the same meaning; freed by the caller, it needs nothing of `graph`. With n_nodes 0 everything is kept,
 * otherwise only what nodes[] depend on; each of them is replaced by the node it has become (an operation without
 * outputs by the operation that takes its place). Operations keep their names; so does the last one of those that stand
 * for one of ours with one output. Initializers and collections are kept as far as their nodes are.
 *
 * EST_UNIMPLEMENTED names an operation that needs more known dimensions to be lowered. On failure nodes[] are untouched.
 *
 * One thing is lost as soon as another library runs the graph: operations on a variable that no edge orders run in the
 * order they were made in only here. Exports add the edges (estimator/meta_graph.c). */
EST_MUST_CHECK est_status est_graph_lower(const est_graph *graph, est_node *nodes, int n_nodes, est_graph **out);

#endif
