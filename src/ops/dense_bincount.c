/* SPDX-License-Identifier: Apache-2.0
 *
 * DenseBincount: how often each of the numbers 0 .. size - 1 is in a vector, or in each row of a matrix; with weights
 * their sum, with binary_output 1 for at least once. Other numbers are left out; negative ones are an error. Keras'
 * category encoding is this; here it runs loaded models. */
#include <inttypes.h>
#include <string.h>

#include "ops/array.h"

static est_status bincount_infer(est_infer *c)
{
    const est_value *size = est_infer_value(c, 1);
    int64_t          n    = size != NULL && size->n == 1 && size->v[0] != EST_VALUE_UNKNOWN ? size->v[0] : -1;

    if (size != NULL && size->n == 1 && size->v[0] < 0 && size->v[0] != EST_VALUE_UNKNOWN) {
        return est_fail(EST_INVALID_ARGUMENT, "size is %" PRId64, size->v[0]);
    }
    EST_TRY(est_infer_rank(c, 1, 0));
    if (c->in[0].rank == 1) {
        c->out[0] = EST_SHAPE(n);
    } else if (c->in[0].rank == 2) {
        c->out[0] = EST_SHAPE(c->in[0].dim[0], n);
    } else if (c->in[0].rank >= 0) {
        return est_fail(EST_INVALID_ARGUMENT, "input has %d axes, expected 1 or 2", c->in[0].rank);
    }
    return EST_OK;
}

static est_status bincount_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "binary_output");
    return EST_OK;
}

#define COUNT(T, suffix)                                                                                               \
    static void count_##suffix(const est_call *c, int64_t columns, int64_t bins)                                       \
    {                                                                                                                  \
        const T *weights = c->in[2]->count > 0 && !c->param[0].i ? c->in[2]->data : NULL;                              \
        T       *out     = c->out[0].data;                                                                             \
                                                                                                                       \
        memset(out, 0, (size_t)c->out[0].count * sizeof(T));                                                           \
        for (int64_t i = 0; i < c->in[0]->count; i++) {                                                                \
            int64_t bin = est_view_int(c->in[0], i);                                                                   \
            T      *to  = out + i / columns * bins + bin;                                                              \
                                                                                                                       \
            if (bin >= bins) continue;                                                                                 \
            if (c->param[0].i) {                                                                                       \
                *to = 1;                                                                                               \
            } else {                                                                                                   \
                *to += weights != NULL ? weights[i] : 1;                                                               \
            }                                                                                                          \
        }                                                                                                              \
    }
COUNT(float, f32)
COUNT(double, f64)
COUNT(int32_t, i32)
COUNT(int64_t, i64)

static est_status bincount_cpu(est_call *c)
{
    const est_view *in      = c->in[0];
    int             rank    = in->shape.rank;
    int64_t         columns = in->shape.dim[rank - 1], bins = c->out[0].shape.dim[rank - 1];

    if (rank == 1) columns = in->count > 0 ? in->count : 1;
    if (c->in[2]->count > 0 && c->in[2]->count != in->count) {
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " weights for %" PRId64 " numbers", c->in[2]->count,
                        in->count);
    }
    for (int64_t i = 0; i < in->count; i++) {
        if (est_view_int(in, i) >= 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "element %" PRId64 " is %" PRId64 "; expected 0 or more", i,
                        est_view_int(in, i));
    }
    switch (c->out[0].dtype) {
    case EST_F32: count_f32(c, columns, bins); break;
    case EST_F64: count_f64(c, columns, bins); break;
    case EST_I32: count_i32(c, columns, bins); break;
    default: count_i64(c, columns, bins); break;
    }
    return EST_OK;
}

const est_op est_op_dense_bincount = {
    .name      = "DenseBincount",
    .signature = "input: Tidx, size: Tidx, weights: T -> output: T; Tidx: {int32, int64}; "
                 "T: {float32, float64, int32, int64}; binary_output: bool = false",
    .infer     = bincount_infer,
    .cpu       = EST_KERNELS({ .run = bincount_cpu, .prepare = bincount_prepare }),
};
