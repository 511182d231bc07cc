/* SPDX-License-Identifier: Apache-2.0
 *
 * The other tasks of a cluster as one session sees them: what the files of the remote share.
 *
 *   remote.c        which tasks there are, where variables are, making and freeing
 *   remote_ask.c    waiting, asking, links
 *   remote_run.c    segments
 *   remote_steps.c  turns, steps that are made together, the end of the job
 *   remote_files.c  checkpoints */
#ifndef EST_CLUSTER_REMOTE_INTERNAL_H
#define EST_CLUSTER_REMOTE_INTERNAL_H

#include <string.h>

#include "base/map.h"
#include "cluster/remote.h"
#include "estoc/strategy.h"

#define EST_ASK_SECS   60.0 /* for what takes no time of its own */
#define EST_LEAVE_SECS 2.0  /* to say goodbye */

/* How long an answer is waited for when a signal came: to a part of a step, which is made once, though nobody waits for it; to what
 * a checkpoint needs, which a task that is stopped has still to make (est_tasks_save_secs). */
#define EST_STOP_SECS      1.0
#define EST_STOP_SAVE_SECS 120.0

/* A task that has variables or runs parts of steps. */

typedef struct est_remote_task {
    char       *address;
    char        name[EST_NET_NAME_MAX];
    est_server *server; /* of the task that talks to it, this one; borrowed */
    est_link   *link;   /* NULL: none yet */
    uint64_t    incarnation;
    est_map     variables; /* name -> whether it has a value; both in `names` */
    est_arena  *names;
    uint64_t    load;  /* bytes of its variables */
    bool        ready; /* the chief has told it that they have values */
} est_remote_task;

typedef struct est_tasks {
    est_remote          base;
    est_server         *server;
    est_remote_options  options;
    est_remote_task    *tasks;    /* [base.n_tasks] */
    est_remote_segment *segments; /* all that were entered */
    est_partitioner     partitioner;
    char               *terms;     /* of the program (est_remote_set_terms); NULL: none */
    int                 placed;    /* the task after the last that was given a variable */
    bool                declared;  /* this chief has said that variables have values: steps may have been made since */
    bool                has_turn;  /* given with the answer to the last step */
    est_remote_task    *held;      /* the clock, which is found by a variable, of the last hold; NULL: none */
    int64_t             step;      /* of steps that are made together: the step under way; -1: not known */
    uint64_t            timeline;  /* of it */
    bool                pushed;    /* something of it was */
    bool                committed; /* it was made, */
    bool                ended;     /* and the job was over by then */
    bool (*over)(void *user);
    void *over_user;
} est_tasks;

struct est_remote_segment {
    est_tasks          *remote;
    int                 task, number, phase, piece;
    bool                counted;   /* as est_segment.counted */
    bool                collected; /* it writes in training steps that are made together */
    bool                late;      /* as est_segment.late */
    est_ask            *ask;       /* under way; NULL: none */
    const est_link     *link;      /* that it went over; kept by `ask` */
    bool                started;
    uint64_t            sequence, incarnation;
    est_packing         in;
    est_message        *answer;
    est_unpacked        out;
    int                 n_out;
    est_remote_segment *next;
};

static inline est_tasks *est_tasks_of(const est_remote *remote)
{
    est_tasks *r;

    memcpy(&r, &remote, sizeof r); /* it is the first member, of something that is not const */
    return r;
}

/* --- remote_ask.c ----------------------------------------------------------------------------------------------------- */

/* Asks and waits; and the same when the answer is of no interest. */
EST_MUST_CHECK est_status est_remote_task_ask(const est_remote_task *p, est_method method, const est_packing *packing,
                                              double secs, est_message **answer);
EST_MUST_CHECK est_status est_remote_task_tell(const est_remote_task *p, est_method method, const est_packing *packing,
                                               double secs);

/* Waits for the answer to what was asked before, which is `why`, and says in the log that it does when that takes long, and
 * what the caller does `then`, when it expires (NULL: it gives up). A signal ends it with EST_CANCELLED, `stop_secs` later;
 * INFINITY: it does not. */
EST_MUST_CHECK est_status est_remote_task_await(const est_remote_task *p, est_ask *ask, const char *why,
                                                const char *then, double stop_secs, est_message **answer);

/* The same for what was asked of several tasks, asks[n_tasks], NULL where nothing was: all are waited for, and the first failure
 * counts. `out` (may be NULL) gets an answer a task, to be freed. */
EST_MUST_CHECK est_status est_tasks_await_all(const est_tasks *r, est_ask *const *asks, est_method method,
                                              double stop_secs, est_message **out);

/* est_remote_task_ask where the answer may take long, because others come first: says in the log whom it waits for and why, and ends with
 * a signal (est_tasks_save_secs after it, for HOLD), the end of the job or the limit. */
EST_MUST_CHECK est_status est_remote_task_ask_patiently(const est_tasks *r, const est_remote_task *p, est_method method,
                                                        const est_packing *packing, const char *why, double limit_secs,
                                                        est_message **answer);

/* A link to the peer, within the limit. */
EST_MUST_CHECK est_status est_remote_task_reach(const est_tasks *r, est_remote_task *p, double limit_secs);

/* --- remote.c --------------------------------------------------------------------------------------------------------- */

/* Asks the task which variables it has. */
EST_MUST_CHECK est_status est_remote_task_list_variables(est_remote_task *p);
void                      est_tasks_pack_terms(const est_tasks *r, est_packing *out); /* as field BYTES */
int                       est_tasks_located(const est_remote *remote, const char *variable);

/* --- remote_run.c, remote_steps.c, remote_files.c: members of est_remote_ops, and what they ask of each other -------------- */

EST_MUST_CHECK est_status est_remote_segment_enter(est_remote *remote, const est_segment *cut,
                                                   est_remote_segment **out);
void                      est_remote_segment_leave(est_remote_segment *segment);
EST_MUST_CHECK est_status est_remote_segment_start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in,
                                                   int n_in);
EST_MUST_CHECK est_status est_remote_segment_finish(est_remote_segment *segment, const est_view **out);
void                      est_tasks_abandon(est_remote *remote);

/* The task that counts the steps. */
EST_MUST_CHECK est_status est_tasks_clock(est_tasks *r, est_remote_task **out);
EST_MUST_CHECK est_status est_tasks_turn(est_remote *remote, bool *finished);
/* Waits until the step that was pushed has been made with others, which may be up to this task. */
EST_MUST_CHECK est_status est_tasks_complete_step(est_tasks *r);

double                    est_tasks_save_secs(const est_tasks *r); /* EST_STOP_SAVE_SECS; no more than answer_secs */
EST_MUST_CHECK est_status est_tasks_find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out);
EST_MUST_CHECK est_status est_tasks_save(est_remote *remote, const est_remote_files *files, bool *parts);
EST_MUST_CHECK est_status est_tasks_verify(est_remote *remote, const est_remote_files *files);
EST_MUST_CHECK est_status est_tasks_restore(est_remote *remote, const est_remote_files *files);

#endif
