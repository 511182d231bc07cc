/* SPDX-License-Identifier: Apache-2.0
 *
 * A variable's storage as kernels see it: what a resource input's data points to. Who owns it is the runtime's
 * business (runtime/store.h). */
#ifndef EST_GRAPH_VARIABLE_H
#define EST_GRAPH_VARIABLE_H

#include "graph/op.h"

struct est_var {
    const char *name;
    est_view    value; /* memory that never moves */
    bool        initialized;
};

static inline est_var *est_call_variable(const est_call *c, int input)
{
    return c->in[input]->data;
}

#endif
