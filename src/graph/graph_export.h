/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as TensorFlow's GraphDef. */
#ifndef EST_GRAPH_GRAPH_EXPORT_H
#define EST_GRAPH_GRAPH_EXPORT_H

#include "format/graph_def.h"
#include "graph/graph.h"

/* Adds every operation of the graph to `out` (initialised), in the order of creation. Attributes with default values
 * are left out, so that TensorFlow 1.15 to 2.x can read the graph. Estoc's own ops are exported unchanged; call
 * est_graph_lower() first for a graph that TensorFlow must run. */
EST_MUST_CHECK est_status est_graph_export(const est_graph *graph, est_graph_def *out);

#endif
