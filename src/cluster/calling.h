/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's side of calls (cluster/calls.h), shared by its files:
 *
 *   service_calls.c   the queue, the calling thread, SETUP and CALL
 *   call_functions.c  functions: graphs from bytes, each with a session over the ps tasks
 *   call_datasets.c   datasets and iterators
 *
 * Threads. The network thread queues requests (est_calls_serve). The calling thread, one per server, takes all that are
 * queued at a time and executes them in order. It waits for ps tasks, which needs the network thread, so it is neither
 * that nor the executor. `lock` guards the queue, the flags and `seen`; all else is the calling thread's.
 *
 * The state belongs to the link over which SETUP came. When that link is lost, the call under way is completed, its
 * answer is dropped, and the state is freed with the links to ps tasks: tasks that a coordinator has left are alone, as
 * est_server_join sees it. */
#ifndef EST_CLUSTER_CALLING_H
#define EST_CLUSTER_CALLING_H

#include "cluster/calls.h"
#include "cluster/service_calls.h"
#include "runtime/segment.h"
#include "runtime/session.h"

typedef struct est_called_function {
    uint64_t          number;
    char             *name;
    est_segment_graph cut;
    bool              for_shards; /* for SHARD: `resets` of the targets reset the states, the others update them */
    int               n_resets;
    est_session      *session;        /* NULL: to be made, also after a ps task was lost */
    est_step         *step;           /* the call; for SHARD: the update */
    est_step         *reset, *states; /* for SHARD */
    est_tensor      **feeds;          /* [cut.io.n_feeds]: of the call under way; NULL: none yet */
} est_called_function;

typedef struct est_called_dataset {
    uint64_t     number;
    est_dataset *dataset;
    void        *params; /* of the function that made it, which may use them as long as the dataset is there */
} est_called_dataset;

typedef struct est_called_iterator {
    uint64_t      number;
    est_dataset  *dataset; /* a reference */
    est_iterator *iterator;
    est_field    *element; /* [components]: the current one */
    int           n;
    int64_t       taken;  /* elements */
    uint64_t      serial; /* of the last execution that has an element of it */
    bool          kept;   /* that one did not use it: the next one gets the same element */
} est_called_iterator;

typedef struct est_calling {
    est_server *server;
    est_thread  thread;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t  changed;
    est_request   **queue;
    int             n_queued, max_queued;
    bool            idle, stopping, done;
    est_calls_seen  seen;

    est_request **taken; /* of the calling thread, and so is what follows */
    int           max_taken;
    est_link     *link;   /* of the coordinator; NULL: none */
    uint64_t      origin; /* the highest that came */
    est_setup     setup;
    est_pool     *pool;
    est_remote   *remote;
    bool          lost;   /* a ps task was: sessions are made again before the next call */
    uint64_t      serial; /* counts executions of calls */
    bool          used;   /* the one under way has an element of each of its iterators */

    est_called_function **functions;
    int                   n_functions, max_functions;
    est_called_dataset  **datasets;
    int                   n_datasets, max_datasets;
    est_called_iterator **iterators;
    int                   n_iterators, max_iterators;

    est_unpacked       inputs;
    est_call_arguments arguments;
    est_packing        out;
} est_calling;

/* Whether the state is of no use any more: the coordinator's link is lost, the job is done, or the server stops. */
bool est_calling_is_over(est_calling *c);

/* --- call_functions.c --------------------------------------------------------------------------------------------- */

est_called_function      *est_calling_function(const est_calling *c, uint64_t number); /* NULL: none */
EST_MUST_CHECK est_status est_calling_add_function(est_calling *c, const est_message *message);
void                      est_calling_release_function(est_calling *c, uint64_t number);
void                      est_calling_drop_functions(est_calling *c);

/* Makes the session and the steps, if there are none. Waits for the ps tasks and their variables. */
EST_MUST_CHECK est_status est_called_function_prepare(est_calling *c, est_called_function *f);
void                      est_calling_drop_sessions(est_calling *c);

/* --- call_datasets.c ---------------------------------------------------------------------------------------------- */

/* Packs names and dtypes of the components. */
EST_MUST_CHECK est_status est_calling_add_dataset(est_calling *c, const est_message *message, est_packing *out);
EST_MUST_CHECK est_status est_calling_add_iterator(est_calling *c, const est_message *message);
void                      est_calling_release_dataset(est_calling *c, uint64_t number);
void                      est_calling_release_iterator(est_calling *c, uint64_t number);
void                      est_calling_drop_datasets(est_calling *c); /* and iterators */

/* Names of the functions that make datasets here, for SETUP. */
EST_MUST_CHECK est_status est_calling_check_names(const est_calling *c, const est_message *message, est_packing *out);

/* Gives the call under way the next element of each iterator of its arguments; on failure it has none. */
EST_MUST_CHECK est_status est_calling_take_elements(est_calling *c);

/* A component of the element that the iterator has given to the call under way; borrowed until the next call.
 * "x:splits" are the row splits of the ragged component "x". */
EST_MUST_CHECK est_status est_calling_element(const est_calling *c, uint64_t iterator, est_str component,
                                              est_tensor **out);

/* The elements of the call under way, which has failed because of a ps task, are for the next call. */
void est_calling_keep_elements(est_calling *c);

/* Runs `use` for the elements i of the dataset with i mod n_shards == shard. */
typedef est_status (*est_element_use)(void *user, const est_dataset *dataset, const est_field *element);
EST_MUST_CHECK est_status est_calling_each(est_calling *c, const est_call_request *call, est_element_use use,
                                           void *user);
EST_MUST_CHECK est_status est_find_component(const est_dataset *dataset, const est_field *element, est_str component,
                                             est_tensor **out);

#endif
