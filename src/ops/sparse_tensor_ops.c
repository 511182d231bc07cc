/* SPDX-License-Identifier: Apache-2.0
 *
 * What TensorFlow's graphs do with sparse tensors (the place of each value, the values, the size of the whole), as
 * feature columns of its estimators need it. Estoc's own columns have ragged rows instead; these run loaded models.
 *
 *   SparseReshape        the places of the same values under another shape; one -1 in it is worked out
 *   SparseFillEmptyRows  a default at [row, 0] for each row of a matrix that has no value
 *   SparseToDense        a tensor of a default with the values at their places
 *   SparseReorder        the values in the order of their places
 *   SparseSlice          the values in a box, their places counted from its start
 *   GatherNd             the slices of a tensor at their places
 *   ScatterNd            zeros to which slices are added at their places */
#include <inttypes.h>
#include <string.h>

#include "ops/array.h"
#include "tensor/shape.h"

/* --- SparseReshape ------------------------------------------------------------------------------------------------ */

static est_status reshape_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 1));
    EST_TRY(est_infer_rank(c, 2, 1));
    c->out[0] = EST_SHAPE(est_infer_dim(&c->in[0], 0), est_infer_dim(&c->in[2], 0));
    c->out[1] = EST_SHAPE(est_infer_dim(&c->in[2], 0));
    return EST_OK;
}

/* The product of n sizes; false: one is negative, or it does not fit. */
static bool product(const int64_t *sizes, int64_t n, int64_t *out)
{
    bool fits = true;

    *out = 1;
    for (int64_t i = 0; i < n; i++) fits = fits && sizes[i] >= 0 && !__builtin_mul_overflow(*out, sizes[i], out);
    return fits;
}

/* The new sizes, with the -1 worked out. */
static est_status solve_sizes(const est_view *from, const est_view *given, int64_t *sizes)
{
    int64_t open = -1, total, known = 1;
    bool    fits = product(from->data, from->count, &total);

    for (int64_t i = 0; i < given->count; i++) {
        sizes[i] = ((const int64_t *)given->data)[i];
        if (sizes[i] == -1 && open < 0) {
            open = i;
        } else {
            fits = fits && sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known);
        }
    }
    if (open >= 0) sizes[open] = known > 0 ? total / known : 0;
    if (fits && (open >= 0 ? known > 0 && total % known == 0 : known == total)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "%" PRId64 " elements cannot be reshaped to %" PRId64 " sizes whose product "
                    "is %" PRId64,
                    total, given->count, known);
}

static est_status reshape_cpu(est_call *c)
{
    const int64_t *from = c->in[0]->data, *old = c->in[1]->data;
    int64_t        rank = c->in[1]->count, new_rank = c->in[2]->count, n = c->in[0]->shape.dim[0];
    int64_t       *to = c->out[0].data, *sizes = c->out[1].data;

    if (c->in[0]->shape.dim[1] != rank) {
        return est_fail(EST_INVALID_ARGUMENT, "indices have %" PRId64 " columns, the shape %" PRId64 " sizes",
                        c->in[0]->shape.dim[1], rank);
    }
    EST_TRY(solve_sizes(c->in[1], c->in[2], sizes));
    for (int64_t i = 0; i < n; i++, from += rank, to += new_rank) {
        int64_t at = 0;

        for (int64_t k = 0; k < rank; k++) {
            if (from[k] < 0 || from[k] >= old[k]) {
                return est_fail(EST_INVALID_ARGUMENT, "index %" PRId64 " of value %" PRId64 " is not below %" PRId64,
                                from[k], i, old[k]);
            }
            at = at * old[k] + from[k];
        }
        for (int64_t k = new_rank - 1; k >= 0; k--) {
            to[k] = at % sizes[k];
            at /= sizes[k];
        }
    }
    return EST_OK;
}

const est_op est_op_sparse_reshape = {
    .name      = "SparseReshape",
    .signature = "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, "
                 "output_shape: int64",
    .infer     = reshape_infer,
    .cpu       = EST_KERNELS({ .run = reshape_cpu }),
};

/* --- SparseFillEmptyRows ------------------------------------------------------------------------------------------ */

enum { INDICES, FILL_VALUES, SIZES, FILL }; /* inputs */

static est_status fill_infer(est_infer *c)
{
    const est_value *sizes = est_infer_value(c, SIZES);

    EST_TRY(est_infer_rank(c, INDICES, 2));
    EST_TRY(est_infer_rank(c, FILL_VALUES, 1));
    EST_TRY(est_infer_rank(c, SIZES, 1));
    EST_TRY(est_infer_rank(c, FILL, 0));
    c->out[0] = EST_SHAPE(-1, est_infer_dim(&c->in[INDICES], 1));
    c->out[1] = EST_SHAPE(-1);
    c->out[2] = EST_SHAPE(sizes != NULL && sizes->n > 0 && sizes->v[0] >= 0 ? sizes->v[0] : -1);
    c->out[3] = EST_SHAPE(est_infer_dim(&c->in[INDICES], 0));
    return EST_OK;
}

static est_status fill_measure(est_call *c)
{
    const est_view *indices = c->in[INDICES];
    const int64_t  *at      = indices->data;
    int64_t         n = indices->shape.dim[0], rank = indices->shape.dim[1], rows, filled = 0, last = -1;

    if (rank < 1 || c->in[SIZES]->count != rank || c->in[FILL_VALUES]->count != n) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " values at %" PRId64 " places of rank %" PRId64 " in a shape of rank %" PRId64,
                        c->in[FILL_VALUES]->count, n, rank, c->in[SIZES]->count);
    }
    rows = ((const int64_t *)c->in[SIZES]->data)[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t row = at[i * rank];

        if (row < 0 || row >= rows) {
            return est_fail(EST_INVALID_ARGUMENT, "value %" PRId64 " is in row %" PRId64 " of %" PRId64, i, row, rows);
        }
        if (row < last) {
            return est_fail(EST_UNIMPLEMENTED,
                            "value %" PRId64 " is in row %" PRId64 ", after one of row %" PRId64
                            ": rows must be in order",
                            i, row, last);
        }
        filled += row > last;
        last = row;
    }
    if (rows < 0 || rows > INT64_MAX / 16 - n)
        return est_fail(EST_INVALID_ARGUMENT, "a shape of %" PRId64 " rows", rows);
    c->out[0].shape = EST_SHAPE(n + rows - filled, rank);
    c->out[1].shape = EST_SHAPE(n + rows - filled);
    c->out[2].shape = EST_SHAPE(rows);
    c->out[3].shape = EST_SHAPE(n);
    for (int i = 0; i < 4; i++) c->out[i].count = est_shape_count(&c->out[i].shape);
    return EST_OK;
}

static est_status fill_cpu(est_call *c)
{
    const int64_t *from   = c->in[INDICES]->data;
    const char    *values = c->in[FILL_VALUES]->data;
    size_t         size   = est_dtype_size(c->out[1].dtype);
    int64_t       *to = c->out[0].data, *map = c->out[3].data;
    int64_t        rows = c->out[2].count, n = c->in[INDICES]->shape.dim[0], rank = c->in[INDICES]->shape.dim[1];
    char          *out = c->out[1].data;
    int64_t        i = 0, k = 0;

    for (int64_t row = 0; row < rows; row++) {
        bool empty = i >= n || from[i * rank] != row;

        ((uint8_t *)c->out[2].data)[row] = empty;
        if (empty) {
            memset(&to[k * rank], 0, (size_t)rank * sizeof *to);
            to[k * rank] = row;
            memcpy(out + (size_t)k++ * size, c->in[FILL]->data, size);
        }
        for (; i < n && from[i * rank] == row; i++) {
            memcpy(&to[k * rank], &from[i * rank], (size_t)rank * sizeof *to);
            memcpy(out + (size_t)k * size, values + (size_t)i * size, size);
            map[i] = k++;
        }
    }
    return EST_OK;
}

const est_op est_op_sparse_fill_empty_rows = {
    .name      = "SparseFillEmptyRows",
    .signature = "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, "
                 "output_values: T, empty_row_indicator: bool, reverse_index_map: int64; "
                 "T: {float32, float64, int32, int64, bool, string}",
    .infer     = fill_infer,
    .cpu       = EST_KERNELS({ .run = fill_cpu, .measure = fill_measure }),
};

/* --- SparseToDense ------------------------------------------------------------------------------------------------ */

static est_status to_dense_infer(est_infer *c)
{
    est_shape shape;

    EST_TRY(est_infer_rank(c, 1, 1));
    EST_TRY(est_infer_rank(c, 3, 0));
    if (c->in[0].rank > 2) return est_fail(EST_INVALID_ARGUMENT, "sparse_indices have %d axes", c->in[0].rank);
    if (c->in[2].rank > 1) return est_fail(EST_INVALID_ARGUMENT, "sparse_values have %d axes", c->in[2].rank);
    if (est_infer_shape_from_value(c, 1, &shape)) {
        c->out[0] = shape;
    } else if (c->in[1].rank == 1 && c->in[1].dim[0] >= 0 && c->in[1].dim[0] <= EST_RANK_MAX) {
        c->out[0] = est_shape_of_rank((int)c->in[1].dim[0]);
    }
    return EST_OK;
}

static est_status to_dense_cpu(est_call *c)
{
    const est_view *indices = c->in[0], *values = c->in[2];
    est_view       *out  = &c->out[0];
    size_t          size = est_dtype_size(out->dtype);
    int64_t         rank = indices->shape.rank == 2 ? indices->shape.dim[1] : 1;
    int64_t         n    = indices->shape.rank == 0 ? 1 : indices->shape.dim[0];

    if (rank != out->shape.rank || (values->shape.rank == 1 && values->count != n)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " places of rank %" PRId64 " for %" PRId64 " values in a tensor of rank %d", n, rank,
                        values->count, out->shape.rank);
    }
    est_fill_elements(c->pool, out, c->in[3]->data);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int64_t k = 0; k < rank; k++) {
            int64_t index = est_view_int(indices, i * rank + k);

            if (index < 0 || index >= out->shape.dim[k]) {
                return est_fail(EST_INVALID_ARGUMENT, "index %" PRId64 " of value %" PRId64 " is not below %" PRId64,
                                index, i, out->shape.dim[k]);
            }
            at = at * out->shape.dim[k] + index;
        }
        memcpy((char *)out->data + (size_t)at * size,
               (const char *)values->data + (values->shape.rank == 1 ? (size_t)i * size : 0), size);
    }
    return EST_OK;
}

const est_op est_op_sparse_to_dense = {
    .name      = "SparseToDense",
    .signature = "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T; "
                 "validate_indices: bool = true; T: {float32, float64, int32, int64, bool, string}; "
                 "Tindices: {int32, int64}",
    .infer     = to_dense_infer,
    .cpu       = EST_KERNELS({ .run = to_dense_cpu }),
};

/* --- SparseReorder ------------------------------------------------------------------------------------------------ */

static est_status reorder_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 0, 2));
    EST_TRY(est_infer_rank(c, 1, 1));
    EST_TRY(est_infer_rank(c, 2, 1));
    c->out[0] = c->in[0];
    c->out[1] = c->in[1];
    return EST_OK;
}

/* Scratch: two permutations. */
static size_t reorder_scratch(const est_call *c)
{
    return 2 * (size_t)c->in[1]->count * sizeof(int64_t);
}

static bool goes_first(const int64_t *indices, int64_t rank, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < rank; k++) {
        if (indices[a * rank + k] != indices[b * rank + k]) return indices[a * rank + k] < indices[b * rank + k];
    }
    return a < b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Merges runs of 1, 2, 4, ... until one is left; returns the one of the two permutations that is sorted. */
static const int64_t *sort_places(const int64_t *indices, int64_t rank, int64_t n, int64_t *from, int64_t *to)
{
    for (int64_t i = 0; i < n; i++) from[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        int64_t *sorted = to;

        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t a = first, a_end = smaller(first + width, n), b = a_end, b_end = smaller(first + 2 * width, n);

            for (int64_t i = first; i < b_end; i++) {
                bool take_a = a < a_end && (b >= b_end || goes_first(indices, rank, from[a], from[b]));

                to[i] = take_a ? from[a++] : from[b++];
            }
        }
        to   = from;
        from = sorted;
    }
    return from;
}

static est_status reorder_cpu(est_call *c)
{
    const int64_t *indices = c->in[0]->data, *order;
    const char    *values  = c->in[1]->data;
    int64_t       *to      = c->out[0].data;
    size_t         size    = est_dtype_size(c->out[1].dtype);
    int64_t        n = c->in[1]->count, rank = c->in[0]->shape.dim[1];

    if (c->in[0]->shape.dim[0] != n) {
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " values at %" PRId64 " places", n, c->in[0]->shape.dim[0]);
    }
    if (n == 0) return EST_OK;
    order = sort_places(indices, rank, n, c->scratch, (int64_t *)c->scratch + n);
    for (int64_t i = 0; i < n; i++) {
        if (rank > 0) memcpy(&to[i * rank], &indices[order[i] * rank], (size_t)rank * sizeof *to);
        memcpy((char *)c->out[1].data + (size_t)i * size, values + (size_t)order[i] * size, size);
    }
    return EST_OK;
}

const est_op est_op_sparse_reorder = {
    .name      = "SparseReorder",
    .signature = "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, "
                 "output_values: T; T: {float32, float64, int32, int64, bool, string}",
    .infer     = reorder_infer,
    .cpu       = EST_KERNELS({ .run = reorder_cpu, .scratch = reorder_scratch }),
};

/* --- SparseSlice -------------------------------------------------------------------------------------------------- */

static est_status slice_infer(est_infer *c)
{
    int64_t n = est_infer_dim(&c->in[0], 0);

    EST_TRY(est_infer_rank(c, 0, 2));
    for (int i = 1; i < 5; i++) EST_TRY(est_infer_rank(c, i, 1));
    n         = n < 0 ? -1 : est_infer_at_most(c, n);
    c->out[0] = EST_SHAPE(n, est_infer_dim(&c->in[0], 1));
    c->out[1] = EST_SHAPE(n);
    c->out[2] = c->in[2];
    return EST_OK;
}

static est_status slice_cpu(est_call *c)
{
    const int64_t *from = c->in[0]->data, *whole = c->in[2]->data, *start = c->in[3]->data, *size = c->in[4]->data;
    int64_t       *to = c->out[0].data, *sizes = c->out[2].data;
    int64_t        n = c->in[0]->shape.dim[0], rank = c->in[0]->shape.dim[1], taken = 0;
    size_t         bytes = est_dtype_size(c->out[1].dtype);

    if (c->in[1]->count != n || c->in[2]->count != rank || c->in[3]->count != rank || c->in[4]->count != rank) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " values at %" PRId64 " places of rank %" PRId64 ", and a box of rank %" PRId64,
                        c->in[1]->count, n, rank, c->in[4]->count);
    }
    for (int64_t k = 0; k < rank; k++) {
        if (start[k] < 0 || size[k] < 0) {
            return est_fail(EST_INVALID_ARGUMENT, "axis %" PRId64 " of the box starts at %" PRId64 " and has %" PRId64,
                            k, start[k], size[k]);
        }
        sizes[k] = whole[k] <= start[k] ? 0 : smaller(size[k], whole[k] - start[k]);
    }
    for (int64_t i = 0; i < n; i++) {
        bool inside = true;

        for (int64_t k = 0; k < rank; k++) {
            int64_t at = from[i * rank + k] - start[k];

            to[taken * rank + k] = at;
            inside               = inside && from[i * rank + k] >= start[k] && at < sizes[k];
        }
        if (!inside) continue;
        memcpy((char *)c->out[1].data + (size_t)taken++ * bytes, (const char *)c->in[1]->data + (size_t)i * bytes,
               bytes);
    }
    c->out[0].shape.dim[0] = c->out[1].shape.dim[0] = c->out[1].count = taken;
    c->out[0].count                                                   = taken * rank;
    return EST_OK;
}

const est_op est_op_sparse_slice = {
    .name      = "SparseSlice",
    .signature = "indices: int64, values: T, shape: int64, start: int64, size: int64 -> output_indices: int64, "
                 "output_values: T, output_shape: int64; T: {float32, float64, int32, int64, bool, string}",
    .infer     = slice_infer,
    .cpu       = EST_KERNELS({ .run = slice_cpu }),
    .shrinks   = true,
};

/* --- GatherNd ----------------------------------------------------------------------------------------------------- */

/* The axes of the places, then those of a slice. */
static est_status gather_infer(est_infer *c)
{
    const est_shape *params = &c->in[0], *indices = &c->in[1];
    est_shape        shape = { 0 };
    int64_t          depth;

    if (indices->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "indices are a scalar");
    if (params->rank < 0 || indices->rank < 0) return EST_OK;
    depth = indices->dim[indices->rank - 1];
    if (depth < 0) return EST_OK;
    if (depth > params->rank) {
        return est_fail(EST_INVALID_ARGUMENT, "places of rank %" PRId64 " in a tensor of rank %d", depth, params->rank);
    }
    if (indices->rank - 1 + params->rank - depth > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the result would have more than %d axes", EST_RANK_MAX);
    }
    for (int i = 0; i < indices->rank - 1; i++) shape.dim[shape.rank++] = indices->dim[i];
    for (int i = (int)depth; i < params->rank; i++) shape.dim[shape.rank++] = params->dim[i];
    c->out[0] = shape;
    return EST_OK;
}

static est_status gather_cpu(est_call *c)
{
    const est_view  *indices = c->in[1];
    const est_shape *from    = &c->in[0]->shape;
    int              axes    = indices->shape.rank - 1;
    int64_t          depth = indices->shape.dim[axes], n = est_shape_product(&indices->shape, 0, axes);
    size_t           bytes = (size_t)est_shape_product(from, (int)depth, from->rank) * est_dtype_size(c->in[0]->dtype);

    for (int64_t i = 0; i < n; i++) {
        size_t at = 0;

        for (int64_t k = 0; k < depth; k++) {
            int64_t index = est_view_int(indices, i * depth + k);

            if (index < 0 || index >= from->dim[k]) {
                return est_fail(EST_INVALID_ARGUMENT, "index %" PRId64 " of slice %" PRId64 " is not below %" PRId64,
                                index, i, from->dim[k]);
            }
            at = at * (size_t)from->dim[k] + (size_t)index;
        }
        if (bytes > 0)
            memcpy((char *)c->out[0].data + (size_t)i * bytes, (const char *)c->in[0]->data + at * bytes, bytes);
    }
    return EST_OK;
}

const est_op est_op_gather_nd = {
    .name      = "GatherNd",
    .signature = "params: Tparams, indices: Tindices -> output: Tparams; "
                 "Tparams: {float32, float64, int32, uint8, int64, bool, string}; Tindices: {int32, int64}",
    .infer     = gather_infer,
    .cpu       = EST_KERNELS({ .run = gather_cpu }),
};

/* --- ScatterNd ---------------------------------------------------------------------------------------------------- */

static est_status scatter_infer(est_infer *c)
{
    est_shape shape;

    EST_TRY(est_infer_rank(c, 2, 1));
    if (c->in[0].rank == 0) return est_fail(EST_INVALID_ARGUMENT, "indices are a scalar");
    if (est_infer_shape_from_value(c, 2, &shape)) {
        c->out[0] = shape;
    } else if (c->in[2].rank == 1 && c->in[2].dim[0] >= 0 && c->in[2].dim[0] <= EST_RANK_MAX) {
        c->out[0] = est_shape_of_rank((int)c->in[2].dim[0]);
    }
    return EST_OK;
}

#define ADD_SLICE(T, suffix)                                                                                           \
    static void add_slice_##suffix(void *to, const void *from, int64_t first, int64_t second, int64_t n)               \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) ((T *)to)[first + i] += ((const T *)from)[second + i];                         \
    }
ADD_SLICE(float, f32)
ADD_SLICE(double, f64)
ADD_SLICE(int32_t, i32)
ADD_SLICE(int64_t, i64)

static est_status scatter_cpu(est_call *c)
{
    const est_view *indices = c->in[0], *updates = c->in[1];
    est_view       *out   = &c->out[0];
    int             axes  = indices->shape.rank - 1;
    int64_t         depth = indices->shape.dim[axes], n = est_shape_product(&indices->shape, 0, axes);
    int64_t         width = depth <= out->shape.rank ? est_shape_product(&out->shape, (int)depth, out->shape.rank) : -1;

    if (width < 0 || updates->count != n * width) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " updates for %" PRId64 " places of rank %" PRId64 " in a tensor of rank %d",
                        updates->count, n, depth, out->shape.rank);
    }
    memset(out->data, 0, (size_t)out->count * est_dtype_size(out->dtype));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int64_t k = 0; k < depth; k++) {
            int64_t index = est_view_int(indices, i * depth + k);

            if (index < 0 || index >= out->shape.dim[k]) {
                return est_fail(EST_INVALID_ARGUMENT, "index %" PRId64 " of slice %" PRId64 " is not below %" PRId64,
                                index, i, out->shape.dim[k]);
            }
            at = at * out->shape.dim[k] + index;
        }
        switch (out->dtype) {
        case EST_F32: add_slice_f32(out->data, updates->data, at * width, i * width, width); break;
        case EST_F64: add_slice_f64(out->data, updates->data, at * width, i * width, width); break;
        case EST_I32: add_slice_i32(out->data, updates->data, at * width, i * width, width); break;
        default: add_slice_i64(out->data, updates->data, at * width, i * width, width); break;
        }
    }
    return EST_OK;
}

const est_op est_op_scatter_nd = {
    .name      = "ScatterNd",
    .signature = "indices: Tindices, updates: T, shape: Tindices -> output: T; T: {float32, float64, int32, int64}; "
                 "Tindices: {int32, int64}",
    .infer     = scatter_infer,
    .cpu       = EST_KERNELS({ .run = scatter_cpu }),
};
