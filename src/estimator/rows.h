/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of input to try an exported model on: those an evaluation or a training saw last, or made up ones. */
#ifndef EST_ESTIMATOR_ROWS_H
#define EST_ESTIMATOR_ROWS_H

#include "estimator/model.h"
#include "estimator/receiver.h"

#define EST_ROWS_MAX 8 /* as many are kept and tried */

typedef struct est_rows_item {
    char       *name;   /* of the component */
    est_tensor *values; /* [n, ...], or of all rows one after the other */
    est_tensor *splits; /* NULL unless ragged */
} est_rows_item;

/* A zeroed struct has none. */
typedef struct est_rows {
    est_rows_item *items;
    int            n_items;
    int64_t        n; /* rows */
} est_rows;

/* Keeps the first rows of the batch the loop saw last, in place of those before; a loop that saw none changes nothing. */
EST_MUST_CHECK est_status est_rows_record(est_rows *rows, const est_model *model, est_loop *loop);
void                      est_rows_clear(est_rows *rows);

/* Tensors for the placeholders of a receiver, new ones. Features that were recorded have their rows, others made up ones:
 * small numbers, or all 0 and "" with `zeros`. *made_up: there are such. */
EST_MUST_CHECK est_status est_rows_feed(const est_rows *rows, const est_receiver *receiver, bool zeros,
                                        est_tensor **out, bool *made_up);

#endif
