/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a server's variables: each task writes and reads its own part.
 *
 * SAVE      PREFIX, ENTRY ...  -> -; answered when the file is on disk
 * VERIFY    PREFIX, ENTRY ...  -> -
 * RESTORE   PREFIX, ENTRY ...  -> -
 * FIND_NAN  ENTRY ...          -> STEP: the index of an entry with a NaN; -1: none */
#ifndef EST_CLUSTER_SERVICE_FILES_H
#define EST_CLUSTER_SERVICE_FILES_H

#include "cluster/server.h"

/* A snapshot of variables on its way to disk. */
typedef struct est_writing {
    struct est_writing *next;
    est_server         *server;
    est_request        *request;
    const est_link     *link; /* of the request */
    est_snapshot       *snapshot;
    char               *prefix;
    char                task[EST_NET_NAME_MAX]; /* that asked */
    int64_t             since_ns;
    bool                told; /* the log says that the server's end waits for it */
    bool ended; /* abandoned: updates no longer wait for it, though its thread may still hang on the disk */
} est_writing;

/* Takes a snapshot of the variables and starts a thread that writes it and answers the request. Under host_lock. */
void est_service_save(est_server *server, est_request *request);

/* Abandons the writes that were requested over a link (NULL: all). Under `lock`. */
void est_service_end_saves(est_server *server, const est_link *link);

/* Whether a run may have to wait until a snapshot is written. Under `lock`. */
bool est_service_may_pause(const est_server *server);

/* Serves the other requests. Under host_lock. */
void est_service_files(est_server *server, est_request *request);

#endif
