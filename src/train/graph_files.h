/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a run for others to look at: graph.pbtxt, what TensorBoard shows, the .meta beside checkpoints. */
#ifndef EST_TRAIN_GRAPH_FILES_H
#define EST_TRAIN_GRAPH_FILES_H

#include "estoc/graph.h"
#include "format/wire.h"

#define EST_GRAPH_FILE "graph.pbtxt"

/* A zeroed struct is empty. */
typedef struct est_graph_files {
    est_wire_writer graph_def; /* a GraphDef of TensorFlow's ops */
    est_wire_writer meta;      /* a MetaGraphDef with it, its variables listed */
} est_graph_files;

/* Makes both. Ops of our own that cannot be lowered with what is known of shapes stay as they are. */
EST_MUST_CHECK est_status est_graph_files_make(const est_graph *graph, est_graph_files *out);

/* Writes the GraphDef as <dir>/graph.pbtxt, in one step. */
EST_MUST_CHECK est_status est_graph_files_write(const est_graph_files *files, const char *dir);

void est_graph_files_clear(est_graph_files *files);

#endif
