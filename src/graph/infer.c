/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape functions that many ops share. */
#include "graph/op.h"
#include "tensor/shape.h"

est_status est_infer_same_as_input(est_infer *c)
{
    c->out[0] = c->in[0];
    return EST_OK;
}

est_status est_infer_scalar(est_infer *c)
{
    c->out[0] = EST_SHAPE_SCALAR;
    return EST_OK;
}

est_status est_infer_none(est_infer *c)
{
    (void)c;
    return EST_OK;
}

est_status est_infer_broadcast(est_infer *c)
{
    return est_shape_broadcast(&c->in[0], &c->in[1], &c->out[0]);
}

est_status est_infer_rank(const est_infer *c, int input, int rank)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (c->in[input].rank == rank || c->in[input].rank < 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "input %d must have rank %d, got shape %s", input, rank,
                    est_shape_text(&c->in[input], text));
}

est_status est_infer_merge(const est_shape *a, const est_shape *b, est_shape *out)
{
    return est_shape_merge(a, b, out);
}

int64_t est_infer_dim(const est_shape *s, int axis)
{
    if (s->rank < 0) return -1;
    if (axis < 0) axis += s->rank;
    return axis >= 0 && axis < s->rank ? s->dim[axis] : -1;
}

bool est_infer_shape_from_value(const est_infer *c, int input, est_shape *out)
{
    const est_value *value = c->in_value[input];

    if (value == NULL || value->n < 0 || value->n > EST_RANK_MAX) {
        int64_t n = est_infer_dim(&c->in[input], 0); /* at least the rank may be known */
        if (c->in[input].rank != 1 || n < 0 || n > EST_RANK_MAX) return false;
        out->rank = (int32_t)n;
        for (int64_t i = 0; i < n; i++) out->dim[i] = -1;
        return true;
    }
    out->rank = value->n;
    for (int32_t i = 0; i < value->n; i++) {
        out->dim[i] = value->v[i] == EST_VALUE_UNKNOWN || value->v[i] < 0 ? -1 : value->v[i];
    }
    return true;
}
