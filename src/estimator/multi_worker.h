/* SPDX-License-Identifier: Apache-2.0
 *
 * An estimator as one of several workers that train together, step by step (multi_worker_mirrored).
 *
 * All workers have the same variables at the same step. They meet (collective/membership.h) before the first step and whenever one was
 * lost or has come: then whoever has the variables of the highest step gives them to all. A worker whose batch went
 * into a step that others have completed goes on behind it; the others, if nobody has completed it, make it again.
 *
 * Input: every worker takes as many batches a step as it has replicas, so where its input is follows from the step. Now and then all
 * tell each other their positions; whoever has to begin anew gets the last one of its own, and reads on from there. */
#ifndef EST_ESTIMATOR_MULTI_WORKER_H
#define EST_ESTIMATOR_MULTI_WORKER_H

#include "collective/membership.h"
#include "estimator/cluster_task.h"

#define EST_EXTRA_POSITIONS "estoc/input_positions" /* uint8 [n]: of all workers, see est_multi_worker_positions */

typedef struct est_multi_worker {
    est_cluster_task    job;
    est_membership     *membership; /* NULL: it trains alone */
    est_membership_view view;
    bool                met;      /* and the variables of that meeting have still to be shared */
    int                 n, self;  /* tasks that train, and which of them this is */
    int                 replicas; /* batches a step */

    /* Where the inputs of all were at a step; zeroed: all began there. */
    int64_t      at_step;
    est_gathered positions;
} est_multi_worker;

/* Whether a training by this estimator is one of several workers. */
bool est_is_multi_worker(const est_estimator *estimator, const est_strategy *strategy);

/* max_steps: of the training, 0: none; whoever waits for a meeting looks whether it has come to its end without this worker.
 * EST_OFF: it is no training. */
EST_MUST_CHECK est_status est_multi_worker_open(est_estimator *estimator, const est_strategy *strategy,
                                                int64_t max_steps, est_multi_worker *out);
void                      est_multi_worker_close(est_multi_worker *multi_worker);

/* Before it is closed: what was done together has failed here, unless it is EST_OK, and the others are told why. */
void est_multi_worker_fail(est_multi_worker *multi_worker, est_status status);

/* Meets the others, unless that was done and nothing has come of it yet. step -1: no variables. `word`: see est_membership_join. */
EST_MUST_CHECK est_status est_multi_worker_join(est_multi_worker *multi_worker, int64_t step, const char *payload);

/* What a worker without a batch feeds in place of its input: nothing of everything that meets. In the arena, but for the tensors,
 * which est_multi_worker_free_idle gives back. */
EST_MUST_CHECK est_status est_multi_worker_idle(est_graph *graph, est_arena *arena, est_loop_multi_worker *out);
void                      est_multi_worker_free_idle(const est_loop_multi_worker *idle);

/* After a meeting: variables, run count and positions as the source of the meeting has them. */
EST_MUST_CHECK est_status est_multi_worker_transfer(est_multi_worker *multi_worker, est_session *session);

/* Puts an input that is at its beginning where this worker's is before the step after `step`. */
EST_MUST_CHECK est_status est_multi_worker_seek(const est_multi_worker *multi_worker, est_iterator *input,
                                                const est_dataset *dataset, int64_t step);

/* After a step, on all workers: all know the positions of all then. */
EST_MUST_CHECK est_status est_multi_worker_note(est_multi_worker *multi_worker, est_iterator *input, int64_t step);

/* Gives variables, of which each worker has its own, and `counts` the sums of those of all. A worker that is lost meanwhile is waited
 * for, and adds what it has when it is back: what this one has is as before until all is summed. All but the first of the
 * meeting return when that one has called est_membership_end_job, since without them it could not begin anew. */
EST_MUST_CHECK est_status est_multi_worker_sum(est_multi_worker *multi_worker, est_session *session,
                                               est_nodes variables, double *counts, int n_counts);

/* After a meeting that leaves nothing to do: the first of it returns when all know what was agreed on, and is to call
 * est_membership_end_job; the others return when it has. One that left before would be waited for. */
EST_MUST_CHECK est_status est_multi_worker_await_end(est_multi_worker *multi_worker);

/* What is known of them, for a checkpoint, and back from one. */
EST_MUST_CHECK est_status est_multi_worker_positions(const est_multi_worker *multi_worker, est_tensor **out);
EST_MUST_CHECK est_status est_multi_worker_set_positions(est_multi_worker *multi_worker, const est_tensor *positions);

#endif
