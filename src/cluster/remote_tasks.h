/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of training on a remote, beyond estoc/server.h and runtime/remote.h. */
#ifndef EST_CLUSTER_REMOTE_TASKS_H
#define EST_CLUSTER_REMOTE_TASKS_H

#include "cluster/server.h"

/* While the remote waits for tasks or for a turn it asks `over(user)` now and then whether the job is over; if so, the
 * wait ends with EST_OUT_OF_RANGE. */
void est_remote_set_over(est_remote *remote, bool (*over)(void *user), void *user);

/* Sets the terms of the program (cluster/terms.h), to which those of the strategy are added: a task whose terms differ
 * from the chief's gets EST_FAILED_PRECONDITION when it makes a session. Before the first session; copied. */
EST_MUST_CHECK est_status est_remote_set_terms(est_remote *remote, const char *terms);

/* The ps tasks for a worker that executes a coordinator's calls. Its sessions wait until the coordinator has declared
 * the variables ready, and find them where the tasks have them, sharded as they are there. There are no terms to
 * compare: the coordinator sends the functions itself. */
EST_MUST_CHECK est_status est_remote_create_for_calls(est_server *server, double connect_secs, est_remote **out);

/* The runs from now on belong to this call (cluster/calls.h), until the next; call 0: to none. */
void est_remote_set_call(est_remote *remote, uint64_t origin, uint64_t call, uint64_t first);

/* Two of its options. */
bool    est_remote_is_chief(const est_remote *remote);
int64_t est_remote_step_limit(const est_remote *remote);

/* Whether this chief has declared the variables ready, or an earlier chief did at a task that still runs, as of the
 * last list of variables: steps may have been made since. */
bool est_remote_has_begun(const est_remote *remote);

/* The chief: from hold until release no step begins, none is under way and no variable changes, so that snapshots of
 * all tasks are consistent. Pushes of a task that was lost during its step are refused; those that had arrived before
 * are part of the snapshots. A synchronous step whose committer was lost is committed first. A second hold, and a
 * release without a hold, do nothing. */
EST_MUST_CHECK est_status est_remote_hold(est_remote *remote);
EST_MUST_CHECK est_status est_remote_release(est_remote *remote);

/* The chief: waits without a limit until no other task trains; lost tasks do not. enough: no further step may begin,
 * whatever max_steps is. EST_UNAVAILABLE: a task with variables was lost, for which the others wait. */
EST_MUST_CHECK est_status est_remote_await_others(est_remote *remote, bool enough);

#endif
