/* SPDX-License-Identifier: Apache-2.0
 *
 * A server, for the other files of this folder and for the layers above.
 *
 * Threads. The network thread receives requests (service.c). It executes what is small at once and queues the rest, and
 * everything while something long runs, for the executor: one thread that takes requests in the order of arrival,
 * except that requests of a client that does not fetch its answers wait until it does. So variables change in one run
 * at a time, and a run for one client never waits for the network of another. A worker that a coordinator gives calls
 * has another thread for these (calling.h).
 *
 * Locks. `lock` guards the clients, the gate, the flags and the queue; `host_lock` guards the host and its segments.
 * Code that takes both takes host_lock first, or only tries to.
 *
 * Words, the same in code, errors, logs and docs/cluster.md:
 *   client       a process that talks to this server, by the name of its task (clients.h)
 *   external     a client that is no task of the cluster ("client:..."): `estoc status`, a program that drives it
 *   incarnation  one start of a process; a later start has the greater number
 *   segment      the part of a graph that one task runs in one exchange of messages: entered once, run in every step
 *   run          one execution of a segment; a push is a run that changes variables in a training step
 *   clock        the task that has the variable global_step, and so counts steps
 *   gate, turn   admission control for training steps, at the clock; the permit to make one step (gate.h)
 *   hold         the barrier before a consistent checkpoint: no step begins, and none is under way
 *   timeline     the history that a global step belongs to: the clock begins one when it starts and at every rollback
 *   step id      a timeline and a global step in it
 *   sync_replicas  steps that are the mean of what several workers push (sync_replicas.h): the accumulator sums the
 *                pushes, and the committer is the worker that has all tasks apply them
 *   parked       said of a request that is answered when a condition holds
 *   call         one run of a coordinator's function by a worker (calls.h); attempts make the same runs at ps tasks
 *   terms        the settings that all trainers of a job must share (terms.h) */
#ifndef EST_CLUSTER_SERVER_H
#define EST_CLUSTER_SERVER_H

#include <pthread.h>

#include "base/thread.h"
#include "cluster/cluster.h"
#include "cluster/gate.h"
#include "cluster/master.h"
#include "cluster/protocol.h"
#include "cluster/rendezvous.h"
#include "estoc/server.h"
#include "runtime/host.h"

/* Reasons that a task gives when it closes a link on purpose. */
#define EST_GOODBYE "it has left"
#define EST_ENDED   "it ended: "           /* it failed; the error follows */
#define EST_SPARE   "there is one already" /* the second link between two tasks */

/* --- for the layers above ----------------------------------------------------------------------------------------- */

#define EST_METHOD_EXTENSION 64 /* methods from here on are for extensions */

/* How a layer above serves requests of its own. */
typedef struct est_extension {
    bool (*serve)(void *user, est_request *request); /* whether it takes the request; NULL: no extension */
    void (*lost)(void *user, est_link *link, const char *why);
    void *user;
    void (*status)(void *user, est_json *status); /* adds members to the status (task_status.h); NULL: none */
} est_extension;

/* Passes requests from EST_METHOD_EXTENSION on to `serve`, and lost links to `lost`, both in the network thread without
 * a lock of the server held. Without an extension such requests fail with EST_UNAVAILABLE: the sender may try again.
 * NULL removes the extension; neither function is called after that. Not from callbacks of the net. */
void est_server_extend(est_server *server, const est_extension *extension);

/* est_server_create for a process with a model_dir, which is shown to other tasks. */
EST_MUST_CHECK est_status est_server_start(const est_cluster *cluster, const char *type, int index,
                                           const est_server_options *options, const char *folder, est_server **out);

/* Restricts checkpoints to this folder, which need not exist yet, and refuses a chief with another model_dir. Once. */
EST_MUST_CHECK est_status est_server_set_root(est_server *server, const char *folder);
const char *est_server_root(est_server *server); /* NULL: any folder; never changes again. Not under `lock`. */

/* While nobody is connected est_server_join asks `over(user)` every second whether the job has ended without this
 * task. */
void est_server_set_over(est_server *server, bool (*over)(void *user), void *user);

/* est_server_stop after the listener and all connections were closed, without a farewell and with no answer to anybody,
 * as when the process is killed. Not from the network's thread. */
void est_server_kill(est_server *server);

est_net *est_server_net(est_server *server);

/* "chief:0", as it is called in this cluster, and its address (NULL: not wanted; *address NULL: none). Borrowed. */
const char *est_server_chief(const est_server *server, const char **address);

/* --- inside ------------------------------------------------------------------------------------------------------- */

typedef struct est_step_id {
    uint64_t timeline;
    int64_t  step;
} est_step_id;

/* Counters at a moment, for rates (task_status.c). */
typedef struct est_sample {
    int64_t  at_ns;
    uint64_t steps, bytes_in, bytes_out;
} est_sample;

/* The variables when they were last counted. */
typedef struct est_store_seen {
    int64_t  at_ns; /* 0: never */
    int      n_variables;
    uint64_t bytes, rows, applied;
} est_store_seen;

/* Runs of calls (cluster/call_records.h). A zeroed struct is empty. */
#define EST_CALL_CHAINS 1024
typedef struct est_call_records {
    uint64_t             origin; /* of the coordinator; 0: none came */
    uint64_t             first;  /* calls below it are over */
    uint64_t             n;
    struct est_answered *chains[EST_CALL_CHAINS];
} est_call_records;

struct est_server {
    est_cluster *cluster;
    char         task[EST_NET_NAME_MAX]; /* "ps:0"; "client:..." */
    char         target[320];
    char        *certificates; /* as they were given or found, for clients of the master; NULL: none */
    est_task_id  self;
    double       lonely_secs, silence_secs;
    est_net     *net;
    uint64_t     sequence; /* of the last run that this task requested; its remote increments it */
    int64_t      start_ns;
    bool (*over)(void *user); /* est_server_set_over; NULL: not set */
    void                *over_user;
    int                  threads;   /* est_server_options.threads */
    est_worker_functions functions; /* copied */
    est_master          *master;
    est_rendezvous      *rendezvous; /* tensors from other tasks, */
    est_sender          *sender;     /* and to them */
    FILE                *ledger; /* of runs that wrote, and of runs asked of others, when ESTOC_LEDGER names a folder */

    pthread_mutex_t           host_lock; /* guards what follows */
    est_host                 *host;
    struct est_segment_state *segments; /* [segments of the host] */
    int                       max_segments;
    est_step_id               version; /* the step whose pushes are accumulated */
    uint64_t                  dropped; /* pushes that came too late for their step */
    est_unpacked              inputs;
    est_tensor              **feeds; /* scratch of a run */
    int                       max_feeds;
    est_packing               outputs;
    uint64_t                  applied; /* runs that wrote */
    est_call_records          calls;

    pthread_mutex_t     lock;    /* guards what follows */
    pthread_cond_t      changed; /* the queue, a client, a flag */
    struct est_client **clients;
    int                 n_clients, max_clients;
    est_extension       extension;
    bool                extending; /* it is being called */

    struct est_calling *calling;       /* calls of a coordinator (cluster/calling.h); NULL: none came */
    struct est_queued  *first, **last; /* for the executor */
    bool                busy;          /* the executor runs something */
    est_thread          executor;
    bool                has_executor;
    struct est_parked  *parked;
    int                 n_parked, max_parked;

    char    *terms;    /* of the chief, which all others must share; NULL: not known yet */
    int      n_terms;  /* different terms that chiefs have had: a chief may be restarted with another program */
    uint64_t declarer; /* incarnation of the chief that declared the variables ready with these terms */
    bool     ready, done, stopping;
    bool     coordinated; /* a coordinator was here */
    bool     has_remote;  /* one at a time */
    uint64_t driven;      /* the last step that earlier remotes drove (cluster/rendezvous.h) */
    bool     joined;      /* est_server_join is under way: calls of a coordinator are welcome */
    bool     stop_asked;  /* est_server_stop */
    bool     enough_made; /* the chief lets no further step begin; the job may still go on after that */

    est_gate      *gate;
    int64_t        step; /* the global step; -1: this task is not the clock */
    uint64_t       timeline;
    uint64_t       told_timeline; /* of the clock, from the chief, to be taken with the next push; 0: none */
    uint64_t       steps;         /* counted here */
    est_sample     samples[2];
    est_store_seen seen;

    char        committer[EST_NET_NAME_MAX]; /* "": nobody was asked to commit */
    est_step_id committing;                  /* the last step that a worker was asked to commit; may be half applied */
    int64_t     sync_replicas_ns;            /* when the first worker of sync_replicas came; 0: none did */
    int         enough;                      /* workers that made the last step */

    char               *root;    /* est_server_root */
    struct est_writing *writing; /* snapshots on their way to disk, each with a thread (service_files.h) */
    int64_t             stop_ns; /* a signal was seen; 0: none was */
    bool                freed;   /* but for what writers still need: the last of them frees that */
};

/* Frees the rest of a server that was freed while snapshots were written. */
void est_server_free_rest(est_server *server);

/* Whether steps are held and none is under way, so that nothing may change variables. Under `lock`. */
bool est_server_is_held(const est_server *server);

/* A request that waits for a condition. */
typedef struct est_parked {
    est_request *request;
    est_method   method;
    int64_t      since_ns;
    est_step_id  step;   /* FINISH_STEP: the step, */
    int          wanted; /* and how many workers make one */
} est_parked;

/* Parks a request. Under `lock`. */
EST_MUST_CHECK est_status est_server_park(est_server *server, est_request *request, est_method method);

/* Answers all parked requests whose condition holds. Under `lock`. */
void est_server_wake(est_server *server);

/* Sets the terms of the chief. Steps of tasks that agreed to other terms are refused until they compare again, which
 * they do when they make a new session. Under `lock`. */
EST_MUST_CHECK est_status est_server_set_terms(est_server *server, est_str terms);

/* --- requests (service.c) ----------------------------------------------------------------------------------------- */

/* A request for the executor. */
typedef struct est_queued {
    est_request       *request;
    struct est_queued *next;
} est_queued;

/* Serves a request (network thread). */
void est_service_serve(void *user, est_request *request);

/* Queues a request for the executor. Not under `lock`. */
void est_service_enqueue(est_server *server, est_request *request);

/* Runs a segment whose inputs are all here: at once if it is short, else by the executor (network thread). */
void est_service_resume(est_server *server, est_request *request);

/* Executes a request to its end (network thread or executor, without host_lock). */
void est_service_execute(est_server *server, est_request *request);

/* Answers with a packed message, or with the failure when packing ran out of memory. */
void est_service_answer(est_request *request, const est_packing *packing);

/* The same, or fails with the last error when `status` is one. Clears the packing; NULL: an empty answer. */
void est_service_finish(est_request *request, est_status status, est_packing *packing);

#endif
