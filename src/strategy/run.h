/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: one use of a strategy by this process, in a training, in an evaluation, or in a loop of the program's own.
 *
 * The owner fills the first part of an est_run and calls the functions below, which call those of the strategy
 * (strategy/strategy.h) or do what their absence means. Threading: one thread at a time. */
#ifndef EST_STRATEGY_RUN_H
#define EST_STRATEGY_RUN_H

#include "cluster/remote_tasks.h"
#include "strategy/strategy.h"
#include "train/lock.h"
#include "train/loop_recovery.h"

typedef enum est_run_purpose {
    EST_RUN_TRAIN = 0,
    EST_RUN_EVALUATE,
    EST_RUN_BY_HAND /* the program steps by itself (estoc/workers.h): there is no est_loop, and no model directory */
} est_run_purpose;

/* What a strategy asks of the owner. */
typedef struct est_run_owner {
    /* It calls est_run_restore_input for the input. */
    est_recovery_restore restore;

    /* A hook that saves as the owner would, over the checkpoints that other processes have left. *out NULL: it would
     * not. */
    EST_MUST_CHECK est_status (*make_saver)(void *user, est_hook **out);

    /* Of a training, both or none: what workers share beside the variables and the run count, as bytes that est_free
     * frees. When workers meet all unpack what the one with the variables has packed, behind these. */
    EST_MUST_CHECK est_status (*pack)(void *user, char **bytes, size_t *size);
    EST_MUST_CHECK est_status (*unpack)(void *user, const char *bytes, size_t size);

    /* Of an evaluation: EST_NOT_FOUND when there is no checkpoint to evaluate. */
    EST_MUST_CHECK est_status (*find_checkpoint)(void *user);
} est_run_owner;

struct est_run {
    /* --- filled by the owner; all pointers are borrowed until est_run_close --------------------------------------- */
    const est_strategy *strategy; /* NULL: the default one */
    est_run_purpose     purpose;
    est_self            self;
    const char         *model_dir; /* BY_HAND: NULL */
    const est_dir_lock *held;      /* the lock of it, which the owner has; NULL: it is taken */
    const char         *transport; /* NULL: ESTOC_PROTOCOL, else "tls" */
    int                 threads;
    double              silence_secs, connect_secs;
    est_strings         devices;    /* of its sessions, as est_session_options */
    double              delay_secs; /* workers start one after the other, the last after so long; 0 and less: at once */
    uint64_t            seed;       /* of the job; 0: that of the checkpoint, or a new one */
    int64_t             steps, max_steps; /* of a training; 0: no limit */
    int64_t             first_step;       /* of the variables that the chief has without a checkpoint */
    bool                no_input_position;
    const est_strategy *evaluates_with; /* of a training: the strategy of its evaluations; NULL: none */
    const est_run_owner *owner;
    void                *user; /* handed to the owner */

    /* --- filled by the strategy ----------------------------------------------------------------------------------- */
    void             *state;
    double            start_secs;    /* since 1970 */
    est_server       *server;        /* of this task; freed with the run; NULL: none */
    est_remote       *remote;        /* for sessions; freed with the run; NULL: the variables are theirs */
    est_communicator *communicator;  /* for sessions; NULL: no other worker takes part in a step */
    est_dir_lock     *lock;          /* of the model directory; NULL: not taken */
    bool              leads;         /* it saves, publishes, marks the end and ends the job */
    bool              over;          /* the job has ended, or there is nothing to do: all that is left is to leave */
    bool              joined;        /* other workers count on this one: it trains even when all steps are saved here */
    bool              unfinished;    /* a signal ended the wait for the others, behind the last step of this task */
    bool              input_resumed; /* the input goes on at a saved position, which may be its end */
    int64_t           stop_after, stop_at; /* steps and max_steps, unless the workers agreed on others */
    est_hook         *standby_saver;       /* saves once the task that led is lost; NULL: none */
    est_hook         *standby_saves;       /* what that saves with; NULL: it does not lead */
    est_error         lost;                /* why training ends early; status EST_OK: it does not */
};

/* Fails with EST_INVALID_ARGUMENT when the strategy does not suit the cluster. Before est_run_open. */
EST_MUST_CHECK est_status est_run_check(est_run *run);

/* Whatever they give, est_run_close follows; it leaves the error as it is. The lock stays: est_run_release gives it
 * back. */
EST_MUST_CHECK est_status est_run_open(est_run *run);
EST_MUST_CHECK est_status est_run_start(est_run *run);
void                      est_run_close(est_run *run, est_status why);
void                      est_run_release(est_run *run);

EST_MUST_CHECK est_status est_run_prepare(est_run *run, est_loop_spec *spec);
EST_MUST_CHECK est_status est_run_join(est_run *run, est_loop *loop);
EST_MUST_CHECK est_status est_run_after_step(est_run *run, est_loop *loop);
EST_MUST_CHECK est_status est_run_settle(est_run *run, est_loop *loop);
EST_MUST_CHECK est_status est_run_end(est_run *run);
EST_MUST_CHECK est_status est_run_serve(est_run *run);
EST_MUST_CHECK est_status est_run_agree(est_run *run, est_status prepared);
EST_MUST_CHECK est_status est_run_reduce(est_run *run, est_session *session, est_nodes variables, double *counts,
                                         int n_counts);
EST_MUST_CHECK est_status est_run_share(est_run *run, est_session *session, int64_t *step);

/* Name and value of the input's position in checkpoints. */
const char               *est_run_input_extra(const est_run *run);
EST_MUST_CHECK est_status est_run_save_input(est_run *run, est_loop *loop, est_tensor **out);
EST_MUST_CHECK est_status est_run_restore_input(est_run *run, est_loop *loop, const est_tensor *position);

/* --- for strategies ----------------------------------------------------------------------------------------------- */

/* Takes the model directory, unless the run has it, and leads. Waits up to `secs` for another process to leave it;
 * EST_FAILED_PRECONDITION: it did not. */
EST_MUST_CHECK est_status est_run_lead(est_run *run, double secs);

/* Draws the seed of the job, unless it is known: that of the checkpoint, else a new one. */
EST_MUST_CHECK est_status est_run_choose_seed(est_run *run);

/* Has the owner restore, in a process that has all variables. */
EST_MUST_CHECK est_status est_run_restore(est_run *run, est_loop *loop);

/* Whether the end mark shows that the job has ended; and whether ps tasks may have ended it without this task. */
bool est_run_is_over(const est_run *run);
bool est_run_ended_elsewhere(const est_run *run);

/* The model directory as a process elsewhere has to write it. */
#define EST_FOLDER_TEXT_MAX (2 * EST_CHECKPOINT_PATH_MAX)
void est_run_folder(const char *model_dir, char *out, size_t size);

/* Starts the server of this task (run->server); and one that is no task of a cluster, and may look at it. */
EST_MUST_CHECK est_status est_run_start_server(est_run *run);
EST_MUST_CHECK est_status est_run_start_client(const est_run *run, const est_cluster *cluster, est_server **out);

/* Appends the line of max_steps to the terms that all tasks must agree on (cluster/terms.h). */
void est_run_add_max_steps(const est_run *run, est_strbuf *terms);

#endif
