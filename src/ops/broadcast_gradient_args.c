/* SPDX-License-Identifier: Apache-2.0
 *
 * BroadcastGradientArgs: for two shapes that were broadcast together, the axes of the result to sum a gradient over to
 * get back to each: those it does not have, and those where it has 1 (both, where both have 1). */
#include "ops/array.h"

typedef struct shape_pair {
    int64_t        n[2];
    const int64_t *dim[2];
} shape_pair;

/* Entry `axis` of shape `which`, aligned at the end with the longer one; 1 where it has no such axis. */
static int64_t aligned_dim(const shape_pair *s, int which, int64_t axis)
{
    int64_t rank = s->n[0] > s->n[1] ? s->n[0] : s->n[1], i = axis - (rank - s->n[which]);

    return i >= 0 ? s->dim[which][i] : 1;
}

/* Lists the axes; false when the shapes do not broadcast. */
static bool reduced_axes(const shape_pair *s, int64_t axes[2][EST_VALUE_MAX], int n[2])
{
    int64_t rank = s->n[0] > s->n[1] ? s->n[0] : s->n[1];

    n[0] = n[1] = 0;
    for (int64_t a = 0; a < rank; a++) {
        int64_t x = aligned_dim(s, 0, a), y = aligned_dim(s, 1, a);

        if (x != y && x != 1 && y != 1) return false;
        if (x == 1) axes[0][n[0]++] = a;
        if (y == 1) axes[1][n[1]++] = a;
    }
    return true;
}

static est_status cannot_broadcast(void)
{
    return est_fail(EST_INVALID_ARGUMENT, "the two shapes do not broadcast together");
}

static bool all_known(const est_value *value)
{
    bool known = value != NULL;

    for (int i = 0; known && i < value->n; i++) known = value->v[i] != EST_VALUE_UNKNOWN;
    return known;
}

static est_status broadcast_gradient_args_infer(est_infer *c)
{
    const est_value *x = est_infer_value(c, 0), *y = est_infer_value(c, 1);
    int64_t          axes[2][EST_VALUE_MAX], most;
    int              n[2];

    EST_TRY(est_infer_rank(c, 0, 1));
    EST_TRY(est_infer_rank(c, 1, 1));
    most = est_infer_dim(&c->in[0], 0) > est_infer_dim(&c->in[1], 0) ? c->in[0].dim[0] : est_infer_dim(&c->in[1], 0);
    c->out[0] = c->out[1] = EST_SHAPE(est_infer_at_most(c, most));
    if (most > EST_VALUE_MAX) return est_fail(EST_INVALID_ARGUMENT, "shapes of %lld axes", (long long)most);
    if (!all_known(x) || !all_known(y)) return EST_OK;
    if (!reduced_axes(&(shape_pair){ { x->n, y->n }, { x->v, y->v } }, axes, n)) return cannot_broadcast();
    for (int i = 0; i < 2; i++) {
        c->out[i]         = EST_SHAPE(n[i]);
        c->out_value[i].n = n[i];
        for (int k = 0; k < n[i]; k++) c->out_value[i].v[k] = axes[i][k];
    }
    return EST_OK;
}

static est_status broadcast_gradient_args_cpu(est_call *c)
{
    int64_t    dim[2][EST_VALUE_MAX], axes[2][EST_VALUE_MAX];
    int        n[2];
    shape_pair s = { { c->in[0]->count, c->in[1]->count }, { dim[0], dim[1] } };

    for (int i = 0; i < 2; i++) {
        for (int64_t k = 0; k < c->in[i]->count; k++) dim[i][k] = est_view_int(c->in[i], k);
    }
    if (!reduced_axes(&s, axes, n)) return cannot_broadcast();
    for (int i = 0; i < 2; i++) {
        est_view *out = &c->out[i];

        for (int k = 0; k < n[i]; k++) {
            if (out->dtype == EST_I64) {
                ((int64_t *)out->data)[k] = axes[i][k];
            } else {
                ((int32_t *)out->data)[k] = (int32_t)axes[i][k];
            }
        }
        out->shape = EST_SHAPE(n[i]);
        out->count = n[i];
    }
    return EST_OK;
}

const est_op est_op_broadcast_gradient_args = {
    .name      = "BroadcastGradientArgs",
    .signature = "s0: T, s1: T -> r0: T, r1: T; T: {int32, int64} = int32",
    .infer     = broadcast_gradient_args_infer,
    .cpu       = EST_KERNELS({ .run = broadcast_gradient_args_cpu }),
    .shrinks   = true,
};
