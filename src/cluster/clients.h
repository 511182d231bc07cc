/* SPDX-License-Identifier: Apache-2.0
 *
 * The clients of a server: one entry per task name, whatever links its process has.
 *
 * When two processes use one name, the one that was started later (its incarnation begins with the time) replaces the
 * other, in whatever order they connect: the older one loses its link, and its requests are refused, also over new
 * links, so that it ends. The name of a process whose link was lost is reserved for it for `silence_secs`; an older
 * process gets it only after that.
 *
 * For each client the runs that changed variables are remembered with their answers until the client confirms that it
 * has them. So a run that is repeated because the link broke before its answer arrived is answered from memory: runs
 * are idempotent. */
#ifndef EST_CLUSTER_CLIENTS_H
#define EST_CLUSTER_CLIENTS_H

#include "cluster/server.h"

/* A run that changed variables, and its answer. For runs of calls see cluster/call_records.h. */
typedef struct est_answered {
    struct est_answered *next;
    uint64_t             by;       /* the incarnation that asked; of a call: the fingerprint of the segment */
    uint64_t             sequence; /* of a call: its number */
    void                *answer;   /* head and parts in one block; NULL: empty, or out of memory */
    size_t               head_size, turn_size; /* the last bytes of the head say that the answer includes a turn */
    size_t              *part_sizes;
    int                  n_parts;
    est_sends           *sends; /* that the run sent to other tasks; NULL: none */
} est_answered;

void est_answered_free(est_answered *run);

/* A segment that a client uses. */
typedef struct est_entry {
    uint64_t number, by; /* of the segment; the incarnation that entered it */
} est_entry;

typedef struct est_client {
    est_task_id       who;
    est_link         *link;     /* one link of its process, until that is lost; a reference; NULL: gone */
    int64_t           since_ns; /* when it came, or was lost */
    char              lost_why[160];
    char              before[EST_NET_PLACE_MAX]; /* the connected process that it replaced; "": none */
    bool              gated;                     /* it asks for turns, and may count a step only with one */
    bool              sync_replicas;             /* it takes part in synchronous steps, */
    bool              joined;                    /* and did so before */
    bool              transfers;                 /* a link to it was made for tensors of steps (sender.h), */
    bool              asks;                      /* and it asked for something else as well */
    bool              left;                      /* it said goodbye, and asked for nothing since */
    int               agreed;                    /* n_terms when it had those of the chief; 0: it never had */
    int64_t           limit, staleness;          /* of its last request for a turn */
    est_answered     *answered;                  /* runs that changed variables; guarded by host_lock */
    uint64_t          first;                     /* runs before this one have been answered */
    uint64_t          asked_by;                  /* the incarnation of these runs, */
    uint64_t          asked_before;              /* and the one before it, which may come back to repeat a run */
    est_entry        *entered;                   /* one for each time that it entered a segment; under host_lock */
    int               n_entered, max_entered;
    uint64_t          entered_by, entered_before; /* incarnations, as asked_by and asked_before */
    uint64_t          runs, repeats;              /* served; answered from memory */
    est_link_counters gone;                       /* of lost links */
    uint64_t          looks;      /* status requests: a client that made no others is forgotten when it goes */
    uint64_t          steps;      /* that it counted */
    int64_t           step;       /* the global step after the last of them */
    est_sample        samples[2]; /* the older one first */
    const est_link   *holder;     /* the link over which it holds the gate, until that is lost; NULL: it does not */
} est_client;

/* Whether the name is that of a process outside the cluster. */
bool est_is_external(const char *task);

/* The client of a task; NULL: it never came. And that of a link, added if it is new; NULL: out of memory. Under
 * `lock`. */
est_client *est_clients_find(const est_server *server, const char *task);
est_client *est_clients_get(est_server *server, est_link *link);
void        est_clients_free_one(est_client *client);

/* Notes that this server has made the link for tensors of steps: the task at its other end need not be awaited at the
 * end of the job. Not under `lock`. */
void est_clients_note_transfers(est_server *server, est_link *link);

/* Whether the process at the other end of a link owns its task's name; it counts as connected then. Under `lock`. */
bool est_clients_knows(est_server *server, est_link *link);

/* Whether the task's name is reserved for the process that had it, which may be about to reconnect, or that is
 * connected but was not heard lately. An older process is told EST_NAME_RESERVED until that is decided. Under
 * `lock`. */
bool est_client_is_reserved(const est_server *server, const est_client *client);

#define EST_NAME_RESERVED "a newer process of this task was connected a moment ago, and may be back"

/* Ends what the task at the other end waits for, its turn and its hold. Under `lock`. */
void est_clients_leave(est_server *server, est_link *link);

/* Releases the hold of a client, if it has one. Under `lock`. */
void est_client_end_hold(est_server *server, est_client *client);

/* Forgets answered runs, except those of incarnation `by` from `first` on and those of incarnation `other`; 0: of none.
 * Under `host_lock`. */
void est_client_forget(est_client *client, uint64_t by, uint64_t first, uint64_t other);

/* For est_net_options; user is the server. */
est_admission est_clients_admit(void *user, const est_task_id *peer, bool may_block, char *why, size_t size);
void          est_clients_met(void *user, est_link *link);
void          est_clients_lost(void *user, est_link *link, const char *why);

/* Gives a request to the extension, if it is for one; returns whether it was taken (network thread). */
bool est_clients_serve_extension(est_server *server, est_request *request);

/* Lets the extension, if there is one, add members to the status. Without `lock`. */
void est_clients_extend_status(est_server *server, est_json *status);

/* Takes back the turns of clients that were lost and did not come back for silence_secs. Under `lock`. */
void est_clients_expire_turns(est_server *server);

/* Frees what is remembered of clients that will not come back; entries of tasks stay for the status view. While a run
 * is under way, which may be one of theirs, this is left to the next call. Under `lock`. */
void est_clients_forget_gone(est_server *server);

#endif
