/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes inside the library: checks, sizes, strides, broadcasting and merging.
 *
 * A shape may have an unknown rank (-1) or unknown dimensions (-1). Functions that need numbers say so; the others
 * treat an unknown as "anything" and keep what is certain. */
#ifndef EST_TENSOR_SHAPE_H
#define EST_TENSOR_SHAPE_H

#include "estoc/tensor.h"

/* Rank and every dimension are known (a dimension may be 0). */
bool est_shape_is_known(const est_shape *shape);

/* Rank within -1 .. EST_RANK_MAX and no dimension below -1; `what` names the shape in the error. */
EST_MUST_CHECK est_status est_shape_check(const est_shape *shape, const char *what);

/* Elements and bytes of a known shape; an error when something is unknown or the size does not fit the machine. Either
 * pointer may be NULL. */
EST_MUST_CHECK est_status est_shape_size(const est_shape *shape, est_dtype dtype, int64_t *count, size_t *bytes);

/* Product of dimensions [first, end); the shape must be known there. 1 for an empty range. */
int64_t est_shape_product(const est_shape *shape, int first, int end);

/* Row-major strides in elements of a known shape. */
void est_shape_strides(const est_shape *shape, int64_t strides[EST_RANK_MAX]);

/* Strides with which a tensor of shape `from` is read as if it had shape `to`: aligned at the last axis, 0 along axes
 * that are repeated. Both known; `from` must broadcast to `to`. */
void est_shape_broadcast_strides(const est_shape *from, const est_shape *to, int64_t strides[EST_RANK_MAX]);

/* The shape of an elementwise operation on a and b by NumPy's rule. Unknown beside a dimension other than 1 takes
 * that dimension; unknown beside 1 or unknown stays unknown. */
EST_MUST_CHECK est_status est_shape_broadcast(const est_shape *a, const est_shape *b, est_shape *out);

/* What is known when both a and b describe the same tensor; an error when they contradict. */
EST_MUST_CHECK est_status est_shape_merge(const est_shape *a, const est_shape *b, est_shape *out);

/* Some tensor could have both shapes. */
bool est_shape_compatible(const est_shape *a, const est_shape *b);

#endif
