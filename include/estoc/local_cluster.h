/* SPDX-License-Identifier: Apache-2.0
 *
 * A cluster in one process: servers for ps tasks and workers at free ports of 127.0.0.1, each in threads of its own,
 * as the tasks of a real cluster would be. For examples, for notebooks, and for tests of a program that later runs on
 * many machines (create_in_process_cluster of TensorFlow's tutorials):
 *
 *     est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 2, .workers = 3), &cluster);
 *     est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(cluster)), &strategy);
 *     ... a coordinator, or sessions over est_strategy_remote ...
 *     est_local_cluster_free(cluster);
 *
 * Everything goes over sockets, as it does between machines; a test can lose a task and start it again.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_LOCAL_CLUSTER_H
#define ESTOC_LOCAL_CLUSTER_H

#include <stdbool.h>

#include "estoc/server.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_local_cluster est_local_cluster;

typedef struct est_local_cluster_options {
    size_t struct_size; /* filled by EST_LOCAL_CLUSTER */
    int    ps;          /* how many of each, at most 256 in all */
    int    workers;

    /* true: this program is the chief of the cluster, and starts the server of that task itself (est_server_create,
     * est_train_and_evaluate); false: it is a client outside the cluster. */
    bool chief;

    /* Of every server; `threads` 0 is 1 here. NULL: all defaults. Its texts are copied, other pointers borrowed until
     * the cluster is freed. */
    const est_server_options *server;
} est_local_cluster_options;

#define EST_LOCAL_CLUSTER(...)                                                                                         \
    (&(const est_local_cluster_options){ .struct_size = EST_STRUCT_SIZE(est_local_cluster_options), __VA_ARGS__ })

/* Starts the servers and has each serve (est_server_join) in a thread of its own. */
EST_API EST_MUST_CHECK est_status est_local_cluster_create(const est_local_cluster_options *options,
                                                           est_local_cluster              **out);

/* Ends all servers. After sessions, remotes, strategies' servers and coordinators that use them. NULL is fine. */
EST_API void est_local_cluster_free(est_local_cluster *cluster);

/* This program in the cluster: chief:0, or a client (task type NULL). Borrowed until the cluster is freed. */
EST_API const est_resolver *est_local_cluster_resolver(const est_local_cluster *cluster);

/* The server of a task ("ps" or "worker"); NULL: there is none, or the task is lost. Borrowed until the task is lost,
 * started again or freed. */
EST_API est_server *est_local_cluster_server(est_local_cluster *cluster, const char *type, int index);

/* Loses a task as kill -9 does: its connections break without a farewell, its variables are gone. EST_NOT_FOUND: the
 * cluster has no such task; EST_FAILED_PRECONDITION: it is lost already. */
EST_API EST_MUST_CHECK est_status est_local_cluster_lose(est_local_cluster *cluster, const char *type, int index);

/* Starts a task again, at its address and without variables. One that is not lost is lost first. */
EST_API EST_MUST_CHECK est_status est_local_cluster_restart(est_local_cluster *cluster, const char *type, int index);

#ifdef __cplusplus
}
#endif
#endif
