/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse: what is built again in a graph gets the variables and tables that the first build has made.
 *
 * A build is what happens between est_reuse_begin and est_reuse_end with a key: the address of a layer, of a network,
 * of anything that the graph keeps alive (est_graph_keep). The first build of a key in a graph creates its variables; a
 * later one gets them, and an error where it requests one that the first has not made. Builds nest: a variable belongs
 * to all that are open, and one that an inner build finds is not found again by an outer one.
 *
 * Variables are found by name and order, since names are made unique: the second "dense/kernel" (or "dense_1/kernel")
 * of a build is the second that the first has made. Names count from the scope in which a build has begun. Replicas
 * (graph/replicas.h) are builds of one key, each with builds of its own inside.
 *
 * The state of metrics is not reused: each build has its own (est_reuse_begin_new), unless the program shares it
 * (est_share_begin). */
#ifndef EST_GRAPH_REUSE_H
#define EST_GRAPH_REUSE_H

#include "graph/graph.h"

typedef struct est_reuse        est_reuse;        /* an open build */
typedef struct est_reuse_record est_reuse_record; /* what the first build of a key has made */

/* Begins a build of a model; true: the first of this key in the graph. Every begin needs an end, also after errors.
 * A graph that is NULL has no builds. */
bool est_reuse_begin(est_graph *graph, const void *key);
/* The same for a call of a layer, of which one build of a model may have several. */
bool est_reuse_begin_call(est_graph *graph, const void *key);
/* Variables made until the end are new, except that replicas share them. */
void est_reuse_begin_new(est_graph *graph);
void est_reuse_end(est_graph *graph);

/* The node that the first build has made with `op` and this name, in the current scope unless `absolute`. EST_NO_NODE:
 * there is no first build, so that the caller makes the node and calls est_reuse_keep. Poison: the first build has none
 * of this name, or all are taken. */
est_node est_reuse_find(est_graph *graph, const est_op *op, const char *name, bool absolute);
void     est_reuse_keep(est_node made);

/* Whether what is made now may have been made by an earlier build. */
bool est_reuse_is_later(const est_graph *graph);

/* Whether the variable that was found or made last occurs for the first time in the current build of the model: its
 * regularization loss counts once for each. A layer that is called outside of such a build: once in the graph. */
bool est_reuse_is_new(const est_graph *graph);

/* What the builds of a key have made, in order; empty: it was not built. Borrowed until the graph grows. */
est_nodes est_reuse_nodes(const est_graph *graph, const void *key);

/* A layer, or another model, that the first build of a model has called. */
typedef struct est_reuse_layer {
    const void *key;         /* NULL: it is no object */
    const char *type, *name; /* the class; its own name */
    const char *scope;       /* that of its nodes, "block/dense_1/" */
    const char *wanted;      /* the one that the name it was given asks for; NULL: it was given none */
    est_node    output;      /* of the first call */
    bool        tracked;     /* est_reuse_layer_track */
    int         first, n;    /* what it has made, among est_reuse_nodes of the model */
} est_reuse_layer;

/* Begins and ends a call of a layer, in its scope; what it calls itself is a part of it. `type` is borrowed as long as
 * the graph; `name` and `wanted` (NULL: none) are copied. */
int  est_reuse_layer_begin(est_graph *graph, const void *key, const char *type, const char *name, const char *wanted);
void est_reuse_layer_end(est_graph *graph, int layer, est_node output);

/* Keras counts it among the layers with weights, though it has no variable here. */
void est_reuse_layer_track(est_graph *graph, int layer);

/* The layers of a model in order of their first call. Borrowed until the graph grows. */
const est_reuse_layer *est_reuse_layers(const est_graph *graph, const void *model, int *n);

/* For graph/replicas.c: a record for all replicas, and the build of each. NULL: no memory; the graph is poisoned. */
est_reuse_record *est_reuse_record_create(est_graph *graph, const void *key);
est_reuse        *est_reuse_replica(est_graph *graph, est_reuse_record *record, bool first);

/* For est_graph_free. */
void est_reuse_clear(est_graph *graph);

#endif
