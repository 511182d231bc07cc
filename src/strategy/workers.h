/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks of a cluster that train together, by rank: the chief (or the master that clusters had before), then the workers. */
#ifndef EST_STRATEGY_WORKERS_H
#define EST_STRATEGY_WORKERS_H

#include "collective/membership.h"
#include "strategy/strategy.h"

/* How many there are, and which of them a task is; -1: none. Indices may have gaps, ranks have none. */
int est_count_ranks(const est_cluster *cluster);
int est_rank_of(const est_task *task);

/* Makes the ensemble of all of them. The server is the task's. Of the options tasks, n and self are filled in here, and what the
 * strategy says where it is zero. */
EST_MUST_CHECK est_status est_membership_of_task(est_server *server, const est_task *task, const est_strategy *strategy,
                                                 const est_membership_options *options, est_membership **out);

#endif
