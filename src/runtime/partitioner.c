/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioners: the formulas. runtime/placement.c uses the numbers. */
#include "estoc/partitioner.h"

#include <limits.h>

#include "tensor/shape.h"

#define MIN_SHARD_BYTES (256 << 10)

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Bytes of the variable; 0 when the size overflows, and then it cannot exist. */
static int64_t bytes_of(est_dtype dtype, const est_shape *shape)
{
    int64_t count;
    size_t  bytes;

    return est_shape_size(shape, dtype, &count, &bytes) == EST_OK ? (int64_t)bytes : 0;
}

static int fixed(const est_partitioner *self, const char *name, est_dtype dtype, const est_shape *shape, int n_tasks)
{
    (void)name;
    (void)dtype;
    return (int)min_i64(self->n > 0 ? self->n : n_tasks, shape->dim[0]);
}

static int min_size(const est_partitioner *self, const char *name, est_dtype dtype, const est_shape *shape, int n_tasks)
{
    int64_t pieces = ceil_div(bytes_of(dtype, shape), self->bytes > 0 ? self->bytes : MIN_SHARD_BYTES);
    int64_t shards = min_i64(min_i64(shape->dim[0], self->n > 0 ? self->n : n_tasks), pieces);

    (void)name;
    return (int)(shards > 1 ? shards : 1);
}

static int max_size(const est_partitioner *self, const char *name, est_dtype dtype, const est_shape *shape, int n_tasks)
{
    int64_t rows = shape->dim[0], row_bytes = rows > 0 ? bytes_of(dtype, shape) / rows : 0;
    int64_t rows_per_shard = row_bytes > 0 ? self->bytes / row_bytes : rows;

    (void)name;
    (void)n_tasks;
    return (int)min_i64(ceil_div(rows, rows_per_shard > 1 ? rows_per_shard : 1), self->n > 0 ? self->n : INT_MAX);
}

est_partitioner est_fixed_shards(int n)
{
    return (est_partitioner){ .shards = fixed, .n = n };
}

est_partitioner est_min_size_partitioner(int64_t min_shard_bytes, int max_shards)
{
    return (est_partitioner){ .shards = min_size, .bytes = min_shard_bytes, .n = max_shards };
}

est_partitioner est_max_size_partitioner(int64_t max_shard_bytes, int max_shards)
{
    return (est_partitioner){ .shards = max_size, .bytes = max_shard_bytes, .n = max_shards };
}
