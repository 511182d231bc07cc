/* SPDX-License-Identifier: Apache-2.0
 *
 * CheckNumerics: y = x, or an error that says how many elements are NaN or infinite. */
#include <math.h>
#include <string.h>

#include "kernels/parallel.h"
#include "ops/ops.h"

#define BLOCKS_MAX 64 /* est_parallel_blocks() gives no more */

/* What one block found. */
typedef struct finding {
    int64_t nan, infinite;
} finding;

static size_t check_numerics_scratch(const est_call *c)
{
    (void)c;
    return sizeof(finding) * BLOCKS_MAX;
}

#define CHECK_LOOP(T, infinity)                                                                                        \
    static void check_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                        \
    {                                                                                                                  \
        const est_call *c   = arg;                                                                                     \
        const T        *x   = c->in[0]->data;                                                                          \
        T              *y   = c->out[0].data;                                                                          \
        int64_t         nan = 0, infinite = 0;                                                                         \
                                                                                                                       \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            nan += x[i] != x[i];                                                                                       \
            infinite += (x[i] == infinity) | (x[i] == -infinity);                                                      \
        }                                                                                                              \
        if (y != x) memcpy(y + begin, x + begin, sizeof(T) * (size_t)(end - begin));                                   \
        ((finding *)c->scratch)[block] = (finding){ nan, infinite };                                                   \
    }
CHECK_LOOP(float, (float)INFINITY)
CHECK_LOOP(double, (double)INFINITY)

static est_status check_numerics_cpu(est_call *c)
{
    const double ns    = 0.3;
    finding     *found = c->scratch, total = { 0, 0 };

    memset(found, 0, sizeof *found * BLOCKS_MAX);
    est_parallel_for(c->pool, c->in[0]->count, 64, ns, c->in[0]->dtype == EST_F32 ? check_float : check_double, c);
    for (int i = 0; i < BLOCKS_MAX; i++) {
        total.nan += found[i].nan;
        total.infinite += found[i].infinite;
    }
    if (total.nan == 0 && total.infinite == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s : Tensor had %lld NaN and %lld Inf values of %lld",
                    est_node_string(c->node, "message"), (long long)total.nan, (long long)total.infinite,
                    (long long)c->in[0]->count);
}

static void check_numerics_grad(est_grad *g)
{
    g->din[0].values = est_check_numerics(g->dout[0], est_node_string(g->node, "message"));
}

const est_op est_op_check_numerics = {
    .name        = "CheckNumerics",
    .signature   = "tensor: T -> output: T; message: string; T: {float32, float64}",
    .infer       = est_infer_same_as_input,
    .grad        = check_numerics_grad,
    .cpu         = EST_KERNELS({ .run = check_numerics_cpu, .scratch = check_numerics_scratch }),
    .elementwise = true,
    .stateful    = true, /* it may end the run */
    .inplace     = 1u << 0,
};

est_node est_check_numerics(est_node x, const char *message)
{
    return est_build1(&est_op_check_numerics, x, EST_ATTRS(est_attr_string("message", message)));
}
