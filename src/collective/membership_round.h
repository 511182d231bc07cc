/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of membership, without the network: the messages, and how the decider decides.
 *
 * A worker that joins sends a proposal to all others (EST_MEMBERSHIP_PROPOSE, an est_proposal). Each of them keeps the
 * request and answers it with the decision (an est_decision) as soon as it knows it, so any informed member can relay
 * the decision. A worker that got a proposal and is not in the decided view is told so (EST_MEMBERSHIP_EXCLUDE), and
 * does not count on the sender when it joins. The chief informs all when the job is over (EST_MEMBERSHIP_OVER). These
 * two messages are empty.
 *
 * Messages are protobuf fields, as those of cluster/protocol.h. All input is checked. */
#ifndef EST_COLLECTIVE_MEMBERSHIP_ROUND_H
#define EST_COLLECTIVE_MEMBERSHIP_ROUND_H

#include "collective/group.h"
#include "format/wire.h"

#define EST_MEMBERSHIP_VERSION 3

/* Methods, beyond those of groups. */
enum { EST_MEMBERSHIP_PROPOSE = 80, EST_MEMBERSHIP_EXCLUDE, EST_MEMBERSHIP_OVER };

/* Some of the tasks, by number, in order. */
typedef struct est_numbers {
    int *data;
    int  n;
} est_numbers;

/* What all workers must agree on. A zeroed struct is empty; cleared by est_terms_clear. */
typedef struct est_terms {
    uint64_t list;    /* fingerprint of the names of all tasks */
    char    *tasks;   /* the same as text: "2 tasks, worker:0 to worker:1". Never NULL */
    char    *options; /* "max_steps=100\nelastic=no\n". Never NULL */
} est_terms;

void                      est_terms_clear(est_terms *terms);
EST_MUST_CHECK est_status est_terms_copy(const est_terms *from, est_terms *out);

/* EST_FAILED_PRECONDITION, naming the difference. `whose`, `others`: the names of the two tasks. */
EST_MUST_CHECK est_status est_terms_compare(const est_terms *terms, const char *whose, const est_terms *other,
                                            const char *others);

/* The proposal of a worker that joins. A zeroed struct is empty; cleared by est_proposal_clear. */
typedef struct est_proposal {
    int         number; /* of the task */
    est_terms   terms;
    int64_t     step;       /* of its variables; -1: it has none */
    uint64_t    generation; /* of its last view; 0: none */
    est_numbers members;    /* of that view */
    char       *address;    /* where this process of the task listens. Never NULL */
    char       *payload;    /* of its last view, if it had one; never NULL */
    char       *purpose;    /* est_membership_options.purpose; never NULL */
    bool        sums;       /* it has a device that makes sums */
    char       *why;        /* why its last group has failed; "": it has not, or there was none. Never NULL */
} est_proposal;

void est_proposal_clear(est_proposal *proposal);
void est_proposal_write(const est_proposal *proposal, est_wire_writer *out);

/* `list`: of this task. A proposal with another list has any number and no members, since they are other tasks. */
EST_MUST_CHECK est_status est_proposal_read(const void *bytes, size_t size, int n_tasks, uint64_t list,
                                            est_proposal *out);

/* The result of a round. A zeroed struct is empty; cleared by est_decision_clear. */
typedef struct est_decision {
    enum {
        EST_DECIDED_GROUP = 1, /* form this group */
        EST_DECIDED_REFUSAL,   /* fail with `status` and `text` */
        EST_DECIDED_OVER       /* the job has ended */
    } kind;
    uint64_t    generation;
    est_numbers members;
    uint64_t   *incarnations; /* [members.n] */
    char      **addresses;    /* [members.n] */
    int         source;       /* rank: an index of members; -1: nobody has variables */
    int64_t     step;         /* of the source; -1 without one */
    bool        sums;         /* a member has a device that makes sums */
    char       *payload;      /* never NULL in EST_DECIDED_GROUP */
    est_status  status;
    char       *text;
} est_decision;

void                      est_decision_clear(est_decision *decision);
void                      est_decision_write(const est_decision *decision, est_wire_writer *out);
EST_MUST_CHECK est_status est_decision_read(const void *bytes, size_t size, int n_tasks, est_decision *out);

/* The rank of a process in the decision; -1: it is no member. */
int est_decision_rank(const est_decision *decision, int number, uint64_t incarnation);

/* EST_DECIDED_REFUSAL, with a printed text. */
EST_MUST_CHECK est_status est_decision_refuse(est_decision *out, est_status status, const char *fmt, ...)
    EST_PRINTF(3, 4);

/* A task as a worker that joins sees it. */
typedef struct est_candidate {
    const est_proposal *proposal; /* NULL: it is missing */
    uint64_t            incarnation;
    int64_t             away_ns; /* how long it has been missing */
} est_candidate;

typedef struct est_round {
    const est_rank      *tasks;      /* [n]; names and addresses */
    const est_candidate *candidates; /* [n] */
    int                  n, self;
    double               connect_secs, rejoin_secs;
    bool                 elastic;
} est_round;

/* Whether the task is missing and has time left to join. */
bool est_round_awaits(const est_round *a, int number);

/* The task that decides: the lowest number that is present or has time left. */
int est_round_decider(const est_round *a);

/* Decides, if this task is the decider and waits for nobody; else *decided is false. */
EST_MUST_CHECK est_status est_round_decide(const est_round *a, bool *decided, est_decision *out);

#endif
