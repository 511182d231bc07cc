/* SPDX-License-Identifier: Apache-2.0
 *
 * The status of tasks as JSON, and requests for it.
 *
 * The status (docs/cluster.md lists the fields) is built on request from counters that are kept anyway. It never waits
 * for a run: numbers about variables are those of the end of a run, at most some seconds ago.
 *
 * Threading: any thread. */
#ifndef EST_CLUSTER_TASK_STATUS_H
#define EST_CLUSTER_TASK_STATUS_H

#include "cluster/server.h"

/* The status as JSON text, to be freed with est_free. */
EST_MUST_CHECK est_status est_server_status(est_server *server, char **out);

/* Samples the counters every 5 s, so that rates are those of the last 5 to 10 s; called wherever something is counted.
 * Under `lock`. The second, for the end of a run, also counts variables; under host_lock and `lock`. */
void est_server_sample(est_server *server);
void est_server_sample_run(est_server *server);

/* This task has made a step: `step` is the global step after it. For multi_worker_mirrored, whose steps no ps
 * counts. */
void est_server_note_step(est_server *server, int64_t step);

/* The status of the task at an address (`task` NULL: any); connecting and answering may take `secs` each. To be freed
 * with est_free. */
EST_MUST_CHECK est_status est_cluster_ask_status(est_server *client, const char *address, const char *task, double secs,
                                                 char **out);

/* A task to ask, and the result. */
typedef struct est_task_asked {
    const char *task, *address; /* borrowed */
    est_status  status;
    char       *text; /* JSON, or the error; est_free; NULL: out of memory */
} est_task_asked;

/* Asks n tasks in parallel. */
void est_cluster_ask_all(est_server *client, est_task_asked *asked, int n, double secs);

#endif
