/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of ops on ragged rows: the splits, int64 [rows + 1], are the offsets of the rows in the values. */
#ifndef EST_KERNELS_RAGGED_H
#define EST_KERNELS_RAGGED_H

#include "graph/op.h"

/* Fails unless inputs `values` and `splits` can be vectors. *rows: how many rows there are, or -1. */
EST_MUST_CHECK est_status est_infer_ragged(const est_infer *c, int values, int splits, int64_t *rows);

/* Fails unless the splits start at 0, never descend and end at n_values; the text has the row. */
EST_MUST_CHECK est_status est_splits_check(const est_view *splits, int64_t n_values);

/* The failure of that: row `row` goes from `from` to `to`, or it is where all begin or end that is wrong, at `from`. */
#define EST_SPLITS_START (-1)
#define EST_SPLITS_END   (-2)
est_status est_splits_wrong(int64_t row, int64_t from, int64_t to, int64_t n_values);

#endif
