/* SPDX-License-Identifier: Apache-2.0
 *
 * EstGatherSum: row i is the sum of the rows indices[i] of variables and of rows i of other parts, as the linear part
 * of a model over many features has it. No row is stored apart. For devices that run by themselves; made only by
 * runtime/fuse_joins.c, in private copies of a graph. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/lazy_rows.h"
#include "kernels/variable_access.h"
#include "ops/gather_concat.h"
#include "ops/ops.h"

/* All have the same rows and columns. */
static est_status sum_infer(est_infer *c)
{
    int       n     = est_node_ints(c->node, "Tlookups").n / 2;
    est_shape whole = EST_SHAPE(-1, -1);
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < c->n_in; i += i < 2 * n ? 2 : 1) {
        est_shape term;

        if (i < 2 * n) EST_TRY(est_infer_rank(c, i + 1, 1));
        EST_TRY(est_infer_rank(c, i, 2));
        term = EST_SHAPE(est_infer_dim(&c->in[i < 2 * n ? i + 1 : i], 0), est_infer_dim(&c->in[i], 1));
        if (est_infer_merge(&term, &whole, &whole) != EST_OK) {
            return est_fail(EST_INVALID_ARGUMENT, "input %d makes rows %s, those before it %s", i,
                            est_shape_text(&term, a), est_shape_text(&whole, b));
        }
    }
    c->out[0] = whole;
    return EST_OK;
}

static est_status sum_prepare(est_call *c)
{
    c->param[EST_JOIN_LOOKUPS].i = est_node_ints(c->node, "Tlookups").n / 2;
    return EST_OK;
}

/* Adds rows of `from`; indices NULL: all in order. */
#define ADD_PART(T)                                                                                                    \
    static void add_part_##T(const est_call *c, const est_view *from, const est_view *indices)                         \
    {                                                                                                                  \
        int64_t  cols = c->out[0].shape.dim[1];                                                                        \
        const T *rows = from->data;                                                                                    \
        T       *to   = c->out[0].data;                                                                                \
                                                                                                                       \
        for (int64_t i = 0; i < c->out[0].shape.dim[0]; i++, to += cols) {                                             \
            int64_t row = indices != NULL ? est_row_at(indices->data, indices->dtype == EST_I64, i) : i;               \
                                                                                                                       \
            for (int64_t j = 0; j < cols; j++) to[j] += rows[row * cols + j];                                          \
        }                                                                                                              \
    }
ADD_PART(float)
ADD_PART(double)

static est_status sum_cpu(est_call *c)
{
    int    n                                                               = (int)c->param[EST_JOIN_LOOKUPS].i;
    size_t size                                                            = est_dtype_size(c->out[0].dtype);
    void (*add_part)(const est_call *, const est_view *, const est_view *) = size == 4 ? add_part_float
                                                                                       : add_part_double;

    if (c->out[0].count > 0) memset(c->out[0].data, 0, (size_t)c->out[0].count * size);
    for (int k = 0; k < n; k++) {
        est_var *var = est_call_variable(c, 2 * k);

        EST_TRY(est_variable_ready(c, 2 * k, c->out[0].dtype));
        EST_TRY(est_variable_check_rows(var, c->in[2 * k + 1]));
        est_lazy_draw(var, c->pool, c->in[2 * k + 1]);
        add_part(c, &var->value, c->in[2 * k + 1]);
    }
    for (int i = 2 * n; i < c->n_in; i++) add_part(c, c->in[i], NULL);
    return EST_OK;
}

static bool sum_accepts(const est_call *c)
{
    return c->n_in - est_node_ints(c->node, "Tlookups").n / 2 <= EST_GATHER_SUM_MAX;
}

const est_op est_op_gather_sum = {
    .name      = "EstGatherSum",
    .signature = "lookups: Tlookups, parts: N*T -> output: T; Tlookups: types; N: int; T: {float32, float64}",
    .infer     = sum_infer,
    .cpu       = EST_KERNELS({ .run = sum_cpu, .prepare = sum_prepare }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(gather_sum), .accepts = sum_accepts, .prepare = sum_prepare, .fail = est_join_fail }),
    .planned  = true,
    .stateful = true,
    .by_rows  = true,
};
