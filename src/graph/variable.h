/* SPDX-License-Identifier: Apache-2.0
 *
 * A variable's storage as kernels see it: what a resource input's data points to. Who owns it is the runtime's
 * business (runtime/store.h). */
#ifndef EST_GRAPH_VARIABLE_H
#define EST_GRAPH_VARIABLE_H

#include "graph/op.h"

typedef struct est_key_rows est_key_rows; /* kernels/key_rows.h */

/* The first values of a row of a variable that has a row for each key. */
typedef struct est_row_draw {
    enum {
        EST_ROW_CONSTANT = 0, /* a */
        EST_ROW_UNIFORM,      /* in [a, b) */
        EST_ROW_NORMAL,       /* of mean a and deviation b */
        EST_ROW_TRUNCATED     /* the same within two deviations */
    } distribution;
    double   a, b;
    uint64_t seed; /* together with the key it says which numbers */
} est_row_draw;

struct est_var {
    const char *name;
    est_view    value; /* memory that never moves */
    bool        initialized;
    bool        blank; /* while it is not initialized: all zeros, as it was made */
    est_key_rows
        *rows; /* NULL: a variable like most; else only its rows of keys that there are count, or it is a scalar */
    est_row_draw draw;
    bool         elsewhere; /* another task has its memory: value has only dtype and shape */
    int          task;      /* which, as the session's remote counts them */
};

static inline est_var *est_call_variable(const est_call *c, int input)
{
    return c->in[input]->data;
}

#endif
