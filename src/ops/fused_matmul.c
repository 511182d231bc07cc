/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products that finish their tiles while they are warm. Made only by runtime/fuse.c, in private copies of a
 * graph, so they have no gradient and are never written to a file.
 *
 *   EstMatMulBias      y = op(a) op(b) + bias, then max(y, 0) when `relu` is set
 *   EstMatMulReluGrad  y = op(a) op(b) where features > 0, else 0
 */
#include "cuda/launchers.h"
#include "kernels/gemm.h"
#include "ops/matmul.h"
#include "ops/ops.h"

static est_status fused_infer(est_infer *c)
{
    int64_t m, n;

    EST_TRY(est_matmul_sizes(&c->in[0], est_node_bool(c->node, "transpose_a"), &c->in[1],
                             est_node_bool(c->node, "transpose_b"), &m, &n));
    c->out[0] = EST_SHAPE(m, n);
    return EST_OK;
}

enum { TRANS_A, TRANS_B, RELU }; /* in param[] */

static est_status bias_prepare(est_call *c)
{
    c->param[TRANS_A].i = est_node_bool(c->node, "transpose_a");
    c->param[TRANS_B].i = est_node_bool(c->node, "transpose_b");
    c->param[RELU].i    = est_node_bool(c->node, "relu");
    return EST_OK;
}

static est_status relu_grad_prepare(est_call *c)
{
    c->param[TRANS_A].i = est_node_bool(c->node, "transpose_a");
    c->param[TRANS_B].i = est_node_bool(c->node, "transpose_b");
    return EST_OK;
}

static size_t fused_scratch(const est_call *c)
{
    return est_matmul_scratch(c, est_node_bool(c->node, "transpose_a"), est_node_bool(c->node, "transpose_b"));
}

static size_t fused_cuda_scratch(const est_call *c)
{
    return est_product_scratch(est_node_bool(c->node, "transpose_a"), c->in[0]->count);
}

static void add_bias(void *arg, int64_t row, int64_t n_rows, int64_t col, int64_t n_cols)
{
    const est_call *c     = arg;
    int64_t         width = c->out[0].shape.dim[1];
    const float    *bias  = (const float *)c->in[2]->data + col;

    for (int64_t r = row; r < row + n_rows; r++) {
        float *restrict y = (float *)c->out[0].data + r * width + col;
        for (int64_t i = 0; i < n_cols; i++) y[i] += bias[i];
    }
}

/* A NaN stays one: it is not <= 0. */
static void add_bias_relu(void *arg, int64_t row, int64_t n_rows, int64_t col, int64_t n_cols)
{
    const est_call *c     = arg;
    int64_t         width = c->out[0].shape.dim[1];
    const float    *bias  = (const float *)c->in[2]->data + col;

    for (int64_t r = row; r < row + n_rows; r++) {
        float *restrict y = (float *)c->out[0].data + r * width + col;
        for (int64_t i = 0; i < n_cols; i++) {
            float v = y[i] + bias[i];
            y[i]    = v <= 0 ? 0 : v;
        }
    }
}

static void mask_dead(void *arg, int64_t row, int64_t n_rows, int64_t col, int64_t n_cols)
{
    const est_call *c     = arg;
    int64_t         width = c->out[0].shape.dim[1];

    for (int64_t r = row; r < row + n_rows; r++) {
        const float *restrict f = (const float *)c->in[2]->data + r * width + col;
        float *restrict y       = (float *)c->out[0].data + r * width + col;
        for (int64_t i = 0; i < n_cols; i++) y[i] = f[i] > 0 ? y[i] : 0;
    }
}

static est_status bias_cpu(est_call *c)
{
    est_matmul_run(c, c->param[TRANS_A].i != 0, c->param[TRANS_B].i != 0,
                   c->param[RELU].i != 0 ? add_bias_relu : add_bias, c);
    return EST_OK;
}

static est_status relu_grad_cpu(est_call *c)
{
    est_matmul_run(c, c->param[TRANS_A].i != 0, c->param[TRANS_B].i != 0, mask_dead, c);
    return EST_OK;
}

const est_op est_op_matmul_bias = {
    .name      = "EstMatMulBias",
    .signature = "a: T, b: T, bias: T -> product: T; transpose_a: bool = false; transpose_b: bool = false; "
                 "relu: bool = false; T: {float32}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS({ .run = bias_cpu, .prepare = bias_prepare, .scratch = fused_scratch }),
    .cuda  = EST_KERNELS({ .launch = EST_LAUNCH(matmul_bias), .prepare = bias_prepare, .scratch = fused_cuda_scratch }),
    .heavy = true,
    .planned = true,
};

const est_op est_op_matmul_relu_grad = {
    .name      = "EstMatMulReluGrad",
    .signature = "a: T, b: T, features: T -> product: T; transpose_a: bool = false; transpose_b: bool = false; "
                 "T: {float32}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS({ .run = relu_grad_cpu, .prepare = relu_grad_prepare, .scratch = fused_scratch }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(matmul_relu_grad), .prepare = relu_grad_prepare, .scratch = fused_cuda_scratch }),
    .heavy   = true,
    .planned = true,
};
