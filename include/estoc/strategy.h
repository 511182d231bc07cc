/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies: where the variables of a training live and how gradients meet; est_run_config.train_distribute takes one.
 *
 * With "ps" tasks in TF_CONFIG training uses them without any strategy being set, each worker by itself, as
 * tf.estimator does; est_parameter_server_strategy says how else.
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

#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_partitioner est_partitioner;
struct est_partitioner {
    /* The number of shards of a variable that has at least one row; less than 2: it stays in one piece. More shards than rows
     * become as many as rows. NULL: no variable is spread. */
    int (*shards)(const est_partitioner *self, const char *name, est_dtype dtype, const est_shape *shape, int n_tasks);
    int64_t     bytes; /* of a shard, at least or at most */
    int         n;     /* of shards */
    const void *user;  /* for your own; borrowed as long as the partitioner is used */
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
        consistent_checkpoints; /* true: no step is under way while the ps tasks copy their variables to save them; false:
                                     * each copies when it is told to, and steps go on */
} est_parameter_server_options;

#define EST_PARAMETER_SERVER(...)                                                                                      \
    (&(const est_parameter_server_options){ .struct_size = sizeof(est_parameter_server_options), __VA_ARGS__ })

/* For est_run_config.train_distribute of all tasks; it may be freed when the estimator is. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_parameter_server_strategy(const est_parameter_server_options *options,
                                                                est_strategy                      **out);
EST_API void                      est_strategy_free(est_strategy *strategy); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
