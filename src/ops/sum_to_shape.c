/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSumToShape: dy summed over the axes along which x was broadcast to dy's shape. It undoes broadcasting in
 * gradients, where TensorFlow computes the axes by BroadcastGradientArgs and then takes Sum and Reshape.
 *
 * Equal shapes need no work: known equal ones not even a node, and otherwise the result is dy itself or a copy. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "kernels/reduction.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* The axes of dy to sum: those x does not have, and those where x has 1 and dy has not. */
static uint32_t repeated_axes(const est_shape *dy, const est_shape *x)
{
    int      missing = dy->rank - x->rank;
    uint32_t mask    = 0;

    for (int a = 0; a < dy->rank; a++) {
        if (a < missing || (x->dim[a - missing] == 1 && dy->dim[a] != 1)) mask |= 1u << a;
    }
    return mask;
}

static est_status sum_to_shape_infer(est_infer *c)
{
    const est_shape *dy = &c->in[0], *x = &c->in[1];
    char             text[2][EST_SHAPE_TEXT_MAX];
    bool             fits = x->rank <= dy->rank;

    c->out[0] = *x;
    if (dy->rank < 0 || x->rank < 0) return EST_OK;
    for (int a = 0; fits && a < x->rank; a++) {
        int64_t have = dy->dim[a + dy->rank - x->rank], want = x->dim[a];
        fits = have == want || want == 1 || have < 0 || want < 0;
    }
    if (fits) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "a gradient of shape %s does not come from broadcasting %s",
                    est_shape_text(dy, text[0]), est_shape_text(x, text[1]));
}

static size_t sum_to_shape_scratch(const est_call *c)
{
    return est_reduce_scratch(c->in[0]->count);
}

static size_t sum_to_shape_cuda_scratch(const est_call *c)
{
    (void)c;
    return EST_REDUCE_PARTS * sizeof(double);
}

typedef struct copy_job {
    char       *to;
    const char *from;
} copy_job;

static void copy_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const copy_job *j = arg;

    (void)block;
    memcpy(j->to + begin, j->from + begin, (size_t)(end - begin));
}

static est_status sum_to_shape_cpu(est_call *c)
{
    const est_view    *dy      = c->in[0];
    const est_reducer *reducer = est_reducer_find(EST_REDUCE_SUM, dy->dtype);

    if (dy->count == c->out[0].count) {
        copy_job job = { c->out[0].data, dy->data };
        if (job.to != job.from) {
            est_parallel_for(c->pool, dy->count * reducer->size, 64, 0.1, copy_range, &job);
        }
        return EST_OK;
    }
    est_reduce_run(c->pool, reducer, &dy->shape, repeated_axes(&dy->shape, &c->in[1]->shape), dy->data, c->out[0].data,
                   c->scratch);
    return EST_OK;
}

static void sum_to_shape_grad(est_grad *g)
{
    g->din[0].values = est_broadcast_to(g->dout[0], est_shape_of(g->in[0]));
}

/* Whether x's shape tells which axes to sum: summing one where both have 1 does no harm. */
static bool axes_are_known(const est_shape *dy, const est_shape *x)
{
    bool known = dy->rank >= 0 && x->rank >= 0;

    for (int a = 0; known && a < x->rank; a++) known = x->dim[a] >= 0 || dy->dim[a + dy->rank - x->rank] == 1;
    return known;
}

/* As TensorFlow does it, with constant axes where they are known. */
static void sum_to_shape_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    const est_shape *dy = est_node_shape(in[0]), *x = est_node_shape(in[1]);
    int64_t          axes[EST_RANK_MAX];
    est_node         sum = in[0];
    int              n   = 0;

    (void)node, (void)graph;
    if (!axes_are_known(dy, x)) {
        est_node args = est_build2(&est_op_broadcast_gradient_args, est_shape_of(in[1]), est_shape_of(in[0]),
                                   EST_NO_ATTRS);
        sum           = est_build2(&est_op_reduce_sum, in[0], args, EST_NO_ATTRS);
    } else {
        uint32_t mask = repeated_axes(dy, x);
        for (int a = 0; a < dy->rank; a++) {
            if (mask >> a & 1) axes[n++] = a;
        }
        if (n > 0) sum = est_reduce_sum(in[0], (est_i64s){ axes, n }, false);
    }
    out[0] = est_reshape_like(sum, in[1]);
}

const est_op est_op_sum_to_shape = {
    .name       = "EstSumToShape",
    .signature  = "dy: T, x: T -> dx: T; T: {float32, float64, int32, int64}",
    .infer      = sum_to_shape_infer,
    .grad       = sum_to_shape_grad,
    .cpu        = EST_KERNELS({ .run = sum_to_shape_cpu, .scratch = sum_to_shape_scratch }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(sum_to_shape), .scratch = sum_to_shape_cuda_scratch }),
    .lower      = sum_to_shape_lower,
    .inplace    = 1u << 0,
    .shape_only = 1u << 1,
};

est_node est_sum_to_shape(est_node dy, est_node x)
{
    const est_shape *a, *b;

    if (est_def(dy) == NULL || est_def(x) == NULL) return dy;
    a = est_node_shape(dy);
    b = est_node_shape(x);
    if (est_shape_is_known(a) && est_shape_equal(a, b)) return dy;
    return est_build2(&est_op_sum_to_shape, dy, x, EST_NO_ATTRS);
}
