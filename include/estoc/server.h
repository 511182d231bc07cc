/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers: a server makes a process a task of a cluster.
 *
 * A server listens at the address that the cluster gives its task. It keeps variables for other tasks, runs the
 * segments of their steps that touch these variables, and reports its status (`estoc status`). est_train_and_evaluate
 * starts one itself; a program that drives a cluster through sessions makes its own:
 *
 *     est_server_create(cluster, "ps", 0, NULL, &server);    in each ps process
 *     est_server_join(server);                               until the job ends
 *
 *     est_server_create(cluster, "worker", 1, NULL, &server);
 *     est_remote_create(server, NULL, &remote);              in a worker: the ps tasks
 *     est_session_create(graph, EST_SESSION(.remote = remote), &session);
 *
 * One of the workers is the chief (.is_chief). It initializes or restores the variables, declares them ready
 * (est_remote_declare_ready) and ends the job (est_remote_end_job).
 *
 * A step that moves the global step on is a training step (est_minimize, est_apply_gradients). Where step_limit,
 * max_staleness, sync_replicas or consistent_saves is set, the same in all programs that train, est_step_run and
 * est_session_run first wait for the turn of such a step. EST_OUT_OF_RANGE: all steps were made, so the loop ends as at
 * the end of an input; the step was not run. With sync_replicas they return when the step was made from the pushes of
 * all. A program that stops before that frees its remote, so that its turn goes to another.
 *
 * Variables of such a session live at the ps tasks, placed by size or by a device string ("/job:ps/task:1"). Each
 * segment of a step runs where its variables are, and operations that are pinned to a task of the remote run there. So
 * one program can drive a whole cluster in which every other process only serves: it uses all tasks with .type = "*".
 * Tensors that one task makes for another travel directly between them. A server also drives steps for clients that
 * know only its address: EST_SESSION(.target = est_server_target(server)), TensorFlow's Session(server.target)
 * (docs/cluster.md).
 *
 * Connections are encrypted, and both sides prove by certificates that they belong to the job (`estoc certificates`,
 * ESTOC_CERTS), unless the transport is "tcp" or "ucx". When all addresses of the cluster are of the loopback interface
 * and no certificates are named, those of the user are used, which are made once, in a directory that other users
 * cannot read (docs/cluster.md).
 *
 * The first server of a process raises its soft limit of file descriptors (RLIMIT_NOFILE) to the hard one, at most to
 * 16384: a task needs one for each other task and some for files. Programs that call select(2) with descriptors above
 * 1023 must use poll(2), or lower the limit again after est_server_create. Connections that wait for admission get at
 * most a quarter of the limit, and the last eighth is reserved for files (docs/cluster.md, "Strangers").
 *
 * Threading: a server's own functions from one thread at a time, except that est_server_stop may be called from any; it
 * has threads of its own. */
#ifndef ESTOC_SERVER_H
#define ESTOC_SERVER_H

#include "estoc/cluster.h"
#include "estoc/graph.h"
#include "estoc/input.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_server est_server;
typedef struct est_remote est_remote;

/* A function that makes datasets for a coordinator by name: EST_WORKER_FUNCTIONS({ "train", train_input, "a.csv" }).
 * The context has the params that the coordinator sends, as bytes, and the worker's pipeline. The table belongs to the
 * program: all servers of a job have the same one, and the coordinator checks the names when it meets a worker. */
typedef struct est_worker_function {
    const char  *name; /* copied */
    est_input_fn input_fn;
    void        *user;        /* borrowed until the server is freed */
    uint64_t     reserved[2]; /* zeros: room for members to come */
} est_worker_function;

typedef struct est_worker_functions {
    const est_worker_function *data;
    int                        n;
} est_worker_functions;

#define EST_WORKER_FUNCTIONS(...) EST_SPAN(est_worker_functions, const est_worker_function, __VA_ARGS__)

typedef struct est_server_options {
    size_t               struct_size;  /* filled by EST_SERVER */
    const char          *transport;    /* NULL: ESTOC_PROTOCOL, else "tls"; or "tcp", "ucx" */
    const char          *certificates; /* NULL: ESTOC_CERTS; the folder of `estoc certificates`, for tls (see above) */
    const char          *job;     /* NULL: ESTOC_JOB, else ""; tasks of another job are refused; at most 63 bytes */
    int                  threads; /* 0: ESTOC_NUM_THREADS, else the cores this process may use */
    double               silence_secs; /* 0: 10; a task that is silent for longer is lost */
    double               lonely_secs;  /* 0: 7200; est_server_join fails when no task was connected for longer */
    est_worker_functions functions;    /* of a worker: datasets that it can make for a coordinator; none by default */
} est_server_options;

#define EST_SERVER(...) (&(const est_server_options){ .struct_size = EST_STRUCT_SIZE(est_server_options), __VA_ARGS__ })

/* Starts task `index` of job `type`. It listens at the port of its address in the cluster: on all interfaces, unless
 * the host of the address is an IP address or localhost. type NULL: a client outside the cluster, which does not
 * listen. The cluster is copied. */
EST_API EST_MUST_CHECK est_status est_server_create(const est_cluster *cluster, const char *type, int index,
                                                    const est_server_options *options, est_server **out);

/* "tls://host:port", the target of sessions that this server drives (est_session_options.target); "" for a client.
 * Borrowed. */
EST_API const char *est_server_target(const est_server *server);

/* Serves until the job ends: the chief has ended it and all others have left, or 30 s have passed. A worker executes
 * the calls of a coordinator meanwhile, and only meanwhile. Signals are the program's: SIGTERM and SIGINT end the
 * process unless it handles them, which a coordinator counts as a lost task. While est_train_and_evaluate or a
 * coordinator of this process catches them, they end this call with EST_CANCELLED. EST_DEADLINE_EXCEEDED: no task was
 * connected for lonely_secs. */
EST_API EST_MUST_CHECK est_status est_server_join(est_server *server);

/* Makes est_server_join, under way in another thread or still to be called, return EST_CANCELLED. A server that serves
 * beside a program is ended so: stop, wait for the thread that serves, free. NULL is fine. */
EST_API void est_server_stop(est_server *server);

/* Ends the server and closes its connections; its sessions must have been freed. NULL is fine. */
EST_API void est_server_free(est_server *server);

typedef struct est_remote_options {
    size_t      struct_size; /* filled by EST_REMOTE */
    const char *type;     /* NULL: "ps"; the job whose tasks have the variables; "*": all tasks but this one, and the ps
                                * tasks have the variables that no device places, or all when there is no ps task */
    bool        is_chief; /* initializes the variables; others wait for that */
    double      connect_secs; /* 0: 7200; how long to wait for missing tasks, and for the chief */
    double  answer_secs;   /* 0: 600; then a segment is requested again (and run once); limits a save after a signal */
    int64_t step_limit;    /* 0: none; the global step at which training ends, for all workers */
    int64_t max_staleness; /* 0: no bound; how many steps may be counted while another step is under way */
    int sync_replicas; /* 0: asynchronous; n: a step is the mean of what n workers push, and later pushes are dropped */
    const struct est_partitioner *partitioner; /* NULL: no variable is sharded (estoc/strategy.h); copied */
    bool round_robin;      /* variables go to tasks in turn; false: to the one with the fewest bytes */
    bool consistent_saves; /* no step is under way when tasks take snapshots of their variables for a checkpoint */
} est_remote_options;

#define EST_REMOTE(...) (&(const est_remote_options){ .struct_size = EST_STRUCT_SIZE(est_remote_options), __VA_ARGS__ })

/* The other tasks, as sessions use them. The server is borrowed until the remote is freed, the remote until its
 * sessions are. */
EST_API EST_MUST_CHECK est_status est_remote_create(est_server *server, const est_remote_options *options,
                                                    est_remote **out);
EST_API void                      est_remote_free(est_remote *remote); /* NULL is fine */

/* The chief: declares that the variables of its sessions are initialized or restored and that others may use them.
 * Until then est_session_create waits in all other programs. Call it again after a new session replaced one that
 * lost a task. EST_UNAVAILABLE: a task was restarted since the last session was made, and has no variables.
 * EST_FAILED_PRECONDITION: the remote was created without is_chief. */
EST_API EST_MUST_CHECK est_status est_remote_declare_ready(est_remote *remote);

/* The chief: ends the job. est_server_join of the other tasks returns as soon as all clients have left; this program
 * leaves with est_remote_free. Tasks that cannot be reached are logged as warnings. The servers do not know which
 * programs are still about to come: one that connects after they have ended waits for connect_secs, so choose that
 * not much longer than your tasks take to start. */
EST_API EST_MUST_CHECK est_status est_remote_end_job(est_remote *remote);

/* --- devices ------------------------------------------------------------------------------------------------------ */

typedef struct est_device_setter_options {
    size_t             struct_size;   /* filled by EST_DEVICE_SETTER */
    const est_cluster *cluster;       /* whose "ps" tasks have the variables; NULL: the next */
    int                ps_tasks;      /* how many there are; 0: none, and nothing is pinned */
    const char        *worker_device; /* NULL: "/job:worker"; of all else. Copied */
    bool               by_bytes;      /* true: a variable goes to the ps task with the fewest bytes; false: in turn */
} est_device_setter_options;

#define EST_DEVICE_SETTER(...)                                                                                         \
    (&(const est_device_setter_options){ .struct_size = EST_STRUCT_SIZE(est_device_setter_options), __VA_ARGS__ })

/* Pins the operations made from now on: variables to the ps tasks, all else to the worker
 * (tf.train.replica_device_setter). Programs that build the same graph agree where variables are: between-graph
 * replication, examples/between_graph.c. Parts of a device that est_graph_device names win over those chosen here, and
 * a variable that it pins to another job stays there. It replaces the graph's device function
 * (est_graph_device_fn). A builder: a failure poisons the graph. */
EST_API void est_replica_device_setter(est_graph *graph, const est_device_setter_options *options);

#ifdef __cplusplus
}
#endif
#endif
