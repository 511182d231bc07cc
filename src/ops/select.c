/* SPDX-License-Identifier: Apache-2.0
 *
 * SelectV2: condition ? t : e, elementwise; all three broadcast. Elements are moved as they are, so the kernel knows
 * their size and not their type. Select is the same of TensorFlow 1, for inputs of one shape or a scalar condition; a
 * condition for each row is not here. */
#include "cuda/launchers.h"
#include "kernels/broadcast.h"
#include "kernels/vmath.h"
#include "ops/ops.h"
#include "tensor/shape.h"

static est_status select_infer(est_infer *c)
{
    est_shape both;

    EST_TRY(est_shape_broadcast(&c->in[1], &c->in[2], &both));
    return est_shape_broadcast(&c->in[0], &both, &c->out[0]);
}

static void select_grad(est_grad *g)
{
    est_node dy   = g->dout[0];
    est_node zero = est_scalar(dy.graph, est_node_dtype(dy), 0);

    g->din[1].values = est_sum_to_shape(est_select(g->in[0], dy, zero), g->in[1]);
    g->din[2].values = est_sum_to_shape(est_select(g->in[0], zero, dy), g->in[2]);
}

/* The three usual ways inputs advance have loops of their own; a condition that stands still is a copy. */
#define SELECT_LOOP(T)                                                                                                 \
    static void select_##T(void *out, const void *const *in, const int64_t *step, int64_t n)                           \
    {                                                                                                                  \
        const uint8_t *when = in[0];                                                                                   \
        const T       *t = in[1], *e = in[2];                                                                          \
        T             *z  = out;                                                                                       \
        int64_t        st = step[1], se = step[2];                                                                     \
                                                                                                                       \
        if (step[0] == 0) {                                                                                            \
            const T *taken = when[0] ? t : e;                                                                          \
            int64_t  s     = when[0] ? st : se;                                                                        \
            for (int64_t i = 0; i < n; i++) z[i] = taken[i * s];                                                       \
        } else if (st == 1 && se == 1) {                                                                               \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = t[i], b = e[i];                                                                            \
                z[i] = when[i] ? a : b;                                                                                \
            }                                                                                                          \
        } else if (st == 1) {                                                                                          \
            const T b = e[0];                                                                                          \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = t[i];                                                                                      \
                z[i]      = when[i] ? a : b;                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            const T a = t[0];                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T b = e[i * se];                                                                                 \
                z[i]      = when[i] ? a : b;                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
SELECT_LOOP(uint8_t)
SELECT_LOOP(uint32_t)
SELECT_LOOP(uint64_t)
SELECT_LOOP(est_str)

static est_status select_cpu(est_call *c)
{
    switch (est_dtype_size(c->out[0].dtype)) {
    case 1: est_broadcast_run(c, 3, select_uint8_t, 0.3); break;
    case 4: est_broadcast_run(c, 3, select_uint32_t, 0.4); break;
    case 8: est_broadcast_run(c, 3, select_uint64_t, 0.6); break;
    default: est_broadcast_run(c, 3, select_est_str, 1.0); break;
    }
    return EST_OK;
}

static bool select_cuda_accepts(const est_call *c)
{
    return c->out[0].dtype != EST_STRING;
}

const est_op est_op_select = {
    .name        = "SelectV2",
    .signature   = "condition: bool, t: T, e: T -> output: T; "
                   "T: {float32, float64, int32, uint8, int64, bool, string}",
    .infer       = select_infer,
    .grad        = select_grad,
    .cpu         = EST_KERNELS({ .run = select_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(select), .accepts = select_cuda_accepts }),
    .elementwise = true,
    .inplace     = 1u << 1 | 1u << 2,
};

static est_status select_v1_infer(est_infer *c)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_merge(&c->in[1], &c->in[2], &c->out[0]));
    if (c->in[0].rank < 1 || c->out[0].rank < 0 || c->in[0].rank == c->out[0].rank) {
        return c->in[0].rank == 0 ? EST_OK : est_infer_merge(&c->in[0], &c->out[0], &c->out[0]);
    }
    return est_fail(EST_UNIMPLEMENTED, "the condition has shape %s, the values %s; expected the same shape",
                    est_shape_text(&c->in[0], a), est_shape_text(&c->out[0], b));
}

const est_op est_op_select_v1 = {
    .name        = "Select",
    .signature   = "condition: bool, t: T, e: T -> output: T; "
                   "T: {float32, float64, int32, uint8, int64, bool, string}",
    .infer       = select_v1_infer,
    .grad        = select_grad,
    .cpu         = EST_KERNELS({ .run = select_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(select), .accepts = select_cuda_accepts }),
    .elementwise = true,
    .inplace     = 1u << 1 | 1u << 2,
};

est_node est_select(est_node condition, est_node a, est_node b)
{
    return est_build3(&est_op_select, condition, a, b, EST_NO_ATTRS);
}
