/* SPDX-License-Identifier: Apache-2.0
 *
 * A variable's storage as kernels see it: what a resource input's data points to. The runtime owns it
 * (runtime/store.h). */
#ifndef EST_GRAPH_VARIABLE_H
#define EST_GRAPH_VARIABLE_H

#include "base/mapping.h"
#include "graph/op.h"

typedef struct est_key_rows  est_key_rows;  /* kernels/key_rows.h */
typedef struct est_lazy_rows est_lazy_rows; /* kernels/lazy_rows.h */
typedef struct est_cow_var   est_cow_var;   /* kernels/copy_on_write.h */

/* The initial values of a row of a dynamic embedding. */
typedef struct est_row_draw {
    enum {
        EST_ROW_UNKNOWN  = -1, /* for a handle that only names a variable */
        EST_ROW_CONSTANT = 0,  /* a */
        EST_ROW_UNIFORM,       /* in [a, b) */
        EST_ROW_NORMAL,        /* of mean a and deviation b */
        EST_ROW_TRUNCATED      /* the same within two deviations */
    } distribution;
    double   a, b;
    uint64_t seed; /* with the key it determines the numbers */
} est_row_draw;

/* The name of a shard: the name of the whole variable and the index of the shard. */
#define EST_SHARD_NAME "%s/part_%d"

/* The name of a copy: the name of the variable and the number of the copy, from 1 up. As TensorFlow has it. */
#define EST_COPY_NAME "%s/replica_%d"

struct est_var {
    const char       *name;
    est_view          value;   /* memory that never moves, of its device */
    const est_device *device;  /* whose memory that is */
    est_mapping       mapping; /* of the file that the value lies in; zeros: it lies in memory of its own */
    bool              initialized;
    bool              blank; /* while it is not initialized: all zeros, as it was made */
    est_key_rows     *rows;  /* NULL: an ordinary variable; else one of a dynamic embedding */
    est_row_draw      draw;
    est_lazy_rows    *lazy;      /* rows that are not initialized yet; NULL: all are */
    est_cow_var      *cow;       /* snapshots that include it; NULL: none */
    bool              elsewhere; /* stored by another task: value has only dtype and shape */
    int               task;      /* index of that task in the session's remote; -1: partitioned over several */

    /* A variable that is partitioned over tasks has shards: remote variables whose tasks know them by EST_SHARD_NAME.
     * value.shape.dim[0] of each is its number of rows. */
    est_var **shards;    /* [n_shards], in order of rows; NULL: not partitioned */
    int       n_shards;  /* 0: not partitioned; else at least 2 */
    est_var  *whole;     /* of a shard: the whole variable; NULL: not a shard */
    int64_t   first_row; /* of a shard: its first row in the whole variable */

    /* A variable that is on several devices has copies on all but the first, which steps keep equal
     * (runtime/copies.c). What is written to the variable is written to them. */
    est_var **copies; /* [n_copies] */
    int       n_copies;
    bool      stale; /* its copies may differ from it: a step or a write has failed midway */
};

static inline est_var *est_call_variable(const est_call *c, int input)
{
    return (est_var *)c->in[input]->data;
}

#endif
