/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSprop of Keras without momentum: ms = rho ms + (1 - rho) g^2, w -= lr g / (sqrt(ms) + epsilon).
 * Centered: also mg = rho mg + (1 - rho) g, and ms - mg^2 in place of ms under the root. With epsilon_inside epsilon is
 * added under the root.
 *
 * With a sparse gradient ms and mg decay on every row, while only rows of the gradient move. Keras writes this in many
 * operations. Here it is one, so that the update of a worker is applied whole: between a write and a read of ms that
 * are apart, a ps task would apply that of another worker. */
#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "ops/apply_formulas.h"
#include "ops/ops.h"

#define KERAS_RMS_PROP(T, suffix, sqrt_fn)                                                                             \
    static inline void rms_prop_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        (void)s2, (void)s3;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_KERAS_RMS_PROP(T, sqrt_fn)                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static inline void centered_##suffix(T *restrict w, T *restrict s1, T *restrict s2, T *restrict s3,                \
                                         const T *restrict g, int64_t n, const T *restrict k)                          \
    {                                                                                                                  \
        (void)s3;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            EST_CENTERED_KERAS_RMS_PROP(T, sqrt_fn)                                                                    \
        }                                                                                                              \
    }
KERAS_RMS_PROP(float, f32, __builtin_sqrtf)
KERAS_RMS_PROP(double, f64, __builtin_sqrt)
EST_APPLY_LOOPS(rms_prop, 0.3);
EST_APPLY_LOOPS(centered, 0.45);

static est_status prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "epsilon_inside");
    return EST_OK;
}

static est_status open_update(const est_call *c, est_apply *a)
{
    EST_TRY(est_apply_open(c, a));
    est_keras_rms_prop_scalars(a->in, a->n_in, c->param[0].i != 0, a->k);
    return EST_OK;
}

static est_status dense_run(est_call *c)
{
    est_apply a;

    EST_TRY(open_update(c, &a));
    est_apply_run(c->pool, &a, a.n_vars == 3 ? &centered_loops : &rms_prop_loops);
    return EST_OK;
}

static est_status sparse_run(est_call *c)
{
    est_apply a;

    EST_TRY(open_update(c, &a));
    est_apply_run_all(c, &a, a.n_vars == 3 ? &centered_loops : &rms_prop_loops);
    return EST_OK;
}

/* rho a + (1 - rho) b. */
static est_node mix(est_node rho, est_node a, est_node b)
{
    return est_add(est_mul(a, rho), est_mul(b, est_shift(est_neg(rho), 1)));
}

/* The step, from scalars lr, rho, epsilon. */
static est_node step_of(const est_node_def *node, const est_node *scalars, est_node g, est_node under_root)
{
    bool     inside = est_node_bool(node, "epsilon_inside");
    est_node root   = inside ? est_sqrt(est_add(under_root, scalars[2])) : est_add(est_sqrt(under_root), scalars[2]);

    return est_div(est_mul(scalars[0], g), root);
}

static void dense_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node ms = mix(in[3], est_read_variable(in[1]), est_square(in[5]));

    out[0] = est_group(graph,
                       EST_NODES(est_assign(in[1], ms), est_assign_sub(in[0], step_of(node, in + 2, in[5], ms))));
}

static void centered_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node mg   = mix(in[4], est_read_variable(in[1]), in[6]);
    est_node ms   = mix(in[4], est_read_variable(in[2]), est_square(in[6]));
    est_node step = step_of(node, in + 3, in[6], est_sub(ms, est_square(mg)));

    out[0] = est_group(graph, EST_NODES(est_assign(in[1], mg), est_assign(in[2], ms), est_assign_sub(in[0], step)));
}

/* Decays a slot on all rows, adds (1 - rho) x to those of the gradient; the rows. */
static est_node decay(est_node slot, est_node rho, est_node indices, est_node x)
{
    est_node decayed = est_assign(slot, est_mul(est_read_variable(slot), rho));
    est_node added   = est_after(est_scatter_add(slot, indices, est_mul(x, est_shift(est_neg(rho), 1))), decayed);

    return est_after(est_resource_gather(slot, indices), added);
}

static void sparse_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node ms = decay(in[1], in[3], in[6], est_square(in[5]));

    (void)graph;
    out[0] = est_scatter_sub(in[0], in[6], step_of(node, in + 2, in[5], ms));
}

static void sparse_centered_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node mg = decay(in[1], in[4], in[7], in[6]);
    est_node ms = decay(in[2], in[4], in[7], est_square(in[6]));

    (void)graph;
    out[0] = est_scatter_sub(in[0], in[7], step_of(node, in + 3, in[6], est_sub(ms, est_square(mg))));
}

const est_op est_op_apply_keras_rms_prop = {
    .name      = "EstKerasRMSProp",
    .signature = "var: resource, ms: resource, lr: T, rho: T, epsilon: T, grad: T -> (); T: {float32, float64}; "
                 "epsilon_inside: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = dense_run, .prepare = prepare }),
    .cuda     = EST_KERNELS({ .launch = EST_LAUNCH(apply_keras_rms_prop), .prepare = prepare, .fail = est_apply_fail }),
    .lower    = dense_lower,
    .stateful = true,
    .writes   = 3u,
    .update   = EST_UPDATE(.gradient = 5),
};

const est_op est_op_sparse_apply_keras_rms_prop = {
    .name      = "EstSparseKerasRMSProp",
    .signature = "var: resource, ms: resource, lr: T, rho: T, epsilon: T, grad: T, indices: Tindices -> (); "
                 "T: {float32, float64}; Tindices: {int32, int64}; epsilon_inside: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = sparse_run, .prepare = prepare, .scratch = est_apply_all_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(sparse_keras_rms_prop), .prepare = prepare, EST_APPLY_ALL_CUDA }),
    .lower     = sparse_lower,
    .stateful  = true,
    .writes    = 3u,
    .update    = EST_UPDATE(.gradient = 5, .indices = 6),
};

const est_op est_op_apply_centered_keras_rms_prop = {
    .name      = "EstCenteredKerasRMSProp",
    .signature = "var: resource, mg: resource, ms: resource, lr: T, rho: T, epsilon: T, grad: T -> (); "
                 "T: {float32, float64}; epsilon_inside: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = dense_run, .prepare = prepare }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(apply_centered_keras_rms_prop), .prepare = prepare, .fail = est_apply_fail }),
    .lower    = centered_lower,
    .stateful = true,
    .writes   = 7u,
    .update   = EST_UPDATE(.gradient = 6),
};

const est_op est_op_sparse_apply_centered_keras_rms_prop = {
    .name      = "EstSparseCenteredKerasRMSProp",
    .signature = "var: resource, mg: resource, ms: resource, lr: T, rho: T, epsilon: T, grad: T, indices: Tindices -> "
                 "(); T: {float32, float64}; Tindices: {int32, int64}; epsilon_inside: bool = false",
    .infer     = est_apply_infer,
    .cpu       = EST_KERNELS({ .run = sparse_run, .prepare = prepare, .scratch = est_apply_all_scratch }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(sparse_centered_keras_rms_prop), .prepare = prepare, EST_APPLY_ALL_CUDA }),
    .lower    = sparse_centered_lower,
    .stateful = true,
    .writes   = 7u,
    .update   = EST_UPDATE(.gradient = 6, .indices = 7),
};
