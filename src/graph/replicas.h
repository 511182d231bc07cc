/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas: several copies of a computation in one graph, each for its part of a batch, that share variables.
 *
 * While replica i is built the graph has a scope ("replica_1/" for the second; none for the first) and variables that
 * it asks for by name are those that the first has made. Lists that belong to a replica ("losses", "update_ops") are its own.
 * What changes variables is built once for all: est_replicas_merge waits until all replicas have come there, then calls `build`
 * with what each of them has brought, and gives the answer to all. So every replica must merge the same things in the same order.
 *
 * Replicas are built by threads of which one runs at a time, the first up to its first merge, then the second, and so on: the graph
 * comes out the same each time. Builders need not know of it. */
#ifndef EST_GRAPH_REPLICAS_H
#define EST_GRAPH_REPLICAS_H

#include "graph/graph.h"

typedef struct est_replicas est_replicas;

/* How values of all replicas become one. Weighted: means of examples, see `weight`. */
typedef enum est_meet { EST_MEET_SUM, EST_MEET_MEAN } est_meet;

struct est_replicas {
    int n;                   /* copies in this graph */
    int current;             /* which is built; -1: none, the graph is outside of all (building merges, for one) */
    int first_global, total; /* number of copy 0 among all copies of all workers, and how many there are */
    bool peers;              /* other workers build the same: what meets, meets theirs too (EstReduce) */

    /* The number of examples of each copy's batch as a scalar F32; [n]; EST_NO_NODE: all count the same. */
    est_node *weight;

    /* Whether gradients of the copies are summed, as tf.distribute's optimizers do (a loss is divided by the global batch then),
     * or averaged by examples, as estimators need it whose loss is a mean over their batch. */
    est_meet gradients;

    /* The switch: gives up the current thread's turn until all have come (strategy/towers.c). */
    est_node (*merge)(est_replicas *self, est_node (*build)(void *const *brought, int n, void *user), void *brought,
                      void *user);
};

/* Those of a graph; NULL: it is built as one. Borrowed. */
est_replicas *est_graph_replicas(const est_graph *graph);
void          est_graph_set_replicas(est_graph *graph, est_replicas *replicas);

/* Calls replicas->merge, or `build` right away when the graph is built as one, or outside of its replicas. */
est_node est_replicas_merge(est_graph *graph, est_node (*build)(void *const *brought, int n, void *user), void *brought,
                            void *user);

#endif
