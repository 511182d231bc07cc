/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups and operations from the inside: what group.c, mailbox.c and work.c share.
 *
 * The steps of a work are taken by any thread that can take one: the thread that begins it, or the network thread when
 * a block or an acknowledgement arrives. One at a time does so (`running`); another one sets `again`. Blocks are added
 * by the thread that has received them, while they are in its cache: passing them to the waiting thread took 11 ms
 * instead of 8 for 16 MB between two processes (medians of three alternating rounds).
 *
 * A block is a request that is answered, with nothing, once it was used. So the answer tells the sender that its memory
 * is free, and that the receiver keeps up. At most EST_WINDOW blocks of a work are in flight to a peer, which bounds
 * what queues there. */
#ifndef EST_COLLECTIVE_WORK_H
#define EST_COLLECTIVE_WORK_H

#include <pthread.h>

#include "base/shared_memory.h"
#include "base/thread.h"
#include "cluster/wait_table.h"
#include "collective/algorithm.h"

#define EST_WINDOW       4
#define EST_COPIED_BYTES ((size_t)16 << 10) /* blocks up to this size are sent in the head, which is copied */
#define EST_WHY_BYTES    400                /* of the reason with which a link is closed */
/* Unit of transfers through shared memory; a multiple of all element sizes. */
#define EST_PIECE_BYTES ((size_t)256 << 10)
#define EST_SLOTS       4 /* pieces of a rank in shared memory */

/* Methods; above those of cluster/protocol.h, so that both can use one net. */
enum { EST_GROUP_JOIN = 64, EST_GROUP_BLOCK, EST_GROUP_LEAVE, EST_GROUP_BELL };

/* A join. */
typedef struct est_join_head {
    uint64_t generation, list; /* list: fingerprint of the ranks */
    uint64_t host;
    uint32_t rank, n;
} est_join_head;

/* The answer to a join. */
typedef struct est_join_answer {
    uint64_t               host;
    est_shared_memory_name memory; /* of rank 0 */
} est_join_answer;

/* The operation of a block. Everything after `number` must be equal on all ranks. */
typedef struct est_block_head {
    uint64_t generation, number, bytes;
    uint8_t  kind, dtype, reduction, communication;
    uint32_t root;
} est_block_head;

/* A block that has arrived. */
typedef struct est_parcel {
    est_request       *request;
    int                from;
    est_block_head     head;
    const uint8_t     *data;
    size_t             bytes;
    struct est_parcel *next;
} est_parcel;

/* A rank as the group sees it. */
typedef struct est_rank_peer {
    est_rank_group *group;
    char            task[EST_NET_NAME_MAX];
    char           *address;
    uint64_t        listed, incarnation; /* of the list, and of the process that joined; 0: unknown */
    uint64_t        host;
    est_link       *link; /* a reference; NULL: not connected */
    bool            joined, left;
} est_rank_peer;

/* A rank in shared memory (shared.c). Marks count pieces. */
typedef struct est_shared_rank {
    _Alignas(64) est_mark ready, summed, done;
    _Alignas(64) est_mark asleep;                 /* 1: wants a bell on changes */
    _Alignas(64) est_block_head heads[EST_SLOTS]; /* of the operation whose first piece is in the slot */
    int64_t lengths[EST_SLOTS];                   /* of the rank's part of a gather, in bytes */
} est_shared_rank;

/* The shared memory of a group. */
typedef struct est_commons {
    est_shared_memory      memory; /* none: they do not share a host */
    est_shared_memory_name name;
    est_shared_rank       *ranks;   /* [n] */
    uint8_t               *slots;   /* [n, EST_SLOTS, EST_PIECE_BYTES] */
    uint64_t               pieces;  /* of all finished operations */
    bool                   crowded; /* more ranks than cores */
} est_commons;

struct est_mailbox {
    pthread_mutex_t lock; /* guards all of this, all groups and all works */
    est_rank_group *groups;
    int             n_groups; /* not freed yet, including those that only outstanding requests refer to */
    pthread_cond_t  freed;    /* n_groups has changed */
    uint64_t        newest;   /* generation of a complete group */
    uint64_t        ended;    /* groups up to this generation are aborted, */
    char            ended_why[EST_WHY_BYTES]; /* for this reason */
    est_parcel     *joins; /* requests that wait for their group; only `request` and `next` are set */
};

struct est_rank_group {
    est_mailbox      *mailbox;
    est_net          *net;
    uint64_t          generation, list;
    int               n, rank;
    est_rank_peer    *peers; /* [n] */
    double            deadline_secs;
    est_communication communication;
    est_topology      topology; /* this and `hosts` are set once it is complete */
    est_hosts         hosts;
    est_commons       commons;
    pthread_cond_t    changed;  /* a rank joined, a request ended, the group failed */
    int               refs;     /* of the owner, works and requests */
    int               n_asks;   /* requests that are outstanding */
    uint64_t          next;     /* number of the next work; 0 is for est_group_create */
    est_work         *works;    /* unfinished */
    est_parcel       *early;    /* blocks of works that have not begun, oldest first */
    bool              counted;  /* in mailbox->n_groups */
    bool              complete; /* all ranks have joined */
    bool              failed;
    est_status        failure; /* while it forms: the code; EST_OK: EST_ABORTED */
    char              why[EST_WHY_BYTES];
    est_rank_group   *next_group;
};

/* A work and one of its peers. */
typedef struct est_lane {
    est_work   *work;
    est_parcel *first, *last; /* blocks that have arrived */
    int         cursor;       /* everything before this step was sent */
    int         n_unsent;     /* steps before work->at that wait for the window */
    int         n_out;        /* blocks without an answer */
} est_lane;

struct est_work {
    est_rank_group *group;
    est_work       *next;
    int             refs; /* of the waiter, requests, and the running thread */
    est_block_head  head;
    const char     *name; /* of the operation */
    double          deadline_secs;
    int64_t         deadline_ns; /* INT64_MAX: none */
    est_moves       moves;
    est_lane       *lanes; /* [n] */
    int             at;    /* the next step */
    int             n_unsent, n_out;
    bool            running, again, finished;
    est_error       error;
    pthread_cond_t  changed; /* finished */
    uint8_t        *scratch;
    bool            awaited; /* a thread is in est_work_wait */
    est_waiting     wait;    /* place -1: not shown */
    char            wait_why[64];
    int             wait_peer; /* the rank that is shown there */

    /* For EST_MOVE_CALL, and for gathers through shared memory: called when `lengths` are those of all ranks. */
    est_status (*then)(est_work *work);
    const void   *mine;
    est_gathered *gathered; /* the caller's */
    est_gathered  result;   /* moved there at the end of the wait */
    int64_t      *lengths;
};

/* Everything below: the lock is held, unless said otherwise. */

void est_group_ref(est_rank_group *group);
void est_group_unref(est_rank_group *group);

/* Makes the group visible to joins, and admits those that wait for it. */
void est_mailbox_add(est_mailbox *mailbox, est_rank_group *group);

/* Ends the group. The first reason counts. */
void est_group_fail(est_rank_group *group, const char *why);

/* The same, with this rank as the one that aborts. */
void est_group_end(est_rank_group *group, const char *reason);

/* The same, because a rank was lost or has aborted. */
void est_group_lose(est_rank_group *group, int rank, const char *why);

/* Raises the failure of the group. */
EST_MUST_CHECK est_status est_group_raise(const est_rank_group *group);

/* "rank 2 (worker:2)" */
const char *est_rank_name(const est_rank_group *group, int rank, char out[EST_NET_NAME_MAX + 32]);

/* Fails the requests and frees the parcels. */
void est_parcels_drop(est_parcel *first, est_status status, const char *why);

/* A block for the work has arrived; a rank has left. Both may release the lock for a while. */
void est_work_deliver(est_work *work, est_parcel *parcel);
void est_work_peer_left(est_work *work);

/* The group has failed. */
void est_work_abort(est_work *work);

/* A rank has set a mark while this one was asleep. */
void est_group_wake(est_rank_group *group);

/* Sends an empty message to a rank. A lost link is reported to the mailbox. */
void est_group_tell(est_rank_group *group, int rank, uint16_t method, const char *what);

/* --- shared memory: without the lock ------------------------------------------------------------------------------ */

/* Creates it at rank 0; opens it by name at the others. On failure the group has none. */
void est_commons_create(est_rank_group *group);
void est_commons_open(est_rank_group *group);

/* The rank that the next step waits for; -1: none. With or without the lock. */
int est_shared_behind(const est_work *work);

/* The same, after polling for a moment if `poll`; this rank is asleep if not -1. */
int est_shared_await(const est_work *work, bool poll);

/* Takes the next step. */
EST_MUST_CHECK est_status est_shared_take(est_work *work);

/* Begins a work whose list is complete; the work is taken, also on failure. Without the lock. */
EST_MUST_CHECK est_status est_work_begin(est_work *work, est_work **out);

/* Aborts the group with this thread's failure, because this rank cannot begin what the others do; returns the failure.
 * Without the lock. */
EST_MUST_CHECK est_status est_group_give_up(est_rank_group *group, est_status status);

/* A work without steps. Without the lock. */
EST_MUST_CHECK est_status est_work_create(est_rank_group *group, const char *name, est_block_head head,
                                          const est_collective_options *options, est_work **out);
void                      est_work_unref(est_work *work);

/* dst += src; dst = src * factor, which may be the same memory, integers as they are; data /= n. `bytes` are of whole
 * elements. */
void est_elements_add(void *dst, const void *src, size_t bytes, est_dtype dtype);
void est_elements_scale(void *dst, const void *src, size_t bytes, est_dtype dtype, double factor);
void est_elements_divide(void *data, size_t bytes, est_dtype dtype, int n);

#endif
