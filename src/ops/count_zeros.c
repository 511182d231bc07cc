/* SPDX-License-Identifier: Apache-2.0
 *
 * EstCountZeros: how many elements of x are 0, as a float64: a number that is no shape, so that GPUs may make it. In
 * TensorFlow's ops the sum of Equal(x, 0) as numbers, which makes three tensors as large as x; this reads x once, since
 * it is asked of whole tables of weights. */
#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/ops.h"

#define BLOCKS_MAX 64 /* est_parallel_blocks() gives no more */

static size_t count_scratch(const est_call *c)
{
    (void)c;
    return sizeof(int64_t) * BLOCKS_MAX; /* of each block */
}

#define COUNT_LOOP(T)                                                                                                  \
    static void count_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                        \
    {                                                                                                                  \
        const est_call *c = arg;                                                                                       \
        const T        *x = c->in[0]->data;                                                                            \
        int64_t         n = 0;                                                                                         \
                                                                                                                       \
        for (int64_t i = begin; i < end; i++) n += x[i] == 0;                                                          \
        ((int64_t *)c->scratch)[block] = n;                                                                            \
    }
COUNT_LOOP(float)
COUNT_LOOP(double)

static est_status count_cpu(est_call *c)
{
    const est_view *x    = c->in[0];
    int64_t        *each = c->scratch, n = 0;

    for (int i = 0; i < BLOCKS_MAX; i++) each[i] = 0;
    if (x->count > 0) {
        est_parallel_for(c->pool, x->count, 64, 0.25, x->dtype == EST_F32 ? count_float : count_double, c);
    }
    for (int i = 0; i < BLOCKS_MAX; i++) n += each[i];
    *(double *)c->out[0].data = (double)n;
    return EST_OK;
}

static void count_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node zero = est_scalar(graph, est_node_dtype(in[0]), 0);

    (void)node;
    out[0] = est_cast(est_sum(est_cast(est_equal(in[0], zero), EST_I64)), EST_F64);
}

static size_t count_cuda_scratch(const est_call *c)
{
    (void)c;
    return EST_REDUCE_PARTS * sizeof(double);
}

const est_op est_op_count_zeros = {
    .name      = "EstCountZeros",
    .signature = "x: T -> y: float64; T: {float32, float64}",
    .infer     = est_infer_scalar,
    .cpu       = EST_KERNELS({ .run = count_cpu, .scratch = count_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(count_zeros), .scratch = count_cuda_scratch }),
    .lower     = count_lower,
};

est_node est_count_zeros(est_node x)
{
    return est_build1(&est_op_count_zeros, x, EST_NO_ATTRS);
}
