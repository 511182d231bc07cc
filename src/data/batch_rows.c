/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of elements that are batches: counting, cutting and joining them. */
#include "data/batch_rows.h"

#include <inttypes.h>

#include "data/batch.h"

static int64_t field_rows(const est_field *field)
{
    if (field->splits != NULL) return est_tensor_count(field->splits) - 1;
    return est_tensor_shape(field->values)->dim[0];
}

est_status est_batch_rows_count(const est_iter *it, const est_element *element, int64_t *out)
{
    const est_dataset *dataset = it->dataset;
    const est_field   *field   = element->field;
    int64_t            n       = field_rows(&field[0]);

    for (int i = 1; i < dataset->n_components; i++) {
        if (field_rows(&field[i]) == n) continue;
        return est_origin_blame(&element->origin, est_fail(EST_INVALID_ARGUMENT,
                                                           "%s: component %s has %" PRId64 " rows and %s has %" PRId64,
                                                           it->stage->name, dataset->components[0].name, n,
                                                           dataset->components[i].name, field_rows(&field[i])));
    }
    *out = n;
    return EST_OK;
}

/* --- cutting ------------------------------------------------------------------------------------------------------ */

static est_status ragged_slice(const est_field *field, int64_t first, int64_t n, est_field *out)
{
    const int64_t *from = (const int64_t *)est_tensor_data(field->splits) + first;
    int64_t       *to;

    EST_TRY(est_tensor_rows(field->values, from[0], from[n] - from[0], &out->values));
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(n + 1), &out->splits));
    to = est_tensor_mutable_data(out->splits);
    for (int64_t i = 0; i <= n; i++) to[i] = from[i] - from[0];
    return EST_OK;
}

est_status est_batch_rows_slice(const est_element *element, int n_fields, int64_t first, int64_t n, est_element *out)
{
    for (int i = 0; i < n_fields; i++) {
        const est_field *field  = &element->field[i];
        est_status       status = field->splits != NULL ? ragged_slice(field, first, n, &out->field[i])
                                                        : est_tensor_rows(field->values, first, n, &out->field[i].values);

        if (status != EST_OK) {
            est_element_clear(out->field, i + 1);
            return status;
        }
    }
    out->origin = element->origin;
    return EST_OK;
}

static est_status field_row(const est_field *field, int64_t row, est_tensor **out)
{
    const int64_t *splits;

    if (field->splits == NULL) return est_tensor_row(field->values, row, out);
    splits = est_tensor_data(field->splits);
    return est_tensor_rows(field->values, splits[row], splits[row + 1] - splits[row], out);
}

est_status est_batch_rows_row(const est_element *element, int n_fields, int64_t row, est_element *out)
{
    for (int i = 0; i < n_fields; i++) {
        est_status status = field_row(&element->field[i], row, &out->field[i].values);

        if (status != EST_OK) {
            est_element_clear(out->field, i);
            return status;
        }
    }
    out->origin = element->origin;
    return EST_OK;
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

/* The shape of the values of component i of all pieces together. */
static est_status joined_shape(const est_iter *it, const est_element_list *pieces, int i, est_shape *out)
{
    est_shape shape = *est_tensor_shape(est_element_list_at(pieces, 0)->field[i].values);

    for (int64_t k = 1; k < pieces->n; k++) {
        est_shape piece = *est_tensor_shape(est_element_list_at(pieces, k)->field[i].values);
        int64_t   n     = piece.dim[0];
        char      text[2][EST_SHAPE_TEXT_MAX];

        piece.dim[0] = shape.dim[0];
        if (!est_shape_equal(&piece, &shape)) {
            return est_fail(
                EST_INVALID_ARGUMENT,
                "%s: component %s: the rows of batches of shapes %s and %s do not fit together; fill them up "
                "to a fixed shape",
                it->stage->name, it->dataset->components[i].name, est_shape_text(&shape, text[0]),
                est_shape_text(&piece, text[1]));
        }
        shape.dim[0] += n; /* both are in memory: no overflow */
    }
    *out = shape;
    return EST_OK;
}

static est_status join_values(const est_iter *it, const est_element_list *pieces, int i, est_tensor **out)
{
    est_tensor *values;
    est_shape   shape;
    int64_t     at = 0;

    EST_TRY(joined_shape(it, pieces, i, &shape));
    EST_TRY(est_tensor_create(it->dataset->components[i].dtype, shape, &values));
    for (int64_t k = 0; k < pieces->n; k++) {
        const est_tensor *piece = est_element_list_at(pieces, k)->field[i].values;

        est_batch_copy(values, at, piece, 0, est_tensor_count(piece));
        at += est_tensor_count(piece);
    }
    return est_batch_own(values, out);
}

static est_status join_splits(const est_element_list *pieces, int i, est_tensor **out)
{
    int64_t     n = 0, last = 0;
    est_tensor *splits;
    int64_t    *to;

    for (int64_t k = 0; k < pieces->n; k++) n += field_rows(&est_element_list_at(pieces, k)->field[i]);
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(n + 1), &splits));
    to    = est_tensor_mutable_data(splits);
    *to++ = 0;
    for (int64_t k = 0; k < pieces->n; k++) {
        const est_field *piece = &est_element_list_at(pieces, k)->field[i];
        const int64_t   *from  = est_tensor_data(piece->splits);

        for (int64_t r = 1; r <= field_rows(piece); r++) *to++ = last + from[r];
        last = to[-1];
    }
    *out = splits;
    return EST_OK;
}

est_status est_batch_rows_join(const est_iter *it, est_element_list *pieces, est_element *out)
{
    if (pieces->n == 1) {
        est_element_list_take(pieces, 0, out);
        return EST_OK;
    }
    for (int i = 0; i < it->dataset->n_components; i++) {
        est_field *field  = &out->field[i];
        est_status status = join_values(it, pieces, i, &field->values);

        if (status == EST_OK && it->dataset->components[i].ragged) status = join_splits(pieces, i, &field->splits);
        if (status != EST_OK) {
            est_element_clear(out->field, i + 1);
            return status;
        }
    }
    out->origin = est_element_list_at(pieces, 0)->origin;
    return EST_OK;
}
