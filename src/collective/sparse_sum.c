/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse sums: every rank sums its own rows by index, gathers those of all, and sums again; so a row that a rank has
 * many times travels once. Rows are added in order of rank, on all ranks alike.
 *
 * A rank sends one block for all of its tables: the number of rows of each table, in 8 bytes; then for every table its
 * indices and its values, padded to a multiple of 8 bytes. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "collective/work.h"
#include "kernels/distinct.h"

void est_indexed_rows_clear(est_indexed_rows *rows)
{
    est_free(rows->indices);
    est_free_aligned(rows->values);
    *rows = (est_indexed_rows){ 0 };
}

struct est_sparse_sum_work {
    est_rank_group       *group;
    int                   n;
    est_sparse_sum_table *tables;    /* [n]: sizes and types, without the rows */
    uint8_t              *own;       /* this rank's block, until the gather has ended */
    size_t                own_bytes; /* that are used */
    est_gathered          all;       /* of all ranks */
    est_work             *work;
};

static size_t row_bytes(const est_sparse_sum_table *table)
{
    return table->row_count * est_dtype_size(table->dtype);
}

/* Bytes of this many rows in a block. */
static size_t values_bytes(const est_sparse_sum_table *table, int64_t rows)
{
    return ((size_t)rows * row_bytes(table) + 7) & ~(size_t)7;
}

/* --- sums by index ------------------------------------------------------------------------------------------------ */

/* The index of rows by their positions. */
typedef struct places {
    int32_t *place, *table;
} places;

static est_status places_reserve(places *p, int64_t rows)
{
    if (rows > EST_DISTINCT_MAX)
        return est_fail(EST_UNIMPLEMENTED, "a sparse gradient has %" PRId64 " rows; at most %d are supported", rows,
                        EST_DISTINCT_MAX);
    p->place = est_alloc((size_t)rows * sizeof *p->place + 1);
    p->table = est_alloc(est_distinct_table_bytes(rows) + 1);
    return p->place != NULL && p->table != NULL ? EST_OK : est_no_memory();
}

static void places_clear(places *p)
{
    est_free(p->place);
    est_free(p->table);
}

/* Adds rows to their positions; *seen counts those with a new index, whose positions ascend. */
static void add_rows(const int32_t *place, const uint8_t *values, int64_t n, const est_sparse_sum_table *table,
                     uint8_t *sums, int32_t *seen)
{
    size_t bytes = row_bytes(table);

    for (int64_t i = 0; i < n && bytes > 0; i++) {
        uint8_t       *to   = sums + (size_t)place[i] * bytes;
        const uint8_t *from = values + (size_t)i * bytes;

        if (place[i] == *seen) {
            memcpy(to, from, bytes);
            (*seen)++;
        } else {
            est_elements_add(to, from, bytes, table->dtype);
        }
    }
}

/* --- this rank's block -------------------------------------------------------------------------------------------- */

static size_t block_bytes_max(const est_sparse_sum_work *w)
{
    size_t bytes = (size_t)w->n * sizeof(int64_t);

    for (int t = 0; t < w->n; t++) {
        bytes += (size_t)w->tables[t].rows.n * sizeof(int64_t) + values_bytes(&w->tables[t], w->tables[t].rows.n);
    }
    return bytes;
}

/* Writes the sums of a table into the block, and returns their number. */
static int64_t put_table(const est_sparse_sum_table *table, const places *p, uint8_t *to)
{
    const est_indexed_rows *rows = &table->rows;
    int64_t                 n    = rows->n;
    int32_t                 seen = 0;
    uint8_t                *values;

    if (n == 0) return 0;
    if (table->distinct) {
        memcpy(to, rows->indices, (size_t)n * sizeof(int64_t));
    } else {
        n = est_distinct(rows->indices, true, n, to, p->place, p->table);
    }
    values = to + (size_t)n * sizeof(int64_t);
    if (!table->distinct) add_rows(p->place, rows->values, rows->n, table, values, &seen);
    est_elements_scale(values, table->distinct ? rows->values : values, (size_t)n * row_bytes(table), table->dtype,
                       table->factor);
    memset(values + (size_t)n * row_bytes(table), 0, values_bytes(table, n) - (size_t)n * row_bytes(table));
    return n;
}

static est_status make_block(est_sparse_sum_work *w)
{
    places     p    = { 0 };
    int64_t    most = 0, *counts;
    est_status status;

    for (int t = 0; t < w->n; t++) {
        if (!w->tables[t].distinct && w->tables[t].rows.n > most) most = w->tables[t].rows.n;
    }
    status = places_reserve(&p, most);
    if (status == EST_OK) {
        w->own = est_alloc_aligned(block_bytes_max(w) + 1);
        status = w->own != NULL ? EST_OK : est_no_memory();
    }
    if (status == EST_OK) {
        counts       = (int64_t *)(void *)w->own;
        w->own_bytes = (size_t)w->n * sizeof *counts;
        for (int t = 0; t < w->n; t++) {
            counts[t] = put_table(&w->tables[t], &p, w->own + w->own_bytes);
            w->own_bytes += (size_t)counts[t] * sizeof *counts + values_bytes(&w->tables[t], counts[t]);
        }
    }
    places_clear(&p);
    return status;
}

static void free_work(est_sparse_sum_work *w)
{
    est_free_aligned(w->own);
    est_gathered_clear(&w->all);
    est_free(w);
}

static est_status check_types(const est_sparse_sum_table *tables, int n)
{
    for (int t = 0; t < n; t++) {
        est_dtype dtype = tables[t].dtype;

        if (dtype == EST_F32 || dtype == EST_F64 || dtype == EST_I64) continue;
        return est_fail(EST_INVALID_ARGUMENT, "rows of type %s cannot be summed; expected float32, float64 or int64",
                        est_dtype_name(dtype));
    }
    return EST_OK;
}

est_status est_sparse_sum_begin(est_rank_group *group, const est_sparse_sum_table *tables, int n,
                                const est_collective_options *options, est_sparse_sum_work **out)
{
    est_sparse_sum_work *w;
    est_status           status;

    EST_TRY(check_types(tables, n));
    w = est_zalloc(sizeof *w + (size_t)n * sizeof *tables);
    if (w == NULL) return est_group_give_up(group, est_no_memory());
    w->group  = group;
    w->n      = n;
    w->tables = (est_sparse_sum_table *)(w + 1);
    memcpy(w->tables, tables, (size_t)n * sizeof *tables);
    status = make_block(w);
    if (status != EST_OK) {
        status = est_group_give_up(group, status);
    } else {
        status = est_all_gather_uneven(group, w->own, w->own_bytes, &w->all, options, &w->work);
    }
    if (status != EST_OK) {
        free_work(w);
        return status;
    }
    *out = w;
    return EST_OK;
}

/* --- the blocks of all ranks -------------------------------------------------------------------------------------- */

static const int64_t *counts_of(const est_sparse_sum_work *w, int rank)
{
    return (const int64_t *)(void *)((uint8_t *)w->all.data + w->all.begins[rank]);
}

static bool is_block(const est_sparse_sum_work *w, int rank)
{
    size_t         left = w->all.begins[rank + 1] - w->all.begins[rank], head = (size_t)w->n * sizeof(int64_t);
    const int64_t *counts = counts_of(w, rank);

    if (left < head || left % sizeof(int64_t) != 0) return false;
    left -= head;
    for (int t = 0; t < w->n; t++) {
        size_t bytes;

        if (counts[t] < 0 || (uint64_t)counts[t] > left / (sizeof(int64_t) + row_bytes(&w->tables[t]))) return false;
        left -= (size_t)counts[t] * sizeof(int64_t);
        bytes = values_bytes(&w->tables[t], counts[t]);
        if (bytes > left) return false;
        left -= bytes;
    }
    return left == 0;
}

/* Every rank must have the same tables. */
static est_status check_blocks(const est_sparse_sum_work *w)
{
    for (int rank = 0; rank < w->group->n; rank++) {
        if (!is_block(w, rank))
            return est_fail(EST_FAILED_PRECONDITION, "rank %d has rows of another size than rank %d", rank,
                            w->group->rank);
    }
    return EST_OK;
}

static int64_t count_rows(const est_sparse_sum_work *w, int t)
{
    int64_t n = 0;

    for (int rank = 0; rank < w->group->n; rank++) n += counts_of(w, rank)[t];
    return n;
}

/* The indices of a table, rank by rank. */
static void list_indices(const est_sparse_sum_work *w, int t, uint8_t *const *at, int64_t *out)
{
    for (int rank = 0; rank < w->group->n; rank++) {
        int64_t n = counts_of(w, rank)[t];

        memcpy(out, at[rank], (size_t)n * sizeof *out);
        out += n;
    }
}

/* Sums the rows of a table over all ranks; at[rank]: their offset in its block. */
static est_status sum_table(const est_sparse_sum_work *w, int t, uint8_t *const *at, const places *p,
                            est_indexed_rows *out)
{
    const est_sparse_sum_table *table = &w->tables[t];
    int64_t                     n = count_rows(w, t), first = 0;
    int64_t                    *listed = est_alloc((size_t)n * sizeof *listed + 1);
    int32_t                     seen   = 0;

    *out = (est_indexed_rows){ .indices = est_alloc((size_t)n * sizeof *out->indices + 1) };
    if (out->indices != NULL && listed != NULL) {
        list_indices(w, t, at, listed);
        out->n      = n > 0 ? est_distinct(listed, true, n, out->indices, p->place, p->table) : 0;
        out->values = est_alloc_aligned((size_t)out->n * row_bytes(table) + 1);
    }
    est_free(listed);
    if (out->values == NULL) {
        est_indexed_rows_clear(out);
        return est_no_memory();
    }
    for (int rank = 0; rank < w->group->n; rank++) {
        int64_t rows = counts_of(w, rank)[t];

        add_rows(p->place + first, at[rank] + (size_t)rows * sizeof(int64_t), rows, table, out->values, &seen);
        first += rows;
    }
    return EST_OK;
}

static est_status sum_tables(const est_sparse_sum_work *w, est_indexed_rows *out)
{
    places     p    = { 0 };
    uint8_t  **at   = est_alloc((size_t)w->group->n * sizeof *at);
    int64_t    most = 0;
    int        done = 0;
    est_status status;

    for (int t = 0; t < w->n; t++) most = count_rows(w, t) > most ? count_rows(w, t) : most;
    status = at != NULL ? places_reserve(&p, most) : est_no_memory();
    for (int rank = 0; rank < w->group->n && status == EST_OK; rank++) {
        at[rank] = (uint8_t *)w->all.data + w->all.begins[rank] + (size_t)w->n * sizeof(int64_t);
    }
    while (status == EST_OK && done < w->n) {
        status = sum_table(w, done, at, &p, &out[done]);
        for (int rank = 0; rank < w->group->n; rank++) {
            int64_t rows = counts_of(w, rank)[done];

            at[rank] += (size_t)rows * sizeof(int64_t) + values_bytes(&w->tables[done], rows);
        }
        done += status == EST_OK;
    }
    places_clear(&p);
    est_free(at);
    if (status == EST_OK) return EST_OK;
    while (done > 0) est_indexed_rows_clear(&out[--done]);
    return status;
}

est_status est_sparse_sum_end(est_sparse_sum_work *w, est_reduce_op reduction, est_indexed_rows *out)
{
    est_status status = est_work_wait(w->work);

    if (status == EST_OK) status = check_blocks(w);
    if (status == EST_OK) status = sum_tables(w, out);
    for (int t = 0; t < w->n && status == EST_OK && reduction == EST_REDUCE_OP_MEAN; t++) {
        if (out[t].n > 0)
            est_elements_divide(out[t].values, (size_t)out[t].n * row_bytes(&w->tables[t]), w->tables[t].dtype,
                                w->group->n);
    }
    free_work(w);
    return status;
}

est_status est_all_reduce_rows(est_rank_group *group, const est_indexed_rows *rows, size_t row_count, est_dtype dtype,
                               est_reduce_op reduction, const est_collective_options *options, est_indexed_rows *out)
{
    est_sparse_sum_table table = { .rows = *rows, .row_count = row_count, .dtype = dtype, .factor = 1 };
    est_sparse_sum_work *work  = NULL;

    EST_TRY(est_sparse_sum_begin(group, &table, 1, options, &work));
    return est_sparse_sum_end(work, reduction, out);
}
