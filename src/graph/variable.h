/* SPDX-License-Identifier: Apache-2.0
 *
 * A variable's storage as kernels see it: what a resource input's data points to. Who owns it is the runtime's
 * business (runtime/store.h). */
#ifndef EST_GRAPH_VARIABLE_H
#define EST_GRAPH_VARIABLE_H

#include "graph/op.h"

typedef struct est_key_rows  est_key_rows;  /* kernels/key_rows.h */
typedef struct est_lazy_rows est_lazy_rows; /* kernels/lazy_rows.h */
typedef struct est_cow_var   est_cow_var;   /* kernels/copy_on_write.h */

/* The first values of a row of a variable that has a row for each key. */
typedef struct est_row_draw {
    enum {
        EST_ROW_UNKNOWN  = -1, /* of a handle that only names a variable */
        EST_ROW_CONSTANT = 0,  /* a */
        EST_ROW_UNIFORM,       /* in [a, b) */
        EST_ROW_NORMAL,        /* of mean a and deviation b */
        EST_ROW_TRUNCATED      /* the same within two deviations */
    } distribution;
    double   a, b;
    uint64_t seed; /* together with the key it says which numbers */
} est_row_draw;

/* What a shard is called: the name of the whole, and which of its shards it is. */
#define EST_SHARD_NAME "%s/part_%d"

struct est_var {
    const char *name;
    est_view    value; /* memory that never moves */
    bool        initialized;
    bool        blank; /* while it is not initialized: all zeros, as it was made */
    est_key_rows
        *rows; /* NULL: a variable like most; else only its rows of keys that there are count, or it is a scalar */
    est_row_draw   draw;
    est_lazy_rows *lazy;      /* which rows have not been drawn yet; NULL: a variable whose rows never wait */
    est_cow_var   *cow;       /* snapshots that it is, or was, part of; NULL: none */
    bool           elsewhere; /* another task has its memory: value has only dtype and shape */
    int            task;      /* which, as the session's remote counts them; -1 when its rows are spread over several */

    /* A variable whose rows are spread over tasks has shards: variables of their own, elsewhere, known by their names
     * (EST_SHARD_NAME) to the tasks that have them. value.shape.dim[0] is the number of rows of each. */
    est_var **shards;    /* [n_shards], in order of rows; NULL: it is in one piece */
    int       n_shards;  /* 0: in one piece; else at least 2 */
    est_var  *whole;     /* of a shard: what it is a part of; NULL: it is none */
    int64_t   first_row; /* of a shard: which row of the whole its first is */
};

static inline est_var *est_call_variable(const est_call *c, int input)
{
    return c->in[input]->data;
}

#endif
