/* SPDX-License-Identifier: Apache-2.0
 *
 * Lion: w -= lr sign(beta1 m + (1 - beta1) g),  m = beta2 m + (1 - beta2) g
 *
 * EstSparseLion moves every element, as Keras does for sparse gradients: rows without a gradient move by the sign of
 * their m, which decays. TensorFlow has neither operation. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define LION(T, suffix)                                                                                                \
    static inline void lion_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                    \
                                     const T *restrict g, int64_t n, const T *restrict k)                              \
    {                                                                                                                  \
        (void)s2;                                                                                                      \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_LION(T)                                                                                                \
        }                                                                                                              \
    }
LION(float, f32)
LION(double, f64)
EST_APPLY_LOOPS(lion, 0.3);

static est_status lion_open(est_call *c, est_apply *a)
{
    EST_TRY(est_apply_open(c, a));
    est_lion_scalars(a->in, a->n_in, false, a->k);
    return EST_OK;
}

EST_APPLY_RUNS(lion)

/* factor m + (1 - factor) g */
static est_node mix(est_node factor, est_node m, est_node g)
{
    return est_add(est_mul(m, factor), est_mul(g, est_shift(est_neg(factor), 1)));
}

static void lower(est_graph *graph, const est_node *in, est_node gradient, est_node *out)
{
    est_node m = est_read_variable(in[1]), way = est_sign(mix(in[3], m, gradient));

    out[0] = est_group(
        graph, EST_NODES(est_assign_sub(in[0], est_mul(way, in[2])), est_assign(in[1], mix(in[4], m, gradient))));
}

static void lion_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    (void)node;
    lower(graph, in, in[5], out);
}

/* A gradient as large as the table. */
static void sparse_lion_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node rows = est_scalar(graph, EST_I32, (double)est_node_dim(in[0], 0));

    (void)node;
    lower(graph, in, est_unsorted_segment_sum(in[5], in[6], rows), out);
}

const est_op est_op_apply_lion = {
    .name      = "EstApplyLion",
    .signature = "var: resource, m: resource, lr: T, beta1: T, beta2: T, grad: T -> (); T: {float32, float64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = lion_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_lion), .fail = est_apply_fail }),
    .lower     = lion_lower,
    .stateful  = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 5),
};

const est_op est_op_sparse_lion = {
    .name      = "EstSparseLion",
    .signature = "var: resource, m: resource, lr: T, beta1: T, beta2: T, grad: T, indices: Tindices -> (); "
                 "T: {float32, float64}; Tindices: {int32, int64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = sparse_lion_run, .scratch = est_apply_all_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(sparse_lion), EST_APPLY_ALL_CUDA }),
    .lower     = sparse_lion_lower,
    .stateful  = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 5, .indices = 6),
};
