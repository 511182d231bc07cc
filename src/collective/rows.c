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

/* Both lists of all ranks, under way at the same time. */
static est_status gather(est_rank_group *group, const est_indexed_rows *own, size_t row_bytes,
                         const est_collective_options *options, est_gathered *indices, est_gathered *values)
{
    est_work  *first, *second;
    est_status status, later;
    est_error  error;

    EST_TRY(
        est_all_gather_uneven(group, own->indices, (size_t)own->n * sizeof *own->indices, indices, options, &first));
    status = est_all_gather_uneven(group, own->values, (size_t)own->n * row_bytes, values, options, &second);
    est_error_take(status, &error);
    later = est_work_wait(first);
    if (error.status == EST_OK) {
        est_error_take(later, &error);
        later = est_work_wait(second);
        if (error.status == EST_OK) est_error_take(later, &error);
    }
    return error.status == EST_OK ? EST_OK : est_error_raise(&error);
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

est_status est_all_reduce_rows(est_rank_group *group, const est_indexed_rows *rows, size_t row_count, est_dtype dtype,
                               est_reduce_op reduction, const est_collective_options *options, est_indexed_rows *out)
{
    size_t           row_bytes = row_count * est_dtype_size(dtype);
    est_indexed_rows own = { 0 }, sum = { 0 };
    est_gathered     indices = { 0 }, values = { 0 };
    est_status       status;

    if (dtype != EST_F32 && dtype != EST_F64 && dtype != EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT, "rows of type %s cannot be summed; expected float32, float64 or int64",
                        est_dtype_name(dtype));
    }
    status = sum_rows(rows->indices, rows->values, rows->n, row_bytes, dtype, &own);
    if (status != EST_OK) {
        est_error error;

        est_error_take(status, &error);
        est_group_abort(group, error.message); /* the others wait for our rows */
        return est_error_raise(&error);
    }
    status = gather(group, &own, row_bytes, options, &indices, &values);
    if (status == EST_OK) status = check_lengths(group, &indices, &values, row_bytes);
    if (status == EST_OK) {
        status = sum_rows(indices.data, values.data, (int64_t)(indices.begins[group->n] / sizeof(int64_t)), row_bytes,
                          dtype, &sum);
    }
    if (status == EST_OK) {
        if (reduction == EST_REDUCE_OP_MEAN && sum.n > 0)
            est_elements_divide(sum.values, (size_t)sum.n * row_bytes, dtype, group->n);
        *out = sum;
    }
    est_indexed_rows_clear(&own);
    est_gathered_clear(&indices);
    est_gathered_clear(&values);
    return status;
}
