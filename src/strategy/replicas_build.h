/* SPDX-License-Identifier: Apache-2.0
 *
 * Towers: the replicas of a graph, built side by side.
 *
 * Each replica is built by a thread of its own, the first by the caller's. Exactly one of them has the turn, and gives it away only
 * where it merges or returns: the first, then the second, ... then what they merge, then the first again. So builders run one at a
 * time, and the graph comes out the same each time. A replica that fails, or poisons the graph, lets the others go: merges give
 * them poison, and they come to an end by themselves. */
#ifndef EST_STRATEGY_REPLICAS_BUILD_H
#define EST_STRATEGY_REPLICAS_BUILD_H

#include "graph/replicas.h"

/* Builds one replica; a failure poisons the graph. */
typedef est_status (*est_replica_build_fn)(int replica, void *user);

/* Calls `build` for each replica. Of `replicas` those members that est_replicas_begin asks for are set, and the owner. The answer is
 * the graph's status. */
EST_MUST_CHECK est_status est_replicas_build(est_graph *graph, est_replicas replicas, est_replica_build_fn build,
                                             void *user);

#endif
