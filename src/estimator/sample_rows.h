/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of input to check an exported model with: from the last evaluation or training, or generated. */
#ifndef EST_ESTIMATOR_SAMPLE_ROWS_H
#define EST_ESTIMATOR_SAMPLE_ROWS_H

#include "estimator/model.h"
#include "estimator/receiver.h"

#define EST_SAMPLE_ROWS_MAX 8 /* rows kept and checked */

typedef struct est_sample_rows_item {
    char       *name;   /* of the component */
    est_tensor *values; /* [n, ...], or the concatenated values of all rows */
    est_tensor *splits; /* NULL unless ragged */
} est_sample_rows_item;

/* A zeroed struct has no rows. */
typedef struct est_sample_rows {
    est_sample_rows_item *items;
    int                   n_items;
    int64_t               n; /* rows */
} est_sample_rows;

/* Replaces the rows by the first rows of the loop's last batch; a loop without a batch changes nothing. */
EST_MUST_CHECK est_status est_sample_rows_record(est_sample_rows *rows, const est_model *model, est_loop *loop);
void                      est_sample_rows_clear(est_sample_rows *rows);

/* Creates tensors for the placeholders of a receiver. Recorded features get their rows, others generated values: small
 * numbers, or all 0 and "" with `zeros`. *made_up says whether values were generated. */
EST_MUST_CHECK est_status est_sample_rows_feed(const est_sample_rows *rows, const est_receiver *receiver, bool zeros,
                                               est_tensor **out, bool *made_up);

#endif
