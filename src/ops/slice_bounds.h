/* SPDX-License-Identifier: Apache-2.0
 *
 * What an entry begin:end:stride of a slice takes of an axis, for the CPU and for GPUs. */
#ifndef EST_OPS_SLICE_BOUNDS_H
#define EST_OPS_SLICE_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/both.h"

/* Bit i of one of TensorFlow's masks. */
EST_BOTH bool est_slice_has(int64_t mask, int i)
{
    return (mask >> i & 1) != 0;
}

/* One bound as an index: negative counts from the end, out of range is cut to what exists. */
EST_BOTH int64_t est_slice_bound(int64_t given, int64_t dim, int64_t stride)
{
    int64_t at = given < 0 ? given + dim : given, low = stride > 0 ? 0 : -1, high = stride > 0 ? dim : dim - 1;

    return at < low ? low : at > high ? high : at;
}

/* Where the entry begins; whole: at the end from which the stride leads on. */
EST_BOTH int64_t est_slice_first(int64_t begin, bool whole, int64_t stride, int64_t dim)
{
    if (whole) return stride > 0 ? 0 : dim - 1;
    return est_slice_bound(begin, dim, stride);
}

/* How many elements it takes; whole: all to the other end. */
EST_BOTH int64_t est_slice_length(int64_t first, int64_t end, bool whole, int64_t stride, int64_t dim)
{
    int64_t last = whole ? (stride > 0 ? dim : -1) : est_slice_bound(end, dim, stride);
    int64_t span = stride > 0 ? last - first : first - last;

    return span <= 0 ? 0 : (span - 1) / (stride > 0 ? stride : -stride) + 1;
}

#endif
