/* SPDX-License-Identifier: Apache-2.0
 *
 * Nadam: with inputs p, q and beta2^t that the optimizer computes from its schedule of the momentum
 *
 *   m += (1 - beta1) (g - m),  v += (1 - beta2) (g^2 - v),
 *   w -= lr (p m + q g) / (sqrt(v / (1 - beta2^t)) + epsilon)
 *
 * EstSparseNadam moves every element, as Keras does for sparse gradients. TensorFlow has no such operation: Keras uses
 * many. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define NADAM(T, suffix, sqrt_fn)                                                                                      \
    static inline void nadam_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                   \
                                      const T *restrict g, int64_t n, const T *restrict k)                             \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_NADAM(T, sqrt_fn)                                                                                      \
        }                                                                                                              \
    }
NADAM(float, f32, __builtin_sqrtf)
NADAM(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(nadam, 0.3);

static est_status nadam_open(est_call *c, est_apply *a)
{
    EST_TRY(est_apply_open(c, a));
    est_nadam_scalars(a->in, a->n_in, false, a->k);
    return EST_OK;
}

EST_APPLY_RUNS(nadam)

/* The formula as operations for the gradient g of the whole variable. */
static est_node lowered(est_graph *graph, const est_node *in, est_node g, est_dtype dtype)
{
    est_node one = est_scalar(graph, dtype, 1), m = est_read_variable(in[1]), v = est_read_variable(in[2]);
    est_node m2   = est_add(m, est_mul(est_sub(g, m), est_sub(one, in[7])));
    est_node v2   = est_add(v, est_mul(est_sub(est_square(g), v), est_sub(one, in[8])));
    est_node root = est_sqrt(est_div(v2, est_sub(one, in[5])));
    est_node step = est_div(est_mul(in[6], est_add(est_mul(in[3], m2), est_mul(in[4], g))), est_add(root, in[9]));

    return est_group(graph, EST_NODES(est_assign(in[1], m2), est_assign(in[2], v2), est_assign_sub(in[0], step)));
}

static void nadam_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    out[0] = lowered(graph, in, in[10], est_node_type(node, "T"));
}

static void sparse_nadam_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node rows = est_scalar(graph, EST_I32, (double)est_node_dim(in[0], 0));

    out[0] = lowered(graph, in, est_unsorted_segment_sum(in[10], in[11], rows), est_node_type(node, "T"));
}

const est_op est_op_apply_nadam = {
    .name      = "EstNadam",
    .signature = "var: resource, m: resource, v: resource, m_factor: T, g_factor: T, beta2_power: T, lr: T, beta1: T, "
                 "beta2: T, epsilon: T, grad: T -> (); T: {float32, float64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = nadam_run }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(apply_nadam), .fail = est_apply_fail }),
    .lower     = nadam_lower,
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 10),
};

const est_op est_op_sparse_nadam = {
    .name      = "EstSparseNadam",
    .signature = "var: resource, m: resource, v: resource, m_factor: T, g_factor: T, beta2_power: T, lr: T, beta1: T, "
                 "beta2: T, epsilon: T, grad: T, indices: Tindices -> (); T: {float32, float64}; "
                 "Tindices: {int32, int64}",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = sparse_nadam_run, .scratch = est_apply_all_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(sparse_nadam), EST_APPLY_ALL_CUDA }),
    .lower     = sparse_nadam_lower,
    .stateful  = true,
    .writes    = 7u,
    .update    = EST_UPDATE(.gradient = 10, .indices = 11),
};
