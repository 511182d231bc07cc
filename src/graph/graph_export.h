/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as TensorFlow's GraphDef. */
#ifndef EST_GRAPH_GRAPH_EXPORT_H
#define EST_GRAPH_GRAPH_EXPORT_H

#include "format/graph_def.h"
#include "graph/graph.h"

/* Adds every operation of the graph to `out`, an initialised one, in the order they were made in. Attributes that have
 * their default are left out: so the graph can be read by TensorFlow 1.15 to 2.x. Our own ops go out as they are; for a
 * graph that TensorFlow shall run, call est_graph_lower() first. */
EST_MUST_CHECK est_status est_graph_export(const est_graph *graph, est_graph_def *out);

#endif
