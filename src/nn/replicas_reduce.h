/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduces values across the replicas of a graph, and then across all workers.
 *
 * Used by merge functions (graph/replicas.h). A mean is weighted by examples if their numbers are known: a replica
 * without examples adds nothing, not even a NaN. */
#ifndef EST_NN_REPLICAS_REDUCE_H
#define EST_NN_REPLICAS_REDUCE_H

#include "nn/nn.h"

/* State that all values of one reduction share. */
typedef struct est_replica_reduction {
    est_graph         *graph;
    est_replica_reduce how;
    int                n;
    bool               across_workers;
    est_node          *share; /* [n]: of a mean: the replica's share of all examples, F64; NULL: equal shares */
    est_node          *has;   /* [n]: whether the replica has examples; NULL: all have */
    est_node total; /* number of examples of this process, or of replicas; EST_NO_NODE: not needed without peers */
} est_replica_reduction;

/* Begins a reduction, outside of every replica. weight: [n] scalars F32, the examples of each replica; NULL: equal
 * weights. */
est_replica_reduction est_replica_reduction_begin(est_graph *graph, est_replica_reduce how, const est_node *weight);

/* One value of each replica, of one shape and dtype: floats, or for sums int32 and int64. */
est_node est_replica_reduce_value(const est_replica_reduction *reduction, const est_node *values);

/* The gradients of a variable; rows come out with duplicates, or with peers without. A replica may have none. */
est_gradient est_replica_reduce_gradient(const est_replica_reduction *reduction, est_node variable,
                                         const est_gradient *gradients);

#endif
