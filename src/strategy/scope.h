/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of strategy/ share of contexts across replicas. */
#ifndef EST_STRATEGY_SCOPE_H
#define EST_STRATEGY_SCOPE_H

#include "strategy/strategy.h"

/* Puts the graph into the context across the strategy's replicas, unless it is there already; `own` is used then, until
 * est_strategy_leave. False: it is another strategy's or in a replica, and was poisoned; `what` names the function in
 * the text. */
bool est_strategy_enter(const est_strategy *strategy, est_graph *graph, const char *what, est_replicas *own);
void est_strategy_leave(est_graph *graph, const est_replicas *own);

#endif
