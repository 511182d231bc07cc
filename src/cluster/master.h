/* SPDX-License-Identifier: Apache-2.0
 *
 * The master of a server: it drives the steps of clients whose sessions are at the server's target (cluster/target.c),
 * TensorFlow's MasterService.
 *
 * Each session of a client has a thread here, which executes its requests in order, and a client of its own towards the
 * tasks of the cluster, this one among them: a remote of all tasks, which places variables, partitions steps and drives
 * them. So sessions do not wait for each other, and neither the network thread nor the executor waits for a step. A
 * session ends with its client's link; variables stay at the tasks.
 *
 * OPEN_SESSION       CONNECT_MS                        -> SESSION; when all tasks are there
 * CLOSE_SESSION      SESSION                           -> -
 * SESSION_GRAPH      SESSION, BYTES (a segment: the whole graph, for placing its variables) -> -
 * SESSION_ENTER      SESSION, BYTES (a segment: a step) -> SEGMENT, OUTPUTS
 * SESSION_LEAVE      SESSION, SEGMENT                  -> -
 * SESSION_RUN        SESSION, SEGMENT, SEED, tensors   -> tensors
 * SESSION_VARIABLES  SESSION                           -> NAME, INITIALIZED, DEVICE of each
 * SESSION_READ       SESSION, NAME                     -> a tensor
 * SESSION_WRITE      SESSION, NAME, a tensor           -> -
 * SESSION_SAVE       SESSION, PREFIX, ENTRY of each variable -> -; each task writes its part, the master merges them
 * SESSION_VERIFY, SESSION_RESTORE: the same            -> -
 * SESSION_FIND_NAN   SESSION, ENTRY of each variable   -> STEP, the first entry with a NaN; -1: none
 * SESSION_WAITS      -                                 -> BYTES, what the sessions of the client's link wait for now
 *
 * Threading: any thread. Its lock is taken after those of the server. */
#ifndef EST_CLUSTER_MASTER_H
#define EST_CLUSTER_MASTER_H

#include "cluster/protocol.h"

struct est_server;
typedef struct est_master est_master;

EST_MUST_CHECK est_status est_master_create(struct est_server *server, est_master **out);

/* Cuts the connections of the server and those of all sessions to the tasks, without a farewell or an answer, as when
 * the process is killed; to be followed by stop. Not under a lock of the server. */
void est_master_abort(est_master *master, const char *why);

/* Ends all sessions and waits for their threads; from then on requests fail. free: when the net was freed. NULL is
 * fine. */
void est_master_stop(est_master *master);
void est_master_free(est_master *master);

/* Whether the method is one of a master. serve: takes such a request (network thread). */
bool est_master_has(int method);
void est_master_serve(est_master *master, est_request *request);

/* Ends the sessions of a lost link (network thread). */
void est_master_lose_link(est_master *master, const est_link *link);

int est_master_sessions(est_master *master); /* that have not ended */

#endif
