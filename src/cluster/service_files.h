/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a server's variables: each task writes and reads its own.
 *
 * SAVE      PREFIX, ENTRY ...  -> -; answered when the file is on disk
 * VERIFY    PREFIX, ENTRY ...  -> -
 * RESTORE   PREFIX, ENTRY ...  -> -
 * FIND_NAN  ENTRY ...          -> STEP: which entry, -1: none */
#ifndef EST_CLUSTER_SERVICE_FILES_H
#define EST_CLUSTER_SERVICE_FILES_H

#include "cluster/server.h"

/* Takes a snapshot of the variables and has a thread write it, which answers the request. Under host_lock. */
void est_service_save(est_server *server, est_request *request);

/* Whoever asked over the link (NULL: anybody) does not want what is still being written: it is given up. Under `lock`. */
void est_service_end_saves(est_server *server, const est_link *link);

/* Whether a run may have to wait for a snapshot to be written. Under `lock`. */
bool est_service_may_pause(const est_server *server);

/* The others, answered here. Under host_lock. */
void est_service_files(est_server *server, est_request *request);

#endif
