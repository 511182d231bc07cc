/* SPDX-License-Identifier: Apache-2.0
 *
 * What a variable whose rows are spread over tasks makes necessary (runtime/shard_variables.c). Shards have consecutive
 * rows, the first rows % N of them one more than the rest (kernels/variable_access.h).
 *
 * EstSplitIds: for each shard the ids that are its rows, counted from its first (parts), and where they were among all
 * (positions), both in the order of the ids; and for each id where it is in the concatenation of the parts (place).
 * EstSplitRows: the rows of a tensor as the shards have them. */
#include <inttypes.h>

#include "kernels/strided.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"
#include "tensor/shape.h"

/* --- EstSplitIds -------------------------------------------------------------------------------------------------- */

static int64_t shards_of(const est_infer *c)
{
    return est_node_int(c->node, "N");
}

static est_status check_shards(const est_infer *c)
{
    int64_t n = shards_of(c), rows = est_node_int(c->node, "rows");

    if (n >= 1 && n <= rows) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " rows cannot be in %" PRId64 " shards", rows, n);
}

static est_status ids_infer(est_infer *c)
{
    int64_t n = est_infer_dim(&c->in[0], 0);

    EST_TRY(check_shards(c));
    EST_TRY(est_infer_rank(c, 0, 1));
    for (int i = 0; i + 1 < c->n_out; i++) c->out[i] = EST_SHAPE(n < 0 ? -1 : est_infer_at_most(c, n));
    c->out[c->n_out - 1] = EST_SHAPE(n);
    return EST_OK;
}

static est_status ids_prepare(est_call *c)
{
    c->param[0].i = est_node_int(c->node, "N");
    c->param[1].i = est_node_int(c->node, "rows");
    return EST_OK;
}

/* Of every shard: how many ids it has, then where its part begins in the concatenation of all. */
static size_t ids_scratch(const est_call *c)
{
    return 2 * sizeof(int64_t) * (size_t)c->n_out;
}

static est_status check_id(const est_call *c, int64_t i, int64_t id, int64_t rows)
{
    if (id >= 0 && id < rows) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "indices[%" PRId64 "] = %" PRId64 " is not a row of variable '%s': rows are 0 to %" PRId64, i, id,
                    est_node_string(c->node, "variable"), rows - 1);
}

static void put(const est_view *to, int64_t i, int64_t value)
{
    if (to->dtype == EST_I64) {
        ((int64_t *)to->data)[i] = value;
    } else {
        ((int32_t *)to->data)[i] = (int32_t)value;
    }
}

static est_status ids_cpu(est_call *c)
{
    const est_view *ids  = c->in[0];
    bool            wide = ids->dtype == EST_I64;
    int             n    = (int)c->param[0].i;
    int64_t         rows = c->param[1].i, *count = c->scratch, *begin = count + n;

    for (int p = 0; p < n; p++) count[p] = 0;
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id = est_row_at(ids->data, wide, i);

        EST_TRY(check_id(c, i, id, rows));
        count[est_shard_of(rows, n, id)]++;
    }
    for (int p = 0; p < n; p++) {
        begin[p]        = p == 0 ? 0 : begin[p - 1] + count[p - 1];
        c->out[p].count = c->out[p].shape.dim[0] = count[p];
        c->out[n + p].count = c->out[n + p].shape.dim[0] = count[p];
    }
    for (int p = 0; p < n; p++) count[p] = 0;
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id = est_row_at(ids->data, wide, i);
        int     p  = est_shard_of(rows, n, id);

        put(&c->out[p], count[p], id - est_shard_first(rows, n, p));
        put(&c->out[n + p], count[p], i);
        put(&c->out[2 * n], i, begin[p] + count[p]);
        count[p]++;
    }
    return EST_OK;
}

const est_op est_op_split_ids = {
    .name      = "EstSplitIds",
    .signature = "ids: T -> parts: N*T, positions: N*T, place: T; N: int; rows: int; variable: string = \"\"; "
                 "T: {int32, int64}",
    .infer     = ids_infer,
    .cpu       = EST_KERNELS({ .run = ids_cpu, .prepare = ids_prepare, .scratch = ids_scratch }),
    .planned   = true,
    .shrinks   = true,
};

/* --- EstSplitRows ------------------------------------------------------------------------------------------------- */

static est_status rows_infer(est_infer *c)
{
    int     n    = (int)shards_of(c);
    int64_t rows = est_node_int(c->node, "rows");
    char    text[EST_SHAPE_TEXT_MAX];

    EST_TRY(check_shards(c));
    if (c->in[0].rank < 0) return EST_OK;
    if (c->in[0].rank == 0 || (c->in[0].dim[0] >= 0 && c->in[0].dim[0] != rows)) {
        return est_fail(EST_INVALID_ARGUMENT, "the value is %s, the variable '%s' has %" PRId64 " rows",
                        est_shape_text(&c->in[0], text), est_node_string(c->node, "variable"), rows);
    }
    for (int p = 0; p < n; p++) {
        c->out[p]        = c->in[0];
        c->out[p].dim[0] = est_shard_first(rows, n, p + 1) - est_shard_first(rows, n, p);
    }
    return EST_OK;
}

static est_status rows_cpu(est_call *c)
{
    const est_view *x      = c->in[0];
    est_strips      strips = {
             .element = est_dtype_size(x->dtype), .outer = 1, .n = c->n_out, .whole = x->data, .out = c->out
    };

    if (x->count > 0) est_strips_copy(c->pool, &strips);
    return EST_OK;
}

const est_op est_op_split_rows = {
    .name      = "EstSplitRows",
    .signature = "value: T -> parts: N*T; N: int; rows: int; variable: string = \"\"; T: type",
    .infer     = rows_infer,
    .cpu       = EST_KERNELS({ .run = rows_cpu }),
    .planned   = true,
};
