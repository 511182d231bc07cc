/* SPDX-License-Identifier: Apache-2.0
 *
 * The sender of tensors that travel directly between tasks (cluster/rendezvous.h).
 *
 * est_sends is what one run sends: copies of its outputs, since the next run may use their memory. Links to other tasks
 * are made when they are first needed, by a thread of the sender, so that neither the executor nor the network thread
 * waits for a task that is not there.
 *
 * Threading: any thread. Its lock is taken after those of the server. */
#ifndef EST_CLUSTER_SENDER_H
#define EST_CLUSTER_SENDER_H

#include "cluster/protocol.h"
#include "runtime/host.h"

struct est_server;
typedef struct est_sender est_sender;
typedef struct est_sends  est_sends; /* reference-counted */

EST_MUST_CHECK est_status est_sender_create(struct est_server *server, est_sender **out);

/* Gives up what waits for a link, now and from now on. free: when the net was freed. NULL is fine. */
void est_sender_stop(est_sender *s);
void est_sender_free(est_sender *s);

/* Adds a SEND to the head of a RUN: `output` of the segment goes to a task of this incarnation. */
void est_sends_put(est_wire_writer *head, const est_segment_send *send, const char *task, uint64_t incarnation);

/* Copies what a run that was just made has to send, by its RUN from a driver of that incarnation; *out is NULL when
 * that is nothing. Under host_lock. */
EST_MUST_CHECK est_status est_sends_pack(const est_host *host, int segment, const est_message *message, uint64_t driver,
                                         est_sends **out);
est_sends                *est_sends_ref(est_sends *sends);
void                      est_sends_free(est_sends *sends); /* gives a reference back; NULL is fine */

/* Sends them, without waiting for their arrival. A failure that is known at once is returned; one that comes later is
 * reported to the driver of the step (FAIL_STEP). */
EST_MUST_CHECK est_status est_sender_send(est_sender *s, est_sends *sends);

#endif
