/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig: where a run keeps its state, how often it saves and logs, and its task in a cluster.
 *
 * A zeroed struct is a valid one; every comment says what 0 means.
 *
 * In place of RunConfig.replace: copy what est_estimator_config gives, set fields, and pass the copy on. In that copy
 * all defaults are filled in and disabled settings are EST_OFF. To change the timing of checkpoints, set one of
 * save_checkpoints_steps and save_checkpoints_secs and set the other to EST_OFF.
 *
 * In place of a session_config (ConfigProto):
 *
 *     intra_op_parallelism_threads      .threads
 *     inter_op_parallelism_threads      none: one pool runs large operations in parts, small ones side by side
 *     allow_soft_placement              .no_soft_placement
 *     log_device_placement              .log_device_placement
 *     gpu_options.visible_device_list,  .devices; the variable CUDA_VISIBLE_DEVICES
 *     device_count
 *     gpu_options.allow_growth          always on: memory of a GPU is taken as it is needed
 *     per_process_gpu_memory_fraction   .device_memory_limit, in bytes
 *     graph_options                     none: the passes over a graph are always on
 *     device_filters, cluster_def       none: a task talks to parameter servers only
 *
 * est_estimator_task has the read-only properties of TensorFlow's RunConfig (cluster_spec, task_type, is_chief, master,
 * ...).
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

/* Strategies in one place, as DistributeConfig. */
typedef struct est_distribute_config {
    size_t              struct_size;      /* filled by EST_DISTRIBUTE_CONFIG */
    const est_strategy *train_distribute; /* as those of est_run_config, and not in both */
    const est_strategy *eval_distribute;
    const est_cluster  *remote_cluster; /* NULL; anything else is EST_UNIMPLEMENTED: use TF_CONFIG, or a session */
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
    double      session_creation_timeout_secs; /* 0: 7200; how long a task waits for the others of its cluster */
    double      peer_silence_secs;             /* 0: 10; a task that is silent for so long counts as lost */
    int32_t     max_worker_delay_secs;         /* 0: 60; EST_OFF: none; the longest delay of a worker's start */
    bool        no_graph_def;                  /* true: no .meta beside checkpoints */
    int         threads;                       /* of the session; 0: ESTOC_NUM_THREADS, else the cores it may use */
    bool        check_numerics;                /* true: fail at the first NaN or infinity, naming the node */
    /* true: a resumed run starts its input from the beginning, as TensorFlow does */
    bool no_input_position;
    bool no_signals; /* true: the program handles SIGINT and SIGTERM */
    bool quiet;      /* true: no progress line; est_log_set_level(EST_LOG_WARN) also hides informational messages */

    /* The strategy of training (estoc/strategy.h). NULL: asynchronous with parameter servers if the cluster has ps
     * tasks, else one device. Batches are per replica: a step takes one for each. Borrowed until the run ends. */
    const est_strategy *train_distribute;

    /* multi_worker_mirrored: every worker evaluates its part of the input (est_input_context.n_pipelines), and all get
     * the metrics over all examples; all workers must call est_evaluate. NULL and other strategies: one device. */
    const est_strategy *eval_distribute;

    const char *cluster_json; /* NULL: the TF_CONFIG variable, if set; "{}": none */
    /* between tasks of a cluster: "tcp", "tls" or "ucx" (also called "grpc+verbs"); NULL or "grpc": ESTOC_PROTOCOL,
     * else "tls" */
    const char *protocol;
    /* called for every operation of model_fn, in training, evaluation and prediction, not in exports. The devices are
     * written to graph.pbtxt and .meta files; a ps task that it names holds the variable. NULL: est_graph_device */
    est_device_fn                device_fn;
    void                        *device_user;             /* passed to device_fn */
    const est_distribute_config *experimental_distribute; /* NULL: the two strategies above; resolved into them */
    /* the task, from Slurm or from the program (estoc/cluster.h), in place of cluster_json and TF_CONFIG; copied. NULL:
     * one of these */
    const est_resolver *resolver;
    est_precision       precision; /* of model_fn's layers; 0: float32. Exports are made in float32 */

    /* Of the sessions of this task (estoc/session.h); copied. Parameter servers compute on the CPU. A strategy
     * with devices of its own says which, in training */
    est_strings devices;              /* "/gpu:0"; zeroed: GPU 0 where there is one, "/cpu:0": the CPU alone */
    bool        no_soft_placement;    /* true: an operation that cannot run on the device it is pinned to is an error */
    bool        log_device_placement; /* true: logs where each operation runs */
    bool        no_tf32;              /* true: products of float32 on a GPU use all their bits */
    int64_t     device_memory_limit;  /* bytes that this process takes of each GPU; 0: what there is */
} est_run_config;

#define EST_RUN_CONFIG(...) (&(const est_run_config){ .struct_size = EST_STRUCT_SIZE(est_run_config), __VA_ARGS__ })

#ifdef __cplusplus
}
#endif
#endif
