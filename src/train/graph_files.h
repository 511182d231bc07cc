/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a run for other programs: graph.pbtxt, the graph that TensorBoard shows, the .meta of checkpoints. */
#ifndef EST_TRAIN_GRAPH_FILES_H
#define EST_TRAIN_GRAPH_FILES_H

#include "estoc/graph.h"
#include "format/meta_graph_def.h"

#define EST_GRAPH_FILE "graph.pbtxt"

/* TensorFlow expects a read of every variable of a graph, with this name by convention. */
#define EST_READ_NAME "%s/Read/ReadVariableOp"

/* A zeroed struct is empty. */
typedef struct est_graph_files {
    est_wire_writer graph_def; /* a GraphDef of TensorFlow's ops */
    est_wire_writer meta;      /* a MetaGraphDef with that graph and its collections */
} est_graph_files;

/* Fills both. Estoc's own ops are lowered to TensorFlow's; where the known shapes do not suffice, they stay. */
EST_MUST_CHECK est_status est_graph_files_make(const est_graph *graph, est_graph_files *out);

/* Fills an empty MetaGraphDef with a graph that is lowered, with a read of each variable, and with its collections. */
EST_MUST_CHECK est_status est_graph_files_meta(const est_graph *graph, est_meta_graph_def *meta);

/* Writes the GraphDef as <dir>/graph.pbtxt, atomically. */
EST_MUST_CHECK est_status est_graph_files_write(const est_graph_files *files, const char *dir);

void est_graph_files_clear(est_graph_files *files);

#endif
