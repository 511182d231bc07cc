/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of rows of unequal length as they are: the values one after the other, and where each row starts. */
#include "data/batch.h"

/* The shape of all the values, [sum of the first dimensions, the rest...]. */
static est_status values_shape(const est_batch_column *column, const est_element_list *rows, est_shape *out)
{
    est_shape shape = *est_tensor_shape(est_batch_value(column, rows, 0));

    for (int64_t i = 1; i < rows->n; i++) {
        est_shape row = *est_tensor_shape(est_batch_value(column, rows, i));
        int64_t   n   = row.dim[0];

        row.dim[0] = shape.dim[0];
        if (!est_shape_equal(&row, &shape)) {
            return est_batch_mismatch(column, rows, i, "of a ragged component only the first dimension may differ");
        }
        if (__builtin_add_overflow(shape.dim[0], n, &shape.dim[0])) {
            return est_fail(EST_RESOURCE_EXHAUSTED, "batch: component %s has more values than can be counted",
                            column->component->name);
        }
    }
    *out = shape;
    return EST_OK;
}

est_status est_batch_ragged(const est_batch_column *column, const est_element_list *rows, est_field *out)
{
    est_tensor *values, *splits;
    int64_t    *split, at = 0;
    est_shape   shape;
    est_status  status;

    EST_TRY(values_shape(column, rows, &shape));
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(rows->n + 1), &splits));
    status = est_tensor_create(column->component->dtype, shape, &values);
    if (status != EST_OK) goto free_splits;
    split    = est_tensor_mutable_data(splits);
    split[0] = 0;
    for (int64_t i = 0; i < rows->n; i++) {
        const est_tensor *row = est_batch_value(column, rows, i);

        est_batch_copy(values, at, row, 0, est_tensor_count(row));
        at += est_tensor_count(row);
        split[i + 1] = split[i] + est_tensor_shape(row)->dim[0];
    }
    status = est_batch_own(values, &out->values);
    if (status != EST_OK) goto free_splits;
    out->splits = splits;
    return EST_OK;

free_splits:
    est_tensor_free(splits);
    return status;
}
