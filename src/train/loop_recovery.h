/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for the variables of a new session: which of them need one, how far the training had come, and what is said
 * about it. Also the end of a loop whose variables other tasks have. What reads the checkpoint belongs to the owner of
 * the loop (est_recovery_restore). */
#ifndef EST_TRAIN_LOOP_RECOVERY_H
#define EST_TRAIN_LOOP_RECOVERY_H

#include "estoc/server.h"
#include "train/loop.h"

/* How far a training had come when its variables, or some of them, need values. */
typedef struct est_reached {
    int64_t     step;         /* as far as is known */
    bool        unknown;      /* it had begun, and the task that counts its steps is lost */
    bool        missing_only; /* variables that have values keep them: those are newer than the checkpoint */
    bool        all;          /* no variable has a value */
    const char *tasks;        /* "ps:0, ps:2": whose variables have none; "": those of this process */
} est_reached;

/* Gives variables, run count and input of the loop's session the values of the checkpoint, or their first ones. */
typedef est_status (*est_recovery_restore)(void *user, est_loop *loop, const est_reached *had);

/* A checkpoint directory as errors name it, and the option that says how often it gets one. */
typedef struct est_recovery_names {
    const char *dir;  /* "model_dir" */
    const char *path; /* NULL: none is given */
    const char *save; /* "save_checkpoints_steps" */
} est_recovery_names;

/* In initialize, of the chief of `remote`: variables that have values keep them, so that a task that was started again
 * takes nothing back from the others; all others are restored. Then the other tasks may go on, unless there is no
 * checkpoint yet: a ps that is lost after their first step needs one. remote NULL: of a session at a target, which no
 * other task waits for. */
EST_MUST_CHECK est_status est_recovery_join(est_loop *loop, est_remote *remote, est_recovery_restore restore,
                                            void *user);

/* Logs what was restored from the checkpoint at `path`, and how many steps were lost with it. */
void est_recovery_log(const est_reached *had, const est_recovery_names *names, const char *path);

/* There is no checkpoint. EST_DATA_LOSS in the middle of a training: its variables must not begin again. */
EST_MUST_CHECK est_status est_recovery_check_beginning(const est_reached *had, const est_recovery_names *names);

/* In end, of the chief of `remote`, before the last checkpoint. The last step of the chief need not be the last of the
 * job: waits until no other task trains, unless max_steps (0: none) were made. A stop that a hook of the chief
 * requested, such as early stopping, holds for all. *unfinished: a signal ended the wait, and others go on. */
EST_MUST_CHECK est_status est_recovery_settle(est_loop *loop, est_remote *remote, int64_t max_steps, bool *unfinished);

#endif
