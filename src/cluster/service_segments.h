/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments of steps, which a server runs for others.
 *
 * ENTER  BYTES (a segment), PHASE                                 -> PART, INPUTS, OUTPUTS
 * RUN    PART, SEQUENCE, FIRST, SEED, TAG, ERA, COUNTED, tensors  -> tensors */
#ifndef EST_CLUSTER_SERVICE_SEGMENTS_H
#define EST_CLUSTER_SERVICE_SEGMENTS_H

#include "cluster/server.h"

/* Under host_lock. */
EST_MUST_CHECK est_status est_service_enter(est_server *server, est_request *request, est_packing *out);

/* Runs a segment and answers; one that changes variables and was run before is only answered. Under host_lock. */
void est_service_run_segment(est_server *server, est_request *request);

/* Whether a segment's runs take so little time that the network thread may make them. Under host_lock. */
bool est_service_is_short(const est_server *server, uint64_t segment);

/* Takes the global step as it is here, after something may have changed it; who: whose step was counted, or NULL. Under `lock`. */
void est_service_look_at_step(est_server *server, const char *who);

#endif
