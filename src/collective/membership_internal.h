/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership from the inside: what its files share.
 *
 *   membership.c               create, join, leave, end
 *   membership_requests.c      requests of other tasks, lost links; runs in the network thread
 *   membership_communicator.c  est_communicator over the current group
 *   state_transfer.c           variables from one rank to all
 *   membership_round.c, membership_messages.c  decisions and messages, without the network
 *
 * Links: every pair of tasks has one link from the first join on, made by the task that reaches the other first, used
 * in both directions and kept. A task without a link to another keeps trying to connect while it joins.
 *
 * Locks: `lock` guards everything below it. Links, requests and the mailbox are used with it held, never the other way
 * round. */
#ifndef EST_COLLECTIVE_MEMBERSHIP_INTERNAL_H
#define EST_COLLECTIVE_MEMBERSHIP_INTERNAL_H

#include <pthread.h>

#include "collective/device_sum.h"
#include "collective/membership.h"
#include "collective/membership_round.h"

/* Another task as this one knows it. */
typedef struct est_member {
    uint64_t     incarnation; /* of its process; 0: none has proposed */
    est_link    *link;        /* a reference; NULL: none */
    int64_t      lost_ns;     /* when the last link over which it was active was lost */
    bool         active;      /* it has proposed, or was in a view, over this link */
    bool         proposed;    /* this task has sent its proposal over this link, and the answer is outstanding */
    int64_t      try_ns;      /* do not connect to it, or propose to it, before */
    est_request *request;     /* its proposal, to be answered with the decision; NULL: it has not proposed */
    est_proposal proposal;    /* the content of the request */
    bool         knows_over;  /* this task has informed it that the job is over */
    bool         failed;      /* its process said that it failed, and has not proposed since */
    char         why[256];    /* it was lost, or could not be reached; "": it is linked, or was not tried */
} est_member;

typedef struct est_comm_slot est_comm_slot; /* membership_communicator.c */

typedef enum est_membership_state {
    EST_MEMBERSHIP_IDLE,
    EST_MEMBERSHIP_JOINING, /* waits for a decision */
    EST_MEMBERSHIP_FORMING, /* there is a decision, and its group is being formed */
    EST_MEMBERSHIP_JOINED
} est_membership_state;

struct est_membership {
    est_communicator       communicator;
    est_comm_slot        **slots; /* of the communicator */
    int                    n_slots;
    est_server            *server;
    est_membership_options options; /* tasks: copies */
    est_rank              *tasks;   /* [n] */
    est_terms              terms;   /* what all tasks must agree on, the list of tasks included */
    est_mailbox           *mailbox;
    est_rank_group        *group; /* NULL: none */
    est_device_sum         device_sum;
    bool                   partial; /* see est_membership_partial */

    pthread_mutex_t      lock;
    pthread_cond_t       changed;
    est_membership_state state;
    est_member          *members;           /* [n]; of this task only `proposal` */
    est_candidate       *candidates;        /* [n]; scratch */
    uint64_t             round;             /* answers to proposals of earlier rounds are ignored */
    int64_t              since_ns;          /* when the round began */
    est_decision         agreed;            /* the last decision that formed a view */
    est_decision         decision;          /* of this round; kind 0: none yet */
    bool                 over;              /* the job has ended, */
    bool                 ended_here;        /* by this task, which informs all others */
    int                  n_asks;            /* requests of this task that are outstanding */
    char                 leave_reason[256]; /* why this task leaves; "": it has finished */
};

/* membership_communicator.c */
extern const est_communicator_ops est_membership_communicator_ops;
void                              est_membership_free_slots(est_membership *m);

/* Extension of the server: membership_requests.c. */
bool est_membership_serve(void *user, est_request *request);
void est_membership_lost(void *user, est_link *link, const char *why);

/* Everything below: the lock is held. */

/* Answers the member's proposal, if there is one. */
void est_member_answer(est_member *member, const est_decision *decision);

/* Fails the member's proposal, if there is one. */
void est_member_drop_request(est_member *member, const char *why);

/* Takes a reference to a link to the member; false: it already has a link that is as new. */
bool est_member_take_link(est_member *member, est_link *link);
void est_member_close(est_member *member, const char *why);

/* Sends EST_MEMBERSHIP_PROPOSE, EST_MEMBERSHIP_EXCLUDE or EST_MEMBERSHIP_OVER to a task. */
EST_MUST_CHECK est_status est_membership_send(est_membership *m, int number, int method);

/* Ends the group because of a proposal of this task, so that all join again; unless that is another member's duty. */
void est_membership_end_group(est_membership *m, int number);

#endif
