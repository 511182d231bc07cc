/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig: where a run keeps its state, how often it saves and tells, and which task of which cluster it is.
 *
 * A zeroed struct is a valid one; every comment says what 0 means.
 *
 * In place of RunConfig.replace: copy what est_estimator_config gives, set fields, and pass the copy on. There every
 * default is filled in and what is off is EST_OFF, so it means the same the second time. Who changes how checkpoints are
 * timed sets the other of the two to EST_OFF.
 *
 * In place of a session_config (ConfigProto):
 *
 *     intra_op_parallelism_threads      .threads
 *     inter_op_parallelism_threads      none: one pool runs large operations in parts, small ones side by side
 *     allow_soft_placement              always on: a task's one device runs what is pinned to another, too
 *     gpu_options, device_count         none: a task has one device
 *     graph_options                     none: the passes over a graph are always on
 *     device_filters, cluster_def       none: a task talks to parameter servers only
 *
 * What is read-only in TensorFlow's (cluster_spec, task_type, is_chief, master, ...) is in est_estimator_task.
 *
 * Threading: plain values. */
#ifndef ESTOC_RUN_CONFIG_H
#define ESTOC_RUN_CONFIG_H

#include "estoc/cluster.h"
#include "estoc/graph.h"
#include "estoc/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device that an operation is to run on, as "/job:ps/task:0/device:CPU:0" or a part of it; NULL or "": any. `node` is
 * its output 0, `op` its kind as TensorFlow calls it ("VarHandleOp"), `device` what est_graph_device said before. The
 * answer is copied. */
typedef const char *(*est_device_fn)(est_node node, const char *op, const char *device, void *user);

/* Strategies in one place, as DistributeConfig. */
typedef struct est_distribute_config {
    size_t              struct_size;      /* filled by EST_DISTRIBUTE_CONFIG */
    const est_strategy *train_distribute; /* as those of est_run_config, and not in both */
    const est_strategy *eval_distribute;
    const est_cluster  *remote_cluster; /* of servers that this program drives; NULL: TF_CONFIG's. Borrowed likewise */
} est_distribute_config;
#define EST_DISTRIBUTE_CONFIG(...)                                                                                     \
    (&(const est_distribute_config){ .struct_size = EST_STRUCT_SIZE(est_distribute_config), __VA_ARGS__ })

typedef struct est_run_config {
    size_t      struct_size;                   /* filled by EST_RUN_CONFIG */
    const char *model_dir;                     /* NULL: that of TF_CONFIG, else a new temporary directory, logged */
    uint64_t    seed;                          /* 0: drawn once, logged, kept in the checkpoint */
    int64_t     save_summary_steps;            /* 0: 100; EST_OFF: none */
    int64_t     save_checkpoints_steps;        /* 0: by time instead; EST_OFF: not by steps */
    double      save_checkpoints_secs;         /* 0: 600, unless by steps; EST_OFF: not by time. Not both */
    int32_t     keep_checkpoint_max;           /* 0: 5; EST_OFF: keep all */
    double      keep_checkpoint_every_n_hours; /* 0: 10000 */
    int64_t     log_step_count_steps;          /* 0: 100; EST_OFF: none */
    double      session_creation_timeout_secs; /* 0: 7200; how long a task waits for others of its cluster */
    double      peer_silence_secs;             /* 0: 10; a task of the cluster that is silent so long is lost */
    int32_t     max_worker_delay_secs;         /* 0: 60; EST_OFF: none; how late a worker starts at the most */
    bool        no_graph_def;                  /* true: no .meta beside checkpoints */
    int         threads;                       /* of the session; 0: ESTOC_NUM_THREADS, else the cores it may use */
    bool        check_numerics;                /* true: the node that first makes a NaN or infinity is named */
    bool        no_input_position;             /* true: a resumed run starts its input anew, as TensorFlow does */
    bool        no_signals;                    /* true: SIGINT and SIGTERM are left to the program */
    bool        quiet; /* true: no progress line; est_log_set_level(EST_LOG_WARN) hides news, too */

    /* How tasks and replicas train together (estoc/strategy.h). NULL: with ps tasks if there are any, each worker by itself; else on
     * one device. Batches are those of a replica: a step takes one for each. Borrowed until the run ends, as the next. */
    const est_strategy *train_distribute;

    /* multi_worker_mirrored: every worker evaluates its part of the input (est_input_context.n_pipelines), and all have the metrics of all
     * examples; est_evaluate is to be called by all. NULL and other strategies: one device. */
    const est_strategy *eval_distribute;

    const char   *cluster_json; /* NULL: the TF_CONFIG variable, if set; "{}": none */
    const char   *protocol;     /* between tasks of a cluster: "tcp", "tls" or "ucx" (also called "grpc+verbs"); NULL or
                                * "grpc": ESTOC_PROTOCOL, else "tls" */
    est_device_fn device_fn;    /* asked about every operation that model_fn made, in training, evaluation and
                                * prediction; not in exports, which run elsewhere. What it says is in graph.pbtxt and
                                * .meta files; a ps task that it names has the variable. NULL: est_graph_device's */
    void         *device_user;  /* handed to device_fn */
    const est_distribute_config *experimental_distribute; /* NULL: the two strategies above; resolved into them */
    const est_resolver          *resolver; /* the task, from Slurm or from the program (estoc/cluster.h), in place of
                                            * cluster_json and TF_CONFIG; copied. NULL: one of these */
} est_run_config;

#define EST_RUN_CONFIG(...) (&(const est_run_config){ .struct_size = EST_STRUCT_SIZE(est_run_config), __VA_ARGS__ })

#ifdef __cplusplus
}
#endif
#endif
