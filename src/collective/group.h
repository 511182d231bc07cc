/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: the ranks of one view, which compute together. Membership (collective/membership.h) decides who is in, and
 * makes a group for each view.
 *
 * All ranks create the group with the same list of ranks. It lives until something fails: a rank that is lost, or that
 * aborts, ends every operation under way and all later ones on all ranks with EST_ABORTED, naming the rank and the
 * reason. A group never recovers. To continue, the ranks that are left create a new group with a higher generation; it
 * refuses ranks of an older one.
 *
 * Every pair of ranks is connected by a link of the group's own. Closing the links, with the reason, is what ends a
 * group everywhere. A rank connects to all lower ranks and sends its generation, rank and list (join). A join that
 * arrives before the group was created here waits for it.
 *
 * The mailbox receives what other processes send to the groups of this one. The owner of the net passes it requests and
 * lost links.
 *
 * Threading: any thread, except that est_group_create, est_group_free and est_work_wait (collective/collective.h)
 * block, so callbacks of the net must not call them. One lock, the mailbox's, guards all of this; links are used with
 * it held, never the other way round. */
#ifndef EST_COLLECTIVE_GROUP_H
#define EST_COLLECTIVE_GROUP_H

#include "estoc/communication.h"
#include "net/net.h"

typedef struct est_mailbox    est_mailbox;
typedef struct est_rank_group est_rank_group; /* est_group is an op */

EST_MUST_CHECK est_status est_mailbox_create(est_mailbox **out);

/* After its groups, and when the net passes nothing to it any more. Waits until the net has released the groups. NULL
 * is fine. */
void est_mailbox_free(est_mailbox *mailbox);

/* For est_net_options.serve. True: the request was for a group, and is taken. */
bool est_mailbox_serve(est_mailbox *mailbox, est_request *request);

/* For est_net_options.lost. */
void est_mailbox_lost(est_mailbox *mailbox, est_link *link, const char *why);

/* Aborts all groups up to this generation: existing ones, ones being created, and ones created later. Any thread. */
void est_mailbox_end(est_mailbox *mailbox, uint64_t generation, const char *reason);

typedef struct est_rank {
    const char *task;        /* "worker:3" */
    const char *address;     /* where its net listens */
    uint64_t    incarnation; /* 0: any */
} est_rank;

typedef struct est_group_options {
    const est_rank   *ranks; /* copied; the same on all of them */
    int               n;
    int               rank; /* of this process */
    uint64_t          generation;
    double            join_secs;     /* 0: 600; limit of est_group_create */
    double            deadline_secs; /* 0: 600; EST_FOREVER: none; default of operations */
    est_communication communication;
    const char       *host; /* copied; ranks with equal hosts share one. NULL: this machine */
} est_group_options;

/* Where the ranks of a group are. */
typedef enum est_topology {
    EST_TOPOLOGY_ANY,      /* in rules: any */
    EST_TOPOLOGY_APART,    /* each on its own host; or on one without shared memory */
    EST_TOPOLOGY_ONE_HOST, /* all on one, with shared memory */
    EST_TOPOLOGY_MIXED     /* several hosts, and some have several ranks */
} est_topology;

/* Waits until all ranks have joined. EST_DEADLINE_EXCEEDED names the missing ones; EST_FAILED_PRECONDITION: a rank is
 * at a later generation or has another list; EST_ABORTED: another rank has lost one. A retry needs a higher generation,
 * since the group may have been complete at other ranks. The mailbox, and the net, which listens, are borrowed until
 * the group is freed. */
EST_MUST_CHECK est_status est_group_create(est_mailbox *mailbox, est_net *net, const est_group_options *options,
                                           est_rank_group **out);

/* Leaves the group, after waiting at most 5 s for the others to receive what this rank has sent. All works must have
 * been waited for. The others continue with operations that do not need this rank. NULL is fine. */
void est_group_free(est_rank_group *group);

/* Ends all operations of the group on all ranks. The first reason counts. */
void est_group_abort(est_rank_group *group, const char *reason);

int          est_group_ranks(const est_rank_group *group);
int          est_group_rank(const est_rank_group *group);
est_topology est_group_topology(const est_rank_group *group);
uint64_t     est_group_operations(est_rank_group *group); /* begun so far */

/* EST_OK, or what every operation fails with from now on. */
EST_MUST_CHECK est_status est_group_status(est_rank_group *group);

/* The same for an operation that needs all ranks: fails, too, when one has left, which names it. */
EST_MUST_CHECK est_status est_group_all_here(est_rank_group *group);
bool                      est_group_is_whole(est_rank_group *group); /* the same, without an error */

#endif
