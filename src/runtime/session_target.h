/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions at a target: the contract between a session and cluster/target.c, which implements it.
 *
 * A target is the address of a server, whose master runs everything for the session. To the session it is a remote with
 * one task, which has all variables and runs all operations (est_remote.runs_all). */
#ifndef EST_RUNTIME_SESSION_TARGET_H
#define EST_RUNTIME_SESSION_TARGET_H

#include "runtime/remote.h"

/* target: "tls://host:port". connect_secs: how long to wait for that server and for the tasks of its cluster; 0: the
 * default. Connects when the session calls est_remote_ops.connect. */
EST_MUST_CHECK est_status est_target_create(const char *target, double connect_secs, est_remote **out);
void                      est_target_free(est_remote *remote); /* NULL is fine */

#endif
