/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise work over broadcast inputs, numpy's way. The shapes are brought down to as few axes as possible, so that
 * equal shapes and scalars are one long loop, [n, c] with [c] or [n, 1] are n loops of c, and everything else is an
 * odometer around such loops. */
#ifndef EST_KERNELS_BROADCAST_H
#define EST_KERNELS_BROADCAST_H

#include "graph/op.h"

#define EST_BROADCAST_IN_MAX 3

/* Computes n elements in a row. Input i advances by step[i] elements each time: 1, or 0 for one value all along. out
 * may be the memory of an input with step 1. */
typedef void (*est_broadcast_fn)(void *out, const void *const *in, const int64_t *step, int64_t n);

/* Fills out[0] of the call from its first n_in inputs, in parallel when it is large. */
void est_broadcast_run(est_call *c, int n_in, est_broadcast_fn fn, double ns_per_item);

#endif
