/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library and its tests may know of a session beyond <estoc/session.h>. */
#ifndef EST_RUNTIME_SESSION_H
#define EST_RUNTIME_SESSION_H

#include "estoc/session.h"
#include "runtime/plan.h"
#include "runtime/run_ahead.h"
#include "runtime/store.h"

/* est_session_create with threads that several sessions share, which are run by one thread at a time: the pool is
 * borrowed until the session is freed. NULL: the session makes its own. */
EST_MUST_CHECK est_status est_session_create_in(est_graph *graph, const est_session_options *options, est_pool *pool,
                                                est_session **out);

/* The plan behind a prepared step; borrowed until the session goes. */
est_plan *est_step_plan(est_step *step);

/* Whether the step moves global_step on at other tasks. */
bool est_step_trains(const est_step *step);

/* Whether result `fetch` of the last run is still on a device that may not be done with it (est_step_start): looking at
 * it would wait. */
bool est_step_is_ahead(const est_step *step, int fetch);

/* Waits for all runs that were started (est_step_start), and reports what has failed: est_session_failure then says of
 * which run. NULL: the session has no devices. */
EST_MUST_CHECK est_status est_session_settle(est_session *session);
const est_flight_failure *est_session_failure(const est_session *session);

/* New tensors with results first .. first + n - 1 of the last run; all or none. */
EST_MUST_CHECK est_status est_step_copy(const est_step *step, int first, int n, est_tensor **out);

/* The first element as a number; 0: there is none. */
double est_view_scalar(const est_view *view);

/* Removes all keys of a dynamic embedding. */
EST_MUST_CHECK est_status est_session_clear_rows(est_session *session, const char *embedding);

/* What saving and restoring work with: the variables, those of nodes added since the last step included, the threads
 * and the graph. Borrowed until the session goes. */
EST_MUST_CHECK est_status est_session_store(est_session *session, est_store **out);

/* The variables of a session that checkpoints hold, by name: all but the local ones. The list is to be freed with
 * est_free, the variables are borrowed until the session goes. */
EST_MUST_CHECK est_status est_saved_variables(est_session *session, est_var ***out, int *n);

/* Those of them that are the same on all workers of multi-worker training: without a worker's own, which are in this
 * collection. */
#define EST_OWN_VARIABLES "own_variables"
EST_MUST_CHECK est_status est_shared_variables(est_session *session, est_var ***out, int *n);

/* Asks the other tasks which of their variables have values (est_var.initialized). Nothing to do without such tasks. */
EST_MUST_CHECK est_status est_session_look(est_session *session);

/* The session's devices with queues of their own, for plans that run beside its steps; NULL: it has the CPU alone. To
 * be freed with est_local_devices_free, after those plans and before the session. */
EST_MUST_CHECK est_status est_session_devices_again(const est_session *session, est_local_devices **out);

/* A plan over the session's variables that is not one of its steps: the caller's, to be freed before the session. The
 * tables that it looks into are filled. `pool` (NULL: the calling thread) is borrowed until the plan is freed, and so
 * are `devices` (NULL: those of the session). Any thread may call it while such plans run; one of them at a time makes
 * one. */
EST_MUST_CHECK est_status est_session_plan(est_session *session, const est_io *io, est_pool *pool,
                                           est_local_devices *devices, est_plan **out);

/* Runs such a plan. Those that change nothing of the session may run beside each other. */
EST_MUST_CHECK est_status est_session_run_plan(const est_session *session, est_plan *plan,
                                               const est_tensor *const *feeds, uint64_t run_seed);

/* Reads a shard of a variable (est_var.whole) from its task. */
EST_MUST_CHECK est_status est_session_read_shard(const est_session *session, const est_var *shard, est_tensor **out);

/* The other workers of the steps that are prepared from now on; borrowed until the next call. NULL: none. */
void est_session_set_communicator(est_session *session, est_communicator *communicator);

est_pool        *est_session_pool(const est_session *session);
est_remote      *est_session_remote(const est_session *session); /* NULL: none */
const est_graph *est_session_graph(const est_session *session);

#endif
