/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks that talk to a server: who comes, who goes, who takes whose place. What requests need of them is in cluster/server.h. */
#ifndef EST_CLUSTER_CLIENTS_H
#define EST_CLUSTER_CLIENTS_H

#include "cluster/server.h"

/* Whether a name is that of a process that is no task of the cluster. */
bool est_is_external(const char *task);

/* NULL: it never came. Under `lock`. */
est_client *est_clients_find(const est_server *s, const char *task);
void        est_clients_free_one(est_client *client);

/* For est_net_options; user is the server. */
est_admission est_clients_admit(void *user, const est_task_id *peer, bool may_block, char *why, size_t size);
void          est_clients_met(void *user, est_link *link);
void          est_clients_lost(void *user, est_link *link, const char *why);

/* Gives the turns of those who did not come back to others. */
void est_clients_forget_lost(est_server *s);

/* Frees what is remembered of those who will not come back; of tasks the status view still tells. While a run is made, which may be one of
 * theirs, it is left to the next call. */
void est_clients_forget_gone(est_server *s);

#endif
