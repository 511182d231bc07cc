/* SPDX-License-Identifier: Apache-2.0
 *
 * A training from the inside: what train.c, which does it, shares with train_together.c, which does what it needs
 * when other workers train the same variables step by step. */
#ifndef EST_ESTIMATOR_TRAINING_H
#define EST_ESTIMATOR_TRAINING_H

#include "estimator/done_mark.h"
#include "estimator/multi_worker.h"
#include "train/lock.h"
#include "train/summary_writer.h"

typedef struct est_training {
    est_estimator           *estimator;
    const est_train_options *options;
    est_train_call           call;
    uint64_t                 seed;
    est_dir_lock            *lock;       /* of the directory, unless the caller holds it; NULL: not taken */
    bool                     leads;      /* it has the directory: it saves, marks the end and ends the job */
    bool                     unfinished; /* a signal ended the wait for the others, behind the last step of this task */
    est_saver               *saver;
    est_summary_writer      *summaries;
    est_dataset             *input;
    est_model               *model;
    est_node                 step_after;     /* the global step as it is after a run */
    bool                     input_resumed;  /* it goes on at a saved position, which may be its end */
    bool                     was_done;       /* the last training here had come to its end, and its mark is there */
    est_done_mark            mark;           /* that, and then the one of this training */
    est_hook                 edges;          /* which takes it away, and sees to the end of a job */
    est_hook               **hooks;          /* [n_hooks] */
    int                      n_hooks, given; /* how many, and the first that the caller gave */
    est_hook                *own[8];         /* [n_own]: hooks made here */
    int                      n_own;
    est_hook                *checkpoint_saver; /* that saving listeners were lent to; NULL: none */
    est_cluster_task         cluster;          /* remote NULL: without ps tasks */

    /* Of train_together.c. */
    est_multi_worker      multi_worker;  /* ensemble NULL: without other workers */
    est_loop_multi_worker meets;         /* what the loop knows of them */
    int64_t               last_step;     /* of the job; 0: none */
    char                  payload[48];   /* its seed and its last step, which all have of one of them */
    int64_t               noted_runs;    /* of the loop, when the positions of inputs were last thought of */
    est_hook              standby_saver; /* of the checkpoint saver, in case that the chief is lost */
    est_hook             *saves;         /* what it saves with; NULL: it has not yet */
    bool                  partial;       /* the variables are partly those of another worker */
    bool                  seeks;         /* the input is not where the step needs it */
    bool                  fell_back;     /* the newest checkpoint here cannot be read: what there is is of fallen_to */
    int64_t               fallen_to;
    est_error             lost; /* why they train no more; status EST_OK: they do */
} est_training;

/* --- train.c ------------------------------------------------------------------------------------------------------------ */

/* The seed of the run: the configured one, else that of the checkpoint it goes on from, else a new one. */
EST_MUST_CHECK est_status est_training_choose_seed(est_training *t);

/* Gives variables, run count and input what the last checkpoint has, or their first values. */
EST_MUST_CHECK est_status est_training_restore(est_training *t, est_loop *loop);

/* The saver of the directory, anew; and a hook that saves with it as configured, *out NULL: not at all. */
EST_MUST_CHECK est_status est_training_make_saver(est_training *t);
EST_MUST_CHECK est_status est_training_make_saver_hook(est_training *t, est_hook **out);

/* Reads the end mark that is there; whether the training has ended, and only what follows it is left for this task to
 * do. */
EST_MUST_CHECK est_status est_training_find_done(est_training *t);
bool                      est_training_is_trained(const est_training *t);

/* All of it, when it is known who trains; leaves the end mark. */
EST_MUST_CHECK est_status est_training_run(est_training *t);

/* --- train_and_evaluate.c ---------------------------------------------------------------------------------------------- */

/* Who evaluates a training: a program on its own, and a master, which clusters had before there were chiefs and evaluators;
 * workers that are told to, together and after it, unless there is somebody for it. */
bool est_evaluates_itself(const est_task *task);
bool est_evaluates_multi_worker(const est_estimator *estimator);

/* final_evaluation.c: whether the cluster lists an evaluator, or one is at work on the results of these evaluations. */
bool est_has_evaluator(const est_estimator *estimator, const est_eval_spec *eval);

/* Least time between evaluations; 0: none. */
double est_throttle_secs(const est_eval_spec *eval);

/* --- train_together.c ----------------------------------------------------------------------------------------------------- */

/* The whole training of one of several workers. */
EST_MUST_CHECK est_status est_training_run_multi_worker(est_training *t);

/* In the loop's initialize and rejoin: meets the others, so that all have the same variables. */
EST_MUST_CHECK est_status est_training_join(est_training *t, est_loop *loop);
EST_MUST_CHECK est_status est_training_rejoin(void *user, est_loop *loop, int64_t *global_step, bool *over);

/* Where inputs are, as the checkpoint has it; NULL: it does not. */
EST_MUST_CHECK est_status est_training_set_positions(est_training *t, const est_tensor *positions);

/* After each run: the status view has the step, and now and then all tell each other where their inputs are. */
EST_MUST_CHECK est_status est_training_note_step(est_training *t, est_loop *loop);

/* Before the end: whoever does not lead waits until the one who does has saved. */
EST_MUST_CHECK est_status est_training_await_end(est_training *t, est_loop *loop);

/* For a worker that is not the chief: the hook that saves once it leads. */
est_hook *est_training_standby_saver(est_training *t);

#endif
