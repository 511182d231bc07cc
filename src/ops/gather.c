/* SPDX-License-Identifier: Apache-2.0
 *
 * GatherV2: slices of `params` along `axis`, picked by `indices`:
 *   out[b, o, i, :] = params[b, o, indices[b, i], :]
 * where b runs over the first batch_dims axes (shared with indices), o over the axes between them and `axis`.
 *
 * Its gradient towards params is sparse when rows are picked (axis 0): dy itself and which rows it belongs to. For
 * other axes EstGatherGrad adds the slices of dy into zeros. EstGatherOrZero picks rows where a negative index gives
 * zeros; it is the gradient of a segment sum. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static est_status resolve_batch_dims(const est_node_def *node, const est_shape *indices, int *batch)
{
    int64_t given = est_node_int(node, "batch_dims");

    *batch = -1;
    if (indices->rank < 0) {
        if (given >= 0) *batch = (int)given;
        return EST_OK;
    }
    if (given < -indices->rank || given > indices->rank) {
        return est_fail(EST_INVALID_ARGUMENT, "batch_dims is %" PRId64 " for indices of rank %d", given, indices->rank);
    }
    *batch = (int)(given < 0 ? given + indices->rank : given);
    return EST_OK;
}

/* params[:axis] + indices[batch:] + params[axis + 1:] */
static est_status gather_shape(const est_shape *params, const est_shape *indices, int axis, int batch, est_shape *out)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (batch > axis) return est_fail(EST_INVALID_ARGUMENT, "batch_dims %d is more than axis %d", batch, axis);
    if (params->rank - 1 + indices->rank - batch > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the result would have more than %d axes", EST_RANK_MAX);
    }
    *out = (est_shape){ 0 };
    for (int i = 0; i < axis; i++) {
        int64_t dim = params->dim[i];

        if (i < batch && dim >= 0 && indices->dim[i] >= 0 && dim != indices->dim[i]) {
            return est_fail(EST_INVALID_ARGUMENT, "the first %d axes of params %s and indices %s must agree", batch,
                            est_shape_text(params, a), est_shape_text(indices, b));
        }
        out->dim[out->rank++] = i < batch && dim < 0 ? indices->dim[i] : dim;
    }
    for (int i = batch; i < indices->rank; i++) out->dim[out->rank++] = indices->dim[i];
    for (int i = axis + 1; i < params->rank; i++) out->dim[out->rank++] = params->dim[i];
    return EST_OK;
}

static est_status gather_infer(est_infer *c)
{
    const est_shape *params = &c->in[0], *indices = &c->in[1];
    const est_value *values = est_infer_value(c, 0), *picks = est_infer_value(c, 1);
    int              axis, batch;

    if (params->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "params must have at least one axis, got a scalar");
    EST_TRY(est_infer_axis(c, 2, params->rank, &axis));
    EST_TRY(resolve_batch_dims(c->node, indices, &batch));
    if (params->rank < 0 || indices->rank < 0) return EST_OK;
    if (axis < 0) {
        int rank = params->rank - 1 + indices->rank - batch;
        if (rank <= EST_RANK_MAX) c->out[0] = est_shape_of_rank(rank);
        return EST_OK;
    }
    EST_TRY(gather_shape(params, indices, axis, batch, &c->out[0]));
    if (values == NULL || picks == NULL || params->rank != 1 || batch != 0) return EST_OK;
    c->out_value[0].n = picks->n;
    for (int i = 0; i < picks->n; i++) {
        int64_t at = picks->v[i];

        c->out_value[0].v[i] = at >= 0 && at < values->n ? values->v[at] : EST_VALUE_UNKNOWN;
    }
    return EST_OK;
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

/* dy as rows: [n, params.shape[1:]]. The row's shape is a constant when it is known, whatever the batch is. */
static est_node as_rows(est_node dy, est_node params, est_node indices)
{
    const est_shape *shape = est_node_shape(params);
    int64_t          rows[EST_RANK_MAX];
    bool             known = shape != NULL && shape->rank > 0;
    est_node         inner;

    rows[0] = -1;
    for (int i = 1; known && i < shape->rank; i++) {
        rows[i] = shape->dim[i];
        known   = shape->dim[i] > 0;
    }
    if (known) return est_reshape(dy, (est_i64s){ rows, shape->rank });
    inner = est_strided_slice(est_shape_of(params), EST_I64S(1), EST_I64S(0), EST_I64S(1),
                              (est_strided_slice_options){ .end_mask = 1 });
    return est_reshape_to(dy, est_concat(EST_NODES(est_reshape(est_size(indices), EST_I64S(1)), inner), 0));
}

static void gather_grad(est_grad *g)
{
    const est_value *axis       = est_node_value(g->in[2]);
    int64_t          batch_dims = est_node_int(g->node, "batch_dims");

    if (axis != NULL && axis->v[0] == 0 && batch_dims == 0) {
        g->din[0].values  = as_rows(g->dout[0], g->in[0], g->in[1]);
        g->din[0].indices = est_reshape(g->in[1], EST_I64S(-1));
    } else {
        g->din[0].values = est_gather_grad(g->in[0], g->in[1], g->dout[0], g->in[2], batch_dims);
    }
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* The call as nested loops: batch x outer x picks (indices of one batch) x inner. */
typedef struct gather_job {
    const est_view *indices;
    char           *dst;
    const char     *src;
    int64_t         batch, outer, picks, rows; /* rows: size of the gathered axis */
    size_t          inner;                     /* bytes of one slice */
    bool            negative_is_zero;
} gather_job;

static void job_dims(gather_job *job, const est_shape *params, const est_view *indices, int64_t axis,
                     int64_t batch_dims, size_t element)
{
    int at = (int)(axis < 0 ? axis + params->rank : axis);
    int b  = (int)(batch_dims < 0 ? batch_dims + indices->shape.rank : batch_dims);

    job->indices = indices;
    job->batch   = est_shape_product(params, 0, b);
    job->outer   = est_shape_product(params, b, at);
    job->rows    = params->dim[at];
    job->picks   = est_shape_product(&indices->shape, b, indices->shape.rank);
    job->inner   = (size_t)est_shape_product(params, at + 1, params->rank) * element;
}

/* "indices[3,1] = 12": element `place`, value[0], is no row of value[1]. Also est_kernel.fail. */
static est_status bad_index(const est_call *c, int64_t place, const int64_t *value)
{
    const est_shape *shape     = &c->in[1]->shape;
    char             text[128] = "";
    int64_t          strides[EST_RANK_MAX], rest = place;
    int              used = 0;

    est_shape_strides(shape, strides);
    for (int k = 0; k < shape->rank && used < 100; k++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%" PRId64, k > 0 ? "," : "[", rest / strides[k]);
        rest %= strides[k];
    }
    return est_fail(EST_INVALID_ARGUMENT, "indices%s%s = %" PRId64 " is not in [0, %" PRId64 ")", text,
                    used > 0 ? "]" : "", value[0], value[1]);
}

/* A pass of its own: it is fast because it only asks whether anything is wrong, and the copy then needs no checks. */
#define ANY_OUT_OF_RANGE(T, U)                                                                                         \
    for (int64_t i = 0; i < indices->count; i++) bad |= (U)((const T *)indices->data)[i] >= (U)rows
#define ANY_TOO_LARGE(T)                                                                                               \
    for (int64_t i = 0; i < indices->count; i++) bad |= ((const T *)indices->data)[i] >= rows

static est_status check_indices(const est_call *c, int64_t rows, bool negative_allowed)
{
    const est_view *indices = c->in[1];
    bool            bad     = false;

    if (negative_allowed && indices->dtype == EST_I64) {
        ANY_TOO_LARGE(int64_t);
    } else if (negative_allowed) {
        ANY_TOO_LARGE(int32_t);
    } else if (indices->dtype == EST_I64 || rows > INT32_MAX) {
        for (int64_t i = 0; i < indices->count; i++) bad |= (uint64_t)est_view_int(indices, i) >= (uint64_t)rows;
    } else {
        ANY_OUT_OF_RANGE(int32_t, uint32_t);
    }
    for (int64_t i = 0; bad && i < indices->count; i++) {
        int64_t at = est_view_int(indices, i);

        if (at >= rows || (at < 0 && !negative_allowed)) return bad_index(c, i, (int64_t[]){ at, rows });
    }
    return EST_OK;
}

/* The loop over picks with the slice's size as a constant where it is a usual one. */
#define COPY_SLICES(bytes)                                                                                             \
    for (int64_t i = 0; i < n; i++, dst += (bytes)) {                                                                  \
        int64_t row = est_view_int(job->indices, first + i);                                                           \
        if (row < 0) {                                                                                                 \
            memset(dst, 0, (bytes));                                                                                   \
        } else {                                                                                                       \
            memcpy(dst, src + (size_t)row * (bytes), (bytes));                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    break

/* Slices of one (batch, outer): those that indices first, first + 1, ... name. */
static void copy_slices(const gather_job *job, char *dst, const char *src, int64_t first, int64_t n)
{
    switch (job->inner) {
    case 1: COPY_SLICES(1);
    case 4: COPY_SLICES(4);
    case 8: COPY_SLICES(8);
    case 16: COPY_SLICES(16);
    case 32: COPY_SLICES(32);
    case 64: COPY_SLICES(64);
    case 128: COPY_SLICES(128);
    case 256: COPY_SLICES(256);
    default: COPY_SLICES(job->inner);
    }
}

static void gather_slices(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const gather_job *job = arg;

    (void)block;
    while (begin < end) {
        int64_t at = begin / job->picks, pick = begin % job->picks, n = job->picks - pick; /* at: (batch, outer) */

        if (n > end - begin) n = end - begin;
        copy_slices(job, job->dst + (size_t)begin * job->inner, job->src + (size_t)(at * job->rows) * job->inner,
                    at / job->outer * job->picks + pick, n);
        begin += n;
    }
}

static est_status run_gather(est_call *c, gather_job *job)
{
    EST_TRY(check_indices(c, job->rows, job->negative_is_zero));
    job->dst = c->out[0].data;
    job->src = c->in[0]->data;
    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, job->batch * job->outer * job->picks, 1, 4 + 0.05 * (double)job->inner, gather_slices,
                     job);
    return EST_OK;
}

static est_status prepare_batch_dims(est_call *c)
{
    c->param[0].i = est_node_int(c->node, "batch_dims");
    return EST_OK;
}

static est_status gather_cpu(est_call *c)
{
    gather_job job = { .negative_is_zero = false };

    job_dims(&job, &c->in[0]->shape, c->in[1], est_view_int(c->in[2], 0), c->param[0].i,
             est_dtype_size(c->in[0]->dtype));
    return run_gather(c, &job);
}

const est_op est_op_gather_v2 = {
    .name      = "GatherV2",
    .signature = "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams; batch_dims: int = 0; "
                 "Tparams: type; Tindices: {int32, int64}; Taxis: {int32, int64}",
    .infer     = gather_infer,
    .grad      = gather_grad,
    .cpu       = EST_KERNELS({ .run = gather_cpu, .prepare = prepare_batch_dims }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(gather_v2), .prepare = prepare_batch_dims, .fail = bad_index }),
};

est_node est_gather(est_node params, est_node indices, int axis)
{
    return est_build3(&est_op_gather_v2, params, indices, est_scalar(params.graph, EST_I32, axis), EST_NO_ATTRS);
}

/* --- EstGatherGrad ------------------------------------------------------------------------------------------------ */

/* Inputs: params (only its shape), indices, dy, axis. */
static est_status gather_grad_infer(est_infer *c)
{
    c->out[0] = c->in[0];
    return EST_OK;
}

static void gather_grad_grad(est_grad *g)
{
    g->din[2].values = est_build3(&est_op_gather_v2, g->dout[0], g->in[1], g->in[3],
                                  EST_ATTRS(est_attr_int("batch_dims", est_node_int(g->node, "batch_dims"))));
}

/* One (batch, outer) at a time: no two of them share an element of the result. */
#define SCATTER_ADD(T, suffix)                                                                                         \
    static void scatter_add_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                             \
    {                                                                                                                  \
        const gather_job *job   = arg;                                                                                 \
        int64_t           inner = (int64_t)(job->inner / sizeof(T));                                                   \
        (void)block;                                                                                                   \
        for (int64_t at = begin; at < end; at++) {                                                                     \
            T       *to   = (T *)(void *)job->dst + at * job->rows * inner;                                            \
            const T *from = (const T *)(const void *)job->src + at * job->picks * inner;                               \
            memset(to, 0, (size_t)(job->rows * inner) * sizeof(T));                                                    \
            for (int64_t i = 0; i < job->picks; i++) {                                                                 \
                T *restrict row         = to + est_view_int(job->indices, at / job->outer * job->picks + i) * inner;   \
                const T *restrict slice = from + i * inner;                                                            \
                for (int64_t k = 0; k < inner; k++) row[k] += slice[k];                                                \
            }                                                                                                          \
        }                                                                                                              \
    }
SCATTER_ADD(float, f32)
SCATTER_ADD(double, f64)
SCATTER_ADD(int32_t, i32)
SCATTER_ADD(int64_t, i64)

static est_status gather_grad_cpu(est_call *c)
{
    gather_job   job   = { .dst = c->out[0].data, .src = c->in[2]->data };
    est_dtype    dtype = c->out[0].dtype;
    est_range_fn add   = dtype == EST_F32   ? scatter_add_f32
                         : dtype == EST_F64 ? scatter_add_f64
                         : dtype == EST_I32 ? scatter_add_i32
                                            : scatter_add_i64;

    job_dims(&job, &c->in[0]->shape, c->in[1], est_view_int(c->in[3], 0), c->param[0].i, est_dtype_size(dtype));
    EST_TRY(check_indices(c, job.rows, false));
    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, job.batch * job.outer, 1,
                     0.15 * (double)((job.rows + 2 * job.picks) * (int64_t)job.inner), add, &job);
    return EST_OK;
}

/* The product of entries [begin, end) of a shape that is a vector. */
static est_node entries_product(est_node shape, int begin, int end)
{
    return est_reduce_prod(
        est_strided_slice(shape, EST_I64S(begin), EST_I64S(end), EST_I64S(1), (est_strided_slice_options){ 0 }),
        EST_I64S(0), false);
}

/* A segment sum: with params as [batch, outer, rows, inner], slice (b, o, i) of dy goes to row
 * (b * outer + o) * rows + indices[b, i]. */
static void gather_grad_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node         params = in[0], indices = in[1], dy = in[2];
    const est_shape *s     = est_node_shape(params);
    const est_value *given = est_node_value(in[3]);
    est_dtype        dtype = est_node_dtype(indices);
    int              rank  = est_node_shape(indices)->rank, axis, batch_dims;

    if (s->rank < 0 || rank < 0 || given == NULL || given->v[0] == EST_VALUE_UNKNOWN) return;
    if (resolve_batch_dims(node, est_node_shape(indices), &batch_dims) != EST_OK) return;
    axis = (int)(given->v[0] < 0 ? given->v[0] + s->rank : given->v[0]);

    est_node shape = est_shape_as(params, dtype), one = est_scalar(graph, dtype, 1);
    est_node batch = entries_product(shape, 0, batch_dims), outer = entries_product(shape, batch_dims, axis);
    est_node rows   = entries_product(shape, axis, axis + 1);
    est_node picks  = entries_product(est_shape_as(indices, dtype), batch_dims, rank);
    est_node inner  = est_strided_slice(shape, EST_I64S(axis + 1), EST_I64S(s->rank), EST_I64S(1),
                                        (est_strided_slice_options){ 0 });
    est_node places = est_mul(batch, outer);
    est_node first  = est_mul(est_range(est_scalar(graph, dtype, 0), places, one), rows); /* row of each (b, o) */
    est_node ids    = est_add(est_reshape_to(first, est_pack(EST_NODES(batch, outer, one), 0)),
                              est_reshape_to(indices, est_pack(EST_NODES(batch, one, picks), 0)));
    est_node slices = est_reshape_to(dy, est_concat(EST_NODES(est_pack(EST_NODES(batch, outer, picks), 0), inner), 0));

    out[0] = est_reshape_to(est_unsorted_segment_sum(slices, ids, est_mul(places, rows)), shape);
}

const est_op est_op_gather_grad = {
    .name       = "EstGatherGrad",
    .signature  = "params: T, indices: Tindices, dy: T, axis: Taxis -> output: T; batch_dims: int = 0; "
                  "T: {float32, float64, int32, int64}; Tindices: {int32, int64}; Taxis: {int32, int64}",
    .infer      = gather_grad_infer,
    .grad       = gather_grad_grad,
    .cpu        = EST_KERNELS({ .run = gather_grad_cpu, .prepare = prepare_batch_dims }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(gather_grad), .prepare = prepare_batch_dims, .fail = bad_index }),
    .lower      = gather_grad_lower,
    .shape_only = 1u << 0,
};

est_node est_gather_grad(est_node params, est_node indices, est_node dy, est_node axis, int64_t batch_dims)
{
    return est_build(dy.graph, &est_op_gather_grad, EST_NODES(params, indices, dy, axis),
                     EST_ATTRS(est_attr_int("batch_dims", batch_dims)));
}

/* --- EstGatherOrZero ---------------------------------------------------------------------------------------------- */

static est_status gather_or_zero_infer(est_infer *c)
{
    if (c->in[0].rank == 0) return est_fail(EST_INVALID_ARGUMENT, "params must have at least one axis, got a scalar");
    if (c->in[0].rank < 0 || c->in[1].rank < 0) return EST_OK;
    return gather_shape(&c->in[0], &c->in[1], 0, 0, &c->out[0]);
}

static void gather_or_zero_grad(est_grad *g)
{
    est_node rows = est_strided_slice(est_shape_as(g->in[0], EST_I32), EST_I64S(0), EST_I64S(1), EST_I64S(1),
                                      (est_strided_slice_options){ .shrink_axis_mask = 1 });

    g->din[0].values = est_unsorted_segment_sum(g->dout[0], g->in[1], rows);
}

static est_status gather_or_zero_cpu(est_call *c)
{
    gather_job job = { .negative_is_zero = true };

    job_dims(&job, &c->in[0]->shape, c->in[1], 0, 0, est_dtype_size(c->in[0]->dtype));
    return run_gather(c, &job);
}

/* Row 0 in place of the negative ones, then zeros over it. */
static void gather_or_zero_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node zero  = est_scalar(graph, est_node_dtype(in[1]), 0);
    est_node slice = est_strided_slice(est_shape_of(in[0]), EST_I64S(1), EST_I64S(0), EST_I64S(1),
                                       (est_strided_slice_options){ .end_mask = 1 });
    est_node shape = est_concat(EST_NODES(est_shape_of(in[1]), est_ones_like(slice)), 0); /* broadcasts over a slice */
    est_node valid = est_reshape_to(est_greater_equal(in[1], zero), shape);

    (void)node;
    out[0] = est_select(valid, est_gather(in[0], est_maximum(in[1], zero), 0),
                        est_scalar(graph, est_node_dtype(in[0]), 0));
}

const est_op est_op_gather_or_zero = {
    .name      = "EstGatherOrZero",
    .signature = "params: T, indices: Tindices -> output: T; T: {float32, float64, int32, int64}; "
                 "Tindices: {int32, int64}",
    .infer     = gather_or_zero_infer,
    .grad      = gather_or_zero_grad,
    .cpu       = EST_KERNELS({ .run = gather_or_zero_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(gather_or_zero), .fail = bad_index }),
    .lower     = gather_or_zero_lower,
};
