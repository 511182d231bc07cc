/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of input to try an exported model on: those an evaluation or a training saw last, or made up ones. */
#ifndef EST_ESTIMATOR_SAMPLE_ROWS_H
#define EST_ESTIMATOR_SAMPLE_ROWS_H

#include "estimator/model.h"
#include "estimator/receiver.h"

#define EST_SAMPLE_ROWS_MAX 8 /* as many are kept and tried */

typedef struct est_sample_rows_item {
    char       *name;   /* of the component */
    est_tensor *values; /* [n, ...], or of all rows one after the other */
    est_tensor *splits; /* NULL unless ragged */
} est_sample_rows_item;

/* A zeroed struct has none. */
typedef struct est_sample_rows {
    est_sample_rows_item *items;
    int                   n_items;
    int64_t               n; /* rows */
} est_sample_rows;

/* Keeps the first rows of the batch the loop saw last, in place of those before; a loop that saw none changes nothing. */
EST_MUST_CHECK est_status est_sample_rows_record(est_sample_rows *rows, const est_model *model, est_loop *loop);
void                      est_sample_rows_clear(est_sample_rows *rows);

/* Tensors for the placeholders of a receiver, new ones. Features that were recorded have their rows, others made up ones:
 * small numbers, or all 0 and "" with `zeros`. *made_up: there are such. */
EST_MUST_CHECK est_status est_sample_rows_feed(const est_sample_rows *rows, const est_receiver *receiver, bool zeros,
                                               est_tensor **out, bool *made_up);

#endif
