/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions across the replicas of a graph, and then across workers; built in merges (graph/replicas.h).
 *
 * A mean is weighted by examples where their numbers are known: a replica without examples adds nothing, not even a
 * NaN. */
#ifndef EST_NN_REPLICAS_REDUCE_H
#define EST_NN_REPLICAS_REDUCE_H

#include "nn/nn.h"

/* What all values of one merge have in common. */
typedef struct est_replica_reduction {
    est_graph    *graph;
    est_reduce_op how;
    int           n;
    bool          across_workers;
    bool          meet;  /* replicas are on several devices, and their values meet on the host */
    est_node     *share; /* [n]: of a mean: the replica's part of all examples, F64; NULL: equal parts */
    est_node     *has;   /* [n]: whether it has examples; NULL: all have */
    est_node      total; /* number of examples here, or of replicas; EST_NO_NODE: not needed without other workers */
} est_replica_reduction;

/* In a merge. weight: [n] scalars F32, the numbers of examples; NULL: equal weights. */
est_replica_reduction est_replica_reduction_begin(est_graph *graph, est_reduce_op how, const est_node *weight);

/* One value of each replica, of one shape and dtype: floats, or for sums int32 and int64. */
est_node est_replica_reduce_value(const est_replica_reduction *reduction, const est_node *values);

/* The gradients of a variable; rows are deduplicated only across workers. A replica may have no gradient. */
est_gradient est_replica_reduce_gradient(const est_replica_reduction *reduction, est_node variable,
                                         const est_gradient *gradients);

#endif
