/* SPDX-License-Identifier: Apache-2.0
 *
 * The multi_worker_mirrored strategy from the inside: every worker has its copy of the variables, and all make every
 * step together.
 *
 * The workers agree on a view (collective/membership.h) before the first step, and whenever one was lost or has come:
 * the worker with the variables of the highest step transfers them to all. A worker whose batch went into a step that
 * others have completed goes on behind it; a step that no worker has completed is made again by all.
 *
 * The leader is the worker with the lowest rank of the view: the chief as long as it is there. It has the lock of the
 * directory, saves, leaves the end mark and ends the job. A worker that has made its last step stays until it hears
 * of that. When a worker is lost for good the others go on (`elastic`); or the process that has or gets the lock
 * saves the step that all are at, and all end with an error. */
#ifndef EST_STRATEGY_MULTI_WORKER_H
#define EST_STRATEGY_MULTI_WORKER_H

#include "collective/membership.h"
#include "strategy/run.h"

/* The state of a run. */
typedef struct est_multi_worker {
    est_run            *run;
    est_membership     *membership; /* NULL: not started */
    est_membership_view view;       /* the last */
    bool                pending;    /* the variables of that view have still to be transferred */

    /* Of a training. */
    char         payload[48];   /* seed and last step of the job, the same on all workers */
    bool         agreed;        /* the payload is the job's */
    est_hook     standby_saver; /* of a worker that is not the chief */
    est_hook    *saves;         /* what that saves with; NULL: it has not led yet */
    bool         partial;       /* some variables are those of another worker, some its own */
    bool         seeks;         /* the input is not where the step needs it */
    bool         fell_back;     /* the newest checkpoint here cannot be read; the one that can is of fallen_to */
    int64_t      fallen_to;
    est_tensor **idle; /* [n_idle]: what is fed after the input has ended */
    int          n_idle;

    /* The positions of the inputs of all workers at a step; zeroed: all began there. */
    int64_t      at_step;
    est_gathered positions;
    int64_t      noted_runs; /* of the loop, when they were last gathered */
} est_multi_worker;

/* Agrees on a view with the other workers, unless one is pending. step, payload: see est_membership_join. */
EST_MUST_CHECK est_status est_multi_worker_join(est_multi_worker *m, int64_t step, const char *payload);

/* After that: variables, run count and positions of all as the source of the view has them. */
EST_MUST_CHECK est_status est_multi_worker_transfer(est_multi_worker *m, est_session *session);

/* Zero-sized values for every all-reduced tensor of a graph, fed by a worker whose input has ended. The lists are in
 * the graph's arena; the tensors are the caller's. */
EST_MUST_CHECK est_status est_multi_worker_idle(est_graph *graph, est_loop_strategy *out, est_tensor ***values,
                                                int *n_values);

/* Waits for a collective operation; a group that failed or is late is EST_ABORTED: to rejoin. */
EST_MUST_CHECK est_status est_multi_worker_await(est_work *work);

/* --- multi_worker_input.c: positions of inputs -------------------------------------------------------------------- */

/* Positions as bytes, for checkpoints and for other workers. */
EST_MUST_CHECK est_status est_positions_save(const est_multi_worker *m, est_tensor **out);
EST_MUST_CHECK est_status est_positions_restore(est_multi_worker *m, const est_tensor *positions);
EST_MUST_CHECK est_status est_positions_unpack(est_multi_worker *m, const char *bytes, size_t size);

/* On all workers of the view: the packed positions of its source, and what its owner packs (NULL: nothing); freed with
 * est_free. */
EST_MUST_CHECK est_status est_positions_broadcast(est_multi_worker *m, char **out, size_t *size);
EST_MUST_CHECK est_status est_owned_broadcast(est_multi_worker *m, char **out, size_t *size);

/* On all workers, after a step: all gather the positions of all. */
EST_MUST_CHECK est_status est_positions_gather(est_multi_worker *m, est_iterator *input, int64_t step);

/* Moves an input that is at its beginning to where this worker's is after `step`. */
EST_MUST_CHECK est_status est_positions_seek(const est_multi_worker *m, est_iterator *input, const est_dataset *dataset,
                                             int64_t step);

/* --- multi_worker_evaluate.c -------------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_multi_worker_check_states(const est_graph *graph);
EST_MUST_CHECK est_status est_multi_worker_agree(est_run *run, est_status prepared);
EST_MUST_CHECK est_status est_multi_worker_begin_evaluation(est_run *run, est_loop *loop);
EST_MUST_CHECK est_status est_multi_worker_reduce(est_run *run, est_session *session, est_nodes variables,
                                                  double *counts, int n_counts);

#endif
