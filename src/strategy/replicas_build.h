/* SPDX-License-Identifier: Apache-2.0
 *
 * Building the replicas of a graph side by side.
 *
 * Each replica is built by its own thread, the first by the caller's. Exactly one of them has the turn, and passes it
 * only where it merges or returns: the first, then the second, ... then the merge, then the first again. So builders
 * run one at a time, and the graph is the same each time. When a replica fails, or poisons the graph, merges return
 * poison to the others, which then end. */
#ifndef EST_STRATEGY_REPLICAS_BUILD_H
#define EST_STRATEGY_REPLICAS_BUILD_H

#include "graph/replicas.h"

/* Builds one replica; a failure poisons the graph. */
typedef est_status (*est_replica_build_fn)(int replica, void *user);

/* Calls `build` for each replica. `replicas` has the members that est_replicas_begin needs, and the owner. Returns the
 * graph's status. */
EST_MUST_CHECK est_status est_replicas_build(est_graph *graph, est_replicas replicas, est_replica_build_fn build,
                                             void *user);

#endif
