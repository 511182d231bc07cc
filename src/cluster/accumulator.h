/* SPDX-License-Identifier: Apache-2.0
 *
 * What several workers want one segment to do, as one: gradients are summed as they come and divided by how many came; sparse ones
 * are put together row by row and divided by how many workers came, whether or not each had the row, so that n workers with
 * batches of b do what one with n b does. (TensorFlow's accumulators divide a row by how many had it.) The keys of a dynamic
 * embedding are put together in a fixed order of the workers, that of their fingerprints `who`, whatever the order in which they
 * came, so that the step admits the same keys each time. All other inputs, as learning rates, are taken from whoever came last.
 *
 * Which inputs are gradients is told by the operations that take them: their argument is called "grad", "delta", "updates" or
 * "value", and "indices" beside it; that of keys "keys".
 *
 * Threading: one thread at a time. */
#ifndef EST_CLUSTER_ACCUMULATOR_H
#define EST_CLUSTER_ACCUMULATOR_H

#include "runtime/host.h"

typedef struct est_accumulator est_accumulator;

EST_MUST_CHECK est_status est_accumulator_create(const est_host *host, int segment, est_accumulator **out);
void                      est_accumulator_free(est_accumulator *collect); /* NULL is fine */

/* Adds the inputs of one worker, which differs from the others by `who`. On failure nothing was added; after the mean was taken
 * it is too late, and nothing is either. */
EST_MUST_CHECK est_status est_accumulator_add(est_accumulator *collect, uint64_t who, const est_view *inputs, int n);
int                       est_accumulator_count(const est_accumulator *collect); /* workers since the last reset */

/* The mean of all inputs, as feeds of the segment; borrowed until the reset. On failure it may be asked for again. */
EST_MUST_CHECK est_status est_accumulator_mean(est_accumulator *collect, const est_tensor *const **out);
void                      est_accumulator_reset(est_accumulator *collect);

#endif
