/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas: several copies of a computation in one graph, each for its part of a batch, which share variables.
 *
 * While a replica is built the graph has a scope ("replica_1/" for the second; none for the first), and a later replica
 * gets the variables and tables that the first has made. Collections of a replica ("losses", "update_ops") are its own.
 * Updates of variables are built once for all: est_replicas_merge waits until all replicas have called it, calls
 * `build` with the argument of each, and returns the result to all. So every replica must merge the same things in the
 * same order.
 *
 * To graph/reuse.h a replica is a build, of which the first is replica 0: it finds the shared variables by name and
 * order.
 *
 * Replicas are built by threads of which one runs at a time, the first up to its first merge, then the second, and so
 * on (strategy/replicas_build.c): the graph is the same each time. Builders need not know of it. */
#ifndef EST_GRAPH_REPLICAS_H
#define EST_GRAPH_REPLICAS_H

#include "estoc/reduce_op.h"
#include "graph/graph.h"

typedef struct est_replicas      est_replicas;
typedef struct est_replica_place est_replica_place; /* graph/replicas.c's own */

/* Builds what all replicas merge; args[n]: in order of replicas. */
typedef est_node (*est_merge_build)(est_graph *graph, void *const *args, int n);

struct est_replicas {
    int  n;                   /* copies in this graph */
    int  current;             /* the one that is being built; -1: none, for example in a merge */
    int  first_global, total; /* number of copy 0 among the copies of all workers, and their number */
    bool across_workers;      /* other workers build the same, and reductions include them (EstReduce) */
    bool shares_states;       /* states of metrics are sums over all replicas after every step (nn/metric_shared.c) */

    /* [n]: the number of examples in each copy's batch, scalars F32; NULL: equal weights. Borrowed. */
    const est_node *weight;

    /* Gradients of the copies are summed, as by tf.distribute's optimizers (the loss is divided by the global batch
     * then), or averaged by examples, for estimators whose loss is a mean over its batch. */
    est_reduce_op gradients;

    /* true: an optimizer sets `gradients` from `last_loss`, as in tf.estimator: the gradients of a loss that is a sum
     * over its batch are summed. */
    bool          by_loss;
    est_reduce_op last_loss;

    /* What merges pin operations to, in place of the device of the first copy, where copies are on several devices:
     * "/device:GPU:*" (runtime/local_devices.h, D4). Their values then meet on the host. NULL: the first copy's */
    const char *merge_device;

    const void *owner; /* the strategy; NULL: none */
    int         depth; /* open scopes of the owner */

    /* Passes the turn of the current thread until all replicas have merged (strategy/replicas_build.c). */
    est_node (*merge)(est_replicas *self, est_merge_build build, void *arg);

    est_replica_place *places; /* scopes and builds of each replica, and those of the graph outside */
};

/* The replicas of a graph; NULL: it has none. Borrowed. */
est_replicas *est_graph_replicas(const est_graph *graph);
void          est_graph_set_replicas(est_graph *graph, est_replicas *replicas);

/* Begins and ends building the replicas of a graph in its current scope; the end restores the graph's state. The first
 * four members, `weight`, `gradients` and `by_loss` must be set. A begin that fails has poisoned the graph and needs no
 * end. */
EST_MUST_CHECK est_status est_replicas_begin(est_graph *graph, est_replicas *replicas);
void                      est_replicas_end(est_graph *graph, est_replicas *replicas, est_replicas *before);

/* Continues another replica where it stopped; -1: a merge, where the first stopped. */
void est_replicas_turn(est_graph *graph, int replica);

/* Whether a replica is being built, and whether it is a later one, which shares the variables of the first. */
bool est_in_replica(const est_graph *graph);
bool est_in_later_replica(const est_graph *graph);

/* In a replica: sets last_loss, the reduction of a loss over its batch. Nothing outside. */
void est_replicas_set_loss(est_graph *graph, est_reduce_op how);

/* The number of the current replica among those of all workers; 0 outside. */
int est_global_replica(const est_graph *graph);

/* In a replica: calls replicas->merge. */
est_node est_replicas_merge(est_graph *graph, est_merge_build build, void *arg);

#endif
