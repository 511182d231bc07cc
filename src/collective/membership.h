/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers of synchronous training: who is in, who has the variables, and what happens when one is lost.
 *
 * They meet: every worker tells all others that it has come, and which step its variables are at (or that it has none). The host, the
 * task with the lowest number that there is, waits until all have come and answers all the same: a generation, who takes part, and
 * whose variables count (of those with the highest step the lowest rank; when nobody has any, rank 0 makes them). Then they form
 * a group (collective/group.h) and train. When one is lost the group is aborted on all, and they meet again; when one of those who
 * agreed is gone before the group is complete, est_membership_join does so by itself.
 *
 * The first meeting needs all, and fails with EST_DEADLINE_EXCEEDED when somebody has not come within `connect_secs`. Later on a
 * worker that is not there is waited for `rejoin_secs`, from when it was lost or, when it is there and does not come, from when
 * the others met. Then they go on without it (`elastic`), if they are more than half of the last meeting, or exactly half with its
 * lowest number, since the other half might go on, too. Else est_membership_join fails with EST_DEADLINE_EXCEEDED on all of them, naming
 * who is missing. When it is the host that is not there the one with the next number takes its place. One that comes later is
 * let in by the next meeting, which it causes: the host aborts the group. It may have moved: workers say where they listen. Of two
 * processes under one name the one that was started later has the place; the other is refused and fails with
 * EST_FAILED_PRECONDITION.
 *
 * All need the same list of tasks and the same `terms`. Of two that differ the one fails, with EST_FAILED_PRECONDITION, that has not been at
 * a meeting, or has the higher number: a job that runs goes on, whoever comes, and who waits for others goes on waiting.
 *
 * The end: the chief says est_membership_end_job; whoever of the last meeting meets then, or waits for a meeting, gets EST_OK and
 * est_membership_view.over, and so does the next process of a task that was lost before it heard. Any other has come for the next job, unless
 * it finds out by `over`.
 *
 * Every wait is in the log and in the status view (cluster/wait_table.h). Threading: one thread at a time. */
#ifndef EST_COLLECTIVE_MEMBERSHIP_H
#define EST_COLLECTIVE_MEMBERSHIP_H

#include "cluster/server.h"
#include "collective/collective.h"
#include "estoc/session.h"
#include "runtime/communicator.h"

typedef struct est_membership est_membership;

typedef struct est_membership_options {
    const est_rank   *tasks;   /* [n]: all that train, by rank: the chief first; addresses as in the cluster; copied */
    int               n, self; /* how many, and which of them this process is */
    double            connect_secs;   /* 0: 7200; EST_FOREVER; how long the first meeting waits for all */
    double            rejoin_secs;    /* 0: 600; EST_FOREVER; how long one that was lost is waited for */
    bool              elastic;        /* true: without it then; false: est_membership_join fails */
    double            deadline_secs;  /* 0: 600; of a collective operation (CommunicationOptions.timeout_seconds) */
    size_t            bytes_per_pack; /* 0: 4 MiB */
    est_communication communication;
    const char       *terms; /* NULL: ""; what all must have the same, a line of name=value each; copied */
    const char *
        purpose; /* NULL: "train"; what they do together; only who has the same meets: a task may already be at its next job. Borrowed */
    const char *
        after; /* the purpose before: whoever comes for that, until this job ends, is told that it is over. NULL: none */

    /* Asked now and then while waiting: whether the job has ended without this task. NULL: nobody knows. */
    bool (*over)(void *user);
    void *user;
} est_membership_options;

/* What a meeting agreed on. */
typedef struct est_membership_view {
    bool     over;       /* the job has ended: nothing else is set */
    uint64_t generation; /* of the group */

    /* How many take part, and which of them this is: not the number of the task when some are missing. */
    int             n, rank;
    const int      *tasks;  /* [n]: rank -> number of the task; borrowed until the next meeting */
    int             source; /* rank whose variables count; -1: nobody has any */
    int64_t         step;   /* that they are at; -1: nobody has any */
    est_rank_group *group;  /* borrowed until the next meeting */
    est_communicator
        *communicator; /* over that group, for sessions; borrowed until the ensemble is freed, the same each time */
} est_membership_view;

/* The server, which must not be a ps's and has one ensemble at a time, is borrowed until the ensemble is freed. */
EST_MUST_CHECK est_status est_membership_create(est_server *server, const est_membership_options *options,
                                                est_membership **out);
void est_membership_free(est_membership *membership); /* NULL is fine; leaves, which the others notice */

/* That of est_membership_view, for a session that is made before the first meeting. */
est_communicator *est_membership_communicator(est_membership *membership);

/* Leaves the group, if there is one, and meets all the others. step -1: no variables. `word` is a text for all (the chief's seed
 * and last step), of which est_membership_payload gives that of the first meeting's source or, when there is none, rank 0's: what was
 * agreed on once stays, as long as one is left who was there, and whoever comes back brings nothing new. EST_CANCELLED: a signal.
 * Whoever is torn has no variables, whatever step it says. */
EST_MUST_CHECK est_status est_membership_join(est_membership *membership, int64_t step, const char *payload,
                                              est_membership_view *out);
const char *est_membership_payload(const est_membership *membership); /* borrowed until the next meeting */

/* Whether a share has overwritten variables and failed before all had come: they count for nothing. */
bool est_membership_partial(const est_membership *membership);

/* The session is another one, or has got all variables in another way: what a share has left behind counts no more. */
void est_membership_reset(est_membership *membership);

/* Gives all variables of the session that checkpoints have (dense ones, slots, rows of dynamic embeddings) the values that they have at
 * rank `source`, and its run count; but for copies that are each worker's own (EST_SYNCHRONIZATION_ON_READ). To be called on all ranks of the meeting, each with a session over the same graph; models that
 * differ are EST_FAILED_PRECONDITION on all ranks, naming the variable and how it differs. EST_ABORTED: to meet again. What is sent is
 * what somebody lacks. Who has the same values already keeps them, whatever happens; who has others keeps those until all have
 * come, unless there is no memory for both, which leaves it torn when the source is lost on the way. */
EST_MUST_CHECK est_status est_membership_transfer(est_membership *membership, est_session *session, int source);

/* Blocks of different sizes of all ranks to all: input positions at a checkpoint. *all is given back with est_gathered_clear. */
EST_MUST_CHECK est_status est_membership_gather(est_membership *membership, const void *mine, size_t bytes,
                                                est_gathered *all);

/* This task ends with the failure that est_error_message tells, and the others read why: in what their steps fail with, in the log, and
 * while they wait for it. Only est_membership_free is left to be called. */
void est_membership_fail(est_membership *membership, est_status status);

/* The chief: it is over. Waits, for 30 s at most, until the others have heard it, also those that were lost after the last meeting:
 * whoever comes back in the place of one learns that there is nothing left to do. A signal ends the waiting. */
void est_membership_end_job(est_membership *membership);

#endif
