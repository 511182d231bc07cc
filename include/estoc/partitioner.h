/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioners: into how many shards the rows of a variable go when the variables of a job are held by several tasks.
 *
 * A variable stays one variable for the model and in checkpoints; its shards have consecutive rows, the first ones one
 * row more when the numbers do not divide, and live at different tasks as far as there are enough. Slots of optimizers
 * are spread as their variable is. Formulas are TensorFlow's (tf.distribute.experimental.partitioners).
 *
 * Partitioners are plain structs, passed by value. Your own is a struct with your function in it. Every task of a job
 * must use the same one. Threading: any thread. */
#ifndef ESTOC_PARTITIONER_H
#define ESTOC_PARTITIONER_H

#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_partitioner est_partitioner;
struct est_partitioner {
    /* The number of shards of a variable that has at least one row; less than 2: it stays in one piece. More shards
     * than rows become as many as rows. NULL: no variable is spread. */
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

#ifdef __cplusplus
}
#endif
#endif
