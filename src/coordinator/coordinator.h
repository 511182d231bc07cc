/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator, for the files of this folder.
 *
 *   coordinator.c         creating and freeing, checkpoints, the start after a lost coordinator
 *   call_queue.c          queued calls, and the lowest call that has not completed
 *   schedule.c            schedule, join, done, and all waits of the program
 *   handout.c             calls to workers and their answers
 *   connectors.c          links to workers
 *   objects.c             functions, datasets, iterators: sent to a worker before the first call that needs them
 *   functions.c, per_worker.c, remote_value.c, evaluate_shards.c, coordinator_status.c
 *   recovery.c            checkpoints; values of variables at the start and after the loss of a ps task
 *
 * Invariants.
 *   Q1  A call has one number for all of its attempts and is in one place: the queue, or the list of one worker. It
 *       leaves with a result, an error or a cancellation, once.
 *   Q2  Requests over the link of a worker are sent by one thread at a time (est_call_worker.sending), so that a
 *       function arrives before its calls.
 *   Q3  While an error waits for the program nothing is handed out, and while `stops` is above 0 only calls that were
 *       handed out before and came back: the calls that have begun and not completed only become fewer.
 *   Q4  A checkpoint is written while no call is under way and none has come back to the queue: it contains all of each
 *       completed call, and nothing of those to come.
 *
 * Threads. The program's threads schedule and wait. The network thread takes answers and hands out the next calls. A
 * few connectors make links to missing workers. `lock` is held for a few instructions; requests are sent without it.
 * The session belongs to the thread that has set `recovering` or `session_used`, or to the program between its
 * calls. */
#ifndef EST_COORDINATOR_COORDINATOR_H
#define EST_COORDINATOR_COORDINATOR_H

#include <pthread.h>

#include "base/map.h"
#include "base/refcount.h"
#include "base/thread.h"
#include "cluster/calls.h"
#include "cluster/server.h"
#include "cluster/wait_table.h"
#include "estoc/coordinator.h"
#include "estoc/saver.h"

#define EST_CALL_LOSSES_SHOWN 4     /* names of lost workers in an error */
#define EST_CONNECTORS_MAX    4     /* attempts to reach workers at the same time */
#define EST_AHEAD_MAX         64    /* of a chosen `ahead` */
#define EST_CALL_WINDOW       16384 /* calls from the oldest under way on: ps tasks keep answers to all of them */
#define EST_SPARE_CALLS_MAX   4096  /* structs that the queue keeps */

/* --- errors of calls ---------------------------------------------------------------------------------------------- */

/* Why a call has no result, shared by all values that have none for the same reason. NULL: memory was out. */
typedef struct est_call_error {
    est_refcount references;
    est_status   status;
    char         text[];
} est_call_error;

est_call_error *est_call_error_make(est_status status, const char *text);
est_call_error *est_call_error_ref(est_call_error *error); /* NULL is fine, also below */
void            est_call_error_free(est_call_error *error);

/* --- objects ------------------------------------------------------------------------------------------------------ */

typedef enum est_object_kind {
    EST_OBJECT_FUNCTION,
    EST_OBJECT_DATASET,
    EST_OBJECT_ITERATOR,
    EST_OBJECT_VALUE
} est_object_kind;

/* What a worker gets before the first call that needs it. Functions and per-worker objects begin with it. */
typedef struct est_call_object {
    est_coordinator        *coordinator; /* a reference */
    int                     references; /* the program's, and one of each call and object that needs it; under `lock` */
    est_object_kind         kind;
    uint64_t                number; /* from 1 up; of all kinds together */
    char                   *name;
    struct est_call_object *dataset; /* of an iterator; a reference */
    struct est_call_object *next;    /* in est_coordinator.objects */
} est_call_object;

/* The component that was last found to suit a feed, so that a call need not look again. */
typedef struct est_suited {
    uint64_t    iterator;  /* its number; 0: none */
    const char *component; /* as the iterator keeps it */
} est_suited;

struct est_function {
    est_call_object object;
    est_node       *feeds;  /* [n_feeds] */
    est_suited     *suited; /* [n_feeds]; under `lock` */
    int             n_feeds, n_fetches;
    int             n_resets; /* -1: a function for calls; else one for shards */
    est_wire_writer bytes;    /* est_segment_encode */
    char          **locals;   /* [n_locals]: variables that each worker has its own of */
    int             n_locals;
};

struct est_per_worker {
    est_call_object object;
    est_dataset    *dataset; /* of a dataset or an iterator; a reference; NULL: the function `name` makes it */
    est_wire_writer bytes;   /* of a dataset: est_dataset_encode; empty: the function `name` makes it */
    void           *params;
    size_t          params_size;
    bool            shard;
    bool            same_order; /* at all workers, also where the order was drawn */
    int             ordinal;    /* of an iterator: how many the program made before it */
    int64_t        *consumed;   /* of an iterator, per worker: elements of completed calls; under `lock` */
    est_tensor    **values;     /* of a value, per worker; references */
    char          **components; /* names that arguments have used; under `lock` */
    int             n_components;
};

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* An argument of a call, by feed of its function. */
typedef struct est_call_feed {
    est_per_worker *from;      /* an iterator or a value; a reference; NULL: `value` */
    const char     *component; /* of an iterator, or of the dataset of a shard; borrowed from it */
    est_tensor     *value;     /* a reference */
} est_call_feed;

/* A call that has not completed. */
typedef struct est_scheduled {
    struct est_scheduled   *next, *before; /* in the queue (next alone), or among those of its worker */
    uint64_t                number;        /* 0: it was not handed out yet */
    est_function           *function;      /* a reference */
    est_remote_value       *value;         /* a reference; NULL: the result is not wanted */
    struct est_call_worker *worker;        /* that has it; NULL: queued */
    struct est_shard_call  *shard;         /* of an exact evaluation; NULL: a plain call */
    int                     attempts;
    int64_t                 sent_ns;
    int                     repeats; /* attempts that ended with a lost ps task or a stopped worker */
    int                     losses;  /* workers lost while they ran it; the last ones: */
    int16_t                 lost[EST_CALL_LOSSES_SHOWN];
    est_packing             packing; /* of the request; its memory is used again */
    int                     n_feeds, max_feeds;
    est_call_feed           feeds[];
} est_scheduled;

/* Which part of a dataset a call evaluates. */
typedef struct est_shard_call {
    est_per_worker *dataset; /* a reference */
    int64_t         n_shards, shard;
} est_shard_call;

/* The calls of a coordinator. A call gets its number when it is taken for the first time, so that numbers under way are
 * close together. Under `lock`. */
typedef struct est_call_queue {
    est_scheduled *first, *last;
    int64_t        n;
    est_scheduled *spare; /* structs to be used again */
    int            n_spare;
    uint64_t       given;    /* the last number */
    uint64_t       oldest;   /* the lowest number that has not completed; given + 1: none */
    uint64_t      *finished; /* bits by number modulo EST_CALL_WINDOW */
} est_call_queue;

EST_MUST_CHECK est_status est_call_queue_init(est_call_queue *queue);
void                      est_call_queue_clear(est_call_queue *queue); /* no call may be left */

/* A call with room for n feeds, zeroed; NULL: memory was out. recycle keeps it for the next. */
est_scheduled *est_call_queue_new(est_call_queue *queue, int n_feeds);
void           est_call_queue_recycle(est_call_queue *queue, est_scheduled *call);

void est_call_queue_append(est_call_queue *queue, est_scheduled *call);
void est_call_queue_return(est_call_queue *queue, est_scheduled *call); /* to its place by number */
bool est_call_queue_has_returned(const est_call_queue *queue);          /* whether the next one was handed out before */
est_scheduled *est_call_queue_take(
    est_call_queue *queue); /* the next, with its number; NULL: none, or the window is full */
est_scheduled *est_call_queue_drop(est_call_queue *queue); /* the first, to be cancelled; NULL: none */
void           est_call_queue_finish(est_call_queue *queue, uint64_t number);

/* --- values ------------------------------------------------------------------------------------------------------- */

struct est_remote_value {
    est_coordinator *coordinator; /* a reference */
    est_refcount     references;
    uint64_t         call;
    est_value_state  state; /* this and the rest under `lock` until it is not NOT_READY */
    int              n_waiting;
    est_message     *answer;
    est_call_error  *error;
    int              n_fetches;
};

EST_MUST_CHECK est_status est_remote_value_make(est_coordinator *c, int n_fetches, est_remote_value **out);

/* --- workers ------------------------------------------------------------------------------------------------------ */

typedef enum est_worker_state { EST_WORKER_MISSING, EST_WORKER_CONNECTING, EST_WORKER_HERE } est_worker_state;

/* A worker as the coordinator sees it. Under `lock`, but for `packing`, which the sending thread has. */
typedef struct est_call_worker {
    est_coordinator *coordinator;
    int              rank; /* in est_coordinator.workers */
    char             name[EST_NET_NAME_MAX];
    const char      *address;
    est_worker_state state;
    est_link        *link;        /* NULL: MISSING, CONNECTING */
    uint64_t         incarnation; /* of the last process that was here; 0: none */
    uint64_t         refused;     /* a process that did not suit, and was reported */
    bool             sending;     /* a thread sends over the link (Q2) */
    est_packing      packing;
    uint64_t        *sent;         /* bits by number of the object */
    est_scheduled   *first, *last; /* calls under way, in the order in which they were sent */
    int              under_way;
    uint64_t         ran;         /* the call that it ran when it was lost; 0: none, or it is not to blame */
    int64_t          answered_ns; /* when the last answer came */
    double           pace_ns;     /* of one call: a moving average; 0: not known */
    int64_t          completed, lost;
    int64_t          tried_ns; /* the last attempt to reach it */
    char             why[256]; /* it is not here */
} est_call_worker;

/* --- waits -------------------------------------------------------------------------------------------------------- */

/* A wait of the program. Under `lock`. */
typedef struct est_call_wait {
    est_waiting base;
    bool        begun;
    bool        looking;   /* a thread logs it */
    int64_t     completed; /* when it was looked at last: a wait with progress is not logged */
} est_call_wait;

/* --- the coordinator ---------------------------------------------------------------------------------------------- */

struct est_coordinator {
    est_refcount            references; /* the program's, and one of each value, function and per-worker object */
    est_coordinator_options options;    /* its texts are borrowed until est_coordinator_create returns */
    const est_strategy     *strategy;
    est_graph              *graph;
    est_server             *server;
    est_remote             *remote;
    uint64_t                origin; /* 0: not chosen yet */
    uint64_t                seed;
    est_call_worker        *workers; /* [n_workers] */
    int                     n_workers;
    est_thread              connectors[EST_CONNECTORS_MAX];
    int                     n_connectors;

    est_saver *saver;
    int64_t    epoch;
    int64_t    saved_step; /* of the checkpoint that was restored or written last */
    bool       ended;      /* est_coordinator_end */
    uint64_t  *ps_known;   /* [remote->n_tasks]: incarnations of the ps tasks that got values here; NULL: none yet */
    int64_t   *positions;  /* [n_positions * n_workers]: of the checkpoint, for iterators to come; NULL: none */
    int        n_positions;

    pthread_mutex_t  lock;      /* guards what follows */
    pthread_cond_t   changed;   /* for threads of the program */
    int              n_waiting; /* of these */
    pthread_cond_t   missing;   /* for connectors: a worker is lost, or `closing` */
    bool             full;      /* one of them waits for room in the queue */
    est_call_queue   queue;
    int64_t          under_way, completed, retried, workers_lost, ps_losses;
    int              n_here, next_worker;
    est_session     *session;
    est_session    **replaced; /* [n_replaced] by `session`; the program may use them until the next join or save */
    int              n_replaced;
    int              stops;        /* Q3 */
    bool             closing;      /* est_coordinator_free */
    bool             ps_lost;      /* a ps task may be lost: the next waiting call of the program recovers */
    int64_t          ps_lost_ns;   /* since when */
    bool             ps_reported;  /* that nothing recovers it */
    bool             recovering;   /* a thread replaces the session */
    bool             session_used; /* a thread uses it, and it stays */
    bool             ending;       /* est_coordinator_end wants it: recovering ends, also without the ps task */
    est_call_wait    polled;       /* the wait of a loop over est_coordinator_done */
    est_call_error  *error;        /* of a function, until the program has it; Q3 */
    bool             failed;       /* the same, also when memory for `error` was out */
    est_call_error  *over;         /* why this coordinator cannot go on, or that it is freed */
    bool             halted;       /* it cannot, also when memory for `over` was out */
    est_call_object *objects;
    uint64_t         n_objects;
    int              n_iterators; /* that the program has made, freed ones as well */
    int64_t          alone_ns;    /* since when no worker is here */
};

void est_coordinator_ref(est_coordinator *c);
void est_coordinator_unref(est_coordinator *c); /* the last one frees its memory */

/* --- schedule.c --------------------------------------------------------------------------------------------------- */

/* Waits until `ready(c, user)`, for a reason that the log has. Recovers lost ps tasks meanwhile. EST_CANCELLED: a
 * signal. EST_DEADLINE_EXCEEDED: no worker was here for lonely_secs. Under `lock`. */
typedef bool (*est_call_condition)(const est_coordinator *c, const void *user);
EST_MUST_CHECK est_status est_coordinator_await(est_coordinator *c, est_call_condition ready, const void *user,
                                                const char *why);

/* Hands out no new calls and waits until those that have begun have completed; resume goes on. Under `lock`. */
EST_MUST_CHECK est_status est_coordinator_quiesce(est_coordinator *c);
void                      est_coordinator_resume(est_coordinator *c);

/* schedule for a call whose feeds are filled; takes the call, also on failure. */
EST_MUST_CHECK est_status est_coordinator_enqueue(est_coordinator *c, est_scheduled *call);

/* Fails with the error of a call, with where the graph's node that it names was built. Under `lock`: after
 * est_coordinator_free there may be no graph. */
EST_MUST_CHECK est_status est_coordinator_raise(const est_coordinator *c, const est_call_error *error);

/* Calls fn(c, user), which uses the session, and again after each recovery of lost ps tasks. */
EST_MUST_CHECK est_status est_coordinator_use_session(est_coordinator *c,
                                                      est_status (*fn)(est_coordinator *c, void *user), void *user);

/* Takes the session for the end of the job, also while a ps task is lost. */
void est_coordinator_take_session(est_coordinator *c);
void est_coordinator_release_session(est_coordinator *c, bool lost); /* lost: a ps task is, as its use has shown */

void est_coordinator_wake(est_coordinator *c); /* all waiting threads look again. Under `lock` */

/* A ps task may be lost: handing out stops, and the next waiting call of the program recovers. Under `lock`. */
void est_coordinator_note_ps_loss(est_coordinator *c);

/* Frees the sessions that were replaced. */
void est_coordinator_free_replaced(est_coordinator *c);

/* --- handout.c ---------------------------------------------------------------------------------------------------- */

/* Sends queued calls to workers that have room. Under `lock`, which is released while sending. */
void est_handout(est_coordinator *c);

/* Ends a call without a result, and frees it. Under `lock`. */
void est_call_cancel(est_coordinator *c, est_scheduled *call, est_call_error *why);
void est_calls_cancel_queued(est_coordinator *c, est_status status, const char *why);
void est_calls_cancel_shards(est_coordinator *c, const est_per_worker *dataset, est_status status, const char *why);

/* A failure that the program gets once (a function's), or always. Under `lock`. */
void est_coordinator_fail(est_coordinator *c, est_status status, const char *why);
void est_coordinator_halt(est_coordinator *c, est_status status, const char *why);

void est_scheduled_free(est_coordinator *c, est_scheduled *call); /* drops its references; under `lock` */

/* Closes the link to a worker that is being stopped, or that lacks an object; the next link sets it up again. Under
 * `lock`, which is released for the log. */
void est_worker_abandon(est_call_worker *w, const char *why);

/* The extension of the server: a link was lost (network thread). */
void est_coordinator_link_lost(void *user, est_link *link, const char *why);

/* --- connectors.c ------------------------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_connectors_start(est_coordinator *c);
void                      est_connectors_stop(est_coordinator *c);
void                      est_workers_missing(const est_coordinator *c, est_strbuf *out); /* names; under `lock` */

/* --- objects.c ---------------------------------------------------------------------------------------------------- */

/* Adds an object with one reference and a number; the last unref tells workers to forget it. */
EST_MUST_CHECK est_status est_object_add(est_coordinator *c, est_call_object *object);
void                      est_object_ref(est_call_object *object);     /* under `lock` */
void                      est_object_unref(est_call_object *object);   /* under `lock` */
void                      est_object_release(est_call_object *object); /* the program's; NULL is fine */
void                      est_function_clear(est_function *function);
void                      est_per_worker_clear(est_per_worker *per_worker);

/* The name of a component as the object keeps it; NULL: memory was out. Under `lock`. */
const char *est_per_worker_component(est_per_worker *per_worker, const char *component);

/* Sends what a call needs and the worker does not have. By the sending thread, under `lock`, which is released while
 * sending. EST_UNAVAILABLE: the link is lost. */
EST_MUST_CHECK est_status est_objects_send(est_call_worker *w, est_link *link, const est_scheduled *call);

/* --- coordinator.c ------------------------------------------------------------------------------------------------ */

/* Initializes variables that the graph got since. */
EST_MUST_CHECK est_status est_coordinator_init_variables(est_coordinator *c);

/* The extension of the server: it takes no request, and adds to the status (coordinator_status.c). */
bool est_coordinator_refuse(void *user, est_request *request);
void est_coordinator_add_status(void *user, est_json *status);

#endif
