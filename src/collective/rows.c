/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse sums: every rank sums its own rows by index, gathers those of all, and sums again; so a row that a rank has many times
 * travels once. Rows are added in order of rank, on all ranks alike. */
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

/* Rows with the same index become one. */
static est_status sum_rows(const int64_t *indices, const uint8_t *values, int64_t n, size_t row_bytes, est_dtype dtype,
                           est_indexed_rows *out)
{
    int32_t *place = NULL, *table = NULL;
    uint8_t *sums;
    int32_t  seen = 0;

    if (n > EST_DISTINCT_MAX) return est_fail(EST_UNIMPLEMENTED, "more than %d rows", EST_DISTINCT_MAX);
    *out = (est_indexed_rows){ 0 };
    if (n == 0) return EST_OK;
    place        = est_alloc((size_t)n * sizeof *place);
    table        = est_alloc(est_distinct_table_bytes(n));
    out->indices = est_alloc((size_t)n * sizeof *out->indices);
    if (place != NULL && table != NULL && out->indices != NULL) {
        out->n      = est_distinct(indices, true, n, out->indices, place, table);
        out->values = est_alloc_aligned((size_t)out->n * row_bytes + 1);
    }
    est_free(table);
    if (out->values == NULL) {
        est_free(place);
        est_indexed_rows_clear(out);
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the sum of %lld rows", (long long)n);
    }
    sums = out->values;
    for (int64_t i = 0; i < n && row_bytes > 0; i++) {
        uint8_t       *to   = sums + (size_t)place[i] * row_bytes;
        const uint8_t *from = values + (size_t)i * row_bytes;

        if (place[i] == seen) { /* the first with this index: they come in order */
            memcpy(to, from, row_bytes);
            seen++;
        } else {
            est_elements_add(to, from, row_bytes, dtype);
        }
    }
    est_free(place);
    return EST_OK;
}

struct est_rows_work {
    est_rank_group  *group;
    size_t           row_bytes;
    est_dtype        dtype;
    est_indexed_rows own;             /* what is gathered, until both works have ended */
    est_gathered     indices, values; /* of all ranks */
    est_work        *works[2];        /* one for each */
};

static void free_rows(est_rows_work *w)
{
    est_indexed_rows_clear(&w->own);
    est_gathered_clear(&w->indices);
    est_gathered_clear(&w->values);
    est_free(w);
}

/* Both lists are under way at the same time. */
static est_status begin_gather(est_rows_work *w, const est_collective_options *options)
{
    const est_indexed_rows *own = &w->own;
    est_status              status;
    est_error               error;

    EST_TRY(est_all_gather_uneven(w->group, own->indices, (size_t)own->n * sizeof *own->indices, &w->indices, options,
                                  &w->works[0]));
    status = est_all_gather_uneven(w->group, own->values, (size_t)own->n * w->row_bytes, &w->values, options,
                                   &w->works[1]);
    if (status == EST_OK) return EST_OK;
    est_error_take(status, &error); /* and with it the group has failed, so that the first ends, too */
    status = est_work_wait(w->works[0]);
    return est_error_raise(&error);
}

est_status est_rows_begin(est_rank_group *group, const est_indexed_rows *rows, size_t row_count, est_dtype dtype,
                          const est_collective_options *options, est_rows_work **out)
{
    est_rows_work *w;
    est_status     status;

    if (dtype != EST_F32 && dtype != EST_F64 && dtype != EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT, "rows of type %s cannot be summed; expected float32, float64 or int64",
                        est_dtype_name(dtype));
    }
    w = est_zalloc(sizeof *w);
    if (w == NULL) return est_group_give_up(group, est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a sum of rows"));
    w->group     = group;
    w->row_bytes = row_count * est_dtype_size(dtype);
    w->dtype     = dtype;
    status       = sum_rows(rows->indices, rows->values, rows->n, w->row_bytes, dtype, &w->own);
    if (status != EST_OK) {
        status = est_group_give_up(group, status);
    } else {
        status = begin_gather(w, options);
    }
    if (status != EST_OK) {
        free_rows(w);
        return status;
    }
    *out = w;
    return EST_OK;
}

/* Every rank's two lists must be of as many rows. */
static est_status check_lengths(const est_rank_group *group, const est_gathered *indices, const est_gathered *values,
                                size_t row_bytes)
{
    for (int i = 0; i < group->n; i++) {
        size_t n = (indices->begins[i + 1] - indices->begins[i]) / sizeof(int64_t);

        if (values->begins[i + 1] - values->begins[i] != n * row_bytes)
            return est_fail(EST_FAILED_PRECONDITION, "rank %d has rows of another size than rank %d", i, group->rank);
    }
    return EST_OK;
}

/* Waits for both works, whatever comes of the first. */
static est_status end_gather(est_rows_work *w)
{
    est_error  error;
    est_status status = est_work_wait(w->works[0]);

    est_error_take(status, &error);
    status = est_work_wait(w->works[1]);
    if (error.status == EST_OK) return status;
    return est_error_raise(&error);
}

est_status est_rows_end(est_rows_work *w, est_reduce_op reduction, est_indexed_rows *out)
{
    int              n      = w->group->n;
    est_indexed_rows sum    = { 0 };
    est_status       status = end_gather(w);

    if (status == EST_OK) status = check_lengths(w->group, &w->indices, &w->values, w->row_bytes);
    if (status == EST_OK) {
        status = sum_rows(w->indices.data, w->values.data, (int64_t)(w->indices.begins[n] / sizeof(int64_t)),
                          w->row_bytes, w->dtype, &sum);
    }
    if (status == EST_OK) {
        if (reduction == EST_REDUCE_OP_MEAN && sum.n > 0)
            est_elements_divide(sum.values, (size_t)sum.n * w->row_bytes, w->dtype, n);
        *out = sum;
    }
    free_rows(w);
    return status;
}

est_status est_all_reduce_rows(est_rank_group *group, const est_indexed_rows *rows, size_t row_count, est_dtype dtype,
                               est_reduce_op reduction, const est_collective_options *options, est_indexed_rows *out)
{
    est_rows_work *work = NULL;

    EST_TRY(est_rows_begin(group, rows, row_count, dtype, options, &work));
    return est_rows_end(work, reduction, out);
}
