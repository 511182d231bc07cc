/* SPDX-License-Identifier: Apache-2.0
 *
 * Where: the coordinates of the elements that are not zero (true), in row-major order, as int64 [n, rank]. */
#include "ops/ops.h"

static est_status where_infer(est_infer *c)
{
    c->out[0] = EST_SHAPE(-1, -1);
    if (c->in[0].rank >= 0) {
        c->out[0] = EST_SHAPE(est_infer_at_most(c, est_shape_count(&c->in[0])), c->in[0].rank);
    }
    return EST_OK;
}

static void write_coordinates(const est_shape *shape, int64_t i, int64_t *out)
{
    for (int k = shape->rank - 1; k >= 0; k--) {
        out[k] = i % shape->dim[k];
        i /= shape->dim[k];
    }
}

#define WHERE(T, suffix)                                                                                               \
    static int64_t where_##suffix(const T *x, const est_view *in, int64_t *out)                                        \
    {                                                                                                                  \
        int64_t found = 0;                                                                                             \
        for (int64_t i = 0; i < in->count; i++) {                                                                      \
            if (x[i] != 0) write_coordinates(&in->shape, i, out + found++ * in->shape.rank);                           \
        }                                                                                                              \
        return found;                                                                                                  \
    }
WHERE(uint8_t, u8)
WHERE(float, f32)
WHERE(double, f64)
WHERE(int32_t, i32)
WHERE(int64_t, i64)

static est_status where_cpu(est_call *c)
{
    const est_view *in  = c->in[0];
    est_view       *out = &c->out[0];
    int64_t         n;

    switch (in->dtype) {
    case EST_F32: n = where_f32(in->data, in, out->data); break;
    case EST_F64: n = where_f64(in->data, in, out->data); break;
    case EST_I32: n = where_i32(in->data, in, out->data); break;
    case EST_I64: n = where_i64(in->data, in, out->data); break;
    default: n = where_u8(in->data, in, out->data); break;
    }
    out->shape.dim[0] = n;
    out->count        = n * in->shape.rank;
    return EST_OK;
}

const est_op est_op_where = {
    .name      = "Where",
    .signature = "input: T -> index: int64; T: {bool, float32, float64, int32, int64, uint8} = bool",
    .infer     = where_infer,
    .cpu       = EST_KERNELS({ .run = where_cpu }),
    .shrinks   = true,
};

est_node est_where(est_node condition)
{
    return est_build1(&est_op_where, condition, EST_NO_ATTRS);
}
