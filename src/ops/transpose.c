/* SPDX-License-Identifier: Apache-2.0
 *
 * Transpose: axis i of the result is axis perm[i] of x. InvertPermutation gives the permutation that undoes it. */
#include <inttypes.h>

#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* Every number of [0, n) exactly once. */
static est_status check_permutation(const int64_t *perm, int64_t n)
{
    uint32_t seen = 0;

    for (int64_t i = 0; i < n; i++) {
        if (perm[i] < 0 || perm[i] >= n || (seen >> perm[i] & 1u) != 0) {
            return est_fail(EST_INVALID_ARGUMENT, "entry %" PRId64 " of the permutation is %" PRId64 ": %s", i, perm[i],
                            perm[i] < 0 || perm[i] >= n ? "there is no such axis" : "the axis is named twice");
        }
        seen |= 1u << perm[i];
    }
    return EST_OK;
}

/* As est_value holds it; only when nothing in it is unknown. */
static bool value_full(const est_value *value)
{
    for (int i = 0; value != NULL && i < value->n; i++) {
        if (value->v[i] == EST_VALUE_UNKNOWN) return false;
    }
    return value != NULL;
}

static est_status transpose_infer(est_infer *c)
{
    const est_value *perm = est_infer_value(c, 1);
    int64_t          n    = est_infer_dim(&c->in[1], 0);
    int              rank = c->in[0].rank;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 1));
    if (n >= 0 && ((rank >= 0 && n != rank) || n > EST_RANK_MAX)) {
        return est_fail(EST_INVALID_ARGUMENT, "a permutation of shape %s for an input of shape %s",
                        est_shape_text(&c->in[1], a), est_shape_text(&c->in[0], b));
    }
    if (rank < 0) rank = (int)n;
    if (rank < 0) return EST_OK;
    c->out[0] = est_shape_of_rank(rank);
    if (!value_full(perm)) return EST_OK;
    EST_TRY(check_permutation(perm->v, rank));
    for (int i = 0; i < rank; i++) c->out[0].dim[i] = est_infer_dim(&c->in[0], (int)perm->v[i]);
    return EST_OK;
}

static void transpose_grad(est_grad *g)
{
    const est_value *perm = est_node_value(g->in[1]);
    int64_t          back[EST_RANK_MAX];

    if (value_full(perm)) {
        for (int i = 0; i < perm->n; i++) back[perm->v[i]] = i;
        g->din[0].values = est_transpose(g->dout[0], (est_i64s){ back, perm->n });
    } else {
        g->din[0].values = est_build2(&est_op_transpose, g->dout[0],
                                      est_build1(&est_op_invert_permutation, g->in[1], EST_NO_ATTRS), EST_NO_ATTRS);
    }
}

static est_status transpose_cpu(est_call *c)
{
    const est_view *x = c->in[0];
    est_view       *y = &c->out[0];
    int64_t         from[EST_RANK_MAX], to[EST_RANK_MAX], perm[EST_RANK_MAX];
    est_strided     layout = { 0 };

    est_shape_strides(&x->shape, from);
    est_shape_strides(&y->shape, to);
    for (int i = 0; i < x->shape.rank; i++) perm[i] = est_view_int(c->in[1], i);
    EST_TRY(check_permutation(perm, x->shape.rank));
    for (int i = 0; i < x->shape.rank; i++) est_strided_push(&layout, y->shape.dim[i], from[perm[i]], to[i]);
    if (y->count > 0) est_strided_copy(c->pool, est_dtype_size(x->dtype), &layout, y->data, x->data);
    return EST_OK;
}

const est_op est_op_transpose = {
    .name      = "Transpose",
    .signature = "x: T, perm: Tperm -> y: T; T: type; Tperm: {int32, int64} = int32",
    .infer     = transpose_infer,
    .grad      = transpose_grad,
    .cpu       = EST_KERNELS({ .run = transpose_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(transpose) }),
};

est_node est_transpose(est_node x, est_i64s permutation)
{
    return est_build2(&est_op_transpose, x, est_const_ints(x.graph, EST_I32, permutation), EST_NO_ATTRS);
}

/* --- InvertPermutation -------------------------------------------------------------------------------------------- */

static est_status invert_infer(est_infer *c)
{
    const est_value *perm = est_infer_value(c, 0);

    EST_TRY(est_infer_rank(c, 0, 1));
    c->out[0] = c->in[0].rank < 0 ? EST_SHAPE(-1) : c->in[0];
    if (!value_full(perm)) return EST_OK;
    EST_TRY(check_permutation(perm->v, perm->n));
    c->out_value[0].n = perm->n;
    for (int i = 0; i < perm->n; i++) c->out_value[0].v[perm->v[i]] = i;
    return EST_OK;
}

/* Filled with -1 first, which shows a number named twice. */
#define INVERT(T, suffix)                                                                                              \
    static est_status invert_##suffix(const T *x, T *y, int64_t n)                                                     \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) y[i] = -1;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            if (x[i] < 0 || x[i] >= n || y[x[i]] != -1) {                                                              \
                return est_fail(EST_INVALID_ARGUMENT, "entry %" PRId64 " is %" PRId64 " in a permutation of %" PRId64, \
                                i, (int64_t)x[i], n);                                                                  \
            }                                                                                                          \
            y[x[i]] = (T)i;                                                                                            \
        }                                                                                                              \
        return EST_OK;                                                                                                 \
    }
INVERT(int32_t, i32)
INVERT(int64_t, i64)

static est_status invert_cpu(est_call *c)
{
    const est_view *x = c->in[0];

    return x->dtype == EST_I32 ? invert_i32(x->data, c->out[0].data, x->count)
                               : invert_i64(x->data, c->out[0].data, x->count);
}

const est_op est_op_invert_permutation = {
    .name      = "InvertPermutation",
    .signature = "x: T -> y: T; T: {int32, int64} = int32",
    .infer     = invert_infer,
    .cpu       = EST_KERNELS({ .run = invert_cpu }),
};
