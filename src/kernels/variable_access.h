/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of ops on variables: the variable has a value, and row numbers are in range. */
#ifndef EST_KERNELS_VARIABLE_ACCESS_H
#define EST_KERNELS_VARIABLE_ACCESS_H

#include "graph/variable.h"

/* Fails unless input `input` is a variable of `dtype` that has a value. */
EST_MUST_CHECK est_status est_variable_ready(const est_call *c, int input, est_dtype dtype);

/* Fails unless every index names a row of the variable; the text has the variable, the position and the index. */
EST_MUST_CHECK est_status est_variable_check_rows(const est_var *variable, const est_view *indices);

/* The failure of that: index `i` is `row`. */
est_status est_variable_not_a_row(const est_var *variable, int64_t i, int64_t row);

/* Rows, and elements of one row. */
static inline int64_t est_row_count(const est_view *v)
{
    return v->shape.rank > 0 ? v->shape.dim[0] : 1;
}

static inline int64_t est_row_size(const est_view *v)
{
    int64_t size = 1;

    for (int i = 1; i < v->shape.rank; i++) size *= v->shape.dim[i];
    return size;
}

/* Rows that are spread over n shards, at most as many as rows: the first of shard i (i = n: the end), and the shard of
 * a row. TensorFlow's "div" rule: consecutive rows, and the first rows % n shards have one more than the rest. */
static inline int64_t est_shard_first(int64_t rows, int n, int i)
{
    return rows / n * i + (i < rows % n ? i : rows % n);
}

static inline int est_shard_of(int64_t rows, int n, int64_t row)
{
    int64_t base = rows / n, extra = rows % n, low = row / (base + 1), high = (row - extra) / base;

    return (int)(low > high ? low : high);
}

/* Element i of an index tensor, int32 or int64. */
static inline int64_t est_row_at(const void *indices, bool wide, int64_t i)
{
    return wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* Prefetches a row: tables are larger than caches and rows come in no order. `write`: 0 or 1. The first lines are
 * enough, the hardware prefetcher finds the rest. */
#define EST_PREFETCH_AHEAD 24
#define EST_PREFETCH_ROW(base, row, row_bytes, write)                                                                  \
    do {                                                                                                               \
        const char *row_start_ = (const char *)(base) + (row) * (int64_t)(row_bytes);                                  \
        for (size_t byte_ = 0; byte_ < (size_t)(row_bytes) && byte_ < 256; byte_ += 64) {                              \
            __builtin_prefetch(row_start_ + byte_, write);                                                             \
        }                                                                                                              \
    } while (0)

#endif
