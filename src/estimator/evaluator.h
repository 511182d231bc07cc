/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluating a model directory, shared by train_and_evaluate.c (an evaluation after every checkpoint) and
 * final_evaluation.c (one evaluation after several tasks have trained).
 *
 * Threading: one thread at a time. */
#ifndef EST_ESTIMATOR_EVALUATOR_H
#define EST_ESTIMATOR_EVALUATOR_H

#include "base/strbuf.h"
#include "estimator/job_watch.h"
#include "estimator/training.h"
#include "train/checkpoint_watch.h"
#include "train/lock.h"
#include "train/pin.h"

typedef struct est_evaluator {
    est_estimator        *estimator;
    const est_train_spec *train;
    const est_eval_spec  *eval;
    est_dataset          *checked; /* before the training, for the first evaluation, as input_fn may be slow */
    char                  seen[EST_CHECKPOINT_PATH_MAX]; /* the latest checkpoint at the time of the last evaluation */
    est_pin               pin;                     /* the evaluated checkpoint; older than `seen` if that is damaged */
    est_metrics          *metrics;                 /* results of the last evaluation; NULL: none yet */
    bool                  exported_final;          /* exporters were called with is_the_final_export */
    bool                  gone;                    /* the last pass found all checkpoints deleted */
    int64_t               warned_ns, abandoned_ns; /* when the log last said that there is no checkpoint */
    int64_t               none_ns;                 /* since when there is no checkpoint; 0: a checkpoint exists */
    double                tell_secs;               /* interval of that log line */
    est_dir_watch         dir;                     /* the model directory, for an evaluator task */
    est_job_watch         watch;                   /* watches the job while there is no checkpoint */
    est_dir_lock         *lock;                    /* lock of the results directory; NULL: not taken */
    bool                  refused;                 /* the log already says that the lock is taken */
    bool                  waits;                   /* another process has the lock */
    bool                  met_other;               /* another process had the lock, or an evaluator was seen */

    /* For a task that trains in a cluster. */
    est_hook hook;
    int64_t  look_ns;  /* time of the next check for an evaluator */
    bool     finished; /* the multi-worker evaluation at the end is done */
} est_evaluator;

/* --- train_and_evaluate.c ----------------------------------------------------------------------------------------- */

/* The directory for the results of evaluations. */
EST_MUST_CHECK est_status est_evaluator_results_dir(const est_estimator *estimator, const est_eval_spec *eval,
                                                    est_strbuf *out);

/* Logs that there is no checkpoint in the directory, at once and then at the intervals of other waits
 * (cluster/wait_table.h). */
void est_evaluator_tell_none(est_evaluator *e);

/* Evaluates unconditionally, and does not export. */
EST_MUST_CHECK est_status est_evaluator_evaluate(est_evaluator *e, est_metrics **out);

/* Evaluates the latest checkpoint unless the last evaluation was of it, and exports; *evaluated says whether it did.
 * `final`: training is over. If the latest checkpoint is damaged, the previous one is evaluated. */
EST_MUST_CHECK est_status est_evaluator_pass(est_evaluator *e, bool final, bool *evaluated);

EST_MUST_CHECK est_status est_evaluator_train(est_evaluator *e, est_hooks hooks, est_saving_listeners listeners,
                                              const est_train_call *call);

/* --- final_evaluation.c ------------------------------------------------------------------------------------------- */

/* Takes the lock of the results directory, and creates the directory. EST_FAILED_PRECONDITION: another process has the
 * lock. *evaluated: another process had it, ended normally, and evaluated the checkpoint of max_steps. */
EST_MUST_CHECK est_status est_evaluator_take_lock(est_evaluator *e, bool *evaluated);

/* Trains as a task of a cluster. The chief makes the final evaluation, unless an evaluator does. */
EST_MUST_CHECK est_status est_evaluator_train_with_others(est_evaluator *e);

#endif
