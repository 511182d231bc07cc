/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x rounded to the 8 significant bits of bfloat16, as a float32: what an operand of a product in mixed precision
 * is. A product of two such numbers is exact in float32, so that only the sums round.
 *
 * The gradient passes unchanged, as it does through a cast. The products of the backward pass round theirs:
 * est_round_gradient. */
#include "cuda/bfloat16.h"
#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

static void round_grad(est_grad *g)
{
    g->din[0].values = g->dout[0];
}

typedef struct floats {
    const float *x;
    float       *y;
} floats;

static void round_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const floats *f = arg;
    const float  *x = f->x;
    float        *y = f->y;

    (void)block;
    EST_INDEPENDENT
    for (int64_t i = begin; i < end; i++) y[i] = est_to_bfloat16(x[i]);
}

void est_round_floats(est_pool *pool, const float *x, int64_t n, float *y)
{
    est_parallel_for(pool, n, 64, 0.2, round_range, &(floats){ x, y });
}

static est_status round_cpu(est_call *c)
{
    est_round_floats(c->pool, c->in[0]->data, c->out[0].count, c->out[0].data);
    return EST_OK;
}

/* Veltkamp's splitting: (2^16 + 1) x takes the lower 16 bits of x off in the subtractions. Ties may go the other way,
 * and from 2^111 on the product overflows. TensorFlow's Cast would need a type that graphs here do not have. */
static void round_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node c = est_mul(in[0], est_scalar(graph, EST_F32, 65537));

    (void)node;
    out[0] = est_sub(c, est_sub(c, in[0]));
}

const est_op est_op_round_bfloat16 = {
    .name        = "EstRoundBfloat16",
    .signature   = "x: float32 -> y: float32",
    .infer       = est_infer_same_as_input,
    .grad        = round_grad,
    .cpu         = EST_KERNELS({ .run = round_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(round_bfloat16) }),
    .lower       = round_lower,
    .elementwise = true,
    .inplace     = 1u << 0,
};

/* --- stored in two bytes ------------------------------------------------------------------------------------------ */

/* y holds the two bytes of each number, lower first, as products on GPUs read them. Made only for those, by
 * runtime/fuse_bfloat16.c. */
static est_status pack_infer(est_infer *c)
{
    est_shape y = c->in[0];

    if (y.rank == 0) return est_fail(EST_INVALID_ARGUMENT, "a scalar has no rows of bytes");
    if (y.rank > 0 && y.dim[y.rank - 1] > 0) y.dim[y.rank - 1] *= 2;
    c->out[0] = y;
    return EST_OK;
}

static void pack_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c = arg;
    const float    *x = c->in[0]->data;
    uint16_t       *y = c->out[0].data;

    (void)block;
    EST_INDEPENDENT
    for (int64_t i = begin; i < end; i++) y[i] = est_bfloat16_bits(x[i]);
}

static est_status pack_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->in[0]->count, 64, 0.2, pack_range, c);
    return EST_OK;
}

const est_op est_op_pack_bfloat16 = {
    .name      = "EstPackBfloat16",
    .signature = "x: float32 -> y: uint8",
    .infer     = pack_infer,
    .cpu       = EST_KERNELS({ .run = pack_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(pack_bfloat16) }),
    .planned   = true,
};

est_node est_round_bfloat16(est_node x)
{
    return est_build1(&est_op_round_bfloat16, x, EST_NO_ATTRS);
}

static bool is_rounded(est_node x)
{
    const est_node_def *def = est_def(x);

    return def != NULL && def->op == &est_op_round_bfloat16;
}

est_node est_round_gradient(const est_grad *g)
{
    est_node dy = g->dout[0];

    return is_rounded(g->in[0]) && is_rounded(g->in[1]) ? est_round_bfloat16(dy) : dy;
}
