/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse values: ragged rows (sparse features) and indexed rows (sparse gradients). */
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "estoc/tensor.h"
#include "tensor/shape.h"

est_status est_ragged_check(const est_ragged *ragged)
{
    const est_shape *values, *splits;
    const int64_t   *split;
    int64_t          n_rows;

    EST_REQUIRE(ragged);
    if (ragged->values == NULL || ragged->splits == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "ragged rows need both values and splits");
    }
    values = est_tensor_shape(ragged->values);
    splits = est_tensor_shape(ragged->splits);
    if (values->rank < 1) return est_fail(EST_INVALID_ARGUMENT, "ragged values need at least one axis, got a scalar");
    if (est_tensor_dtype(ragged->splits) != EST_I64 || splits->rank != 1 || splits->dim[0] < 1) {
        char text[EST_SHAPE_TEXT_MAX];

        return est_fail(EST_INVALID_ARGUMENT, "ragged splits are %s of shape %s; expected int64 of shape [rows + 1]",
                        est_dtype_name(est_tensor_dtype(ragged->splits)), est_shape_text(splits, text));
    }

    split  = est_tensor_data(ragged->splits);
    n_rows = splits->dim[0] - 1;
    if (split[0] != 0)
        return est_fail(EST_INVALID_ARGUMENT, "ragged splits start at %" PRId64 " instead of 0", split[0]);
    for (int64_t row = 0; row < n_rows; row++) {
        if (split[row + 1] < split[row]) {
            return est_fail(EST_INVALID_ARGUMENT, "ragged row %" PRId64 " starts at %" PRId64 " and ends at %" PRId64,
                            row, split[row], split[row + 1]);
        }
    }
    if (split[n_rows] != values->dim[0]) {
        return est_fail(EST_INVALID_ARGUMENT, "ragged splits end at %" PRId64 " but there are %" PRId64 " values",
                        split[n_rows], values->dim[0]);
    }
    return EST_OK;
}

static int64_t index_at(const est_tensor *indices, int64_t i)
{
    const void *data = est_tensor_data(indices);

    return est_tensor_dtype(indices) == EST_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}

/* Dtypes, shapes and the range of every index. */
static est_status indexed_check(const est_indexed *slices)
{
    const est_shape *values, *indices;
    est_dtype        dtype;
    char             v_text[EST_SHAPE_TEXT_MAX], i_text[EST_SHAPE_TEXT_MAX];

    if (slices->values == NULL || slices->indices == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "indexed rows need both values and indices");
    }
    values  = est_tensor_shape(slices->values);
    indices = est_tensor_shape(slices->indices);
    dtype   = est_tensor_dtype(slices->indices);
    if (dtype != EST_I64 && dtype != EST_I32) {
        return est_fail(EST_INVALID_ARGUMENT, "row indices are %s; expected int64 or int32", est_dtype_name(dtype));
    }
    if (values->rank < 1 || indices->rank != 1 || values->dim[0] != indices->dim[0]) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "indexed rows of shape %s with indices of shape %s; expected [n,...] and [n]",
                        est_shape_text(values, v_text), est_shape_text(indices, i_text));
    }
    for (int64_t i = 0; i < indices->dim[0]; i++) {
        int64_t row = index_at(slices->indices, i);

        if (row < 0 || row >= slices->rows) {
            return est_fail(EST_INVALID_ARGUMENT, "index %" PRId64 " is %" PRId64 "; expected 0 to %" PRId64, i, row,
                            slices->rows - 1);
        }
    }
    return EST_OK;
}

#define EST_ADD_ROW(name, type)                                                                                        \
    static void name(void *to, const void *from, int64_t n)                                                            \
    {                                                                                                                  \
        type       *sum = to;                                                                                          \
        const type *add = from;                                                                                        \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) sum[i] = (type)(sum[i] + add[i]);                                              \
    }
EST_ADD_ROW(add_row_f32, float)
EST_ADD_ROW(add_row_f64, double)
EST_ADD_ROW(add_row_32, uint32_t) /* unsigned: integer sums wrap around */
EST_ADD_ROW(add_row_64, uint64_t)
EST_ADD_ROW(add_row_8, uint8_t)
#undef EST_ADD_ROW

typedef void (*add_row_fn)(void *to, const void *from, int64_t n);

/* NULL for a type that has no sum. */
static add_row_fn add_row_for(est_dtype dtype)
{
    switch (dtype) {
    case EST_F32: return add_row_f32;
    case EST_F64: return add_row_f64;
    case EST_I32: return add_row_32;
    case EST_I64: return add_row_64;
    case EST_U8: return add_row_8;
    default: return NULL;
    }
}

est_status est_indexed_to_dense(const est_indexed *slices, est_tensor **out)
{
    est_shape   shape;
    est_dtype   dtype;
    add_row_fn  add_row;
    est_tensor *dense;
    int64_t     row_elements;
    size_t      row_bytes;

    EST_REQUIRE(slices);
    EST_REQUIRE(out);
    EST_TRY(indexed_check(slices));
    dtype   = est_tensor_dtype(slices->values);
    add_row = add_row_for(dtype);
    if (add_row == NULL) return est_fail(EST_INVALID_ARGUMENT, "rows of %s cannot be added", est_dtype_name(dtype));

    shape        = *est_tensor_shape(slices->values);
    row_elements = est_shape_product(&shape, 1, shape.rank);
    row_bytes    = (size_t)row_elements * est_dtype_size(dtype);
    shape.dim[0] = slices->rows;
    EST_TRY(est_tensor_create(dtype, shape, &dense));
    memset(est_tensor_mutable_data(dense), 0, est_tensor_bytes(dense));
    for (int64_t i = 0; i < est_tensor_count(slices->indices); i++) {
        add_row((char *)est_tensor_mutable_data(dense) + (size_t)index_at(slices->indices, i) * row_bytes,
                (const char *)est_tensor_data(slices->values) + (size_t)i * row_bytes, row_elements);
    }
    *out = dense;
    return EST_OK;
}
