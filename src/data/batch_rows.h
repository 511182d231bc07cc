/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of elements that are batches: row r of every component belongs together. */
#ifndef EST_DATA_BATCH_ROWS_H
#define EST_DATA_BATCH_ROWS_H

#include "data/element_list.h"

/* How many rows an element of the iterator's input has; components that do not agree are an error. */
EST_MUST_CHECK est_status est_batch_rows_count(const est_iter *it, const est_element *element, int64_t *out);

/* Rows [first, first + n) of an element with n_fields fields, as views, into `out`, which holds nothing before and
 * after a failure. */
EST_MUST_CHECK est_status est_batch_rows_slice(const est_element *element, int n_fields, int64_t first, int64_t n,
                                               est_element *out);

/* Row `row` of an element as an element of its own, as views, into `out`, which holds nothing before and after a
 * failure. A row of a ragged component has as many values as it has. */
EST_MUST_CHECK est_status est_batch_rows_row(const est_element *element, int n_fields, int64_t row, est_element *out);

/* The rows of several elements, at least one, one after the other, into `out`, which holds nothing before and after a
 * failure. A single element is moved out of the list. */
EST_MUST_CHECK est_status est_batch_rows_join(const est_iter *it, est_element_list *pieces, est_element *out);

#endif
