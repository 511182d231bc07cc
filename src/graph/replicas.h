/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas: several copies of a computation in one graph, each for its part of a batch, that share variables.
 *
 * While a replica is built the graph has a scope ("replica_1/" for the second; none for the first), and the variables and tables
 * that a later one asks for are those that the first has made. Lists that belong to a replica ("losses", "update_ops") are its
 * own. What changes variables is built once for all: est_replicas_merge waits until all replicas have come there, then calls
 * `build` with what each of them has brought, and gives the answer to all. So every replica must merge the same things in the same
 * order.
 *
 * What is shared is found by name and order, as names are made unique by what was in the graph before: the second "dense/kernel"
 * (or "dense_1/kernel") that a replica asks for is the second that the first has made.
 *
 * Replicas are built by threads of which one runs at a time, the first up to its first merge, then the second, and so on
 * (strategy/replicas_build.c): the graph comes out the same each time. Builders need not know of it. */
#ifndef EST_GRAPH_REPLICAS_H
#define EST_GRAPH_REPLICAS_H

#include "base/map.h"
#include "graph/graph.h"

typedef struct est_replicas      est_replicas;
typedef struct est_replica_place est_replica_place; /* graph/replicas.c's own */

/* How values of all replicas become one. Weighted: means of examples, see `weight`. */
typedef enum est_replica_reduce { EST_REPLICA_SUM, EST_REPLICA_MEAN } est_replica_reduce;

/* What is to be done once for all; `brought` is in order of replicas. */
typedef est_node (*est_merge_build)(est_graph *graph, void *const *brought, int n);

struct est_replicas {
    int  n;                   /* copies in this graph */
    int  current;             /* which is built; -1: none, the graph is outside of all (building merges, for one) */
    int  first_global, total; /* number of copy 0 among all copies of all workers, and how many there are */
    bool across_workers;      /* other workers build the same: what meets, meets theirs too (EstReduce) */

    /* The number of examples of each copy's batch as a scalar F32; [n]; NULL: all count the same. Borrowed. */
    const est_node *weight;

    /* Whether gradients of the copies are summed, as tf.distribute's optimizers do (a loss is divided by the global batch then),
     * or averaged by examples, as estimators need it whose loss is a mean over their batch. */
    est_replica_reduce gradients;

    /* true: an optimizer finds `gradients` out when it is applied, as tf.estimator has it: a loss that is a sum over its batch has
     * gradients that are summed, and the last loss that was reduced (est_reduction) says which it is. */
    bool               by_loss;
    est_replica_reduce last_loss;

    const void *owner; /* whose they are: the strategy; NULL: nobody's */
    int         depth; /* of its open scopes, of which these are */

    /* The switch: gives up the current thread's turn until all have come (strategy/replicas_build.c). */
    est_node (*merge)(est_replicas *self, est_merge_build build, void *brought);

    est_replica_place *places; /* where each of them builds, and where the graph was before */
    est_map            shared; /* names -> what the first has made of them, in order */
};

/* Those of a graph; NULL: it is built as one. Borrowed. */
est_replicas *est_graph_replicas(const est_graph *graph);
void          est_graph_set_replicas(est_graph *graph, est_replicas *replicas);

/* Begins and ends to build the replicas of a graph, in its present scope; what was the graph's before is so again after the
 * end. The first four members, `weight`, `gradients` and `by_loss` must be set. A begin that fails has poisoned the graph and needs no end. */
EST_MUST_CHECK est_status est_replicas_begin(est_graph *graph, est_replicas *replicas);
void                      est_replicas_end(est_graph *graph, est_replicas *replicas, est_replicas *before);

/* Goes on to build another replica where it stopped; -1: what all share, where the first stopped. */
void est_replicas_turn(est_graph *graph, int replica);

/* Whether a replica is built, and whether it is one that gets its variables from the first. */
bool est_in_replica(const est_graph *graph);
bool est_in_later_replica(const est_graph *graph);

/* In a replica: a loss was reduced over its batch so (last_loss). Nothing outside. */
void est_replicas_note_loss(est_graph *graph, est_replica_reduce how);

/* The number of the replica that is built among those of all workers; 0 outside. */
int est_global_replica(const est_graph *graph);

/* Notes what the first replica has made for the others: a variable or a table. Nothing outside of the first. */
void est_replicas_keep(est_node made);

/* In a later replica: what the first has made with `op` under this name, which is within the current scope unless `absolute`.
 * Poison, naming it, when there is none. */
est_node est_replicas_find(est_graph *graph, const est_op *op, const char *name, bool absolute);

/* In a replica: calls replicas->merge. */
est_node est_replicas_merge(est_graph *graph, est_merge_build build, void *brought);

#endif
