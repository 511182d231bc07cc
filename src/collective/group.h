/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: processes that compute together, by rank.
 *
 * A group is made of the same list of ranks on every one of them and lives until something goes wrong: a rank that is lost, or
 * that aborts, ends every operation under way and all later ones on all ranks with EST_ABORTED, naming the rank and the reason.
 * A group never recovers. To go on, whoever is left, with others or without, makes a new one with a higher generation; ranks of
 * an older generation are refused there.
 *
 * Ranks are connected each with each, over links of the group's own: closing them, with the reason as farewell, is what ends a
 * group everywhere. A rank connects to all lower ones and says which generation, rank and list it means (join). A join that
 * comes before its group was made here waits for it.
 *
 * The mailbox is where a process gets what others send to its groups. Whoever owns the net hands it requests and lost links.
 *
 * Threading: any thread, except that est_group_create, est_group_free and est_work_wait (collective/collective.h) wait, so that
 * callbacks of the net must not call them. One lock, the mailbox's, guards all of this; links are used with it held, never the
 * other way round. */
#ifndef EST_COLLECTIVE_GROUP_H
#define EST_COLLECTIVE_GROUP_H

#include "estoc/communication.h"
#include "net/net.h"

typedef struct est_mailbox    est_mailbox;
typedef struct est_rank_group est_rank_group; /* est_group is the op that waits for others */

EST_MUST_CHECK est_status est_mailbox_create(est_mailbox **out);

/* After its groups, and when nothing is handed to it any more. The net may live on: waits until it has let go of the groups.
 * NULL is fine. */
void est_mailbox_free(est_mailbox *mailbox);

/* To be called by est_net_options.serve: true when the request was of a group, and is taken. */
bool est_mailbox_serve(est_mailbox *mailbox, est_request *request);

/* To be called by est_net_options.lost. */
void est_mailbox_lost(est_mailbox *mailbox, est_link *link, const char *why);

/* No group of this generation or an older one is to live here: those that there are, or that are being made, are aborted, and
 * so are those that are made later. From any thread. */
void est_mailbox_end(est_mailbox *mailbox, uint64_t generation, const char *reason);

/* One of the list. */
typedef struct est_rank {
    const char *task;        /* "worker:3" */
    const char *address;     /* where its net listens */
    uint64_t    incarnation; /* 0: whichever comes */
} est_rank;

typedef struct est_group_options {
    const est_rank   *ranks; /* copied; the same on all of them */
    int               n;
    int               rank; /* of this process */
    uint64_t          generation;
    double            join_secs;     /* 0: 600; how long to wait for all ranks */
    double            deadline_secs; /* 0: 600; EST_FOREVER: none; of an operation, unless it says otherwise */
    est_communication communication;
    const char *host; /* copied; of this process: ranks that say the same share one. NULL: the machine it runs on */
} est_group_options;

/* Where the ranks of a group are. */
typedef enum est_topology {
    EST_TOPOLOGY_ANY,      /* in rules: whichever */
    EST_TOPOLOGY_APART,    /* each on a host of its own; or on one, and they may not share memory */
    EST_TOPOLOGY_ONE_HOST, /* all on one, with memory in common */
    EST_TOPOLOGY_MIXED     /* several hosts, and some have several ranks */
} est_topology;

/* Waits until all ranks are there. EST_DEADLINE_EXCEEDED names those that are missing; EST_FAILED_PRECONDITION: a rank is at a
 * later generation or has another list; EST_ABORTED: another rank has seen one go. Whoever tries again does it with a higher
 * generation, since others may have been complete. The net, which listens and whose requests come to the mailbox, and the
 * mailbox are borrowed until the group is freed. */
EST_MUST_CHECK est_status est_group_create(est_mailbox *mailbox, est_net *net, const est_group_options *options,
                                           est_rank_group **out);

/* Leaves the group, once others have taken what this rank has sent them (for at most some seconds). All works must have been
 * waited for. Others go on with what does not need this rank. NULL is fine. */
void est_group_free(est_rank_group *group);

/* Ends all operations of the group, on all ranks. The first reason stays. */
void est_group_abort(est_rank_group *group, const char *reason);

int          est_group_ranks(const est_rank_group *group);
int          est_group_rank(const est_rank_group *group);
est_topology est_group_topology(const est_rank_group *group);
uint64_t     est_group_generation(const est_rank_group *group);
uint64_t     est_group_operations(est_rank_group *group); /* that were begun so far */

/* EST_OK, or what operations that begin now fail with. */
EST_MUST_CHECK est_status est_group_status(est_rank_group *group);

#endif
