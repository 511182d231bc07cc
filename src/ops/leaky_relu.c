/* SPDX-License-Identifier: Apache-2.0
 *
 * LeakyRelu: x where x > 0, alpha x elsewhere; and its backward kernel LeakyReluGrad. */
#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

static est_node leaky_relu_backward(est_node gradients, est_node features, double alpha)
{
    return est_build2(&est_op_leaky_relu_grad, gradients, features, EST_ATTRS(est_attr_float("alpha", alpha)));
}

static void leaky_relu_grad_fn(est_grad *g)
{
    g->din[0].values = leaky_relu_backward(g->dout[0], g->in[0], est_node_float(g->node, "alpha"));
}

/* z = value where sign > 0, alpha * value elsewhere: forward with value = sign = x, backward with value = dy. */
#define LEAKY_LOOP(T)                                                                                                  \
    static void leaky_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                        \
    {                                                                                                                  \
        const est_call *c     = arg;                                                                                   \
        const T        *value = c->in[0]->data, *sign = c->in[c->n_in - 1]->data;                                      \
        T              *z     = c->out[0].data;                                                                        \
        const T         alpha = (T)c->param[0].f;                                                                      \
                                                                                                                       \
        (void)block;                                                                                                   \
        EST_INDEPENDENT                                                                                                \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            const T v = value[i], s = sign[i];                                                                         \
            z[i] = s > 0 ? v : v * alpha;                                                                              \
        }                                                                                                              \
    }
LEAKY_LOOP(float)
LEAKY_LOOP(double)

static est_status leaky_prepare(est_call *c)
{
    c->param[0].f = est_node_float(c->node, "alpha");
    return EST_OK;
}

static est_status leaky_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->out[0].count, 64, 0.3, c->in[0]->dtype == EST_F32 ? leaky_float : leaky_double, c);
    return EST_OK;
}

const est_op est_op_leaky_relu = {
    .name        = "LeakyRelu",
    .signature   = "features: T -> activations: T; alpha: float = 0.2; T: {float32, float64}",
    .infer       = est_infer_same_as_input,
    .grad        = leaky_relu_grad_fn,
    .cpu         = EST_KERNELS({ .run = leaky_cpu, .prepare = leaky_prepare }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(leaky_relu), .prepare = leaky_prepare }),
    .elementwise = true,
    .inplace     = 1u << 0,
};

static est_status leaky_relu_grad_infer(est_infer *c)
{
    return est_infer_merge(&c->in[0], &c->in[1], &c->out[0]);
}

/* Linear in the gradients; the features only say which branch. */
static void leaky_relu_grad_grad(est_grad *g)
{
    g->din[0].values = leaky_relu_backward(g->dout[0], g->in[1], est_node_float(g->node, "alpha"));
}

const est_op est_op_leaky_relu_grad = {
    .name        = "LeakyReluGrad",
    .signature   = "gradients: T, features: T -> backprops: T; alpha: float = 0.2; T: {float32, float64}",
    .infer       = leaky_relu_grad_infer,
    .grad        = leaky_relu_grad_grad,
    .cpu         = EST_KERNELS({ .run = leaky_cpu, .prepare = leaky_prepare }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(leaky_relu_grad), .prepare = leaky_prepare }),
    .elementwise = true,
    .inplace     = 1u << 0 | 1u << 1,
};

est_node est_leaky_relu(est_node x, double alpha)
{
    return est_build1(&est_op_leaky_relu, x, EST_ATTRS(est_attr_float("alpha", alpha)));
}
