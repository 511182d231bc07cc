/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of variables and of row numbers. Indices are checked in one pass of their own before anything is written: the
 * pass is a vector loop, costs little beside the rows themselves, and leaves the variable untouched on an error. */
#include "kernels/variable_access.h"

#include <inttypes.h>

est_status est_variable_ready(const est_call *c, int input, est_dtype dtype)
{
    const est_var *v = est_call_variable(c, input);

    if (v->value.dtype != dtype) {
        return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is %s, the operation works on %s", v->name,
                        est_dtype_name(v->value.dtype), est_dtype_name(dtype));
    }
    if (!v->initialized) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "variable '%s' has no value yet: initialise the session or restore a checkpoint first",
                        v->name);
    }
    return EST_OK;
}

#define DEFINE_IN_RANGE(T, suffix)                                                                                     \
    static bool in_range_##suffix(const T *index, int64_t n, int64_t rows)                                             \
    {                                                                                                                  \
        int bad = 0;                                                                                                   \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) bad |= (int64_t)index[i] >= rows || index[i] < 0;                              \
        return bad == 0;                                                                                               \
    }
DEFINE_IN_RANGE(int32_t, i32)
DEFINE_IN_RANGE(int64_t, i64)

est_status est_variable_not_a_row(const est_var *variable, int64_t i, int64_t row)
{
    char shape[EST_SHAPE_TEXT_MAX];

    return est_fail(
        EST_INVALID_ARGUMENT,
        "indices[%" PRId64 "] = %" PRId64 " is not a row of variable '%s' %s: rows are 0 to %" PRId64 "%s", i, row,
        variable->name, est_shape_text(&variable->value.shape, shape), est_row_count(&variable->value) - 1,
        row != -1 ? "" : "; est_lookup returns -1 for an unknown key: set its num_oov_buckets or default_id");
}

est_status est_variable_check_rows(const est_var *variable, const est_view *indices)
{
    int64_t rows = est_row_count(&variable->value);
    bool    wide = indices->dtype == EST_I64;

    if (wide ? in_range_i64(indices->data, indices->count, rows) : in_range_i32(indices->data, indices->count, rows)) {
        return EST_OK;
    }
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t row = est_row_at(indices->data, wide, i);
        if (row >= 0 && row < rows) continue;
        return est_variable_not_a_row(variable, i, row);
    }
    return EST_OK;
}
