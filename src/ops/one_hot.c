/* SPDX-License-Identifier: Apache-2.0
 *
 * OneHot: a new axis of size `depth` that is on_value where its position equals the index and off_value elsewhere. An
 * index outside [0, depth) gives off_value only. */
#include <inttypes.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

static est_status one_hot_infer(est_infer *c)
{
    const est_shape *in    = &c->in[0];
    const est_value *depth = est_infer_value(c, 1);
    int              axis;

    for (int i = 1; i <= 3; i++) EST_TRY(est_infer_rank(c, i, 0));
    if (depth != NULL && depth->v[0] < 0 && depth->v[0] != EST_VALUE_UNKNOWN) {
        return est_fail(EST_INVALID_ARGUMENT, "depth is %" PRId64 ", must not be negative", depth->v[0]);
    }
    if (in->rank < 0) return EST_OK;
    if (in->rank == EST_RANK_MAX) return est_fail(EST_INVALID_ARGUMENT, "a shape has at most %d axes", EST_RANK_MAX);
    EST_TRY(est_infer_axis_attr(est_node_int(c->node, "axis"), in->rank + 1, &axis));
    c->out[0].rank = in->rank + 1;
    for (int i = 0; i <= in->rank; i++) c->out[0].dim[i] = i < axis ? in->dim[i] : i == axis ? -1 : in->dim[i - 1];
    if (depth != NULL && depth->v[0] >= 0) c->out[0].dim[axis] = depth->v[0];
    return EST_OK;
}

/* param[0]: the axis, param[1]: elements behind it. */
static est_status one_hot_prepare(est_call *c)
{
    int64_t axis = est_node_int(c->node, "axis");

    if (axis < 0) axis += c->out[0].shape.rank;
    c->param[0].i = axis;
    c->param[1].i = est_shape_product(&c->out[0].shape, (int)axis + 1, c->out[0].shape.rank);
    return EST_OK;
}

static int64_t index_at(const est_view *indices, int64_t i)
{
    return indices->dtype == EST_U8 ? ((const uint8_t *)indices->data)[i] : est_view_int(indices, i);
}

/* Puts on_value where it belongs for indices [begin, end); everything is off before. */
#define SET_ON(T, suffix)                                                                                              \
    static void set_on_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                  \
    {                                                                                                                  \
        const est_call *c     = arg;                                                                                   \
        int64_t         depth = c->out[0].shape.dim[c->param[0].i], inner = c->param[1].i;                             \
        T              *y  = c->out[0].data;                                                                           \
        const T         on = *(const T *)c->in[2]->data;                                                               \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            int64_t at = index_at(c->in[0], i);                                                                        \
            if (at >= 0 && at < depth) y[(i / inner * depth + at) * inner + i % inner] = on;                           \
        }                                                                                                              \
    }
SET_ON(uint8_t, u8)
SET_ON(float, f32)
SET_ON(double, f64)
SET_ON(int32_t, i32)
SET_ON(int64_t, i64)

static est_status one_hot_cpu(est_call *c)
{
    est_view    *y  = &c->out[0];
    est_range_fn on = y->dtype == EST_F32   ? set_on_f32
                      : y->dtype == EST_F64 ? set_on_f64
                      : y->dtype == EST_I32 ? set_on_i32
                      : y->dtype == EST_I64 ? set_on_i64
                                            : set_on_u8;

    if (y->count == 0) return EST_OK;
    est_strided_fill(c->pool, est_dtype_size(y->dtype), y->data, c->in[3]->data, y->count);
    est_parallel_for(c->pool, c->in[0]->count, 1, 5, on, c);
    return EST_OK;
}

const est_op est_op_one_hot = {
    .name      = "OneHot",
    .signature = "indices: TI, depth: int32, on_value: T, off_value: T -> output: T; axis: int = -1; "
                 "T: {float32, float64, int32, int64, uint8, bool}; TI: {uint8, int32, int64} = int64",
    .infer     = one_hot_infer,
    .cpu       = EST_KERNELS({ .run = one_hot_cpu, .prepare = one_hot_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(one_hot), .prepare = one_hot_prepare }),
};

est_node est_one_hot(est_node indices, int64_t depth, double on, double off, int axis)
{
    est_graph *g = indices.graph;

    return est_build(g, &est_op_one_hot,
                     EST_NODES(indices, est_scalar(g, EST_I32, (double)depth), est_scalar(g, EST_F32, on),
                               est_scalar(g, EST_F32, off)),
                     EST_ATTRS(est_attr_int("axis", axis)));
}
