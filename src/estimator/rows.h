/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of input to check an exported model with: from the last evaluation or training, or generated. */
#ifndef EST_ESTIMATOR_ROWS_H
#define EST_ESTIMATOR_ROWS_H

#include "estimator/model.h"
#include "estimator/receiver.h"

#define EST_ROWS_MAX 8 /* rows kept and checked */

typedef struct est_rows_item {
    char       *name;   /* of the component */
    est_tensor *values; /* [n, ...], or the concatenated values of all rows */
    est_tensor *splits; /* NULL unless ragged */
} est_rows_item;

/* A zeroed struct has no rows. */
typedef struct est_rows {
    est_rows_item *items;
    int            n_items;
    int64_t        n; /* rows */
} est_rows;

/* Replaces the rows by the first rows of the loop's last batch; a loop without a batch changes nothing. */
EST_MUST_CHECK est_status est_rows_record(est_rows *rows, const est_model *model, est_loop *loop);
void                      est_rows_clear(est_rows *rows);

/* Creates tensors for the placeholders of a receiver. Recorded features get their rows, others generated values: small
 * numbers, or all 0 and "" with `zeros`. *made_up says whether values were generated. */
EST_MUST_CHECK est_status est_rows_feed(const est_rows *rows, const est_receiver *receiver, bool zeros,
                                        est_tensor **out, bool *made_up);

#endif
