/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session at a master does, apart from its thread (cluster/master.c): graphs, plans, runs and variables.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLUSTER_MASTER_SESSION_H
#define EST_CLUSTER_MASTER_SESSION_H

#include "cluster/server.h"

typedef struct est_planned_step est_planned_step;

typedef struct est_master_session {
    est_server       *client; /* of this session, towards all tasks; its host has the store and the threads */
    est_remote       *remote;
    est_segment_graph graph; /* the whole graph of the client */
    est_planned_step *steps;
    uint64_t          n_steps; /* that were entered */
    est_packing       out;     /* of the last answer */
} est_master_session;

/* Connects to all tasks. `client` is borrowed until close. */
EST_MUST_CHECK est_status est_master_session_open(est_master_session *s, est_server *client, double connect_secs);
void                      est_master_session_close(est_master_session *s);

/* Executes a request of a session, and answers it unless it fails: that is left to the caller. */
EST_MUST_CHECK est_status est_master_session_execute(est_master_session *s, est_request *request);

#endif
