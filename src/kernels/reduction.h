/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any set of axes.
 *
 * Neighbouring axes of one kind are joined first; the end of the shape is then a block of `rows` x `width` whose
 * columns are reduced (width 1 when the last axis is reduced). All the arithmetic is in that block, see reduce_fn.def;
 * est_reduce_run walks blocks, cuts wide ones into tiles and long ones into parts.
 *
 * The cuts depend on the shape alone, and parts are joined in order: the same bits with any number of threads. Floats
 * are summed in runs of 32 whose results go into a double, so the error does not grow with the length. */
#ifndef EST_KERNELS_REDUCTION_H
#define EST_KERNELS_REDUCTION_H

#include "graph/op.h"

#define EST_REDUCE_WIDTH 256 /* columns in a tile */

/* How one kind of reduction treats one dtype. A total is the accumulator of one column: 8 bytes at most. */
typedef struct est_reducer {
    void (*init)(void *total, int64_t width);
    /* Takes in a block: `rows` rows, `stride` elements apart, of `width` <= EST_REDUCE_WIDTH columns. */
    void (*take)(void *total, const void *x, int64_t rows, int64_t stride, int64_t width);
    void (*join)(void *total, const void *other, int64_t width);
    /* Writes the results; `count` elements went into each. */
    void (*finish)(void *out, const void *total, int64_t width, int64_t count);
    /* All of it for n short runs of `length` elements, each of which gives one result. */
    void (*runs)(void *out, const void *x, int64_t n, int64_t length);
    int64_t size; /* bytes of an element, in and out */
} est_reducer;

typedef enum est_reduce_kind {
    EST_REDUCE_SUM,
    EST_REDUCE_MEAN,
    EST_REDUCE_MAX,
    EST_REDUCE_MIN,
    EST_REDUCE_PROD,
    EST_REDUCE_ALL,
    EST_REDUCE_ANY,
    EST_REDUCE_HALF_SQUARES /* sum(x * x) / 2 */
} est_reduce_kind;

/* NULL when the kind does not know the dtype. */
const est_reducer *est_reducer_find(est_reduce_kind kind, est_dtype dtype);

/* Reduces the axes whose bits are set. out holds one element for each combination of the others; scratch is as large as
 * est_reduce_scratch says (64-byte aligned). */
size_t est_reduce_scratch(int64_t count); /* elements of x; for any axes */
void   est_reduce_run(est_pool *pool, const est_reducer *reducer, const est_shape *shape, uint32_t axes, const void *x,
                      void *out, void *scratch);

#endif
