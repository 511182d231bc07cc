/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that are added to a GraphDef under names that are free, and those that save and restore variables. */
#ifndef EST_ESTIMATOR_SAVE_NODES_H
#define EST_ESTIMATOR_SAVE_NODES_H

#include "base/map.h"
#include "format/meta_graph_def.h"

typedef struct est_node_builder {
    est_arena     *arena;
    est_graph_def *def;
    est_map        names; /* of all nodes of def; to be cleared */
} est_node_builder;

/* Takes the names of the nodes that are there. */
EST_MUST_CHECK est_status est_node_builder_init(est_node_builder *b);

/* A new node scope/name, with a number behind it if there is one of that name. */
EST_MUST_CHECK est_status est_node_builder_node(est_node_builder *b, const char *scope, const char *name,
                                                const char *op, est_graph_def_node **node);

/* An input of a node: output k of `from`, or a control edge when k is -1. */
EST_MUST_CHECK est_status est_node_builder_input(est_node_builder *b, est_graph_def_node *node, const char *from,
                                                 int k);

EST_MUST_CHECK est_status est_node_builder_const(est_node_builder *b, const char *scope, const char *name,
                                                 est_dtype dtype, est_shape shape, const void *values,
                                                 const char **out);

/* A variable as checkpoints have it. */
typedef struct est_saved_node {
    const char *key;  /* its name there */
    const char *node; /* its handle */
    const char *read; /* the operation that reads it */
    est_dtype   dtype;
} est_saved_node;

/* Adds one operation that saves n variables and one that restores them, and says so in `meta`. */
EST_MUST_CHECK est_status est_add_saver(est_node_builder *b, est_meta_graph_def *meta, const est_saved_node *variables,
                                        int n, int32_t keep_max);

#endif
