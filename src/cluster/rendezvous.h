/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that travel directly between tasks within a step, TensorFlow's Send and Recv: the receiver. The sender is
 * cluster/sender.h.
 *
 * The process that drives a step starts the segments of both tasks. The RUN of the sender lists what to send: an
 * output, the task that needs it, and the number of the transfer in the step. The sender makes a SEND of each and
 * answers the RUN at once: the arrival shows when the receiver answers its own RUN. Of a transfer that fails later the
 * sender tells the driver. The RUN of the receiver lists the transfers by which its last inputs come. It is parked
 * until they have come; no thread waits for them.
 *
 * RUN         SEND (nested), RECEIVE, RETURNED, DRIVEN_STEP (beside its other fields)
 * SEND        DRIVER, DRIVEN_STEP, TRANSFER, a tensor -> -
 * ABORT_STEP  DRIVEN_STEP                             -> -; runs of the step that wait fail with EST_ABORTED
 * FAIL_STEP   DRIVEN_STEP, FAILURE, BYTES (why)       -> -; to the driver, which fails the step
 *
 *   RV1  A tensor is identified by the incarnation of the driver, the number of the step and that of the transfer. The
 *       first one counts, so a repeated SEND changes nothing.
 *   RV2  Tensors of a step are kept until its driver begins a later one, aborts it, leaves, or is lost for longer than
 *       it may take to come back: a repeated RUN finds them again.
 *   RV3  A sender sends only to the process that its driver means: a restarted task is an error.
 *   RV4  A run that changes variables and is repeated sends again what it sent (est_answered.sends).
 *
 * Threading: any thread. Its lock is taken after those of the server. */
#ifndef EST_CLUSTER_RENDEZVOUS_H
#define EST_CLUSTER_RENDEZVOUS_H

#include "cluster/protocol.h"
#include "cluster/sender.h"

struct est_server;
typedef struct est_rendezvous est_rendezvous;
typedef struct est_arrival    est_arrival; /* a tensor that has come; reference-counted */

EST_MUST_CHECK est_status est_rendezvous_create(struct est_server *server, est_rendezvous **out);

/* Fails the runs that wait, now and from now on. free: when nothing else uses it. NULL is fine. */
void est_rendezvous_stop(est_rendezvous *r);
void est_rendezvous_free(est_rendezvous *r);

/* Whether all inputs of a RUN are here; else the request is parked, and queued for the executor when they are, or it
 * fails. A RUN that receives nothing is always ready. */
bool est_rendezvous_is_ready(est_rendezvous *r, est_request *request);

/* Serves SEND, ABORT_STEP and FAIL_STEP. */
void est_rendezvous_serve(est_rendezvous *r, est_request *request);

/* The identity of a tensor (RV1). */
typedef struct est_transfer_id {
    uint64_t driver, step, transfer;
} est_transfer_id;

/* Takes a tensor that this task sends to itself; `sends` keeps it and is referenced. */
EST_MUST_CHECK est_status est_rendezvous_put(est_rendezvous *r, est_transfer_id id, const est_view *view,
                                             est_sends *sends);

/* The tensors by which the last inputs of a RUN come, in order: a list of *n, to be given back. */
EST_MUST_CHECK est_status est_rendezvous_inputs(est_rendezvous *r, const est_request *request, est_arrival ***out,
                                                int *n);
void                      est_arrivals_free(est_arrival **list, int n); /* NULL is fine */

/* Reads a SEND; the tensor points into the message, which is referenced. free gives a reference back; NULL is fine. */
EST_MUST_CHECK est_status est_arrival_read(est_message *message, est_arrival **out);
est_transfer_id           est_arrival_id(const est_arrival *arrival);
const est_view           *est_arrival_view(const est_arrival *arrival);
void                      est_arrival_free(est_arrival *arrival);

/* Fails when a task has reported that this step of this process cannot end. */
EST_MUST_CHECK est_status est_rendezvous_check_step(est_rendezvous *r, uint64_t step);

/* Fails the runs that wait over a link. forget: drops all that belongs to the steps of a process. sweep: the same for
 * each process of which is_gone(user, its incarnation) is true. */
void est_rendezvous_lose_link(est_rendezvous *r, const est_link *link, const char *why);
void est_rendezvous_forget(est_rendezvous *r, uint64_t driver);
void est_rendezvous_sweep(est_rendezvous *r, bool (*is_gone)(void *user, uint64_t driver), void *user);

/* Tensors that are kept, and runs that wait. */
typedef struct est_rendezvous_counts {
    int arrived, waiting;
} est_rendezvous_counts;
est_rendezvous_counts est_rendezvous_count(est_rendezvous *r);

#endif
