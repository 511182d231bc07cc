/* SPDX-License-Identifier: Apache-2.0
 *
 * ConcatOffset: where each of some parts begins in their concatenation: all zeros but along the axis, where it is the
 * sum of the sizes before. Takes shapes as vectors; the gradient of a concatenation slices with what it gives. */
#include <inttypes.h>

#include "ops/array.h"

/* Offsets whose sizes are all known are known too. */
static void follow_offsets(est_infer *c, int axis, int rank)
{
    int64_t offset = 0;

    for (int i = 0; i < c->n_out; i++) {
        const est_value *shape = est_infer_value(c, i + 1);

        c->out_value[i].n = rank;
        for (int k = 0; k < rank; k++) c->out_value[i].v[k] = k == axis ? offset : 0;
        if (shape == NULL || shape->v[axis] == EST_VALUE_UNKNOWN) {
            offset = EST_VALUE_UNKNOWN;
        } else if (offset != EST_VALUE_UNKNOWN) {
            offset += shape->v[axis];
        }
    }
}

static est_status concat_offset_infer(est_infer *c)
{
    est_shape merged = EST_SHAPE(-1);
    int       axis;

    EST_TRY(est_infer_rank(c, 0, 0));
    for (int i = 0; i < c->n_out; i++) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

        EST_TRY(est_infer_rank(c, i + 1, 1));
        if (est_infer_merge(&merged, &c->in[i + 1], &merged) != EST_OK) {
            return est_fail(EST_INVALID_ARGUMENT, "shape %d is a vector %s, those before it are %s", i,
                            est_shape_text(&c->in[i + 1], a), est_shape_text(&merged, b));
        }
    }
    for (int i = 0; i < c->n_out; i++) c->out[i] = merged;
    EST_TRY(est_infer_axis(c, 0, (int)merged.dim[0], &axis));
    if (merged.dim[0] >= 0 && merged.dim[0] <= EST_VALUE_MAX && axis >= 0) {
        follow_offsets(c, axis, (int)merged.dim[0]);
    }
    return EST_OK;
}

static void set_int(est_view *view, int64_t i, int64_t value)
{
    if (view->dtype == EST_I64) {
        ((int64_t *)view->data)[i] = value;
    } else {
        ((int32_t *)view->data)[i] = (int32_t)value;
    }
}

static est_status concat_offset_cpu(est_call *c)
{
    int64_t rank = c->out[0].count, axis = est_view_int(c->in[0], 0), offset = 0;

    if (axis < -rank || axis >= rank) {
        return est_fail(EST_INVALID_ARGUMENT, "axis %" PRId64 " of shapes of rank %" PRId64, axis, rank);
    }
    if (axis < 0) axis += rank;
    for (int i = 0; i < c->n_out; i++) {
        for (int64_t k = 0; k < rank; k++) {
            if (k != axis && est_view_int(c->in[i + 1], k) != est_view_int(c->in[1], k)) {
                return est_fail(EST_INVALID_ARGUMENT,
                                "axis %" PRId64 " of part %d is %" PRId64 ", of the first part %" PRId64
                                "; only axis %" PRId64 " may differ",
                                k, i, est_view_int(c->in[i + 1], k), est_view_int(c->in[1], k), axis);
            }
            set_int(&c->out[i], k, k == axis ? offset : 0);
        }
        offset += est_view_int(c->in[i + 1], axis);
    }
    return EST_OK;
}

const est_op est_op_concat_offset = {
    .name      = "ConcatOffset",
    .signature = "concat_dim: int32, shape: N*shape_type -> offset: N*shape_type; N: int; "
                 "shape_type: {int32, int64} = int32",
    .infer     = concat_offset_infer,
    .cpu       = EST_KERNELS({ .run = concat_offset_cpu }),
};
