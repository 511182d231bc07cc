/* SPDX-License-Identifier: Apache-2.0
 *
 * Moving elements without looking at them: copies between strided layouts (slices, transposes, broadcasts, tiles,
 * padding) and between one tensor and the strips it consists of (concat, split, pack). Elements are 1, 4, 8 or 16
 * bytes; a string is its est_str. */
#ifndef EST_KERNELS_STRIDED_H
#define EST_KERNELS_STRIDED_H

#include "graph/op.h"

/* Twice the rank, because a tile is a copy along [repeat, dim] pairs. */
#define EST_STRIDED_RANK_MAX (2 * EST_RANK_MAX)

/* dst[sum i_k * to[k]] = src[sum i_k * from[k]] for all 0 <= i_k < dim[k]; strides in elements, any sign, `from` may be
 * 0. No element of dst may be written twice. */
typedef struct est_strided {
    int     rank;
    int64_t dim[EST_STRIDED_RANK_MAX];
    int64_t from[EST_STRIDED_RANK_MAX];
    int64_t to[EST_STRIDED_RANK_MAX];
} est_strided;

void est_strided_copy(est_pool *pool, size_t element, const est_strided *layout, void *dst, const void *src);

/* Appends an axis inside those there are. */
static inline void est_strided_push(est_strided *layout, int64_t dim, int64_t from, int64_t to)
{
    layout->dim[layout->rank]  = dim;
    layout->from[layout->rank] = from;
    layout->to[layout->rank]   = to;
    layout->rank++;
}

/* dst[i] = *value for i < count. */
void est_strided_fill(est_pool *pool, size_t element, void *dst, const void *value, int64_t count);

/* Rows of `bytes` bytes each, `step` bytes apart. Made for many short rows. */
void est_copy_rows(void *dst, int64_t dst_step, const void *src, int64_t src_step, size_t bytes, int64_t rows);

/* One tensor `whole` of `outer` rows, each the concatenation of one row of every strip. Give `in` to join strips into
 * `whole`, or `out` to cut `whole` into strips; the other is NULL. */
typedef struct est_strips {
    size_t           element;
    int64_t          outer;
    int              n;
    void            *whole;
    est_view *const *in;
    est_view        *out;
} est_strips;

void est_strips_copy(est_pool *pool, const est_strips *strips);

#endif
