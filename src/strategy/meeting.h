/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of an ensemble without the network: what workers say to each other, and what a host makes of it.
 *
 * A worker that comes says so to all others (EST_MEETING_COME, an est_arrival). Each keeps the request, and answers it with what
 * was agreed on (an est_agreement) as soon as it knows: so all that were told the same answer for the one who was not. Whoever was
 * told and is not of those who agreed is told that they have gone (EST_MEETING_GO), so that it does not count on them when it
 * comes. The chief tells all when the job is over (EST_MEETING_OVER). Both are empty.
 *
 * Messages are fields in the manner of protobuf, as those of cluster/protocol.h, and whatever is read is checked. */
#ifndef EST_STRATEGY_MEETING_H
#define EST_STRATEGY_MEETING_H

#include "collective/group.h"
#include "format/wire.h"

#define EST_MEETING_VERSION 2

/* Methods, beyond those of groups. */
enum { EST_MEETING_COME = 80, EST_MEETING_GO, EST_MEETING_OVER };

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

/* What a worker says when it comes. A zeroed struct is an empty one, cleared by est_arrival_clear. */
typedef struct est_arrival {
    int         number; /* which of the tasks it is */
    est_terms   terms;
    int64_t     step;       /* that its variables are at; -1: it has none */
    uint64_t    generation; /* of the last meeting that it was at; 0: none */
    est_numbers members;    /* of that meeting */
    char       *address;    /* where it listens, which another start of it need not have done. Never NULL */
    char       *word;       /* that of the last meeting, if it was at one; never NULL */
    char       *purpose;    /* what it meets for; never NULL */
    char       *why;        /* its last group has ended; "": it has not, or there was none. Never NULL */
} est_arrival;

void est_arrival_clear(est_arrival *arrival);
void est_arrival_write(const est_arrival *arrival, est_wire_writer *out);

/* `list`: that of this task. Of one with another list the number is any, and members are left out: they are of other tasks. */
EST_MUST_CHECK est_status est_arrival_read(const void *bytes, size_t size, int n_tasks, uint64_t list,
                                           est_arrival *out);

/* What came of a meeting. A zeroed struct is an empty one, cleared by est_agreement_clear. */
typedef struct est_agreement {
    enum {
        EST_AGREED = 1, /* to go on */
        EST_AGREED_NOT, /* to fail with `status` and `text` */
        EST_AGREED_OVER /* the job has ended */
    } kind;
    uint64_t    generation;
    est_numbers members;
    uint64_t   *incarnations; /* [members.n] */
    char      **addresses;    /* [members.n] */
    int         source;       /* rank, which is a place in members; -1: nobody has variables */
    int64_t     step;         /* of the source; -1 without */
    char       *word;         /* never NULL in one to go on */
    est_status  status;
    char       *text;
} est_agreement;

void                      est_agreement_clear(est_agreement *agreement);
void                      est_agreement_write(const est_agreement *agreement, est_wire_writer *out);
EST_MUST_CHECK est_status est_agreement_read(const void *bytes, size_t size, int n_tasks, est_agreement *out);

/* The rank of a process in the agreement; -1: it has none. */
int est_agreement_rank(const est_agreement *agreement, int number, uint64_t incarnation);

/* EST_AGREED_NOT, with a printed text. */
EST_MUST_CHECK est_status est_agreement_refuse(est_agreement *out, est_status status, const char *fmt, ...)
    EST_PRINTF(3, 4);

/* A task as one that meets sees it. */
typedef struct est_attendee {
    const est_arrival *arrival; /* NULL: it is not here */
    uint64_t           incarnation;
    int64_t            away_ns; /* how long it is not here */
} est_attendee;

typedef struct est_attendance {
    const est_rank     *tasks; /* [n]; names and addresses */
    const est_attendee *of;    /* [n] */
    int                 n, self;
    double              connect_secs, return_secs;
    bool                go_on;
} est_attendance;

/* Whether a task is missing that is still waited for. */
bool est_attendance_awaits(const est_attendance *a, int number);

/* The task that decides: the lowest number that is here or waited for. */
int est_attendance_host(const est_attendance *a);

/* What the host decides. *decided false: it is not this task, or somebody is waited for. */
EST_MUST_CHECK est_status est_attendance_decide(const est_attendance *a, bool *decided, est_agreement *out);

#endif
