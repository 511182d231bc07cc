/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSigmoidCrossEntropy: the cross entropy of each logit x against a probability z,
 *   loss = max(x, 0) - x * z + log(1 + exp(-|x|)), which is -z log(s(x)) - (1 - z) log(1 - s(x)) without its overflows.
 * One op of our own for what TensorFlow builds from six. */
#include <math.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/loss_total.h"
#include "ops/ops.h"

#define ELEMENT_NS 2.0

static est_status sigmoid_xent_infer(est_infer *c)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_infer_merge(&c->in[0], &c->in[1], &c->out[0]) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "logits %s and labels %s must have the same shape",
                    est_shape_text(&c->in[0], a), est_shape_text(&c->in[1], b));
}

/* dx = dloss * (sigmoid(x) - z), dz = -dloss * x. */
static void sigmoid_xent_grad(est_grad *g)
{
    est_node x = g->in[0], z = g->in[1], dloss = g->dout[0];

    g->din[0].values = est_mul(dloss, est_sub(est_sigmoid(x), z));
    g->din[1].values = est_neg(est_mul(dloss, x));
}

static void sigmoid_xent_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node x = in[0], z = in[1];

    (void)node;
    (void)graph;
    out[0] = est_add(est_sub(est_maximum(x, est_zeros_like(x)), est_mul(x, z)),
                     est_log1p(est_exp(est_neg(est_abs(x)))));
}

/* A sum of two is where its gradient will be (both_cpu). */
static const est_view *logits_of(const est_call *c)
{
    return c->n_in > 3 ? &c->out[1] : c->in[0];
}

#define SIGMOID_XENT(T, suffix, log1p_fn, exp_fn, abs_fn, hint)                                                        \
    static void sigmoid_xent_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        est_call *c = arg;                                                                                             \
        const T  *x = logits_of(c)->data, *z = c->in[1]->data;                                                         \
        T        *y = c->out[0].data;                                                                                  \
                                                                                                                       \
        (void)block;                                                                                                   \
        hint for (int64_t i = begin; i < end; i++)                                                                     \
        {                                                                                                              \
            y[i] = (x[i] > 0 ? x[i] : 0) - x[i] * z[i] + log1p_fn(exp_fn(-abs_fn(x[i])));                              \
        }                                                                                                              \
    }
SIGMOID_XENT(float, f32, est_log1pf, est_expf, fabsf, EST_INDEPENDENT)
SIGMOID_XENT(double, f64, log1p, exp, fabs, ) /* calls: nothing to vectorise */

static est_status sigmoid_xent_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->out[0].count, 16, ELEMENT_NS,
                     c->out[0].dtype == EST_F32 ? sigmoid_xent_f32 : sigmoid_xent_f64, c);
    return EST_OK;
}

const est_op est_op_sigmoid_xent = {
    .name        = "EstSigmoidCrossEntropy",
    .signature   = "logits: T, labels: T -> loss: T; T: {float32, float64}",
    .infer       = sigmoid_xent_infer,
    .grad        = sigmoid_xent_grad,
    .cpu         = EST_KERNELS({ .run = sigmoid_xent_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(sigmoid_xent) }),
    .lower       = sigmoid_xent_lower,
    .elementwise = true,
    .inplace     = 1u << 0 | 1u << 1,
};

/* --- with the gradient towards the logits ------------------------------------------------------------------------- */

/* EstSigmoidXentAndGrad: total = the sum of the losses, or their mean, and dlogits = (sigmoid(x) - z) dy, where dy is
 * the gradient of that. Logits may be a sum, as of a wide and of a deep model. Made only by runtime/fuse.c, for devices
 * that run by themselves; a GPU adds two. */
static est_status both_infer(est_infer *c)
{
    EST_TRY(sigmoid_xent_infer(c));
    for (int k = 3; k < c->n_in; k++) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

        if (est_infer_merge(&c->in[k], &c->out[0], &c->out[0]) == EST_OK) continue;
        return est_fail(EST_INVALID_ARGUMENT, "logits %s and others to be added %s must have the same shape",
                        est_shape_text(&c->in[0], a), est_shape_text(&c->in[k], b));
    }
    c->out[1] = c->out[0];
    c->out[2] = EST_SHAPE_SCALAR;
    return EST_OK;
}

static est_status both_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "mean");
    return EST_OK;
}

#define GRADIENT(T, exp_fn)                                                                                            \
    static void add_logits_##T(est_call *c)                                                                            \
    {                                                                                                                  \
        for (int64_t i = 0; i < c->out[1].count; i++) {                                                                \
            T sum = ((const T *)c->in[0]->data)[i];                                                                    \
                                                                                                                       \
            for (int k = 3; k < c->n_in; k++) sum += ((const T *)c->in[k]->data)[i];                                   \
            ((T *)c->out[1].data)[i] = sum;                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void gradient_##T(est_call *c, double share)                                                                \
    {                                                                                                                  \
        const T *x = logits_of(c)->data, *z = c->in[1]->data;                                                          \
        const T  dy = *(const T *)c->in[2]->data * (T)share;                                                           \
                                                                                                                       \
        for (int64_t i = 0; i < c->out[1].count; i++) {                                                                \
            ((T *)c->out[1].data)[i] = dy * (1 / (1 + exp_fn(-x[i])) - z[i]);                                          \
        }                                                                                                              \
    }
GRADIENT(float, expf)
GRADIENT(double, exp)

static est_status both_cpu(est_call *c)
{
    double share = c->param[0].i != 0 && c->out[0].count > 0 ? 1 / (double)c->out[0].count : 1;

    if (c->n_in > 3) (c->out[1].dtype == EST_F32 ? add_logits_float : add_logits_double)(c);
    EST_TRY(sigmoid_xent_cpu(c));
    est_loss_total(&c->out[0], c->param[0].i != 0, &c->out[2]);
    if (c->out[1].dtype == EST_F32) {
        gradient_float(c, share);
    } else {
        gradient_double(c, share);
    }
    return EST_OK;
}

static bool both_cuda_accepts(const est_call *c)
{
    return c->n_in <= 4;
}

const est_op est_op_sigmoid_xent_and_grad = {
    .name      = "EstSigmoidXentAndGrad",
    .signature = "logits: T, labels: T, dy: T, more: N*T -> loss: T, dlogits: T, total: T; mean: bool; N: int = 0; "
                 "T: {float32, float64}",
    .infer     = both_infer,
    .cpu       = EST_KERNELS({ .run = both_cpu, .prepare = both_prepare }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(sigmoid_xent_and_grad),
                               .prepare = both_prepare,
                               .scratch = est_loss_cuda_scratch,
                               .accepts = both_cuda_accepts }),
    .planned   = true,
};

est_node est_sigmoid_xent(est_node logits, est_node labels)
{
    return est_build2(&est_op_sigmoid_xent, logits, labels, EST_NO_ATTRS);
}
