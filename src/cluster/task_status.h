/* SPDX-License-Identifier: Apache-2.0
 *
 * How the tasks of a job are: what each tells of itself as JSON, and asking for it.
 *
 * What a task tells (docs/cluster.md lists the fields) is put together when it is asked, from what is counted anyway. It never
 * waits for a run: of variables it tells what was true at the end of one, some seconds ago at most.
 *
 * Threading: any thread. */
#ifndef EST_CLUSTER_TASK_STATUS_H
#define EST_CLUSTER_TASK_STATUS_H

#include "cluster/server.h"

/* How things are, as JSON text to be freed with est_free. */
EST_MUST_CHECK est_status est_server_status(est_server *server, char **out);

/* Keeps the counters now and then, so that numbers per second are of the last 5 to 10 s; to be called wherever something is
 * counted. Under the server's `lock`. The second is for the end of a run, under host_lock as well: it looks at the variables. */
void est_server_sample(est_server *server);
void est_server_sample_run(est_server *server);

/* This task has made a step of its own: `step` is the global step after it. For tasks that train together, whose steps no ps
 * counts. */
void est_server_note_step(est_server *server, int64_t step);

/* Asks the task at an address (`task` NULL: whichever is there) how it is; connecting and answering may take `secs` each. The
 * text is to be freed with est_free. */
EST_MUST_CHECK est_status est_cluster_ask_status(est_server *client, const char *address, const char *task, double secs,
                                                 char **out);

/* A task to be asked, and what came of it. */
typedef struct est_task_asked {
    const char *task, *address; /* borrowed */
    est_status  status;
    char       *text; /* JSON, or why there is none; est_free; NULL: memory ran out */
} est_task_asked;

/* Asks n tasks at the same time. */
void est_cluster_ask_all(est_server *client, est_task_asked *asked, int n, double secs);

#endif
