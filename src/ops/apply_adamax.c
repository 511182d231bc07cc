/* SPDX-License-Identifier: Apache-2.0
 *
 * Adamax: m += (1 - beta1) (g - m),  v = max(beta2 v, |g|),  w -= lr / (1 - beta1^t) m / (v + epsilon)
 *
 * The power of beta1 is an input. EstSparseAdaMax moves every element, as Keras does for sparse gradients: m and v of
 * rows without a gradient decay. EstLazyAdaMax moves the rows of a sparse gradient only, as legacy Keras does. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define ADAMAX(T, suffix, abs_fn)                                                                                      \
    static inline void adamax_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                  \
                                       const T *restrict g, int64_t n, const T *restrict k)                            \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_ADAMAX(T, abs_fn)                                                                                      \
        }                                                                                                              \
    }
ADAMAX(float, f32, __builtin_fabsf)
ADAMAX(double, f64, __builtin_fabs)
EST_APPLY_LOOPS(adamax, 0.3);

static est_status adamax_open(est_call *c, est_apply *a)
{
    EST_TRY(est_apply_open(c, a));
    est_adamax_scalars(a->in, a->n_in, false, a->k);
    return EST_OK;
}

EST_APPLY_RUNS(adamax)

/* Gathered rows, the formula on them, scattered back. */
static void lazy_adamax_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node one = est_scalar(graph, est_node_type(node, "T"), 1), g = in[8], rows = in[9];
    est_node m    = est_resource_gather(in[1], rows);
    est_node m2   = est_add(m, est_mul(est_sub(g, m), est_sub(one, in[5])));
    est_node v2   = est_maximum(est_mul(in[6], est_resource_gather(in[2], rows)), est_abs(g));
    est_node rate = est_div(in[4], est_sub(one, in[3]));
    est_node step = est_div(est_mul(rate, m2), est_add(v2, in[7]));

    out[0] = est_group(graph, EST_NODES(est_scatter_update(in[1], rows, m2), est_scatter_update(in[2], rows, v2),
                                        est_scatter_sub(in[0], rows, step)));
}

/* A gradient as large as the table. */
static void sparse_adamax_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node rows = est_scalar(graph, EST_I32, (double)est_node_dim(in[0], 0));

    (void)node;
    out[0] = est_build_update(
        &est_op_apply_adamax,
        EST_NODES(in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], est_unsorted_segment_sum(in[8], in[9], rows)),
        EST_NO_ATTRS);
}

const est_op est_op_apply_adamax = {
    .name      = "ResourceApplyAdaMax",
    .signature = "var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, "
                 "grad: T -> (); T: {float32, float64}; use_locking: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = adamax_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_adamax), .fail = est_apply_fail }),
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 8),
};

const est_op est_op_lazy_adamax = {
    .name      = "EstLazyAdaMax",
    .signature = "var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, "
                 "grad: T, indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = adamax_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_adamax), .fail = est_apply_fail }),
    .lower     = lazy_adamax_lower,
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 8, .indices = 9),
};

const est_op est_op_sparse_adamax = {
    .name      = "EstSparseAdaMax",
    .signature = "var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, "
                 "grad: T, indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = sparse_adamax_run, .scratch = est_apply_all_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(sparse_adamax), EST_APPLY_ALL_CUDA }),
    .lower     = sparse_adamax_lower,
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 8, .indices = 9),
};
