/* SPDX-License-Identifier: Apache-2.0
 *
 * How the elements of a batch become one tensor a component: three ways, chosen for each component when the dataset is
 * made. */
#ifndef EST_DATA_BATCH_H
#define EST_DATA_BATCH_H

#include "data/element_list.h"

typedef struct est_batch_column est_batch_column;

struct est_batch_column {
    const est_component *component; /* of the input */
    int                  i;         /* its number */
    est_shape            target;    /* padded: to fill up to; -1: the largest of the batch */
    uint8_t              pad[8];    /* padded: an element of the dtype to fill up with; not for strings */

    /* Joins field i of all the elements, at least one, into `out`, which holds nothing before and after a failure. */
    est_status (*join)(const est_batch_column *column, const est_element_list *rows, est_field *out);
};

/* The three ways: all of the same shape; filled up; first dimensions of any length. */
est_status est_batch_stack(const est_batch_column *column, const est_element_list *rows, est_field *out);
est_status est_batch_pad(const est_batch_column *column, const est_element_list *rows, est_field *out);
est_status est_batch_ragged(const est_batch_column *column, const est_element_list *rows, est_field *out);

/* Prepares a padded column: checks `padded` (NULL: the largest of each batch) and `number` against the component, and
 * gives the shape of the filled up elements in *shape. */
EST_MUST_CHECK est_status est_batch_pad_init(est_batch_column *column, const est_shape *padded, double number,
                                             est_shape *shape);

static inline est_tensor *est_batch_value(const est_batch_column *column, const est_element_list *rows, int64_t row)
{
    return est_element_list_at(rows, row)->field[column->i].values;
}

/* Copies n elements of one tensor to another of the same dtype. Strings still share their bytes: est_batch_own. */
void est_batch_copy(est_tensor *to, int64_t to_first, const est_tensor *from, int64_t from_first, int64_t n);

/* Takes a tensor that est_batch_copy filled, copies the bytes of strings into it, and sets *out; frees it on
 * failure. */
EST_MUST_CHECK est_status est_batch_own(est_tensor *tensor, est_tensor **out);

/* The error for a row whose shape does not go with that of the first: "component x: ... " with both, `why`, and where
 * the row was read. */
est_status est_batch_mismatch(const est_batch_column *column, const est_element_list *rows, int64_t row,
                              const char *why);

#endif
