/* SPDX-License-Identifier: Apache-2.0
 *
 * EstDropout: y_i = x_i / (1 - rate) where u_i >= rate, else 0, with u uniform in [0, 1).
 *
 * The mask is never stored: u_i is a function of the seeds, the run and i (kernels/random_stream.h), so the gradient is
 * the same op with the same seeds on dy. u has the 23 bits that RandomUniform makes of the same words, so the op
 * lowered to TensorFlow's draws the same mask. */
#include <math.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/random_stream.h"
#include "ops/ops.h"

#define UNIFORM_BITS 23
#define RUN_WORDS    512 /* random words made at a time: 2 kB of stack */

static est_status dropout_infer(est_infer *c)
{
    double rate = est_node_float(c->node, "rate");

    if (!(rate >= 0 && rate < 1)) {
        return est_fail(EST_INVALID_ARGUMENT, "the dropout rate must be in [0, 1), got %g", rate);
    }
    return est_infer_same_as_input(c);
}

static void dropout_grad(est_grad *g)
{
    const est_node_def *node = g->node;

    g->din[0].values = est_build1(
        node->op, g->dout[0],
        EST_ATTRS(*est_node_attr(node, "rate"), *est_node_attr(node, "seed"), *est_node_attr(node, "seed2")));
}

typedef struct dropout {
    est_random  stream;
    const void *x;
    void       *y;
    int32_t     dropped; /* of 2^23 values of u, those below rate */
    double      scale;
} dropout;

#define DROPOUT(T, suffix)                                                                                             \
    static void dropout_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                 \
    {                                                                                                                  \
        const dropout *d = arg;                                                                                        \
        uint32_t       words[RUN_WORDS];                                                                               \
        T              scale   = (T)d->scale;                                                                          \
        int32_t        dropped = d->dropped;                                                                           \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i += RUN_WORDS) {                                                             \
            int64_t  n = end - i < RUN_WORDS ? end - i : RUN_WORDS;                                                    \
            const T *x = (const T *)d->x + i;                                                                          \
            T       *y = (T *)d->y + i;                                                                                \
            est_random_fill_u32(&d->stream, i, n, words);                                                              \
            for (int64_t j = 0; j < n; j++) {                                                                          \
                int32_t u = (int32_t)(words[j] & ((1u << UNIFORM_BITS) - 1));                                          \
                T       v = x[j] * scale;                                                                              \
                y[j]      = u >= dropped ? v : 0;                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
DROPOUT(float, f32)
DROPOUT(double, f64)

static est_status dropout_prepare(est_call *c)
{
    double rate = est_node_float(c->node, "rate");

    c->param[0].i = est_stream_key(c->node);
    c->param[1].i = (int64_t)ceil((double)(float)rate * (1 << UNIFORM_BITS));
    c->param[2].f = 1 / (1 - rate);
    return EST_OK;
}

static est_status dropout_cpu(est_call *c)
{
    dropout d = { .stream  = est_stream(c, c->param[0].i),
                  .x       = c->in[0]->data,
                  .y       = c->out[0].data,
                  .dropped = (int32_t)c->param[1].i,
                  .scale   = c->param[2].f };

    est_parallel_for(c->pool, c->in[0]->count, RUN_WORDS, 1.2, c->in[0]->dtype == EST_F32 ? dropout_f32 : dropout_f64,
                     &d);
    return EST_OK;
}

/* The mask is drawn in float32 whatever x is, as above. */
static void dropout_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    double   rate = est_node_float(node, "rate");
    est_node u    = est_build1(
           &est_op_random_uniform, est_shape_of(in[0]),
           EST_ATTRS(est_attr_type("dtype", EST_F32), *est_node_attr(node, "seed"), *est_node_attr(node, "seed2")));
    est_node keep = est_greater_equal(u, est_scalar(graph, EST_F32, rate));

    out[0] = est_mul(est_scale(in[0], 1 / (1 - rate)), est_cast(keep, est_node_type(node, "T")));
}

const est_op est_op_dropout = {
    .name      = "EstDropout",
    .signature = "x: T -> y: T; rate: float; seed: int = 0; seed2: int = 0; T: {float32, float64}",
    .infer     = dropout_infer,
    .grad      = dropout_grad,
    .cpu       = EST_KERNELS({ .run = dropout_cpu, .prepare = dropout_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(dropout), .prepare = dropout_prepare }),
    .lower     = dropout_lower,
    .stateful  = true,
    .random    = true,
    .inplace   = 1u << 0,
};

est_node est_dropout(est_node x, double rate, uint64_t seed)
{
    if (rate == 0 || x.graph == NULL) return x;
    return est_build1(&est_op_dropout, x,
                      EST_ATTRS(est_attr_float("rate", rate), est_attr_int("seed", est_seed_of_graph(x.graph, seed)),
                                est_attr_int("seed2", (int64_t)est_seed_or_next(x.graph, seed))));
}
