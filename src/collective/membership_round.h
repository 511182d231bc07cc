/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of an ensemble without the network: what workers say to each other, and what a host makes of it.
 *
 * A worker that comes says so to all others (EST_MEMBERSHIP_PROPOSE, an est_proposal). Each keeps the request, and answers it with what
 * was agreed on (an est_decision) as soon as it knows: so all that were told the same answer for the one who was not. Whoever was
 * told and is not of those who agreed is told that they have gone (EST_MEMBERSHIP_EXCLUDE), so that it does not count on them when it
 * comes. The chief tells all when the job is over (EST_MEMBERSHIP_OVER). Both are empty.
 *
 * Messages are fields in the manner of protobuf, as those of cluster/protocol.h, and whatever is read is checked. */
#ifndef EST_COLLECTIVE_MEMBERSHIP_ROUND_H
#define EST_COLLECTIVE_MEMBERSHIP_ROUND_H

#include "collective/group.h"
#include "format/wire.h"

#define EST_MEMBERSHIP_VERSION 2

/* Methods, beyond those of groups. */
enum { EST_MEMBERSHIP_PROPOSE = 80, EST_MEMBERSHIP_EXCLUDE, EST_MEMBERSHIP_OVER };

/* Some of the tasks, by number, in order. */
typedef struct est_numbers {
    int *data;
    int  n;
} est_numbers;

/* What all must have the same. A zeroed struct is an empty one, cleared by est_terms_clear. */
typedef struct est_terms {
    uint64_t list;    /* fingerprint of the names of all tasks */
    char    *tasks;   /* the same to be read: "2 tasks, worker:0 to worker:1". Never NULL */
    char    *options; /* "max_steps=100\ngo_on=no\n". Never NULL */
} est_terms;

void                      est_terms_clear(est_terms *terms);
EST_MUST_CHECK est_status est_terms_copy(const est_terms *from, est_terms *out);

/* EST_FAILED_PRECONDITION: they differ; says how. `whose`, `others`: the names of their tasks. */
EST_MUST_CHECK est_status est_terms_compare(const est_terms *terms, const char *whose, const est_terms *other,
                                            const char *others);

/* What a worker says when it comes. A zeroed struct is an empty one, cleared by est_proposal_clear. */
typedef struct est_proposal {
    int         number; /* which of the tasks it is */
    est_terms   terms;
    int64_t     step;       /* that its variables are at; -1: it has none */
    uint64_t    generation; /* of the last meeting that it was at; 0: none */
    est_numbers members;    /* of that meeting */
    char       *address;    /* where it listens, which another start of it need not have done. Never NULL */
    char       *payload;    /* that of the last meeting, if it was at one; never NULL */
    char       *purpose;    /* what it meets for; never NULL */
    char       *why;        /* its last group has ended; "": it has not, or there was none. Never NULL */
} est_proposal;

void est_proposal_clear(est_proposal *proposal);
void est_proposal_write(const est_proposal *proposal, est_wire_writer *out);

/* `list`: that of this task. Of one with another list the number is any, and members are left out: they are of other tasks. */
EST_MUST_CHECK est_status est_proposal_read(const void *bytes, size_t size, int n_tasks, uint64_t list,
                                            est_proposal *out);

/* What came of a meeting. A zeroed struct is an empty one, cleared by est_decision_clear. */
typedef struct est_decision {
    enum {
        EST_DECIDED_GROUP = 1, /* to go on */
        EST_DECIDED_REFUSAL,   /* to fail with `status` and `text` */
        EST_DECIDED_OVER       /* the job has ended */
    } kind;
    uint64_t    generation;
    est_numbers members;
    uint64_t   *incarnations; /* [members.n] */
    char      **addresses;    /* [members.n] */
    int         source;       /* rank, which is a place in members; -1: nobody has variables */
    int64_t     step;         /* of the source; -1 without */
    char       *payload;      /* never NULL in one to go on */
    est_status  status;
    char       *text;
} est_decision;

void                      est_decision_clear(est_decision *decision);
void                      est_decision_write(const est_decision *decision, est_wire_writer *out);
EST_MUST_CHECK est_status est_decision_read(const void *bytes, size_t size, int n_tasks, est_decision *out);

/* The rank of a process in the agreement; -1: it has none. */
int est_decision_rank(const est_decision *decision, int number, uint64_t incarnation);

/* EST_DECIDED_REFUSAL, with a printed text. */
EST_MUST_CHECK est_status est_decision_refuse(est_decision *out, est_status status, const char *fmt, ...)
    EST_PRINTF(3, 4);

/* A task as one that meets sees it. */
typedef struct est_candidate {
    const est_proposal *proposal; /* NULL: it is not here */
    uint64_t            incarnation;
    int64_t             away_ns; /* how long it is not here */
} est_candidate;

typedef struct est_round {
    const est_rank      *tasks;      /* [n]; names and addresses */
    const est_candidate *candidates; /* [n] */
    int                  n, self;
    double               connect_secs, rejoin_secs;
    bool                 elastic;
} est_round;

/* Whether a task is missing that is still waited for. */
bool est_round_awaits(const est_round *a, int number);

/* The task that decides: the lowest number that is here or waited for. */
int est_round_decider(const est_round *a);

/* What the host decides. *decided false: it is not this task, or somebody is waited for. */
EST_MUST_CHECK est_status est_round_decide(const est_round *a, bool *decided, est_decision *out);

#endif
