/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups whose rows are columns of one matrix, for devices that run by themselves: each row is copied once, and never
 * apart. Made only by runtime/fuse.c, in private copies of a graph.
 *
 *   EstGatherConcat  row i: the rows indices[i] of variables, and rows i of other parts, each at its column; zeros from
 *                    the end of the last to `width`
 *   EstDedupSlice    EstDedup of columns of a matrix
 *   EstPadRows       a matrix with rows of zeros at its end
 *   EstFirstRows     a matrix without its last rows, in its own memory
 */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/distinct.h"
#include "kernels/lazy_rows.h"
#include "kernels/variable_access.h"
#include "ops/gather_concat.h"
#include "ops/ops.h"

/* --- EstGatherConcat ---------------------------------------------------------------------------------------------- */

/* A lookup has as many rows as indices, a part its own. */
static est_status join_infer(est_infer *c)
{
    int       n     = est_node_ints(c->node, "Tlookups").n / 2;
    est_shape whole = EST_SHAPE(-1);
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    for (int i = 1; i < c->n_in; i += i < 2 * n - 1 ? 2 : 1) {
        est_shape rows;

        EST_TRY(est_infer_rank(c, i, i < 2 * n ? 1 : 2));
        rows = EST_SHAPE(est_infer_dim(&c->in[i], 0));
        if (est_infer_merge(&rows, &whole, &whole) != EST_OK) {
            return est_fail(EST_INVALID_ARGUMENT, "input %d has rows %s, those before it %s", i,
                            est_shape_text(&rows, a), est_shape_text(&whole, b));
        }
    }
    c->out[0] = EST_SHAPE(whole.dim[0], est_node_int(c->node, "width"));
    return EST_OK;
}

static est_status join_prepare(est_call *c)
{
    c->param[EST_JOIN_LOOKUPS].i = est_node_ints(c->node, "Tlookups").n / 2;
    c->param[EST_JOIN_COLUMNS].i = (int64_t)(intptr_t)est_node_ints(c->node, "columns").data;
    return EST_OK;
}

/* Rows of `from` to a column of the result; indices NULL: all in order. */
static void copy_part(const est_call *c, const est_view *from, const est_view *indices, int64_t column)
{
    size_t      size = est_dtype_size(c->out[0].dtype), width = (size_t)c->out[0].shape.dim[1] * size;
    size_t      bytes = (size_t)est_row_size(from) * size;
    char       *to    = (char *)c->out[0].data + (size_t)column * size;
    const char *rows  = from->data;

    for (int64_t i = 0; i < c->out[0].shape.dim[0]; i++, to += width) {
        int64_t row = indices != NULL ? est_row_at(indices->data, indices->dtype == EST_I64, i) : i;

        memcpy(to, rows + (size_t)row * bytes, bytes);
    }
}

static est_status join_cpu(est_call *c)
{
    int            n       = (int)c->param[EST_JOIN_LOOKUPS].i;
    const int64_t *columns = (const int64_t *)(intptr_t)c->param[EST_JOIN_COLUMNS].i;

    if (c->out[0].count > 0) memset(c->out[0].data, 0, (size_t)c->out[0].count * est_dtype_size(c->out[0].dtype));
    for (int k = 0; k < n; k++) {
        est_var *var = est_call_variable(c, 2 * k);

        EST_TRY(est_variable_ready(c, 2 * k, c->out[0].dtype));
        EST_TRY(est_variable_check_rows(var, c->in[2 * k + 1]));
        est_lazy_draw(var, c->pool, c->in[2 * k + 1]);
        copy_part(c, &var->value, c->in[2 * k + 1], columns[k]);
    }
    for (int i = 2 * n; i < c->n_in; i++) copy_part(c, c->in[i], NULL, columns[i - n]);
    return EST_OK;
}

est_status est_join_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return est_variable_not_a_row(est_call_variable(c, 2 * (int)(place >> EST_JOIN_PLACE_BITS)),
                                  place & (((int64_t)1 << EST_JOIN_PLACE_BITS) - 1), value[0]);
}

const est_op est_op_gather_concat = {
    .name      = "EstGatherConcat",
    .signature = "lookups: Tlookups, parts: N*T -> output: T; Tlookups: types; N: int; T: {float32, float64}; "
                 "columns: ints; width: int",
    .infer     = join_infer,
    .cpu       = EST_KERNELS({ .run = join_cpu, .prepare = join_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(gather_concat), .prepare = join_prepare, .fail = est_join_fail }),
    .planned   = true,
    .stateful  = true,
    .by_rows   = true,
};

/* --- EstDedupSlice ------------------------------------------------------------------------------------------------ */

static est_status slice_infer(est_infer *c)
{
    int64_t n = est_infer_dim(&c->in[1], 0), rows = est_infer_dim(&c->in[0], 0), width = est_infer_dim(&c->in[0], 1);
    int64_t column = est_node_int(c->node, "column"), columns = est_node_int(c->node, "columns");

    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 1));
    if (n >= 0 && rows >= 0 && n != rows) {
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " rows of values for %" PRId64 " indices", rows, n);
    }
    if (width >= 0 && column + columns > width) {
        return est_fail(EST_INVALID_ARGUMENT, "columns %" PRId64 " to %" PRId64 " of a matrix that has %" PRId64,
                        column, column + columns - 1, width);
    }
    if (n < 0) n = rows;
    c->out[0] = EST_SHAPE(est_infer_at_most(c, n), columns);
    c->out[1] = EST_SHAPE(est_infer_at_most(c, n));
    return EST_OK;
}

static est_status slice_prepare(est_call *c)
{
    c->param[EST_SLICE_COLUMN].i = est_node_int(c->node, "column");
    return EST_OK;
}

/* The place of every row, then the table. */
static size_t slice_scratch(const est_call *c)
{
    int64_t n = c->in[1]->count;

    return (size_t)n * sizeof(int32_t) + est_distinct_table_bytes(n);
}

static size_t slice_cuda_scratch(const est_call *c)
{
    return (size_t)c->in[1]->count * EST_RUNS_BYTES;
}

static est_status slice_cpu(est_call *c)
{
    const est_view *indices = c->in[1];
    int64_t         n = indices->count, step = c->in[0]->shape.dim[1], columns = c->out[0].shape.dim[1];
    int32_t        *place = c->scratch, *table = place + n, next = 0;
    const float    *row = (const float *)c->in[0]->data + c->param[EST_SLICE_COLUMN].i;
    int32_t         n_unique;

    if (n > EST_DISTINCT_MAX) return est_fail(EST_UNIMPLEMENTED, "too many rows to sum: %lld", (long long)n);
    n_unique = est_distinct(indices->data, indices->dtype == EST_I64, n, c->out[1].data, place, table);
    for (int64_t i = 0; i < n; i++, row += step) {
        float *sum   = (float *)c->out[0].data + place[i] * columns;
        bool   first = place[i] == next; /* places are given in the order of first sight */

        next += first;
        for (int64_t j = 0; j < columns; j++) sum[j] = first ? row[j] : sum[j] + row[j];
    }
    c->out[0].shape = EST_SHAPE(n_unique, columns);
    c->out[0].count = n_unique * columns;
    c->out[1].shape = EST_SHAPE(n_unique);
    c->out[1].count = n_unique;
    return EST_OK;
}

static bool slice_cuda_accepts(const est_call *c)
{
    return c->in[1]->count <= EST_DISTINCT_MAX;
}

const est_op est_op_dedup_slice = {
    .name      = "EstDedupSlice",
    .signature = "values: T, indices: Tindices -> unique_values: T, unique_indices: Tindices; column: int; "
                 "columns: int; T: {float32}; Tindices: {int32, int64}",
    .infer     = slice_infer,
    .cpu       = EST_KERNELS({ .run = slice_cpu, .prepare = slice_prepare, .scratch = slice_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(dedup_slice),
                               .accepts = slice_cuda_accepts,
                               .prepare = slice_prepare,
                               .scratch = slice_cuda_scratch }),
    .planned   = true,
    .shrinks   = true,
    .distinct  = 1u << 1,
};

/* --- rows at the end ---------------------------------------------------------------------------------------------- */

static est_status rows_infer(est_infer *c)
{
    c->out[0] = EST_SHAPE(est_node_int(c->node, "rows"), est_infer_dim(&c->in[0], 1));
    return EST_OK;
}

static est_status pad_rows_cpu(est_call *c)
{
    size_t have = (size_t)c->in[0]->count * sizeof(float), want = (size_t)c->out[0].count * sizeof(float);

    if (have > 0) memcpy(c->out[0].data, c->in[0]->data, have);
    if (want > have) memset((char *)c->out[0].data + have, 0, want - have);
    return EST_OK;
}

const est_op est_op_pad_rows = {
    .name      = "EstPadRows",
    .signature = "x: T -> y: T; rows: int; T: {float32}",
    .infer     = rows_infer,
    .cpu       = EST_KERNELS({ .run = pad_rows_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(pad_rows) }),
    .planned   = true,
};

const est_op est_op_first_rows = {
    .name      = "EstFirstRows",
    .signature = "x: T -> y: T; rows: int; T: {float32}",
    .infer     = rows_infer,
    .alias     = true,
    .planned   = true,
};
