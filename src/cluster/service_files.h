/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a server's variables: each task writes and reads its own.
 *
 * SAVE     PREFIX, then for each variable KEY, NAME, ...  -> -; answered when the file is on disk
 * RESTORE  PREFIX, then for each variable KEY, NAME, ...  -> - */
#ifndef EST_CLUSTER_SERVICE_FILES_H
#define EST_CLUSTER_SERVICE_FILES_H

#include "cluster/server.h"

/* Copies the variables and has a thread write the copy, which answers the request. Under host_lock. */
void est_service_save(est_server *server, est_request *request);

/* Reads variables. Under host_lock. */
EST_MUST_CHECK est_status est_service_restore(est_server *server, est_request *request);

#endif
