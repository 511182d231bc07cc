/* SPDX-License-Identifier: Apache-2.0
 *
 * The other tasks of a cluster as one session sees them, shared by the files of the remote.
 *
 *   remote_tasks.c     the tasks, and where variables are; creating and freeing
 *   remote_ask.c       links, requests, waits
 *   remote_segments.c  segments
 *   remote_steps.c     turns, synchronous steps, holds, the end of the job
 *   remote_files.c     checkpoints */
#ifndef EST_CLUSTER_REMOTE_INTERNAL_H
#define EST_CLUSTER_REMOTE_INTERNAL_H

#include <string.h>

#include "base/map.h"
#include "cluster/remote_tasks.h"
#include "estoc/partitioner.h"

#define EST_ASK_SECS   60.0 /* for requests that are answered at once */
#define EST_LEAVE_SECS 2.0  /* to say goodbye */

/* How long to wait for an answer after a signal: to a run, which is made once whether or not its answer is awaited; to
 * what a checkpoint needs, which a stopped task still has to write (est_tasks_save_secs). */
#define EST_STOP_SECS      1.0
#define EST_STOP_SAVE_SECS 120.0

/* A task that has variables or runs segments. */
typedef struct est_remote_task {
    char       *address;
    char        name[EST_NET_NAME_MAX];
    est_server *server; /* of this process; borrowed */
    est_link   *link;   /* NULL: none yet */
    uint64_t    incarnation;
    est_map     variables; /* name -> whether it has a value; both in `names` */
    est_arena  *names;
    uint64_t    load;  /* bytes of its variables */
    bool        ready; /* the chief has declared them ready */
} est_remote_task;

typedef struct est_tasks {
    est_remote          base;
    est_server         *server;
    est_remote_options  options;
    est_remote_task    *tasks;    /* [base.n_tasks] */
    est_remote_segment *segments; /* all that were entered */
    est_partitioner     partitioner;
    est_map             homes;     /* name of a variable -> 1 + the task that had it last */
    char               *terms;     /* of the program (est_remote_set_terms); NULL: none */
    int                 placed;    /* the task after the last that was given a variable */
    bool                declared;  /* this chief has declared variables ready: steps may have been made since */
    bool                next_turn; /* the answer to the last step included it */
    est_remote_task    *held;      /* the clock of the current hold; NULL: none */
    int64_t             step;      /* sync_replicas: the step under way; -1: not known */
    uint64_t            timeline;  /* of it */
    bool                pushed;    /* some of it was */
    bool                committed; /* it was made, */
    bool                ended;     /* and the job was over by then */
    bool                calls;     /* it is a worker's, for the calls of a coordinator */
    uint64_t            origin, call, first; /* of the call under way; call 0: none */
    bool (*over)(void *user);
    void *over_user;
} est_tasks;

struct est_remote_segment {
    est_tasks          *remote;
    const est_segment  *cut;
    int                 task, phase, piece;
    uint64_t            number;
    bool                counted;     /* as est_segment.counted */
    bool                accumulated; /* its runs are pushes of synchronous steps */
    bool                late;        /* as est_segment.late */
    est_ask            *ask;         /* under way; NULL: none */
    const est_link     *link;        /* of `ask`, which keeps it */
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

    memcpy(&r, &remote, sizeof r); /* the first member of a struct that is not const */
    return r;
}

/* --- remote_ask.c ------------------------------------------------------------------------------------------------- */

/* Asks and waits; tell discards the answer. */
EST_MUST_CHECK est_status est_remote_task_ask(const est_remote_task *p, est_method method, const est_packing *packing,
                                              double secs, est_message **answer);
EST_MUST_CHECK est_status est_remote_task_tell(const est_remote_task *p, est_method method, const est_packing *packing,
                                               double secs);

/* Waits for the answer to an earlier request. A long wait is logged with its reason `why`. A signal ends it with
 * EST_CANCELLED, `stop_secs` later; INFINITY: it does not. run_of: the request is a run, which is asked for again when
 * it expires, and ends when another task reports that the step has failed; NULL: it is none. */
EST_MUST_CHECK est_status est_remote_task_await(const est_remote_task *p, est_ask *ask, const char *why,
                                                est_tasks *run_of, double stop_secs, est_message **answer);

/* The same for requests to several tasks, asks[n_tasks], NULL: none. Waits for all of them and returns the first
 * failure. `out` (may be NULL) gets one answer per task, to be freed. */
EST_MUST_CHECK est_status est_tasks_await_all(const est_tasks *r, est_ask *const *asks, est_method method,
                                              double stop_secs, est_message **out);

/* est_remote_task_ask for a request that is parked: logs whom it waits for and why, and ends with a signal (HOLD:
 * est_tasks_save_secs after it), with the job or at the limit; INFINITY: none. */
EST_MUST_CHECK est_status est_remote_task_ask_patiently(const est_tasks *r, const est_remote_task *p, est_method method,
                                                        const est_packing *packing, const char *why, double limit_secs,
                                                        est_message **answer);

/* Makes a link to the task, if there is none, within the limit. */
EST_MUST_CHECK est_status est_remote_task_reach(const est_tasks *r, est_remote_task *p, double limit_secs);

/* --- remote_tasks.c ----------------------------------------------------------------------------------------------- */

/* Asks the task for its variables. */
EST_MUST_CHECK est_status est_remote_task_list_variables(est_remote_task *p);
void                      est_tasks_pack_terms(const est_tasks *r, est_packing *out); /* as field BYTES */
int                       est_tasks_located(const est_remote *remote, const char *variable);

/* --- members of est_remote_ops, and what they ask of each other --------------------------------------------------- */

EST_MUST_CHECK est_status est_remote_segment_enter(est_remote *remote, const est_segment *cut,
                                                   est_remote_segment **out);
void                      est_remote_segment_leave(est_remote_segment *segment);
EST_MUST_CHECK est_status est_remote_segment_start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in,
                                                   int n_in);
EST_MUST_CHECK est_status est_remote_segment_finish(est_remote_segment *segment, const est_view **out);
void                      est_tasks_abandon(est_remote *remote);

EST_MUST_CHECK est_status est_tasks_clock(est_tasks *r, est_remote_task **out);
EST_MUST_CHECK est_status est_tasks_turn(est_remote *remote, bool *finished);
EST_MUST_CHECK est_status est_tasks_complete(est_remote *remote);
/* Waits until the step that was pushed has been made; this task may have to commit it. */
EST_MUST_CHECK est_status est_tasks_complete_step(est_tasks *r);

double                    est_tasks_save_secs(const est_tasks *r); /* EST_STOP_SAVE_SECS, at most answer_secs */
EST_MUST_CHECK est_status est_tasks_find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out);
EST_MUST_CHECK est_status est_tasks_save(est_remote *remote, const est_remote_files *files, bool *parts);
EST_MUST_CHECK est_status est_tasks_verify(est_remote *remote, const est_remote_files *files);
EST_MUST_CHECK est_status est_tasks_restore(est_remote *remote, const est_remote_files *files);

#endif
