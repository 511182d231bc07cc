/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments of steps, which a server runs for other tasks.
 *
 * ENTER  BYTES (a segment), PHASE                                              -> SEGMENT, INPUTS, OUTPUTS
 * LEAVE_SEGMENT  SEGMENT                                                       -> -
 * RUN    SEGMENT, SEQUENCE, FIRST, SEED, SYNC_STEP, TIMELINE, COUNTED, tensors -> tensors
 *        of a coordinator's call also: ORIGIN, CALL, CALL_FIRST */
#ifndef EST_CLUSTER_SERVICE_SEGMENTS_H
#define EST_CLUSTER_SERVICE_SEGMENTS_H

#include "cluster/clients.h"

/* Under host_lock. */
EST_MUST_CHECK est_status est_service_enter(est_server *server, est_request *request, est_packing *out);

/* A client leaves a segment as often as it has entered it, and all of its segments when it is forgotten. A segment that
 * no client uses is freed. Under host_lock. */
EST_MUST_CHECK est_status est_service_leave_segment(est_server *server, est_request *request);
void                      est_service_give_back_all(est_server *server, est_client *client);
void                      est_service_clear_segment(struct est_segment_state *state);

/* Runs a segment and answers. A run that changes variables and was made before is answered from memory. Under
 * host_lock. */
void est_service_run_segment(est_server *server, est_request *request);

/* Whether a segment runs so quickly that the network thread may do it. Under host_lock. */
bool est_service_is_short(const est_server *server, uint64_t segment);

/* Reads the global step after something may have changed it; `who` (NULL: nobody) gives its turn back. Under `lock`. */
void est_service_look_at_step(est_server *server, const char *who);

#endif
