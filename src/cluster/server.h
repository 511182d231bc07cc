/* SPDX-License-Identifier: Apache-2.0
 *
 * A server from the inside: what its network thread, its executor and its owner share.
 *
 * Requests come in the network thread (service.c). What is small runs there and then; what may take long, and everything while
 * something long runs, goes to the executor, one thread that takes requests in the order they came, except that those of a client
 * that does not fetch its answers wait until it does. So variables change one run at a time, and a run of one client never
 * waits for the network of another.
 *
 * Who is who: a client is a task by name. Of two processes that are there under one name the one that was started later (its
 * incarnation begins with the time) has the place, whichever of them comes last: the older is put out, its link is closed, and
 * whatever it still asks is refused, over new links, too, so that it ends. A place is kept for one whose link was lost as long as a
 * silence may last: the older gets it only then. Of each client the runs that changed variables are
 * remembered with their answers until it says that it has those, so that a run that is asked for again, because the link broke
 * before the answer came, is answered and not repeated.
 *
 * Locks: `lock` guards the clients, the gate, the flags and the queue; `host_lock` guards host and parts. Who
 * takes both takes host_lock first, or only tries to. */
#ifndef EST_CLUSTER_SERVER_H
#define EST_CLUSTER_SERVER_H

#include <pthread.h>

#include "base/thread.h"
#include "cluster/accumulator.h"
#include "cluster/cluster.h"
#include "cluster/gate.h"
#include "cluster/protocol.h"
#include "estoc/server.h"
#include "runtime/host.h"

#define EST_GOODBYE "it has left" /* why a task closes its own links; peers hear who has closed it before that */
#define EST_ENDED   "it ended: "  /* the same of one that fails, before the reason */
#define EST_SPARE   "there is one already" /* why one of two links between two tasks is closed */

/* What was counted at a moment, for numbers per second (status.c). */
typedef struct est_sample {
    int64_t  at_ns;
    uint64_t steps, bytes_in, bytes_out;
} est_sample;

/* What the variables were when they were last looked at. */
typedef struct est_store_seen {
    int64_t  at_ns; /* 0: never */
    int      n_variables;
    uint64_t bytes, rows, applied;
} est_store_seen;

/* A run that changed variables, and its answer. */
typedef struct est_answered {
    struct est_answered *next;
    uint64_t             by; /* the incarnation that asked */
    uint64_t             sequence;
    void                *answer;               /* head and parts in one block; NULL: nothing, or memory was out */
    size_t               head_size, turn_size; /* the last bytes of the head say that it brought a turn along */
    size_t              *part_sizes;
    int                  n_parts;
} est_answered;

/* A task that talks to this one. */
typedef struct est_client {
    est_task_id   who;
    est_link     *link;     /* one of its process, which stays until it is lost; a reference; NULL: gone */
    int64_t       since_ns; /* it came, or was lost */
    char          lost_why[160];
    char          before[EST_NET_PLACE_MAX]; /* the process that it put out while that was there; "": none */
    bool          gated;                     /* it asks for turns, and may count a step only with one */
    bool          sync_replicas;             /* it makes steps together with others */
    bool          joined;                    /* it ever did */
    bool          left;                      /* it said goodbye, and asked for nothing since */
    int           agreed;                    /* n_terms when it had those of the chief; 0: it never had */
    int64_t       limit, staleness;          /* that it asked with last */
    uint64_t      first, asked_by;  /* runs that wrote and are older have been answered; the incarnation that asked */
    est_answered *answered;         /* the others, and those of asked_before; guarded by host_lock */
    uint64_t      runs, repeats;    /* served; answered from memory */
    est_link_counters gone;         /* of links that were lost */
    uint64_t          looks;        /* at the status: one that did nothing else is forgotten when it goes */
    uint64_t          steps;        /* that it counted */
    int64_t           step;         /* the global step after the last of them */
    est_sample        samples[2];   /* the older one first */
    const est_link   *holder;       /* that it holds the gate over, until that is lost; NULL: it does not */
    uint64_t          asked_before; /* the incarnation before asked_by, which may be back with a run that was made */
} est_client;

/* A step of those that are made together (cluster/sync_replicas.h). */
typedef struct est_step_id {
    uint64_t timeline;
    int64_t  step;
} est_step_id;

/* A request that waits for something else than the executor. */
typedef struct est_parked {
    est_request *request;
    est_method   method;
    int64_t      since_ns;
    est_step_id  step;   /* FINISH_STEP: the step, */
    int          wanted; /* and how many workers make one */
} est_parked;

/* What the server knows of a part of its host. */
typedef struct est_segment_state {
    int64_t          ns;          /* what a run took lately */
    bool             counts;      /* it counts the global step */
    int              phase;       /* of the step that it is of */
    bool             has_run;     /* after a commit */
    est_step_id      ran;         /* the step that it was */
    est_accumulator *accumulator; /* NULL: nothing was collected yet */
    uint64_t        *came;        /* [n_came]: fingerprints of the workers whose pushes it has */
    int              n_came, max_came;
} est_segment_state;

typedef struct est_queued {
    est_request       *request;
    struct est_queued *next;
} est_queued;

/* A snapshot of variables on its way to disk (service_files.c). */
typedef struct est_writing {
    struct est_writing *next;
    est_server         *server;
    est_request        *request; /* the writer's */
    const est_link     *link;    /* that it came over */
    est_snapshot       *snapshot;
    char               *prefix;
    char                task[EST_NET_NAME_MAX]; /* that asked */
    int64_t             since_ns;
    bool                told;  /* that the end waits for it */
    bool                ended; /* it was given up: no update waits for it, whenever the disk lets its thread go */
} est_writing;

/* What a layer above does with requests of its own; see est_server_extend. */
typedef struct est_extension {
    bool (*serve)(void *user, est_request *request); /* NULL: there is none */
    void (*lost)(void *user, est_link *link, const char *why);
    void *user;
} est_extension;

#define EST_METHOD_EXTENSION 64 /* methods from here on are for extensions */

struct est_server {
    est_cluster *cluster;
    char         task[EST_NET_NAME_MAX]; /* "ps:0"; "client:..." */
    char         target[320];
    est_task_id  self;
    double       lonely_secs, silence_secs;
    est_net     *net;
    uint64_t     sequence;   /* of the last run that was asked of another task */
    bool         has_remote; /* there is one, which counts the sequence up */
    int64_t      start_ns;

    pthread_mutex_t    host_lock;
    est_host          *host;
    est_segment_state *segments;
    int                max_segments;
    est_step_id        version; /* the step that is being collected */
    uint64_t           dropped; /* runs that came too late for their step */
    est_unpacked       inputs;
    est_tensor       **feeds; /* scratch of a run */
    int                max_feeds;
    est_packing        outputs;
    uint64_t           applied; /* runs that wrote */
    FILE              *ledger;  /* of those, and of runs that were asked of others, when ESTOC_LEDGER names a folder */

    pthread_mutex_t lock;
    pthread_cond_t  changed; /* the queue, a client, a flag */
    est_client    **clients;
    int             n_clients, max_clients;
    est_gate       *gate;
    est_parked     *parked;
    int             n_parked, max_parked;
    char           *root;     /* est_server_root */
    bool (*over)(void *user); /* whether the job is over, whatever was heard of it; NULL: nobody knows */
    void    *over_user;
    char    *terms;    /* of the chief, which all others must have, too (cluster/terms.h); NULL: nobody has said */
    uint64_t declarer; /* incarnation of the chief that declared the variables ready, and said those */
    int      n_terms;  /* how many different ones chiefs have had: a chief may be started anew with another program */
    bool     ready, done, stopping;
    bool    enough_made; /* the chief lets nobody begin another step; not the end of the job, which it may begin anew */
    int64_t step;        /* the global step here, -1: it is not here */
    uint64_t       timeline;                    /* of it */
    uint64_t       told_timeline;               /* that of the clock, from the chief, before the next push; 0: none */
    uint64_t       steps;                       /* that were counted here */
    char           committer[EST_NET_NAME_MAX]; /* who was asked to commit; "": nobody */
    est_step_id    committing;                  /* the last step that somebody was asked to: half of it may be made */
    int64_t        sync_replicas_ns;            /* when the first came that makes steps with others; 0: none did */
    int            enough;                      /* workers that made the last step */
    est_sample     samples[2];
    est_store_seen seen;
    est_queued    *first, **last;
    bool           busy; /* the executor runs something */
    est_thread     executor;
    bool           has_executor;
    est_extension  extension;
    bool           extending; /* it is being called */
    est_writing   *writing;   /* each has a thread */
    int64_t        stop_ns;   /* a signal was seen; 0: none was */
    bool           freed;     /* but for what those who still write need: the last of them frees that */
};

/* The rest of a server that was freed while copies were written. */
void est_server_free_rest(est_server *server);

/* Serves a request (network thread). */
void est_service_serve(void *user, est_request *request);

/* Gives a request to the extension, if it is for one: true when it was taken (network thread). */
bool est_server_serve_extension(est_server *server, est_request *request);

/* Runs one request to its end (network thread or executor, host_lock held by neither). */
void est_service_execute(est_server *server, est_request *request);

/* Answers with what was packed. */
void est_service_answer(est_request *request, const est_packing *packing);

/* The client of a link, made if it is new; NULL: memory is out. Under `lock`. */
est_client *est_server_client(est_server *server, est_link *link);

/* Whether the process at the other end of a link has its task's place; it is there then. Under `lock`. */
bool est_server_knows(est_server *server, est_link *link);

/* Whether the task's place is kept for the process that had it, which may be on its way back over a new link, or that has it and was
 * not heard lately; an older one is told EST_PLACE_KEPT until it is known whether that one lives. Under `lock`. */
bool est_client_is_kept(const est_server *server, const est_client *client);

#define EST_PLACE_KEPT "a newer process had this task's place a moment ago, and may be back"

/* The task at the other end gives up what it waits for, its turn and its holds. Under `lock`. */
void est_server_leave(est_server *server, est_link *link);

/* What the client held for a checkpoint goes on. Under `lock`. */
void est_server_end_holds(est_server *server, est_client *client);

/* Whether steps are held and none is under way: variables may be being copied, and nothing changes them. Under `lock`. */
bool est_server_is_held(const est_server *server);

/* Forgets answers, but those to runs of the incarnation `by` from `first` on, and to those of `other`. 0: of none. Under
 * `host_lock`. */
void est_client_forget(est_client *client, uint64_t by, uint64_t first, uint64_t other);

/* Keeps a request waiting. Under `lock`. */
EST_MUST_CHECK est_status est_server_park(est_server *server, est_request *request, est_method method);

/* Answers all whose waiting has ended. Under `lock`. */
void est_server_wake(est_server *server);

/* The terms of the chief, from now on. Steps of those who have agreed to others are refused until they have compared again, which they
 * do when they make a new session. Under `lock`. */
EST_MUST_CHECK est_status est_server_set_terms(est_server *server, est_str terms);

/* "chief:0", as it is called in this cluster, and where it is (address may be NULL; NULL there: nowhere). Borrowed. */
const char *est_server_chief(const est_server *server, const char **address);

est_net *est_server_net(est_server *server);

/* Requests from EST_METHOD_EXTENSION on come to `serve` from now on, which says whether it takes them, and links that are lost
 * to `lost`, both in the network thread without a lock of the server held. While there is no extension such requests fail with
 * EST_UNAVAILABLE: whoever asks may try again. NULL takes the extension away; neither is called after that. Not from callbacks
 * of the net. */
void est_server_extend(est_server *server, const est_extension *extension);

/* est_server_create for a process that has a model_dir, which others are told when they have to say who it is. */
EST_MUST_CHECK est_status est_server_start(const est_cluster *cluster, const char *type, int index,
                                           const est_server_options *options, const char *folder, est_server **out);

/* From now on checkpoints are written and read in that folder only, whatever a peer asks for, and a chief with another model_dir is
 * refused. It need not be there yet. Once. */
EST_MUST_CHECK est_status est_server_set_root(est_server *server, const char *folder);

/* That folder, which stays what it is; NULL: any. Not under `lock`. */
const char *est_server_root(est_server *server);

/* While nobody is there est_server_join asks `over(user)` now and then whether the job has ended without this task. */
void est_server_set_over(est_server *server, bool (*over)(void *user), void *user);

#endif
