/* SPDX-License-Identifier: Apache-2.0
 *
 * An ensemble from the inside: what its files share.
 *
 *   ensemble.c        life, the thread that meets
 *   ensemble_hear.c   what others say, in the network thread
 *   ensemble_peers.c  est_communicator over the group
 *   ensemble_share.c  variables from one rank to all
 *   meeting.c, meeting_messages.c  decisions and messages, without the network
 *
 * Links: tasks are linked each with each, by the first that reaches the other, from the first meeting on; a link is used both
 * ways and stays. Who has no link to one that it meets tries to make one, again and again.
 *
 * Locks: `lock` guards everything below it. Links, requests and the mailbox are used with it held, never the other way round. */
#ifndef EST_COLLECTIVE_MEMBERSHIP_INTERNAL_H
#define EST_COLLECTIVE_MEMBERSHIP_INTERNAL_H

#include <pthread.h>

#include "collective/membership.h"
#include "collective/membership_round.h"

/* A task as this one knows it. */
typedef struct est_member {
    uint64_t     incarnation; /* of the process that has the place; 0: none has come */
    est_link    *link;        /* a reference; NULL: none */
    int64_t      lost_ns;     /* when the last link was lost over which it was any use */
    bool         active;      /* it has come, or trained with us, since */
    bool         proposed;    /* that we have come, over this link; the answer is awaited */
    int64_t      try_ns;      /* not to be connected to, or told, before */
    est_request *request;     /* it has come; the answer is what is agreed on. NULL: it has not */
    est_proposal proposal;    /* what it said then */
    bool         knows_over;  /* that the job has ended, from this task */
    bool         failed;      /* this process said that it failed, and has not come since */
    char         why[256];    /* it was last lost, or could not be reached; "": it is linked, or was not tried */
} est_member;

typedef struct est_comm_slot est_comm_slot; /* ensemble_peers.c */

/* est_communicator over the group of the moment. */
typedef struct est_group_communicator {
    est_communicator base;
    const char      *who;   /* this task, for the status view; borrowed */
    est_rank_group  *group; /* NULL: none */
    est_comm_slot  **slots;
    int              n_slots;
} est_group_communicator;

typedef enum est_membership_state {
    EST_MEMBERSHIP_IDLE,
    EST_MEMBERSHIP_JOINING,
    EST_MEMBERSHIP_FORMING, /* it was agreed on a group, which is being made */
    EST_MEMBERSHIP_JOINED
} est_membership_state;

struct est_membership {
    est_server            *server;
    est_membership_options options; /* tasks: copies */
    est_rank              *tasks;   /* [n] */
    est_terms              terms;   /* what all must have the same, the list of tasks, too */
    est_mailbox           *mailbox;
    est_rank_group        *group; /* NULL: none */
    est_group_communicator communicator;
    bool                   partial; /* variables are partly those of another rank: they count for nothing */

    pthread_mutex_t      lock;
    pthread_cond_t       changed;
    est_membership_state state;
    est_member          *members;           /* [n]; of this task only `arrival` */
    est_candidate       *candidates;        /* [n]; scratch */
    uint64_t             round;             /* number of the meeting; answers to earlier ones do not count */
    int64_t              since_ns;          /* when it began */
    est_decision         agreed;            /* the last that was to go on */
    est_decision         decision;          /* what came of the meeting; kind 0: nothing yet */
    bool                 over;              /* the job has ended, */
    bool                 ended_here;        /* and this task says so to all others */
    int                  n_asks;            /* under way */
    char                 leave_reason[256]; /* why this task leaves; "": it is done */
};

/* ensemble_peers.c */
void est_group_communicator_init(est_group_communicator *communicator, const char *who, size_t bytes_per_pack);
void est_group_communicator_clear(est_group_communicator *communicator);

/* Extension of the server: ensemble_hear.c. */
bool est_membership_serve(void *user, est_request *request);
void est_membership_lost(void *user, est_link *link, const char *why);

/* Everything below: the lock is held. */

/* Answers one who came, who has then not come any more. */
void est_member_answer(est_member *member, const est_decision *decision);

/* Fails the request of one who came, if there is one. */
void est_member_drop_request(est_member *member, const char *why);

/* Takes a link for the task, unless it has a better one; false: it has. */
bool est_member_take_link(est_member *member, est_link *link);
void est_member_close(est_member *member, const char *why);

/* Tells a task that we have come, that we go with others, or that the job is over. */
EST_MUST_CHECK est_status est_membership_send(est_membership *m, int number, int method);

/* Ends the group for one who came and is not of it, when that is for this task to do. */
void est_membership_end_group(est_membership *m, int number);

#endif
