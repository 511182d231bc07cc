/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls (cluster/calls.h) as the rest of a worker's server sees them. */
#ifndef EST_CLUSTER_SERVICE_CALLS_H
#define EST_CLUSTER_SERVICE_CALLS_H

#include "cluster/server.h"

/* Takes a request of a coordinator (network thread). */
void est_calls_serve(est_server *server, est_request *request);

/* Something has changed that calls depend on: a link was lost or drained, the job is done (network thread). */
void est_calls_wake(est_server *server, bool done);

/* Ends the calling thread of a server that is stopping; frees the rest when the network has ended. */
void est_calls_stop(est_server *server);
void est_calls_free(est_server *server);

/* What the status shows. */
typedef struct est_calls_seen {
    char     coordinator[EST_NET_NAME_MAX]; /* "": none */
    uint64_t origin;
    int      functions, queued;
    uint64_t completed, failed; /* calls */
    uint64_t call;              /* under way; 0: none */
    char     function[64];      /* of it */
    int64_t  since_ns;
} est_calls_seen;
bool est_calls_look(const est_server *server, est_calls_seen *out); /* false: no coordinator came (network thread) */

#endif
