/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies: where the variables of a training live and how gradients are reduced. est_run_config.train_distribute
 * takes one, and so do training loops of your own.
 *
 * With "ps" tasks in TF_CONFIG, training uses them without a strategy, each worker asynchronously, as tf.estimator
 * does; est_parameter_server_strategy sets options of that.
 *
 * A synchronous strategy has replicas: copies of your computation, each for its part of a batch, which share variables.
 * est_strategy_run calls your function once for each replica of this process and builds all of them into one graph; a
 * session runs them in one step. See examples/custom_loop.c. A NULL strategy is the default one: one replica in this
 * process.
 *
 * There are two contexts. In the context of a replica, inside the function, layers, losses, gradients and metrics
 * belong to the replica. est_minimize and est_apply_gradients reduce across replicas: gradients are summed, as in
 * tf.distribute, so the loss of a replica is divided by the examples of all (est_compute_average_loss,
 * est_scale_regularization_loss). Everywhere else is the context across replicas: est_strategy_reduce,
 * est_strategy_gather.
 *
 * Metrics in replicas update one state, so run all updates and read one value. Batch normalisation follows the mean of
 * what the replicas see, weighted by examples where their numbers are known. Collections such as est_losses belong to
 * the replica. */
#ifndef ESTOC_STRATEGY_H
#define ESTOC_STRATEGY_H

#include <stdbool.h>

#include "estoc/cluster.h"
#include "estoc/communication.h"
#include "estoc/initializers.h"
#include "estoc/partitioner.h"
#include "estoc/reduce_op.h"
#include "estoc/server.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_strategy est_strategy;

typedef struct est_parameter_server_options {
    size_t                 struct_size; /* filled by EST_PARAMETER_SERVER */
    const est_partitioner *partitioner; /* NULL: no variable is partitioned; copied */
    bool                   round_robin; /* variables go to ps tasks in turns (replica_device_setter); false: by size */

    /* 0: asynchronous steps. n: a step applies the mean of the gradients that n workers push (replicas_to_aggregate of
     * SyncReplicasOptimizer). Pushes of spare workers that arrive later are dropped; when workers are lost, a step
     * applies those of the others. */
    int sync_replicas;

    int64_t max_staleness; /* 0: no bound; how many steps may complete while another is under way */

    /* true: no step is under way when the ps tasks take snapshots of their variables for a checkpoint; false: each
     * takes its own between two updates. */
    bool consistent_checkpoints;

    const est_resolver *resolver;     /* which task this is; copied. NULL: the next */
    const char         *cluster_json; /* in the form of TF_CONFIG; NULL: the environment variable; "{}": none */
} est_parameter_server_options;

#define EST_PARAMETER_SERVER(...)                                                                                      \
    (&(const est_parameter_server_options){ .struct_size = EST_STRUCT_SIZE(est_parameter_server_options), __VA_ARGS__ })

/* For est_run_config.train_distribute of all tasks, loops of your own (est_strategy_remote) and coordinators. It may
 * be freed when everything that uses it is. A strategy without a cluster takes that of its RunConfig. options NULL: all
 * defaults. */
EST_API EST_MUST_CHECK est_status est_parameter_server_strategy(const est_parameter_server_options *options,
                                                                est_strategy                      **out);

/* The cluster that a strategy was created for and this process in it: of a server to be started, as
 * est_server_create(task->cluster, task->type, task->index, ...). Borrowed from the strategy; NULL: it has no
 * cluster. */
EST_API const est_task *est_strategy_task(const est_strategy *strategy);

/* est_remote_create with the options of a parameter_server strategy, for a loop of your own. `options` has the others
 * (is_chief, connect_secs, step_limit, ...) and leaves partitioner, round_robin, sync_replicas, max_staleness and
 * consistent_saves to the strategy; NULL: all defaults. strategy NULL: a parameter_server strategy with all
 * defaults. */
EST_API EST_MUST_CHECK est_status est_strategy_remote(const est_strategy *strategy, est_server *server,
                                                      const est_remote_options *options, est_remote **out);

/* After everything that was built with it. NULL is fine. */
EST_API void est_strategy_free(est_strategy *strategy);

/* Every operation on one device, "/cpu:0" or "/gpu:0"; for programs that are written for replicas and use one. */
EST_API EST_MUST_CHECK est_status est_one_device_strategy(const char *device, est_strategy **out);

/* Devices are CPUs, "/cpu:0" or "/device:CPU:0", or GPUs that are there (estoc/devices.h), "/gpu:0"; no two the same.
 * "/cpu:1" is the same processor: all CPUs of a process share one memory and one thread pool, and variables have one
 * copy there. Of several GPUs each has a copy of every variable; gradients meet on the host. */
typedef struct est_mirrored_options {
    size_t      struct_size; /* filled by EST_MIRRORED */
    est_strings devices;     /* one for each replica; zeroed: CPUs from 0 on. Copied */
    int         replicas;    /* 0: as many as devices, else 1 */
} est_mirrored_options;

#define EST_MIRRORED(...)                                                                                              \
    (&(const est_mirrored_options){ .struct_size = EST_STRUCT_SIZE(est_mirrored_options), __VA_ARGS__ })

/* Replicas in this process, each with its copy of every variable, which stay equal. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_mirrored_strategy(const est_mirrored_options *options, est_strategy **out);

typedef struct est_central_storage_options {
    size_t      struct_size;      /* filled by EST_CENTRAL_STORAGE */
    est_strings compute_devices;  /* one for each replica; zeroed: CPUs from 0 on. Copied */
    int         replicas;         /* 0: as many as devices, else 1 */
    const char *parameter_device; /* that has the variables; NULL: "/cpu:0" */
} est_central_storage_options;

#define EST_CENTRAL_STORAGE(...)                                                                                       \
    (&(const est_central_storage_options){ .struct_size = EST_STRUCT_SIZE(est_central_storage_options), __VA_ARGS__ })

/* Replicas in this process, and variables in one place. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_central_storage_strategy(const est_central_storage_options *options,
                                                               est_strategy                     **out);

typedef struct est_multi_worker_mirrored_options {
    size_t              struct_size; /* filled by EST_MULTI_WORKER_MIRRORED */
    int                 replicas;    /* 0: 1; of each worker, the same on all */
    est_communication   communication;
    int64_t             bytes_per_pack; /* 0: 4 MiB; gradients are sent in packs, closed once they have more */
    double              timeout_secs;   /* 0: 600; EST_FOREVER; of one exchange between workers */
    double              rejoin_secs;    /* 0: 600; EST_FOREVER; how long the others wait for a lost worker */
    bool                elastic;        /* true: they continue without it then; false: training is saved and fails */
    const est_resolver *resolver;       /* which task this is; copied. NULL: the next */
    const char         *cluster_json;   /* in the form of TF_CONFIG; NULL: the environment variable; "{}": none */
} est_multi_worker_mirrored_options;

#define EST_MULTI_WORKER_MIRRORED(...)                                                                                 \
    (&(const est_multi_worker_mirrored_options){ .struct_size = EST_STRUCT_SIZE(est_multi_worker_mirrored_options),    \
                                                 __VA_ARGS__ })

/* Replicas in every worker of the cluster (and in its chief, which is the first of them). Every worker has its copy of
 * every variable, and runs the same program. Without a cluster, and for an evaluator, there is one worker. options
 * NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_multi_worker_mirrored_strategy(const est_multi_worker_mirrored_options *options,
                                                                     est_strategy                           **out);

/* tf.distribute.TPUStrategy: Estoc has no device for TPUs, so this always fails with EST_UNIMPLEMENTED. The error names
 * the strategies that take its place; docs/strategies.md says what TPUs would need. */
EST_API EST_MUST_CHECK est_status est_tpu_strategy(est_strategy **out);

/* The number of replicas of all workers, whose gradients are reduced in one step. It is fixed when the strategy is
 * created, and still counts a worker that elastic training goes on without. So a loss that is divided by this number
 * and then summed, as by est_compute_average_loss and est_scale_regularization_loss, is too small by the missing part
 * until the worker is back. The mean of an Estimator's loss is not: it is taken over the examples that took part. */
EST_API int est_strategy_num_replicas_in_sync(const est_strategy *strategy);

struct est_input_context; /* estoc/input.h */

/* Sets n_pipelines, pipeline and num_replicas_in_sync of an input function's context, and leaves the rest. */
EST_API void est_strategy_input_context(const est_strategy *strategy, struct est_input_context *context);

/* --- replicas ------------------------------------------------------------------------------------------------------
 *
 * Builders: failures poison the graph (est_graph_status), and what they return stands for that. */

/* Opens and closes the scope of a strategy on a graph. Functions that need a scope open it themselves; an explicit one
 * makes sure that the whole graph uses one strategy. Scopes of one strategy nest. */
EST_API void est_strategy_scope(const est_strategy *strategy, est_graph *graph);
EST_API void est_strategy_scope_end(const est_strategy *strategy, est_graph *graph);

/* A value of each replica of this process, in order: local results, in TensorFlow's words. In the graph's memory. */
typedef struct est_per_replica {
    const est_node *data;
    int             n;
} est_per_replica;

typedef struct est_replica_context {
    const est_strategy *strategy;
    est_graph          *graph;
    int                 replica;                  /* of this process: the index of per-replica values */
    int                 replica_id_in_sync_group; /* among those of all workers */
    int                 num_replicas_in_sync;
} est_replica_context;

/* Builds one replica and returns its result, or EST_NO_NODE. More results go into arrays of yours, by context->replica.
 * It is called in its own thread for each replica, one at a time. All replicas must make the same calls: a later one
 * gets the variables and tables of the first (same order, names, types and shapes), and where one merges, all must. */
typedef est_node (*est_replica_fn)(const est_replica_context *context, void *user);

/* Calls fn for each replica. Operations of the second are named "replica_1/...". Random operations draw different
 * numbers in each replica, whatever their seed. */
EST_API est_per_replica est_strategy_run(const est_strategy *strategy, est_graph *graph, est_replica_fn fn, void *user);

/* The same without building replicas: for initial values such as placeholders. */
EST_API est_per_replica est_strategy_values_from_function(const est_strategy *strategy, est_graph *graph,
                                                          est_replica_fn fn, void *user);

#define EST_NO_AXIS INT32_MIN

/* Across replicas: the sum or mean of the values of all replicas of all workers. With an axis, each value is first
 * summed along it, and a mean is that of all elements, so replicas with more elements count more. */
EST_API est_node est_strategy_reduce(const est_strategy *strategy, est_reduce_op op, est_per_replica values, int axis);

/* Across replicas: concatenates the values along an axis, the only one in which they may differ. No scalars. */
EST_API est_node est_strategy_gather(const est_strategy *strategy, est_per_replica values, int axis);

/* In a replica: waits for all others, calls fn once, across replicas, with the values of all, and returns the result to
 * all. `user` is the first replica's. */
typedef est_node (*est_merge_fn)(const est_strategy *strategy, est_per_replica values, void *user);
EST_API est_node est_replica_merge_call(const est_replica_context *context, est_merge_fn fn, est_node value,
                                        void *user);

/* In a replica: est_strategy_reduce without an axis, and est_strategy_gather; every replica gets the result. No
 * gradient flows back. */
EST_API est_node est_replica_all_reduce(const est_replica_context *context, est_reduce_op op, est_node value);
EST_API est_node est_replica_all_gather(const est_replica_context *context, est_node value, int axis);

/* sum(loss weight) / global_batch_size of the losses of a replica's examples. sample_weight EST_NO_NODE: 1.
 * global_batch_size 0: the examples here times est_strategy_num_replicas_in_sync, which also counts a worker that
 * elastic training goes on without. */
EST_API est_node est_compute_average_loss(est_node per_example_loss, est_node sample_weight, int64_t global_batch_size);

/* The loss divided by the number of replicas, over which it is summed. */
EST_API est_node est_scale_regularization_loss(est_node loss);

/* --- variables of replicas ------------------------------------------------------------------------------------------
 *
 * Variables of est_weight and layers are mirrored, and written by optimizers with reduced gradients. These are for
 * variables that replicas write themselves. */

typedef enum est_synchronization {
    EST_SYNCHRONIZATION_AUTO = 0, /* on write */
    EST_SYNCHRONIZATION_ON_WRITE, /* all copies stay equal: a write in a replica aggregates the values of all first */

    /* Each replica has its own copy, "name", "name/replica_1", ...; a read across replicas aggregates them. The copies
     * of a lost worker are lost; a checkpoint has those of the worker that saves it. */
    EST_SYNCHRONIZATION_ON_READ
} est_synchronization;

/* How the values of replicas become one. */
typedef enum est_aggregation {
    EST_AGGREGATION_NONE = 0, /* an error where they have to */
    EST_AGGREGATION_SUM,
    EST_AGGREGATION_MEAN,
    EST_AGGREGATION_ONLY_FIRST_REPLICA
} est_aggregation;

typedef struct est_distributed_variable_options {
    size_t              struct_size; /* filled by EST_DISTRIBUTED_VARIABLE */
    est_dtype           dtype;       /* 0: float32 */
    est_initializer     initializer; /* make NULL: zeros */
    est_synchronization synchronization;
    est_aggregation     aggregation;
    bool                trainable; /* true: optimizers train it; not with ON_READ */
} est_distributed_variable_options;

#define EST_DISTRIBUTED_VARIABLE(...)                                                                                  \
    (&(const est_distributed_variable_options){ .struct_size = EST_STRUCT_SIZE(est_distributed_variable_options),      \
                                                __VA_ARGS__ })

/* A variable of replicas; a plain value, valid as long as the graph. */
typedef struct est_distributed_variable {
    const est_strategy *strategy;
    est_per_replica     copies; /* handles; on write all are the same one */
    est_synchronization synchronization;
    est_aggregation     aggregation;
    uint64_t            reserved[4]; /* zeros: room for members to come */
} est_distributed_variable;

/* Across replicas: makes one. options NULL: all defaults. */
EST_API est_distributed_variable est_strategy_variable(const est_strategy *strategy, est_graph *graph, const char *name,
                                                       est_shape                               shape,
                                                       const est_distributed_variable_options *options);

/* Its value: in a replica that of its copy; across replicas (context NULL) the aggregate of all copies. */
EST_API est_node est_distributed_read(const est_distributed_variable *variable, const est_replica_context *context);

/* Assigns or adds a value. In a replica: ON_WRITE aggregates the values of all replicas, and one operation writes the
 * result; ON_READ writes the replica's copy alone. Across replicas (context NULL), ON_READ writes every copy, for a sum
 * each its part; adding to a sum is refused there. Returns the operation to run. */
EST_API est_node est_distributed_assign(const est_distributed_variable *variable, const est_replica_context *context,
                                        est_node value);
EST_API est_node est_distributed_assign_add(const est_distributed_variable *variable,
                                            const est_replica_context *context, est_node value);

#ifdef __cplusplus
}
#endif

#endif
