/* SPDX-License-Identifier: Apache-2.0
 *
 * A session as its own files see it: session.c, and session_variables.c. */
#ifndef EST_RUNTIME_SESSION_STATE_H
#define EST_RUNTIME_SESSION_STATE_H

#include <pthread.h>

#include "runtime/local_devices.h"
#include "runtime/session.h"

struct est_session {
    est_graph          *graph;
    est_session_options options;
    est_remote         *target;  /* of options.target, which is options.remote then; NULL: none */
    est_local_devices  *devices; /* NULL: the CPU alone */
    est_flights        *flights; /* runs there that nobody waits for; NULL: likewise */
    est_pool           *pool;
    bool                owns_pool;
    est_store          *store;
    est_step           *steps;
    pthread_mutex_t     planning; /* one caller's plan is made at a time (est_session_plan) */
    bool                has_lock;
    bool                has_plans; /* of callers, which may still use variables (est_session_plan) */
    uint64_t            seed;
    uint64_t            n_runs;
    int32_t             n_nodes_seen; /* variables of nodes below this are in the store */
};

/* Fails for NULL. */
EST_MUST_CHECK est_status est_session_check(const est_session *session);

/* Puts the variables of nodes that are new in the graph into the store. */
EST_MUST_CHECK est_status est_session_find_variables(est_session *session);

#endif
