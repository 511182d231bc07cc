/* SPDX-License-Identifier: Apache-2.0
 *
 * TrackableObjectGraph: the message by which a TensorFlow 2 checkpoint says what its tensors belong to. Keys of such a
 * checkpoint are paths through the program's objects ("model/layer-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"); the message
 * knows the variables' names ("dense/kernel"), and which object has which others as its children.
 *
 * Threading: one thread at a time while it is read, any thread after. */
#ifndef EST_FORMAT_OBJECT_GRAPH_H
#define EST_FORMAT_OBJECT_GRAPH_H

#include "base/alloc.h"
#include "base/map.h"
#include "estoc/checkpoint.h"
#include "format/wire.h"

#define EST_OBJECT_GRAPH_KEY "_CHECKPOINTABLE_OBJECT_GRAPH" /* under which a checkpoint holds the message */

/* A tensor that belongs to an object, if its variable has a name. Strings are the graph's. */
typedef struct est_object_tensor {
    const char *full_name;      /* of the variable */
    const char *checkpoint_key; /* of its tensor */
    int         n_same_name;    /* tensors of that name; more than 1: the name says not which */
} est_object_tensor;

/* An object by the name that its parent has for it. */
typedef struct est_object_child {
    struct est_object_child *next;
    const char              *name;
    int64_t                  node; /* as it was read: it may be outside of the graph */
} est_object_child;

/* A variable of an optimizer for another one, by its slot_variables. */
typedef struct est_object_slot {
    struct est_object_slot *next;
    const char             *name;
    int64_t                 variable, slot; /* as they were read */
} est_object_slot;

typedef struct est_object {
    est_object_child *children, *last;
    est_object_slot  *slots, *last_slot;
    const char       *full_name, *checkpoint_key; /* of its value; NULL: it has none */
} est_object;

/* A zeroed struct is an empty graph. */
typedef struct est_object_graph {
    est_arena  *arena;
    est_map     by_name; /* full_name to est_object_tensor, the first of that name */
    est_map     by_key;  /* checkpoint_key to est_object_tensor */
    int32_t     n_nodes; /* objects */
    est_object *nodes;   /* [n_nodes] in the arena; the first is the root */
    int32_t     nodes_max;
} est_object_graph;

/* Reads a message into an empty graph; its strings are copied. The graph is to be cleared also after a failure. */
EST_MUST_CHECK est_status est_object_graph_parse(est_object_graph *graph, est_str bytes);

/* The object that `node` has by this name; -1: none. */
int32_t est_object_graph_child(const est_object_graph *graph, int32_t node, const char *name);

/* Adds an object to a graph, which is to be cleared also after a failure; makes it a child of another, its name copied;
 * sets what its value is called, both copied. */
EST_MUST_CHECK est_status est_object_graph_add(est_object_graph *graph, int32_t *out);
EST_MUST_CHECK est_status est_object_graph_link(est_object_graph *graph, int32_t parent, const char *name,
                                                int32_t child);
EST_MUST_CHECK est_status est_object_graph_value(est_object_graph *graph, int32_t node, const char *full_name,
                                                 const char *checkpoint_key);

/* The same as an array in the arena of the graph, and the other way round: into an empty graph, which is to be cleared
 * also after a failure. EST_INVALID_ARGUMENT: a number is that of no object. */
EST_MUST_CHECK est_status est_object_graph_list(est_object_graph *graph, est_saved_objects *out);
EST_MUST_CHECK est_status est_object_graph_make(est_object_graph *graph, est_saved_objects objects);

/* Writes the message. */
void est_object_graph_put(const est_object_graph *graph, est_wire_writer *w);

void est_object_graph_clear(est_object_graph *graph);

#endif
