/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks of a cluster that train together, by rank: the chief (or the master that clusters had before), then the workers. */
#ifndef EST_STRATEGY_WORKERS_H
#define EST_STRATEGY_WORKERS_H

#include "strategy/ensemble.h"
#include "strategy/strategy.h"

int est_count_ranks(const est_cluster *cluster);

/* Makes the ensemble of all of them. The server is the task's; connect_secs, over and user as in est_ensemble_options. */
EST_MUST_CHECK est_status est_ensemble_of_task(est_server *server, const est_task *task, const est_strategy *strategy,
                                               double connect_secs, bool (*over)(void *user), void *user,
                                               est_ensemble **out);

#endif
