/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts across replicas. */
#ifndef EST_STRATEGY_RUN_H
#define EST_STRATEGY_RUN_H

#include "strategy/strategy.h"

/* Enters the context across the strategy's replicas, unless the graph is in it; `own` is in use until
 * est_strategy_leave. False: the graph is in another strategy's scope or in a replica, and was poisoned; `what` names
 * the calling function. */
bool est_strategy_enter(const est_strategy *strategy, est_graph *graph, const char *what, est_replicas *own);
void est_strategy_leave(est_graph *graph, const est_replicas *own);

#endif
