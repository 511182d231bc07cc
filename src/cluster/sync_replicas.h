/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous steps: a step is the mean of what n workers push.
 *
 * Every push carries the id of the step that it was computed for. A task accumulates the pushes for its current step
 * (est_server.version) and drops older ones: the work of spare workers that came late. A worker that has pushed to all
 * tasks sends FINISH_STEP to the clock, which parks the request. When enough workers wait, the clock asks one of them
 * to commit: it has all other tasks, and then the clock, apply what they accumulated. With that the clock counts the
 * step and answers all who wait. If the committer dies, another waiting worker, or a task that holds steps for a
 * checkpoint, commits instead. Commits are idempotent.
 *
 * After a rollback to a checkpoint the global step is smaller, and pushes for a later step are void. So steps are
 * numbered within a timeline, which the clock begins when it starts and whenever its step goes back. Numbers of
 * timelines rise with time, as incarnations do, and ids of an earlier timeline are old, whatever their step. The time
 * of a restarted clock may be behind, so the chief tells all tasks the timeline of the clock after it has restored the
 * variables. Until then they refuse an earlier timeline than theirs, rather than drop pushes for a step that counts.
 *
 * What goes into a step:
 *   SY1  Updates are accumulated by segment. What a worker fetches does not change the segments that it pushes (C5 in
 *        runtime/partition.c). A worker that pushes another segment for a variable than the others is refused.
 *   SY2  A segment is applied once in a step. If a later one fails, the step is repeated without it.
 *   SY3  A step that no committer can apply is dropped at all tasks, and its workers fail as the committer did.
 *
 * A segment accumulates one push per worker and step. Enough workers are those that sync_replicas asks for. They have a
 * minute to come for the first time; after that, and when some of them are lost, the workers that are connected are
 * enough. */
#ifndef EST_CLUSTER_SYNC_REPLICAS_H
#define EST_CLUSTER_SYNC_REPLICAS_H

#include "cluster/accumulator.h"
#include "cluster/clients.h"

/* Seconds that all workers have to come for the first time; then steps go on without the rest. */
#define EST_GATHER_SECS 60.0

/* What the server keeps about a segment of its host. */
typedef struct est_segment_state {
    bool             known;       /* it was entered */
    int              users;       /* how often, by clients that have not left it */
    int64_t          ns;          /* duration of a run, averaged */
    bool             counts;      /* it counts the global step */
    int              phase;       /* in its step */
    bool             has_run;     /* with a commit, */
    est_step_id      ran;         /* that of this step */
    est_accumulator *accumulator; /* NULL: nothing was pushed yet */
    uint64_t        *came;        /* [n_came]: fingerprints of the workers that have pushed */
    int              n_came, max_came;
} est_segment_state;

/* Accumulates the inputs of a push for a step. Under host_lock. */
EST_MUST_CHECK est_status est_sync_replicas_add(est_server *server, est_request *request, int segment,
                                                est_step_id step);

/* Applies what was accumulated for a step, unless that was done. Under host_lock. */
EST_MUST_CHECK est_status est_sync_replicas_commit(est_server *server, est_step_id step);

/* Whether the segment takes part in a step that is not complete: pushes were accumulated, or applied (SY2). Under
 * host_lock. */
bool est_sync_replicas_needs(const est_server *server, int segment);

/* Drops what was accumulated for a step that cannot be made. Under host_lock. */
void est_sync_replicas_drop(est_server *server, est_step_id step);

/* At the clock: fails the requests that wait for a step. Under `lock`. */
void est_sync_replicas_fail_step(est_server *server, est_step_id step, est_status status, const char *why);

/* At the clock: a worker begins its first step; a worker has pushed a whole step, and waits. Under `lock`. */
void                      est_sync_replicas_join(est_server *server, est_client *client);
EST_MUST_CHECK est_status est_sync_replicas_finish_step(est_server *server, est_request *request);

/* Answers the workers whose step was made, and asks one to commit when enough have pushed. Under `lock`. */
void est_sync_replicas_wake(est_server *server);

#endif
