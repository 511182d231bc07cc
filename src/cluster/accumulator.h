/* SPDX-License-Identifier: Apache-2.0
 *
 * Accumulates the inputs that several workers push for one segment, so that n workers with batches of b do what one
 * worker with a batch of n b does. Gradients are summed as they come and divided by the number of workers. Sparse
 * gradients are summed row by row and divided by the number of workers, whether or not each of them had the row.
 * (TensorFlow's accumulators divide a row by the number of workers that had it.) The keys of a dynamic embedding are
 * concatenated in the order of the workers' fingerprints, not of their arrival, so that a step admits the same keys
 * each time. Other inputs, like learning rates, are those of the last worker.
 *
 * The descriptor of an operation says which of its inputs are gradients, indices and keys (est_op.update).
 *
 * Threading: one thread at a time. */
#ifndef EST_CLUSTER_ACCUMULATOR_H
#define EST_CLUSTER_ACCUMULATOR_H

#include "runtime/host.h"

typedef struct est_accumulator est_accumulator;

EST_MUST_CHECK est_status est_accumulator_create(const est_host *host, int segment, est_accumulator **out);
void                      est_accumulator_free(est_accumulator *accumulator); /* NULL is fine */

/* Adds the inputs of the worker with fingerprint `who`. Does nothing on failure, and after the mean was taken. */
EST_MUST_CHECK est_status est_accumulator_add(est_accumulator *accumulator, uint64_t who, const est_view *inputs,
                                              int n);
int                       est_accumulator_count(const est_accumulator *accumulator); /* workers since the last reset */

/* The mean of all inputs, as feeds of the segment; borrowed until the reset. May be repeated after a failure. */
EST_MUST_CHECK est_status est_accumulator_mean(est_accumulator *accumulator, const est_tensor *const **out);
void                      est_accumulator_reset(est_accumulator *accumulator);

#endif
