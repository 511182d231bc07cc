/* SPDX-License-Identifier: Apache-2.0
 *
 * AddN: the sum of tensors of one shape, added from the first to the last. Gradients that meet are added by this op. */
#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

static est_status add_n_infer(est_infer *c)
{
    c->out[0] = c->in[0];
    for (int i = 1; i < c->n_in; i++) {
        est_shape both;
        char      text[2][EST_SHAPE_TEXT_MAX];

        if (est_infer_merge(&c->out[0], &c->in[i], &both) != EST_OK) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "all shapes must be the same, but input %d has %s and those before %s", i,
                            est_shape_text(&c->in[i], text[0]), est_shape_text(&c->out[0], text[1]));
        }
        c->out[0] = both;
    }
    return EST_OK;
}

static void add_n_grad(est_grad *g)
{
    for (int i = 0; i < g->n_in; i++) g->din[i].values = g->dout[0];
}

/* Pieces that stay in the first-level cache while one input after the other is added. */
#define PIECE 2048

#define ADD_N_LOOP(T)                                                                                                  \
    static void add_n_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                        \
    {                                                                                                                  \
        const est_call *c = arg;                                                                                       \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t at = begin; at < end; at += PIECE) {                                                              \
            int64_t  n     = end - at < PIECE ? end - at : PIECE;                                                      \
            T       *z     = (T *)c->out[0].data + at;                                                                 \
            const T *first = (const T *)c->in[0]->data + at;                                                           \
                                                                                                                       \
            if (c->n_in == 1) {                                                                                        \
                EST_INDEPENDENT                                                                                        \
                for (int64_t i = 0; i < n; i++) z[i] = first[i];                                                       \
            }                                                                                                          \
            for (int k = 1; k < c->n_in; k++) {                                                                        \
                const T *x = (const T *)c->in[k]->data + at;                                                           \
                EST_INDEPENDENT                                                                                        \
                for (int64_t i = 0; i < n; i++) z[i] = first[i] + x[i];                                                \
                first = z;                                                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }
ADD_N_LOOP(float)
ADD_N_LOOP(double)
ADD_N_LOOP(int32_t)
ADD_N_LOOP(int64_t)

static est_status add_n_cpu(est_call *c)
{
    est_dtype    dtype = c->out[0].dtype;
    est_range_fn fn    = dtype == EST_F32   ? add_n_float
                         : dtype == EST_F64 ? add_n_double
                         : dtype == EST_I32 ? add_n_int32_t
                                            : add_n_int64_t;

    est_parallel_for(c->pool, c->out[0].count, 64, 0.15 * (c->n_in + 1), fn, c);
    return EST_OK;
}

static bool add_n_cuda_accepts(const est_call *c)
{
    return c->n_in <= EST_ADD_N_MAX;
}

const est_op est_op_add_n = {
    .name        = "AddN",
    .signature   = "inputs: N*T -> sum: T; N: int; T: {float32, float64, int32, int64}",
    .infer       = add_n_infer,
    .grad        = add_n_grad,
    .cpu         = EST_KERNELS({ .run = add_n_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(add_n), .accepts = add_n_cuda_accepts }),
    .elementwise = true,
    .inplace     = 1u << 0,
};

est_node est_add_n(est_nodes parts)
{
    if (parts.n == 1 && parts.data != NULL) return parts.data[0];
    return est_build(NULL, &est_op_add_n, parts, EST_NO_ATTRS);
}
