/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups and operations from the inside: what group.c, mailbox.c and work.c share.
 *
 * A work takes the steps of its list in whichever thread has something for it: the one that begins it, or the network thread when a
 * block or an acknowledgement comes. Only one at a time does (`running`); the other leaves word (`again`). Blocks are added by the
 * thread that has received them, while they are in its cache: handing them to the thread that waits took 11 ms instead of 8 for
 * 16 MB between two processes (medians of three rounds, in turns).
 *
 * A block is a request, answered with nothing once it was used: so the answer tells the sender that its memory is free, and that
 * the receiver keeps up. At most EST_WINDOW blocks are on their way to a peer for one work, which bounds what waits there. */
#ifndef EST_COLLECTIVE_WORK_H
#define EST_COLLECTIVE_WORK_H

#include <pthread.h>

#include "base/shared_memory.h"
#include "base/thread.h"
#include "cluster/wait_table.h"
#include "collective/algorithm.h"

#define EST_WINDOW       4
#define EST_COPIED_BYTES ((size_t)16 << 10) /* blocks up to that size travel in the head, which is copied */
#define EST_WHY_BYTES    400                /* of a reason: what a farewell carries */
#define EST_PIECE_BYTES                                                                                                \
    ((size_t)256 << 10) /* what goes through shared memory at a time; a multiple of all element sizes */
#define EST_SLOTS 4     /* pieces of a rank that lie there */

/* Beyond the numbers of cluster/protocol.h, so that both may use one net. */
enum { EST_GROUP_JOIN = 64, EST_GROUP_BLOCK, EST_GROUP_LEAVE, EST_GROUP_BELL };

/* What a rank says when it joins. */
typedef struct est_join_head {
    uint64_t generation, list; /* list: fingerprint of the ranks */
    uint64_t host;
    uint32_t rank, n;
} est_join_head;

/* What it is answered. */
typedef struct est_join_answer {
    uint64_t               host;
    est_shared_memory_name memory; /* of rank 0 */
} est_join_answer;

/* Which operation a block is of. Everything after `number` must be the same on all ranks. */
typedef struct est_block_head {
    uint64_t generation, number, bytes;
    uint8_t  kind, dtype, reduction, communication;
    uint32_t root;
} est_block_head;

/* A block that has come. */
typedef struct est_parcel {
    est_request       *request;
    int                from;
    est_block_head     head;
    const uint8_t     *data;
    size_t             bytes;
    struct est_parcel *next;
} est_parcel;

/* A rank as the group sees it. */
typedef struct est_peer {
    est_rank_group *group;
    char            task[EST_NET_NAME_MAX];
    char           *address;
    uint64_t        listed, incarnation; /* as the list says; of who came. 0: not known */
    uint64_t        host;
    est_link       *link; /* a reference; NULL: not connected */
    bool            joined, left;
} est_peer;

/* What the other ranks see of a rank in shared memory: see shared.c. Marks count pieces. */
typedef struct est_shared_rank {
    _Alignas(64) est_mark ready, summed, done;
    _Alignas(64) est_mark asleep;                 /* 1: wants to hear of changes */
    _Alignas(64) est_block_head heads[EST_SLOTS]; /* of the operation that begins with the piece in the slot */
    int64_t lengths[EST_SLOTS];                   /* what the rank has to be gathered in it, in bytes */
} est_shared_rank;

/* The memory that the ranks of a group have in common. */
typedef struct est_commons {
    est_shared_memory      memory; /* none: they do not share a host */
    est_shared_memory_name name;
    est_shared_rank       *ranks;   /* [n] */
    uint8_t               *slots;   /* [n, EST_SLOTS, EST_PIECE_BYTES] */
    uint64_t               pieces;  /* of all operations that are over */
    bool                   crowded; /* more ranks than cores */
} est_commons;

struct est_mailbox {
    pthread_mutex_t lock; /* guards all of this, all groups and all works */
    est_rank_group *groups;
    int             n_groups; /* that are not freed yet: also those that only asks under way still refer to */
    pthread_cond_t  freed;    /* one of them was */
    uint64_t        newest;   /* generation of which a group was complete */
    uint64_t        ended;    /* no group up to that generation may live, */
    char            ended_why[EST_WHY_BYTES]; /* because of that */
    est_parcel     *joins; /* requests that came before their group; only `request` and `next` are set */
};

struct est_rank_group {
    est_mailbox      *mailbox;
    est_net          *net;
    uint64_t          generation, list;
    int               n, rank;
    est_peer         *peers; /* [n] */
    double            deadline_secs;
    est_communication communication;
    est_topology      topology; /* this and hosts: once it is complete */
    est_hosts         hosts;
    est_commons       commons;
    pthread_cond_t    changed;  /* a rank joined, an ask is done, it failed */
    int               refs;     /* of the owner, works and asks */
    int               n_asks;   /* under way */
    uint64_t          next;     /* number of the next work; 0 is for est_group_create */
    est_work         *works;    /* that are not finished */
    est_parcel       *early;    /* blocks of works that are not begun, oldest first */
    bool              counted;  /* in mailbox->n_groups */
    bool              complete; /* all ranks have come */
    bool              failed;
    est_status        failure; /* while it is made: not only EST_ABORTED; EST_OK: that */
    char              why[EST_WHY_BYTES];
    est_rank_group   *next_group;
};

/* A work and one of its peers. */
typedef struct est_lane {
    est_work   *work;
    est_parcel *first, *last; /* that have come */
    int         cursor;       /* the step up to which everything was sent */
    int         n_unsent;     /* steps before work->at that wait for the window */
    int         n_out;        /* blocks without an answer */
} est_lane;

struct est_work {
    est_rank_group *group;
    est_work       *next;
    int             refs; /* of whoever waits, asks, and who runs it */
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
    bool            awaited; /* someone is in est_work_wait */
    est_waiting     wait;    /* place -1: not shown */
    char            wait_why[64];
    int             wait_peer; /* the rank that is shown there */

    /* For EST_MOVE_CALL, and for gatherings through shared memory: once `lengths` are those of all ranks. */
    est_status (*then)(est_work *work);
    const void   *mine;
    est_gathered *gathered; /* the caller's */
    est_gathered  result;   /* goes there at the end of the wait */
    int64_t      *lengths;
};

/* Everything below: the lock is held, unless said otherwise. */

void est_group_ref(est_rank_group *group);
void est_group_unref(est_rank_group *group);

/* Makes the group known to those who join; whoever came before is let in. */
void est_mailbox_add(est_mailbox *mailbox, est_rank_group *group);

/* Ends the group: the first reason stays. */
void est_group_fail(est_rank_group *group, const char *why);

/* The same because this rank wants it. */
void est_group_end(est_rank_group *group, const char *reason);

/* Ends it because a rank is lost, or has ended it for a reason of its own. */
void est_group_lose(est_rank_group *group, int rank, const char *why);

/* What the group failed with. */
EST_MUST_CHECK est_status est_group_raise(const est_rank_group *group);

/* "rank 2 (worker:2)" */
const char *est_peer_name(const est_rank_group *group, int rank, char out[EST_NET_NAME_MAX + 32]);

/* Fails the request and frees the parcels. */
void est_parcels_drop(est_parcel *first, est_status status, const char *why);

/* A block that came for the work, or a rank that has left: see work.c. May give the lock up for a while. */
void est_work_deliver(est_work *work, est_parcel *parcel);
void est_work_peer_left(est_work *work);

/* The group has failed. */
void est_work_abort(est_work *work);

/* Somebody has set a mark while this rank was asleep. */
void est_group_wake(est_rank_group *group);

/* Says something that needs no answer to a rank; the link is up, or its loss is known to the mailbox soon. */
void est_group_tell(est_rank_group *group, int rank, uint16_t method, const char *what);

/* --- shared memory: without the lock ------------------------------------------------------------------------------------ */

/* Makes it, at rank 0, and finds it by its name, at the others. Where it fails, there is none. */
void est_commons_create(est_rank_group *group);
void est_commons_open(est_rank_group *group);

/* The rank that the next step needs something of; -1: none, it can be taken. With the lock, too. */
int est_shared_behind(const est_work *work);

/* The same, after waiting for a moment if `poll`; the rank is asleep, if not -1. */
int est_shared_await(const est_work *work, bool poll);

/* Takes it. */
EST_MUST_CHECK est_status est_shared_take(est_work *work);

/* Begins a work whose list is written; taken, whatever comes of it. Without the lock. */
EST_MUST_CHECK est_status est_work_begin(est_work *work, est_work **out);

/* A rank that cannot begin what the others do ends it for them, too, with this thread's failure, which it returns. Without the
 * lock. */
EST_MUST_CHECK est_status est_group_give_up(est_rank_group *group, est_status status);

/* A work without steps. Without the lock. */
EST_MUST_CHECK est_status est_work_create(est_rank_group *group, const char *name, est_block_head head,
                                          const est_collective_options *options, est_work **out);
void                      est_work_unref(est_work *work);

/* dst += src; dst = src * factor, which may be the same memory, integers as they are; data /= n. `bytes` are of whole elements. */
void est_elements_add(void *dst, const void *src, size_t bytes, est_dtype dtype);
void est_elements_scale(void *dst, const void *src, size_t bytes, est_dtype dtype, double factor);
void est_elements_divide(void *data, size_t bytes, est_dtype dtype, int n);

#endif
