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

/* Copies the variables and has a thread write the copy, which answers the request. Under host_lock. */
void est_service_save(est_server *server, est_request *request);

/* The others, answered here. Under host_lock. */
void est_service_files(est_server *server, est_request *request);

#endif
