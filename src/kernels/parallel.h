/* SPDX-License-Identifier: Apache-2.0
 *
 * Parallel loops for kernels: a range cut into blocks by its length and the cost of an element, never by the number of
 * threads, so that results are the same with any number of them. */
#ifndef EST_KERNELS_PARALLEL_H
#define EST_KERNELS_PARALLEL_H

#include "graph/op.h"

/* Work on [begin, end); `block` numbers the blocks from 0, for partial results combined in order. */
typedef void (*est_range_fn)(void *arg, int64_t begin, int64_t end, int64_t block);

/* Blocks are at least about this long (in nanoseconds of one core), so that handing one over pays. */
#define EST_BLOCK_NS 20000

/* How many blocks [0, n) is cut into when one element costs ns_per_item nanoseconds. At least 1, at most 64. */
int64_t est_parallel_blocks(int64_t n, double ns_per_item);

/* Runs fn over [0, n) cut into est_parallel_blocks(n, ns_per_item) blocks; multiples of `grain` elements (cache line,
 * vector width) except the last. Inline when it is one block. */
void est_parallel_for(est_pool *pool, int64_t n, int64_t grain, double ns_per_item, est_range_fn fn, void *arg);

#endif
