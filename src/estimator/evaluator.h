/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluating a model directory: what train_and_evaluate.c, which does it after checkpoints, shares with
 * final_evaluation.c, which does it once, when several tasks have trained.
 *
 * Threading: one thread at a time. */
#ifndef EST_ESTIMATOR_EVALUATOR_H
#define EST_ESTIMATOR_EVALUATOR_H

#include "base/strbuf.h"
#include "estimator/job_watch.h"
#include "estimator/training.h"
#include "train/lock.h"
#include "train/pin.h"

#define EST_LOOK_AGAIN_SECS 1.0 /* between two looks for the end of the training, or for an evaluator */

typedef struct est_evaluator {
    est_estimator        *estimator;
    const est_train_spec *train;
    const est_eval_spec  *eval;
    char                  seen[EST_CHECKPOINT_PATH_MAX]; /* the checkpoint that was the latest when it was evaluated */
    est_pin               pin;                           /* what was evaluated: an older one when that is damaged */
    est_metrics          *metrics;                       /* of it; NULL: none yet */
    bool                  exported_final;                /* exporters were told that it is the last */
    bool                  gone;                          /* the last pass found all checkpoints deleted */
    int64_t               warned_ns, abandoned_ns;       /* when it was last said that there is nothing; 0: never */
    int64_t               none_ns;                       /* since when there is no checkpoint; 0: there is one */
    double                tell_secs;                     /* after which that is said again */
    est_job_watch         watch;                         /* of the job, meanwhile */
    est_dir_lock         *lock;                          /* of the results; NULL: not taken */
    bool                  refused;                       /* it was said that it cannot be taken */
    bool                  waits;                         /* another process has it */
    bool                  met_other;                     /* another process has had it */

    /* Of a task that trains with others. */
    est_hook hook;
    int64_t  look_ns;  /* when it looks for an evaluator again */
    bool     finished; /* it has evaluated with the others */
} est_evaluator;

/* --- train_and_evaluate.c -------------------------------------------------------------------------------------------- */

/* Where evaluations leave their results. */
EST_MUST_CHECK est_status est_evaluator_results_dir(const est_estimator *estimator, const est_eval_spec *eval,
                                                    est_strbuf *out);

/* The prefix of the checkpoint that trainings go on from and evaluations restore. EST_NOT_FOUND: there is none. */
EST_MUST_CHECK est_status est_evaluator_find_latest(const est_estimator *estimator, char out[EST_CHECKPOINT_PATH_MAX]);

/* There is no checkpoint: says so, at once and as other waits do (cluster/wait_table.h), and where it looks. */
void est_evaluator_tell_none(est_evaluator *e);

/* Evaluates without a thought of what was evaluated before, and does not export. */
EST_MUST_CHECK est_status est_evaluator_evaluate(est_evaluator *e, est_metrics **out);

/* Evaluates the latest checkpoint unless it was the last one, and exports; *evaluated says whether it did. `final`:
 * training is over. The directory is what is restored from: where its latest checkpoint turns out to be damaged the one
 * before it is. */
EST_MUST_CHECK est_status est_evaluator_pass(est_evaluator *e, bool final, bool *evaluated);

EST_MUST_CHECK est_status est_evaluator_train(est_evaluator *e, est_hooks hooks, est_saving_listeners listeners,
                                              const est_train_call *call);

/* --- final_evaluation.c ---------------------------------------------------------------------------------------------- */

/* Takes the lock of the results, and makes their directory. EST_FAILED_PRECONDITION: another process has it.
 * *evaluated: another one has had it, has left in good order, and has evaluated the checkpoint of max_steps. */
EST_MUST_CHECK est_status est_evaluator_take_lock(est_evaluator *e, bool *evaluated);

/* A task that trains with others; of those the one that leads makes the final evaluation, unless another does. */
EST_MUST_CHECK est_status est_evaluator_train_with_others(est_evaluator *e);

#endif
