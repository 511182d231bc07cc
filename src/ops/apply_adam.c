/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam: with alpha = lr sqrt(1 - beta2^t) / (1 - beta1^t)
 *
 *   m += (1 - beta1) (g - m),  v += (1 - beta2) (g^2 - v),  w -= alpha m / (sqrt(v) + epsilon)
 *
 * and, Nesterov, alpha (beta1 m + (1 - beta1) g) in place of alpha m. The powers of the betas are inputs, kept by the
 * optimizer. ResourceApplyAdam moves every element, and so does EstSparseAdam, as TensorFlow does for sparse gradients:
 * m and v of rows without a gradient decay. EstLazyAdam moves the rows of a sparse gradient only, with the same t. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define ADAM(T, suffix, sqrt_fn)                                                                                       \
    static inline void adam_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                    \
                                     const T *restrict g, int64_t n, const T *restrict k)                              \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_ADAM(T, sqrt_fn)                                                                                       \
        }                                                                                                              \
    }
ADAM(float, f32, __builtin_sqrtf)
ADAM(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(adam, 0.3);

static est_status adam_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "use_nesterov");
    return EST_OK;
}

static est_status adam_open(est_call *c, est_apply *a)
{
    EST_TRY(est_apply_open(c, a));
    est_adam_scalars(a->in, a->n_in, c->param[0].i != 0, a->k);
    return EST_OK;
}

EST_APPLY_RUNS(adam)

/* Gathered rows, the formula on them, scattered back. */
static void lazy_adam_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_dtype dtype = est_node_type(node, "T");
    est_node  one = est_scalar(graph, dtype, 1), g = in[9], rows = in[10];
    est_node  m     = est_resource_gather(in[1], rows);
    est_node  v     = est_resource_gather(in[2], rows);
    est_node  m2    = est_add(m, est_mul(est_sub(g, m), est_sub(one, in[6])));
    est_node  v2    = est_add(v, est_mul(est_sub(est_square(g), v), est_sub(one, in[7])));
    est_node  alpha = est_mul(in[5], est_div(est_sqrt(est_sub(one, in[4])), est_sub(one, in[3])));
    est_node  step  = est_div(est_mul(alpha, m2), est_add(est_sqrt(v2), in[8]));

    out[0] = est_group(graph, EST_NODES(est_scatter_update(in[1], rows, m2), est_scatter_update(in[2], rows, v2),
                                        est_scatter_sub(in[0], rows, step)));
}

/* TensorFlow's own way, with a gradient as large as the table. */
static void sparse_adam_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node rows = est_scalar(graph, EST_I32, (double)est_node_dim(in[0], 0));

    out[0] = est_build_update(&est_op_apply_adam,
                              EST_NODES(in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8],
                                        est_unsorted_segment_sum(in[9], in[10], rows)),
                              EST_ATTRS(est_attr_bool("use_nesterov", est_node_bool(node, "use_nesterov"))));
}

const est_op est_op_apply_adam = {
    .name      = "ResourceApplyAdam",
    .signature = "var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
                 "epsilon: T, grad: T -> (); T: {float32, float64}; use_locking: bool = false; "
                 "use_nesterov: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = adam_run, .prepare = adam_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_adam), .prepare = adam_prepare, .fail = est_apply_fail }),
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 9),
};

const est_op est_op_lazy_adam = {
    .name      = "EstLazyAdam",
    .signature = "var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
                 "epsilon: T, grad: T, indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = adam_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_adam), .fail = est_apply_fail }),
    .lower     = lazy_adam_lower,
    .stateful  = true,
    .by_rows   = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 9, .indices = 10),
};

const est_op est_op_sparse_adam = {
    .name      = "EstSparseAdam",
    .signature = "var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
                 "epsilon: T, grad: T, indices: Tindices -> (); T: {float32, float64}; Tindices: {int32, int64}; "
                 "use_nesterov: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = sparse_adam_run, .prepare = adam_prepare, .scratch = est_apply_all_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(sparse_adam), .prepare = adam_prepare, EST_APPLY_ALL_CUDA }),
    .lower     = sparse_adam_lower,
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 9, .indices = 10),
};
