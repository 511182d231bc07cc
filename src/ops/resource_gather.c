/* SPDX-License-Identifier: Apache-2.0
 *
 * ResourceGather: out[i, ...] = variable[indices[i], ...], straight from the variable's memory.
 *
 * The gradient towards the variable is sparse: the rows of dy under the indices, duplicates left as they are. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/lazy_rows.h"
#include "kernels/parallel.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"

static est_status gather_infer(est_infer *c)
{
    const est_shape *var = &c->in[0], *indices = &c->in[1];
    est_shape       *out = &c->out[0];

    if (est_node_int(c->node, "batch_dims") != 0) {
        return est_fail(EST_UNIMPLEMENTED, "batch_dims is %lld; gathering from a variable takes 0 only",
                        (long long)est_node_int(c->node, "batch_dims"));
    }
    if (var->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "a scalar variable has no rows to gather");
    if (var->rank < 0 || indices->rank < 0) return EST_OK;
    if (indices->rank + var->rank - 1 > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the result would have rank %d, at most %d is possible",
                        indices->rank + var->rank - 1, EST_RANK_MAX);
    }
    *out = *indices;
    for (int i = 1; i < var->rank; i++) out->dim[out->rank++] = var->dim[i];
    return EST_OK;
}

static void gather_grad(est_grad *g)
{
    const est_shape *var     = est_node_shape(g->in[0]);
    est_node         indices = g->in[1], dy = g->dout[0];
    int64_t          rows[EST_RANK_MAX] = { -1 };

    if (est_node_shape(indices)->rank != 1) { /* -1 first, then a row as the variable has it */
        for (int i = 1; i < var->rank; i++) rows[i] = var->dim[i];
        dy      = est_reshape(dy, (est_i64s){ rows, var->rank });
        indices = est_reshape(indices, EST_I64S(-1));
    }
    g->din[0] = (est_gradient){ .values = dy, .indices = indices };
}

typedef struct gather {
    const char *table;
    const void *indices;
    bool        wide;
    char       *out;
    int64_t     row_bytes;
} gather;

static inline __attribute__((always_inline)) void gather_rows_of(const gather *g, int64_t begin, int64_t end,
                                                                 int64_t row_bytes)
{
    for (int64_t i = begin; i < end; i++) {
        if (i + EST_PREFETCH_AHEAD < end) {
            EST_PREFETCH_ROW(g->table, est_row_at(g->indices, g->wide, i + EST_PREFETCH_AHEAD), row_bytes, 0);
        }
        memcpy(g->out + i * row_bytes, g->table + est_row_at(g->indices, g->wide, i) * row_bytes, (size_t)row_bytes);
    }
}

/* Common widths as constants: a copy of known size is a few instructions, not a call. */
static void gather_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const gather *g = arg;

    (void)block;
    switch (g->row_bytes) {
    case 4: gather_rows_of(g, begin, end, 4); break;
    case 32: gather_rows_of(g, begin, end, 32); break;
    case 64: gather_rows_of(g, begin, end, 64); break;
    case 128: gather_rows_of(g, begin, end, 128); break;
    default: gather_rows_of(g, begin, end, g->row_bytes); break;
    }
}

static est_status gather_cpu(est_call *c)
{
    est_var *v = est_call_variable(c, 0);
    gather   g = { .table     = v->value.data,
                   .indices   = c->in[1]->data,
                   .wide      = c->in[1]->dtype == EST_I64,
                   .out       = c->out[0].data,
                   .row_bytes = est_row_size(&v->value) * (int64_t)est_dtype_size(v->value.dtype) };

    EST_TRY(est_variable_ready(c, 0, c->out[0].dtype));
    EST_TRY(est_variable_check_rows(v, c->in[1]));
    est_lazy_draw(v, c->pool, c->in[1]);
    est_parallel_for(c->pool, c->in[1]->count, 16, 15.0 + 0.1 * (double)g.row_bytes, gather_rows, &g);
    return EST_OK;
}

static bool gather_cuda_accepts(const est_call *c)
{
    return c->out[0].dtype != EST_STRING;
}

static est_status gather_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return est_variable_not_a_row(est_call_variable(c, 0), place, value[0]);
}

const est_op est_op_resource_gather = {
    .name      = "ResourceGather",
    .signature = "resource: resource, indices: Tindices -> output: dtype; batch_dims: int = 0; "
                 "validate_indices: bool = true; dtype: type; Tindices: {int32, int64}",
    .infer     = gather_infer,
    .grad      = gather_grad,
    .cpu       = EST_KERNELS({ .run = gather_cpu }),
    .cuda = EST_KERNELS({ .launch = EST_LAUNCH(resource_gather), .accepts = gather_cuda_accepts, .fail = gather_fail }),
    .stateful = true,
    .by_rows  = true,
};

est_node est_resource_gather(est_node variable, est_node indices)
{
    return est_build2(&est_op_resource_gather, variable, indices,
                      EST_ATTRS(est_attr_type("dtype", est_variable_dtype(variable))));
}
