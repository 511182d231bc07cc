/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the replicas of a graph meet: values of all of them become one, and behind that those of all workers.
 *
 * For what merges build (graph/replicas.h). A mean is one of examples where their numbers are known: a replica without any
 * adds nothing, not even a NaN. */
#ifndef EST_NN_REPLICAS_REDUCE_H
#define EST_NN_REPLICAS_REDUCE_H

#include "nn/nn.h"

/* What is the same for all values that meet in one place. */
typedef struct est_replica_reduction {
    est_graph         *graph;
    est_replica_reduce how;
    int                n;
    bool               across_workers;
    est_node *share; /* [n]: of a mean: the part of all examples that are a replica's, F64; NULL: all the same */
    est_node *has;   /* [n]: whether it has any; NULL: all have */
    est_node  total; /* of the examples here, or of replicas; EST_NO_NODE: without peers nobody asks */
} est_replica_reduction;

/* In the replicas of the graph, outside of each. weight: [n] scalars F32, how many examples each has; NULL: all the same. */
est_replica_reduction est_replica_reduction_begin(est_graph *graph, est_replica_reduce how, const est_node *weight);

/* One value of each replica, of one shape and dtype: floats, or for sums int32 and int64. */
est_node est_replica_reduce_value(const est_replica_reduction *reduction, const est_node *values);

/* The gradients of a variable; rows come out with duplicates, or with peers without. A replica may have none. */
est_gradient est_replica_reduce_gradient(const est_replica_reduction *reduction, est_node variable,
                                         const est_gradient *gradients);

#endif
