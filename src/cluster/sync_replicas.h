/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous steps: what n workers push is collected and done as one step.
 *
 * Every run that is segment of a training step carries the step it was computed for, its step. A task that has variables collects
 * what fits the step it is at (est_server.version), and drops what is older: the work of spare workers that came late. When a
 * worker has pushed to all tasks it tells the one that counts steps, the clock, which keeps it waiting. When enough have come one
 * of those who wait is asked to commit: it tells all other tasks and the clock last to do what they have collected. The clock
 * counts the step with that, and all who wait go on. A committer that dies is replaced by another who waits, or by whoever holds
 * steps for a checkpoint; committing again does nothing where it was done.
 *
 * The global step may go back, to that of a checkpoint: then an older step is the one to make, and what was made for a later one is
 * of no use. So steps are numbered within a timeline, which the clock begins when it is started and whenever its step goes back. A
 * later timeline has the greater number, as incarnations do, and tags of an earlier one are old, whatever they say. The time of a clock
 * that was started anew may be behind: so when the chief has restored the variables it tells all tasks which timeline the clock is
 * in. Until then they refuse a timeline before theirs, rather than drop what belongs to a step that is counted.
 *
 * What goes into one step:
 *   S1  Updates are collected by segment, that is, by segment. What a worker fetches does not change the segments that it pushes (C5 in
 *       runtime/partition.c); workers whose updates differ would each make a step of their own. Whoever comes second with another
 *       segment that changes the same variable is refused.
 *   S2  A segment is done once for a step. If a later one fails, the step is made again without it.
 *   S3  What cannot be applied, whoever commits, is dropped at all tasks, and all whose step it was fail as the committer did.
 *
 * Of one worker each segment collects one push a step. Enough is the number of workers that was asked for. They have a minute to come
 * for the first time; after that, or when all have come, and some are gone, all that are left are enough: the step is the
 * mean of what there is, and nobody waits for the dead. */
#ifndef EST_CLUSTER_SYNC_REPLICAS_H
#define EST_CLUSTER_SYNC_REPLICAS_H

#include "cluster/server.h"

/* Seconds that all workers have to come for the first time; then steps are made without the rest. */
#define EST_GATHER_SECS 60.0

/* Collects the inputs of a run for step `step` of a timeline. Under host_lock. */
EST_MUST_CHECK est_status est_sync_replicas_add(est_server *server, est_request *request, int segment,
                                                est_step_id step);

/* Does what was collected for step `step`, unless it was done. Under host_lock. */
EST_MUST_CHECK est_status est_sync_replicas_commit(est_server *server, est_step_id step);

/* Drops what was collected for step `step`, which cannot be made. Under host_lock. At the clock, under `lock`: those who wait for
 * that step are told why. */
void est_sync_replicas_drop(est_server *server, est_step_id step);
void est_sync_replicas_fail_step(est_server *server, est_step_id step, est_status status, const char *why);

/* At the clock, under `lock`: a worker begins to take segment; it has pushed all of a step, and waits. */
void                      est_sync_replicas_join(est_server *server, est_client *client);
EST_MUST_CHECK est_status est_sync_replicas_finish_step(est_server *server, est_request *request);

/* Answers those who need not wait any longer. Under `lock`. */
void est_sync_replicas_wake(est_server *server);

#endif
