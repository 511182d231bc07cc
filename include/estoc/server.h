/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers: what makes a process a task of a cluster.
 *
 * A server listens at the address that its cluster gives its task. It keeps variables for other tasks, runs the parts of their
 * steps that touch them, and says how things are (`estoc status`). est_train_and_evaluate starts one by itself; a program that
 * drives a cluster through sessions makes its own:
 *
 *     est_server_create(cluster, "ps", 0, NULL, &server);    in each ps process
 *     est_server_join(server);                               until the job ends
 *
 *     est_server_create(cluster, "worker", 1, NULL, &server);
 *     est_remote_create(server, NULL, &remote);              in a worker: the ps tasks
 *     est_session_create(graph, EST_SESSION(.remote = remote), &session);
 *
 * One of them is the chief (.is_chief), which gives variables their values and says when they have them
 * (est_remote_declare_ready) and when all is done (est_remote_end_job).
 *
 * Variables of such a session live at the ps tasks, by size or where a device string ("/job:ps/task:1") puts them; each part
 * of a step runs where its variables are, and operations that are pinned to a task of the remote run there. One program may so
 * drive a whole cluster, in which every other process only serves: it asks for all tasks with .type = "*" (docs/cluster.md).
 *
 * Connections are encrypted and both sides prove that they belong to the job by certificates (`estoc certificates`, ESTOC_CERTS)
 * unless the transport is chosen to be "tcp" or "ucx".
 *
 * The first server of a process raises its soft limit of file descriptors (RLIMIT_NOFILE) to the hard one, at most to 16384: a
 * task needs one for each other task and some for files. Programs that call select(2) with descriptors above 1023 must use
 * poll(2), or lower the limit again after est_server_create. Connections that have not shown who they are get at most a quarter of
 * the limit, and the last eighth is kept for files (docs/cluster.md, "Strangers").
 *
 * Threading: a server's own functions from one thread at a time; it has threads of its own. */
#ifndef ESTOC_SERVER_H
#define ESTOC_SERVER_H

#include "estoc/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_server est_server;
typedef struct est_remote est_remote;

typedef struct est_server_options {
    size_t      struct_size;  /* filled by EST_SERVER */
    const char *transport;    /* NULL: ESTOC_PROTOCOL, else "tls"; or "tcp", "ucx" */
    const char *certificates; /* NULL: ESTOC_CERTS; the folder of `estoc certificates`, for tls */
    const char *job;          /* NULL: ESTOC_JOB, else ""; tasks of another job are refused; at most 63 bytes */
    int         threads;      /* 0: ESTOC_NUM_THREADS, else the cores this process may use */
    double      silence_secs; /* 0: 10; a task from which nothing is heard for so long is lost */
    double      lonely_secs;  /* 0: 7200; est_server_join fails when no task came, or came back, for so long */
} est_server_options;

#define EST_SERVER(...) (&(const est_server_options){ .struct_size = EST_STRUCT_SIZE(est_server_options), __VA_ARGS__ })

/* Starts task `index` of job `type`, listening at its port in the cluster: on all interfaces, unless its host there is an IP address
 * or localhost. type NULL: a client that is no task and listens nowhere. The cluster is copied. */
EST_API EST_MUST_CHECK est_status est_server_create(const est_cluster *cluster, const char *type, int index,
                                                    const est_server_options *options, est_server **out);

/* "tls://host:port", as a session's target and for logs; "" of a client. Borrowed. */
EST_API const char *est_server_target(const est_server *server);

/* Serves until the job ends: a chief has said so and all others have left, or a bounded time later. EST_CANCELLED: SIGTERM or
 * SIGINT came (where the caller has them caught). EST_DEADLINE_EXCEEDED: nobody came for lonely_secs. */
EST_API EST_MUST_CHECK est_status est_server_join(est_server *server);

/* Ends it with all connections; sessions over it must be gone. NULL is fine. */
EST_API void est_server_free(est_server *server);

typedef struct est_remote_options {
    size_t      struct_size; /* filled by EST_REMOTE */
    const char *type;     /* NULL: "ps"; the job whose tasks have the variables; "*": all tasks but this one, and the ps
                                * tasks have the variables that no device places, or all when there is no ps task */
    bool        is_chief; /* gives variables their values; others wait until it has */
    double      connect_secs; /* 0: 7200; how long to wait for tasks that are not there, and for the chief */
    double
            answer_secs; /* 0: 600; after which a part of a step is asked for again (made once); after a signal a save has as long */
    int64_t step_limit;    /* 0: none; the global step at which training ends, for all workers together */
    int64_t max_staleness; /* 0: no bound; how many steps may be counted while another step is under way */
    int     sync_replicas; /* 0: each worker's step counts by itself; n: a step is the mean of what n workers push, and
                                  what others push for it later is dropped */
    const struct est_partitioner *partitioner; /* NULL: no variable is spread (estoc/partitioner.h); copied */
    bool round_robin;      /* variables go to tasks in turn; false: to the one with the fewest bytes */
    bool consistent_saves; /* no step is under way when tasks take snapshots of their variables for a checkpoint */
} est_remote_options;

#define EST_REMOTE(...) (&(const est_remote_options){ .struct_size = EST_STRUCT_SIZE(est_remote_options), __VA_ARGS__ })

/* The other tasks as a session sees them. The server is borrowed until the remote is freed, the remote until its sessions are. */
EST_API EST_MUST_CHECK est_status est_remote_create(est_server *server, const est_remote_options *options,
                                                    est_remote **out);
EST_API void                      est_remote_free(est_remote *remote); /* NULL is fine */

/* The chief: the variables of its sessions have values (est_session_init, a restored checkpoint), and others may use them. Until
 * then est_session_create waits in all other programs. To be called again when a session was made anew after a task was lost.
 * EST_FAILED_PRECONDITION: the remote was made without is_chief. */
EST_API EST_MUST_CHECK est_status est_remote_declare_ready(est_remote *remote);

/* The chief: the job has ended. Where tasks of the remote are in est_server_join, it returns as soon as all others have left,
 * this program with est_remote_free. Tasks that cannot be reached are logged as warnings. */
EST_API EST_MUST_CHECK est_status est_remote_end_job(est_remote *remote);

#ifdef __cplusplus
}
#endif
#endif
