/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies: where the variables of a training live and how gradients meet; est_run_config.train_distribute takes one, and so do
 * training loops of your own.
 *
 * With "ps" tasks in TF_CONFIG training uses them without any strategy being set, each worker by itself, as
 * tf.estimator does; est_parameter_server_strategy says how else.
 *
 * A synchronous strategy has replicas: copies of your computation, each for its part of a batch, which share variables.
 * est_strategy_run calls your function once for each replica of this process and builds all of them into one graph; a session then
 * runs them together. See examples/custom_loop.c. A strategy that is NULL is the default one: one replica, right here.
 *
 * There are two contexts. In that of a replica, inside of the function, layers, losses, gradients and metrics belong to the
 * replica, and est_minimize and est_apply_gradients make all of them meet: gradients are summed, as tf.distribute has it, so the
 * loss of a replica is divided by the examples of all (est_compute_average_loss, est_scale_regularization_loss). Everywhere else
 * is the context across replicas: est_strategy_reduce, est_strategy_gather.
 *
 * In replicas metrics add to the same state, so all updates are to be run and one value is to be read; batch normalisation follows
 * the mean of what the replicas see, by examples where their numbers are known; lists as est_losses are the replica's.
 *
 * Partitioners: into how many shards the rows of a variable go when the variables of a job are held by several tasks.
 *
 * A variable stays one variable for the model and in checkpoints; its shards have consecutive rows, the first ones one row
 * more when the numbers do not divide, and live at different tasks as far as there are enough. Slots of optimizers are spread
 * as their variable is. Formulas are TensorFlow's (tf.distribute.experimental.partitioners).
 *
 * Partitioners are plain structs, passed by value. Your own is a struct with your function in it. Every task of a job must
 * use the same one. Threading: any thread. */
#ifndef ESTOC_STRATEGY_H
#define ESTOC_STRATEGY_H

#include <stdbool.h>

#include "estoc/cluster.h"
#include "estoc/initializers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_partitioner est_partitioner;
struct est_partitioner {
    /* The number of shards of a variable that has at least one row; less than 2: it stays in one piece. More shards than rows
     * become as many as rows. NULL: no variable is spread. */
    int (*shards)(const est_partitioner *self, const char *name, est_dtype dtype, const est_shape *shape, int n_tasks);
    int64_t     bytes;       /* of a shard, at least or at most */
    int         n;           /* of shards */
    const void *user;        /* for your own; borrowed as long as the partitioner is used */
    uint64_t    reserved[4]; /* zeros: room for members to come */
};

/* Every variable in n shards. n 0: as many as there are tasks. */
EST_API est_partitioner est_fixed_shards(int n);

/* As many shards as there are pieces of min_shard_bytes, the last of which may be cut, and at most max_shards.
 * min_shard_bytes 0: 256 KiB. max_shards 0: as many as there are tasks. */
EST_API est_partitioner est_min_size_partitioner(int64_t min_shard_bytes, int max_shards);

/* As few shards as hold max_shard_bytes each, but no row is cut, and at most max_shards, whatever they hold then.
 * max_shards 0: any number. */
EST_API est_partitioner est_max_size_partitioner(int64_t max_shard_bytes, int max_shards);

/* --- strategies --------------------------------------------------------------------------------------------------- */

typedef struct est_strategy est_strategy;

typedef struct est_parameter_server_options {
    size_t                 struct_size; /* filled by EST_PARAMETER_SERVER */
    const est_partitioner *partitioner; /* NULL: no variable is spread over tasks; copied */
    bool    round_robin;   /* variables go to ps tasks in turn, as replica_device_setter has it; false: by size */
    int     sync_replicas; /* 0: each worker's step counts by itself. n: a step is the mean of what n workers push (the
                             * replicas_to_aggregate of SyncReplicasOptimizer); spare workers that come later are dropped, and
                             * when workers are lost steps are made of what the others push */
    int64_t max_staleness; /* 0: no bound; how many steps may be counted while another is under way */
    bool
        consistent_checkpoints; /* true: no step is under way when the ps tasks take snapshots of their variables to save
                                     * them; false: each takes its own when it is told to, between two updates */
} est_parameter_server_options;

#define EST_PARAMETER_SERVER(...)                                                                                      \
    (&(const est_parameter_server_options){ .struct_size = EST_STRUCT_SIZE(est_parameter_server_options), __VA_ARGS__ })

/* For est_run_config.train_distribute of all tasks; it may be freed when the estimator is. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_parameter_server_strategy(const est_parameter_server_options *options,
                                                                est_strategy                      **out);
/* When nothing is built with it any more. NULL is fine. */
EST_API void est_strategy_free(est_strategy *strategy);

/* Every operation on one device, "/cpu:0"; for programs that are written for replicas and have one. */
EST_API EST_MUST_CHECK est_status est_one_device_strategy(const char *device, est_strategy **out);

/* Devices are CPUs, "/cpu:0" or "/device:CPU:0", no two the same. "/cpu:1" is a part of the same processor: all CPUs of a process
 * have one memory, so that variables have one copy, and one pool of threads. */
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

/* How sums between processes are done. */
typedef enum est_communication {
    EST_COMMUNICATION_AUTO, /* by size, number of workers and hosts */
    EST_COMMUNICATION_RING,
    EST_COMMUNICATION_HALVING,
    EST_COMMUNICATION_DIRECT,
    EST_COMMUNICATION_HIERARCHICAL,
    EST_COMMUNICATION_SHARED, /* memory of one host: EST_FAILED_PRECONDITION when workers are on several */
    EST_COMMUNICATION_NCCL    /* EST_UNIMPLEMENTED */
} est_communication;

typedef struct est_multi_worker_mirrored_options {
    size_t              struct_size; /* filled by EST_MULTI_WORKER_MIRRORED */
    int                 replicas;    /* 0: 1; of each worker, the same on all */
    est_communication   communication;
    int64_t             bytes_per_pack; /* 0: 4 MiB; gradients travel in packs, closed once they have more */
    double              timeout_secs;   /* 0: 600; EST_FOREVER; of one exchange between workers */
    double              rejoin_secs;    /* 0: 600; EST_FOREVER; how long a worker that was lost is waited for */
    bool                elastic;        /* true: without it then; false: training is saved and fails */
    const est_resolver *resolver;       /* which task this is; copied. NULL: the next */
    const char         *cluster_json;   /* in the form of TF_CONFIG; NULL: the environment variable; "{}": none */
} est_multi_worker_mirrored_options;

#define EST_MULTI_WORKER_MIRRORED(...)                                                                                 \
    (&(const est_multi_worker_mirrored_options){ .struct_size = EST_STRUCT_SIZE(est_multi_worker_mirrored_options),    \
                                                 __VA_ARGS__ })

/* Replicas in every worker of the cluster (and in its chief, which is the first of them). Every worker has its copy of every variable,
 * and runs the same program. Without a cluster, and for an evaluator, there is one worker. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_multi_worker_mirrored_strategy(const est_multi_worker_mirrored_options *options,
                                                                     est_strategy                           **out);

/* Replicas whose gradients meet in one step, those of all workers; what a batch is divided by. It is fixed when the strategy is made:
 * those of a worker that elastic leaves out are counted still. So what is divided by this number and then summed, as
 * est_compute_average_loss and est_scale_regularization_loss do it, is smaller by the missing share until the worker is back. A mean
 * of an Estimator's loss is not: it is taken over the examples that were there. */
EST_API int est_strategy_num_replicas_in_sync(const est_strategy *strategy);

struct est_input_context; /* estoc/input.h */

/* Tells an input function its part: sets n_pipelines, pipeline and num_replicas_in_sync, and leaves the rest. */
EST_API void est_strategy_input_context(const est_strategy *strategy, struct est_input_context *context);

/* --- replicas ------------------------------------------------------------------------------------------------------
 *
 * Builders: failures poison the graph (est_graph_status), and what they return stands for that. */

/* Opens and closes the scope of a strategy on a graph. What runs in it by itself, opens it by itself; a scope makes sure that
 * nothing else of the graph is another strategy's. The same one may be opened again inside. */
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
    int                 replica;                  /* of this process: which of per-replica values is its own */
    int                 replica_id_in_sync_group; /* among those of all workers */
    int                 num_replicas_in_sync;
} est_replica_context;

/* Builds one replica and returns its result, or EST_NO_NODE. More results go into arrays of yours, by context->replica. It is called in
 * a thread of its own for each replica, one at a time. All replicas must make the same calls: variables and tables that a later one
 * makes are those of the first (same order, names, types and shapes), and where one merges, all must. */
typedef est_node (*est_replica_fn)(const est_replica_context *context, void *user);

/* Calls fn for each replica. Operations of the second are named "replica_1/...". Random operations draw different numbers in
 * each replica, whatever their seed. */
EST_API est_per_replica est_strategy_run(const est_strategy *strategy, est_graph *graph, est_replica_fn fn, void *user);

/* The same without replicas being built: values to begin with, such as placeholders. */
EST_API est_per_replica est_strategy_values_from_function(const est_strategy *strategy, est_graph *graph,
                                                          est_replica_fn fn, void *user);

typedef enum est_reduce_op { EST_REDUCE_OP_SUM, EST_REDUCE_OP_MEAN } est_reduce_op;

#define EST_NO_AXIS INT32_MIN

/* Across replicas: the sum or mean of the values of all replicas of all workers. With an axis each value is first summed along
 * it, and a mean is that of all elements, so that replicas with more of them count more. */
EST_API est_node est_strategy_reduce(const est_strategy *strategy, est_reduce_op op, est_per_replica values, int axis);

/* Across replicas: the values one after the other along an axis, in which alone they may differ. No scalars. */
EST_API est_node est_strategy_gather(const est_strategy *strategy, est_per_replica values, int axis);

/* In a replica: leaves it together with all others, calls fn once with a value of each, and gives the answer to all. `user` is the
 * first replica's. */
typedef est_node (*est_merge_fn)(const est_strategy *strategy, est_per_replica values, void *user);
EST_API est_node est_replica_merge_call(const est_replica_context *context, est_merge_fn fn, est_node value,
                                        void *user);

/* In a replica: est_strategy_reduce without an axis, and est_strategy_gather; every replica gets the result. No gradient flows back. */
EST_API est_node est_replica_all_reduce(const est_replica_context *context, est_reduce_op op, est_node value);
EST_API est_node est_replica_all_gather(const est_replica_context *context, est_node value, int axis);

/* sum(loss weight) / global_batch_size of the losses of a replica's examples. sample_weight EST_NO_NODE: 1. global_batch_size 0: the
 * examples here times est_strategy_num_replicas_in_sync, which counts a worker that is left out, too. */
EST_API est_node est_compute_average_loss(est_node per_example_loss, est_node sample_weight, int64_t global_batch_size);

/* The loss divided by the number of replicas: it is summed as often. */
EST_API est_node est_scale_regularization_loss(est_node loss);

/* --- variables of replicas ------------------------------------------------------------------------------------------
 *
 * What est_weight and layers make is mirrored: written by optimizers, which have made the replicas meet. These are for what replicas
 * write by themselves. */

typedef enum est_synchronization {
    EST_SYNCHRONIZATION_AUTO = 0, /* on write */
    EST_SYNCHRONIZATION_NONE,     /* refused */
    EST_SYNCHRONIZATION_ON_WRITE, /* all copies stay equal: who writes in a replica, meets the others first */
    EST_SYNCHRONIZATION_ON_READ /* each replica has its own copy, "name", "name/replica_1", ...; a read across makes one of them.
                                   A worker that is lost takes its copies with it; a checkpoint has those of who saves it */
} est_synchronization;

/* What values of replicas become where they meet. */
typedef enum est_aggregation {
    EST_AGGREGATION_NONE = 0, /* an error there */
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

/* A variable of replicas; a plain value, good as long as the graph. */
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

/* Its value: in a replica that of its copy; across replicas (context NULL) the one value of all copies. */
EST_API est_node est_distributed_read(const est_distributed_variable *variable, const est_replica_context *context);

/* Writes a value, or adds one. In a replica: on write the values of all replicas meet, and one operation writes what comes of it; on
 * read it is the replica's copy alone. Across replicas (context NULL) on read: a value is written to every copy, of a sum its part;
 * adding to a sum is refused there. Returns the operation to run. */
EST_API est_node est_distributed_assign(const est_distributed_variable *variable, const est_replica_context *context,
                                        est_node value);
EST_API est_node est_distributed_assign_add(const est_distributed_variable *variable,
                                            const est_replica_context *context, est_node value);

#ifdef __cplusplus
}
#endif

#endif
