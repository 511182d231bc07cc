/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of rows of unequal shape, filled up: every row becomes a block of the same shape, with the row in the corner
 * of the lowest indices and padding everywhere else. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "data/batch.h"
#include "tensor/shape.h"

/* --- when the dataset is made ------------------------------------------------------------------------------------- */

/* `number` as an element of the dtype; false when the dtype cannot hold it. */
static bool number_cast(double number, est_dtype dtype, uint8_t out[8])
{
    bool whole = number == floor(number); /* false for NaN */

    switch (dtype) {
    case EST_F32:
        memcpy(out, &(float){ (float)number }, sizeof(float));
        return !(fabs(number) > FLT_MAX) || isinf(number);
    case EST_F64: memcpy(out, &number, sizeof number); return true;
    case EST_I64:
        if (!whole || number < -0x1p63 || number >= 0x1p63) return false;
        memcpy(out, &(int64_t){ (int64_t)number }, sizeof(int64_t));
        return true;
    case EST_I32:
        if (!whole || number < INT32_MIN || number > INT32_MAX) return false;
        memcpy(out, &(int32_t){ (int32_t)number }, sizeof(int32_t));
        return true;
    case EST_U8:
        if (!whole || number < 0 || number > UINT8_MAX) return false;
        out[0] = (uint8_t)number;
        return true;
    case EST_BOOL: out[0] = number != 0; return number == 0 || number == 1;
    default: return true; /* strings are filled up with empty ones */
    }
}

/* Some row of the component could be filled up to `padded`. */
static bool can_pad_to(const est_shape *component, const est_shape *padded)
{
    if (component->rank < 0) return true;
    if (component->rank != padded->rank) return false;
    for (int i = 0; i < padded->rank; i++) {
        if (padded->dim[i] >= 0 && component->dim[i] > padded->dim[i]) return false;
    }
    return true;
}

est_status est_batch_pad_init(est_batch_column *column, const est_shape *padded, double number, est_shape *shape)
{
    const est_component *c      = column->component;
    est_shape            filled = c->shape;
    char                 component_text[EST_SHAPE_TEXT_MAX], padded_text[EST_SHAPE_TEXT_MAX];

    column->target = padded != NULL ? *padded : EST_SHAPE_UNKNOWN;
    EST_TRY(est_shape_check(&column->target, ".padded_shapes"));
    if (column->target.rank >= 0) {
        if (!can_pad_to(&c->shape, padded)) {
            return est_fail(EST_INVALID_ARGUMENT, "component %s of shape %s cannot be filled up to %s", c->name,
                            est_shape_text(&c->shape, component_text), est_shape_text(padded, padded_text));
        }
        if (filled.rank < 0) filled = *padded;
        for (int i = 0; i < filled.rank; i++) {
            if (padded->dim[i] >= 0) filled.dim[i] = padded->dim[i];
        }
    }
    *shape = filled;
    if (est_shape_is_known(&filled) && est_shape_equal(&filled, &c->shape)) return EST_OK; /* nothing to fill up */
    if (!number_cast(number, c->dtype, column->pad)) {
        return est_fail(EST_INVALID_ARGUMENT, ".pad_number %g cannot be represented as %s, the type of component %s",
                        number, est_dtype_name(c->dtype), c->name);
    }
    return EST_OK;
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* Makes `block` large enough for row i. */
static est_status block_cover(const est_batch_column *column, const est_element_list *rows, int64_t i, est_shape *block)
{
    const est_shape *row    = est_tensor_shape(est_batch_value(column, rows, i));
    const est_shape *target = &column->target;
    char             row_text[EST_SHAPE_TEXT_MAX], target_text[EST_SHAPE_TEXT_MAX];

    if (row->rank != block->rank) return est_batch_mismatch(column, rows, i, "all need the same number of dimensions");
    if (target->rank >= 0 && !can_pad_to(row, target)) {
        return est_origin_blame(&est_element_list_at(rows, i)->origin,
                                est_fail(EST_INVALID_ARGUMENT,
                                         "batch: component %s of shape %s cannot be filled up to %s of .padded_shapes",
                                         column->component->name, est_shape_text(row, row_text),
                                         est_shape_text(target, target_text)));
    }
    for (int d = 0; d < row->rank; d++) {
        if (target->rank >= 0 && target->dim[d] >= 0) {
            block->dim[d] = target->dim[d];
        } else if (row->dim[d] > block->dim[d]) {
            block->dim[d] = row->dim[d];
        }
    }
    return EST_OK;
}

/* n times the element `pad` of `size` bytes. */
static void fill(char *to, int64_t n, const uint8_t pad[8], size_t size)
{
    static const uint8_t zero[8];
    size_t               bytes = (size_t)n * size, done = size;

    if (n == 0) return;
    if (memcmp(pad, zero, size) == 0) {
        memset(to, 0, bytes);
        return;
    }
    memcpy(to, pad, size);
    while (done < bytes) { /* twice as much each time */
        size_t more = done < bytes - done ? done : bytes - done;

        memcpy(to + done, to, more);
        done += more;
    }
}

/* Copies a row into the corner of its block, which begins at element `first` of the tensor: runs that lie together in
 * both, the last axes as far as they are equal and the one before. */
static void copy_corner(est_tensor *tensor, int64_t first, const est_shape *block, const est_tensor *row)
{
    const est_shape *shape               = est_tensor_shape(row);
    int              axis                = shape->rank - 1; /* of the runs */
    int64_t          index[EST_RANK_MAX] = { 0 }, strides[EST_RANK_MAX], run;

    if (est_tensor_count(row) == 0) return;
    est_shape_strides(block, strides);
    while (axis > 0 && shape->dim[axis] == block->dim[axis]) axis--;
    run = axis >= 0 ? est_shape_product(shape, axis, shape->rank) : 1;
    for (int64_t from = 0; from < est_tensor_count(row); from += run) {
        int64_t to = first;

        for (int d = 0; d < axis; d++) to += index[d] * strides[d];
        est_batch_copy(tensor, to, row, from, run);
        for (int d = axis - 1; d >= 0 && ++index[d] == shape->dim[d]; d--) index[d] = 0;
    }
}

static void fill_blocks(const est_batch_column *column, const est_element_list *rows, const est_shape *block,
                        est_tensor *tensor)
{
    size_t  size  = est_dtype_size(column->component->dtype);
    int64_t count = est_shape_count(block);

    for (int64_t i = 0; i < rows->n; i++) {
        const est_tensor *row     = est_batch_value(column, rows, i);
        bool              partial = est_tensor_count(row) != count;

        if (partial && column->component->dtype != EST_STRING) {
            fill((char *)est_tensor_mutable_data(tensor) + (size_t)(i * count) * size, count, column->pad, size);
        }
        copy_corner(tensor, i * count, block, row);
    }
}

est_status est_batch_pad(const est_batch_column *column, const est_element_list *rows, est_field *out)
{
    est_shape   block = *est_tensor_shape(est_batch_value(column, rows, 0));
    est_shape   shape = { .rank = block.rank + 1, .dim = { rows->n } };
    est_tensor *tensor;

    if (block.rank == EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "batch: component %s has %d dimensions, the maximum; it cannot be "
                        "batched",
                        column->component->name, block.rank);
    }
    for (int64_t i = 0; i < rows->n; i++) EST_TRY(block_cover(column, rows, i, &block));
    for (int d = 0; d < block.rank; d++) shape.dim[d + 1] = block.dim[d];
    EST_TRY(est_tensor_create(column->component->dtype, shape, &tensor));
    fill_blocks(column, rows, &block, tensor);
    return est_batch_own(tensor, &out->values);
}
