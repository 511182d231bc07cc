/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas: several copies of a computation in one graph, each for its part of a batch, that share variables.
 *
 * While a replica is built the graph has a scope ("replica_1/" for the second; none for the first). Later replicas use
 * the variables and tables that the first created. Lists about a part of the batch ("losses", "update_ops") are per
 * replica. Operations that change variables are built once for all: est_replicas_merge waits until all replicas have
 * called it, then calls `build` with the arguments of all, and returns the result to each. So every replica must make
 * the same merges in the same order.
 *
 * Shared variables are found by name and order, because unique names depend on the earlier contents of the graph: the
 * second "dense/kernel" (or "dense_1/kernel") that a replica requests is the second one that the first created.
 *
 * Replicas are built by threads of which one runs at a time, the first up to its first merge, then the second, and so
 * on (strategy/replicas_build.c): the graph comes out the same each time. Builders need not know of it. */
#ifndef EST_GRAPH_REPLICAS_H
#define EST_GRAPH_REPLICAS_H

#include "base/map.h"
#include "graph/graph.h"

typedef struct est_replicas      est_replicas;
typedef struct est_replica_place est_replica_place; /* graph/replicas.c's own */

/* How values are reduced across replicas. Weighted: means by examples, see `weight`. */
typedef enum est_replica_reduce { EST_REPLICA_SUM, EST_REPLICA_MEAN } est_replica_reduce;

/* Builds something once for all replicas; `brought` is in the order of replicas. */
typedef est_node (*est_merge_build)(est_graph *graph, void *const *brought, int n);

struct est_replicas {
    int  n;                   /* copies in this graph */
    int  current;             /* the one being built; -1: none (a merge, for example) */
    int  first_global, total; /* number of copy 0 among all copies of all workers, and how many there are */
    bool across_workers;      /* other workers build the same graph: reductions also include their values (EstReduce) */

    /* The number of examples of each copy's batch as a scalar F32; [n]; NULL: equal weights. Borrowed. */
    const est_node *weight;

    /* Whether gradients of the copies are summed, as by tf.distribute's optimizers (the loss is then divided by the
     * global batch), or averaged by examples, as for estimators whose loss is a mean over their batch. */
    est_replica_reduce gradients;

    /* true: the optimizer chooses `gradients` when it is applied, as in tf.estimator: it sums the gradients of a loss
     * that is a sum over its batch. The last reduced loss (est_reduction) decides. */
    bool               by_loss;
    est_replica_reduce last_loss;

    const void *owner; /* the strategy that owns them; NULL: none */
    int         depth; /* number of the owner's open scopes, including this one */

    /* Switches to the next replica's thread until all have reached the merge (strategy/replicas_build.c). */
    est_node (*merge)(est_replicas *self, est_merge_build build, void *brought);

    est_replica_place *places; /* the scope and device of each replica, and those of the graph before */
    est_map            shared; /* names -> variables and tables of the first replica, in order */
};

/* The replicas of a graph; NULL: it has none. Borrowed. */
est_replicas *est_graph_replicas(const est_graph *graph);
void          est_graph_set_replicas(est_graph *graph, est_replicas *replicas);

/* Begin and end building the replicas of a graph in its current scope; the end restores the previous state. The first
 * four members, `weight`, `gradients` and `by_loss` must be set. A failed begin has poisoned the graph and needs no
 * end. */
EST_MUST_CHECK est_status est_replicas_begin(est_graph *graph, est_replicas *replicas);
void                      est_replicas_end(est_graph *graph, est_replicas *replicas, est_replicas *before);

/* Continues to build another replica where it stopped; -1: the shared part, in the scope where the first stopped. */
void est_replicas_turn(est_graph *graph, int replica);

/* Whether a replica is being built, and whether it is a later one, which uses the variables of the first. */
bool est_in_replica(const est_graph *graph);
bool est_in_later_replica(const est_graph *graph);

/* In a replica: records how a loss was reduced over its batch (last_loss). Does nothing outside. */
void est_replicas_note_loss(est_graph *graph, est_replica_reduce how);

/* The index of the current replica among those of all workers; 0 outside. */
int est_global_replica(const est_graph *graph);

/* Records a variable or table that the first replica created for the others. Does nothing outside of the first. */
void est_replicas_keep(est_node made);

/* In a later replica: the node that the first created with `op` under this name, which is relative to the current scope
 * unless `absolute`. Poisons the graph, naming it, when there is none. */
est_node est_replicas_find(est_graph *graph, const est_op *op, const char *name, bool absolute);

/* In a replica: calls replicas->merge. */
est_node est_replicas_merge(est_graph *graph, est_merge_build build, void *brought);

#endif
