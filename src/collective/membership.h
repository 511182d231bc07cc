/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership of multi-worker training: which workers are in, whose variables count, and what happens when a worker is
 * lost.
 *
 * There are two concepts. A group (collective/group.h) is the ranks of one view: it computes, and once it has failed it
 * stays failed. Membership outlives groups: it agrees on views, makes a group for each, and implements the communicator
 * that sessions use (runtime/communicator.h) with the group of the current view.
 *
 * Joining: every worker sends a proposal to all others: the step that its variables are at, or that it has none. The
 * decider, the lowest task number that is present, waits for all proposals and answers each with the same decision: a
 * generation, the members, and the source of the variables (the lowest rank among those with the highest step; none
 * when nobody has variables, and then rank 0 creates them). The members form a group and train. When a member is lost,
 * the group is aborted on all of them and they join again. When a member is lost before the group is complete,
 * est_membership_join starts over by itself.
 *
 * The first join needs all workers, and fails with EST_DEADLINE_EXCEEDED when one is missing after `connect_secs`.
 * Later, a missing worker has `rejoin_secs` to come back, counted from its loss or, when it is connected and does not
 * propose, from the start of the round. After that the others continue without it (`elastic`), if they are a quorum of
 * the last view: more than half of it, or exactly half including its lowest number, so that two halves cannot both
 * continue. Otherwise est_membership_join fails with EST_DEADLINE_EXCEEDED on all of them and names the missing
 * workers. When the decider itself is missing, the next number takes its place. A worker that comes back later causes a
 * new round: the decider aborts the group. Its address may have changed, since proposals carry it. Of two processes
 * with one task name, the one that was started later is the member; the other fails with EST_FAILED_PRECONDITION.
 *
 * All workers need the same list of tasks and the same `terms`. Of two workers that differ, exactly one fails, with
 * EST_FAILED_PRECONDITION: the one that has not been in a view, else the one with the higher number. So a running job
 * survives a misconfigured worker, and so does a worker that waits for others.
 *
 * The end: the chief calls est_membership_end_job. Every member of the last view that joins, or waits to join, then
 * gets EST_OK and est_membership_view.over, and so does the next process of a task that was lost before it was
 * informed. Any other process is taken for one of the next job, unless it finds out by `over`.
 *
 * Every wait is in the log and in the status view (cluster/wait_table.h). Threading: one thread at a time. */
#ifndef EST_COLLECTIVE_MEMBERSHIP_H
#define EST_COLLECTIVE_MEMBERSHIP_H

#include "cluster/server.h"
#include "collective/collective.h"
#include "device/device.h"
#include "estoc/session.h"
#include "runtime/communicator.h"

typedef struct est_membership est_membership;

typedef struct est_membership_options {
    const est_rank   *tasks;          /* [n]: all training tasks by rank, the chief first; copied */
    int               n, self;        /* number of tasks, and the number of this one */
    double            connect_secs;   /* 0: 7200; EST_FOREVER; limit of the first join */
    double            rejoin_secs;    /* 0: 600; EST_FOREVER; how long the others wait for a lost worker */
    bool              elastic;        /* true: they continue without it then; false: est_membership_join fails */
    double            deadline_secs;  /* 0: 600; of a collective operation (CommunicationOptions.timeout_seconds) */
    size_t            bytes_per_pack; /* 0: 4 MiB */
    est_communication communication;
    bool              device_sums; /* devices sum where all workers have one that can (collective/device_sum.h) */
    const est_device *device;      /* of this worker, for that; NULL: none */
    const char       *terms;       /* NULL: ""; what all workers must agree on, one name=value per line; copied */

    /* What the workers join for. NULL: "train". Only workers with the same purpose join each other, since a task may
     * already be at its next job. A worker that joins for `after`, the purpose before this one, is answered that it is
     * over until this job has ended. NULL: there was none. Both are borrowed. */
    const char *purpose, *after;

    /* Called now and then while waiting: whether the job has ended without this task. NULL: never. */
    bool (*over)(void *user);
    void *user;
} est_membership_options;

/* The result of a join: the agreed set of workers. */
typedef struct est_membership_view {
    bool     over;       /* the job has ended; no other member is set */
    uint64_t generation; /* of the group */

    int               n, rank; /* size of the view, and the rank of this task; not its number when some are missing */
    const int        *tasks;   /* [n]: rank -> number of the task; borrowed until the next join */
    int               source;  /* rank whose variables count; -1: nobody has any */
    int64_t           step;    /* of the source; -1: nobody has variables */
    est_rank_group   *group;   /* borrowed until the next join */
    est_communicator *communicator; /* est_membership_communicator */
} est_membership_view;

/* The server is borrowed until the membership is freed; it must not be a ps's, and has one membership at a time. */
EST_MUST_CHECK est_status est_membership_create(est_server *server, const est_membership_options *options,
                                                est_membership **out);
void est_membership_free(est_membership *membership); /* leaves, which the others notice. NULL is fine */

/* For sessions: always the same one, over the group of the current view. Borrowed until the membership is freed. */
est_communicator *est_membership_communicator(est_membership *membership);

/* Leaves the current group and joins the next view. step: of this worker's variables; -1: it has none, and so has a
 * partial one, whatever it passes. `payload` is a text that all workers get (the chief's seed and last step):
 * est_membership_payload returns the one of the first view's source, or of rank 0 without a source. It never changes
 * while one member of the first view is left; a worker that rejoins brings none. EST_CANCELLED: a signal. */
EST_MUST_CHECK est_status est_membership_join(est_membership *membership, int64_t step, const char *payload,
                                              est_membership_view *out);
const char               *est_membership_payload(const est_membership *membership); /* borrowed until the next join */

/* Whether the variables are partial: a state transfer has overwritten some of them and failed before the rest
 * arrived. */
bool est_membership_partial(const est_membership *membership);

/* The variables are not partial any more: the session is another one, or has got all of them in another way. */
void est_membership_reset(est_membership *membership);

/* State transfer: gives all checkpointed variables of the session (dense ones, slots, rows of dynamic embeddings) the
 * values of rank `source`, and its run count; except copies that belong to one worker (EST_SYNCHRONIZATION_ON_READ).
 * Collective: all ranks of the view call it, each with a session over the same graph. Models that differ fail with
 * EST_FAILED_PRECONDITION on all ranks, naming the variable and the difference. EST_ABORTED: join again. Only values
 * that some rank lacks are sent. A rank keeps its values until all new ones have arrived; without memory for both,
 * losing the source on the way leaves it partial. */
EST_MUST_CHECK est_status est_membership_transfer(est_membership *membership, est_session *session, int source);

/* All-gather of blocks of different sizes: input positions at a checkpoint. *all is cleared by est_gathered_clear. */
EST_MUST_CHECK est_status est_membership_gather(est_membership *membership, const void *mine, size_t bytes,
                                                est_gathered *all);

/* This task ends with `status` and the current error message, which the others find in the failure of their step, in
 * the log and in the status view. Only est_membership_free may be called after it. */
void est_membership_fail(est_membership *membership, est_status status);

/* The chief ends the job. Waits at most 30 s until all members of the last view are informed, including lost ones: a
 * process that comes back in place of one learns that the job is over. A signal ends the wait. */
void est_membership_end_job(est_membership *membership);

#endif
