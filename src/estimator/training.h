/* SPDX-License-Identifier: Apache-2.0
 *
 * A training from the inside: what train.c, which does it, shares with train_restore.c and with the checks before
 * it. */
#ifndef EST_ESTIMATOR_TRAINING_H
#define EST_ESTIMATOR_TRAINING_H

#include "estimator/estimator.h"
#include "train/done_mark.h"
#include "train/summary_writer.h"

typedef struct est_training {
    est_estimator           *estimator;
    const est_train_options *options;
    est_train_call           call;
    est_run                  run;
    est_saver               *saver;
    est_summary_writer      *summaries;
    est_dataset             *input;
    est_model               *model;
    est_node                 step_after;     /* the global step as it is after a run */
    bool                     was_done;       /* the last training here had come to its end, and its mark is there */
    est_done_mark            mark;           /* that, and then the one of this training */
    est_hook                 edges;          /* takes the mark away; lets the strategy see steps and the end */
    est_hook               **hooks;          /* [n_hooks] */
    int                      n_hooks, given; /* how many, and the first that the caller gave */
    est_hook                *own[8];         /* [n_own]: hooks made here */
    int                      n_own;
    est_hook                *checkpoint_saver; /* that saving listeners were lent to; NULL: none */
} est_training;

/* --- train_restore.c ---------------------------------------------------------------------------------------------- */

/* The restore of est_run_owner and the extras of est_loop_spec; `user` is the training. */
EST_MUST_CHECK est_status est_training_restore(void *user, est_loop *loop, const est_reached *had);
EST_MUST_CHECK est_status est_training_extras(void *user, est_loop *loop, est_extra *extras, int n_max, int *n);

/* --- train_and_evaluate.c ----------------------------------------------------------------------------------------- */

/* Which process evaluates a training: a program on its own, and a master, which clusters had before there were chiefs
 * and evaluators; all workers after the training, where eval_distribute says so and the cluster lists no evaluator. */
bool est_evaluates_itself(const est_task *task);
bool est_evaluates_across_workers(const est_estimator *estimator);

/* final_evaluation.c: whether the cluster lists an evaluator, or one is at work on the results of these evaluations. */
bool est_has_evaluator(const est_estimator *estimator, const est_eval_spec *eval);

/* Least time between evaluations; 0: none. */
double est_throttle_secs(const est_eval_spec *eval);

#endif
