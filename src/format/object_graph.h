/* SPDX-License-Identifier: Apache-2.0
 *
 * TrackableObjectGraph: the message by which a TensorFlow 2 checkpoint says what its tensors belong to. Keys of such a
 * checkpoint are paths through the program's objects ("model/layer-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"); the message
 * knows the variables' names ("dense/kernel"), which is all that is read of it.
 *
 * Threading: one thread at a time while it is read, any thread after. */
#ifndef EST_FORMAT_OBJECT_GRAPH_H
#define EST_FORMAT_OBJECT_GRAPH_H

#include "base/alloc.h"
#include "base/map.h"
#include "estoc/tensor.h"

#define EST_OBJECT_GRAPH_KEY "_CHECKPOINTABLE_OBJECT_GRAPH" /* under which a checkpoint holds the message */

/* A tensor that belongs to an object, if its variable has a name. Strings are the graph's. */
typedef struct est_object_tensor {
    const char *full_name;      /* of the variable */
    const char *checkpoint_key; /* of its tensor */
    int         n_same_name;    /* tensors of that name; more than 1: the name says not which */
} est_object_tensor;

/* A zeroed struct is an empty graph. */
typedef struct est_object_graph {
    est_arena *arena;
    est_map    by_name; /* full_name to est_object_tensor, the first of that name */
    est_map    by_key;  /* checkpoint_key to est_object_tensor */
    int32_t    n_nodes; /* objects */
} est_object_graph;

/* Reads a message into an empty graph; its strings are copied. The graph is to be cleared also after a failure. */
EST_MUST_CHECK est_status est_object_graph_parse(est_object_graph *graph, est_str bytes);

void est_object_graph_clear(est_object_graph *graph);

#endif
