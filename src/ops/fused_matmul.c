/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products that finish their tiles while they are warm. Made only by runtime/fuse.c, in private copies of a
 * graph, so they have no gradient and are never written to a file.
 *
 *   EstMatMulBias      y = op(a) op(b) + bias, then max(y, 0) when `relu` is set
 *   EstMatMulReluGrad  y = op(a) op(b) where features > 0, else 0
 *   EstMatMulReluBiasGrad  the same, and the sums of its columns, for devices that run by themselves
 *
 * With `bfloat16`, on GPUs alone, the factors are what EstPackBfloat16 makes, as those of EstMatMulBfloat16 always are:
 *
 *   EstMatMulBfloat16  y = op(a) op(b)
 */
#include "cuda/launchers.h"
#include "kernels/column_sums.h"
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

enum { TRANS_A, TRANS_B, RELU, BFLOAT16 }; /* in param[] */

static est_status bias_prepare(est_call *c)
{
    c->param[TRANS_A].i  = est_node_bool(c->node, "transpose_a");
    c->param[TRANS_B].i  = est_node_bool(c->node, "transpose_b");
    c->param[RELU].i     = est_node_bool(c->node, "relu");
    c->param[BFLOAT16].i = est_node_bool(c->node, "bfloat16");
    return EST_OK;
}

static est_status relu_grad_prepare(est_call *c)
{
    c->param[TRANS_A].i  = est_node_bool(c->node, "transpose_a");
    c->param[TRANS_B].i  = est_node_bool(c->node, "transpose_b");
    c->param[BFLOAT16].i = est_node_bool(c->node, "bfloat16");
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
                 "relu: bool = false; bfloat16: bool = false; T: {float32}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS({ .run = bias_cpu, .prepare = bias_prepare, .scratch = fused_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(matmul_bias),
                               .prepare = bias_prepare,
                               .scratch = fused_cuda_scratch,
                               .light   = est_matmul_is_narrow }),
    .heavy     = true,
    .planned   = true,
};

const est_op est_op_matmul_relu_grad = {
    .name      = "EstMatMulReluGrad",
    .signature = "a: T, b: T, features: T -> product: T; transpose_a: bool = false; transpose_b: bool = false; "
                 "bfloat16: bool = false; T: {float32}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS({ .run = relu_grad_cpu, .prepare = relu_grad_prepare, .scratch = fused_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(matmul_relu_grad),
                               .prepare = relu_grad_prepare,
                               .scratch = fused_cuda_scratch,
                               .light   = est_matmul_is_narrow }),
    .heavy     = true,
    .planned   = true,
};

/* --- with the bias's gradient ------------------------------------------------------------------------------------- */

static est_status sums_infer(est_infer *c)
{
    EST_TRY(fused_infer(c));
    c->out[1] = EST_SHAPE(c->out[0].dim[1]);
    return EST_OK;
}

static size_t max_bytes(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The product's, and then that of the sums. */
static size_t sums_scratch(const est_call *c)
{
    int64_t rows = c->out[0].shape.dim[0], cols = c->out[0].shape.dim[1];

    return max_bytes(fused_scratch(c), (size_t)cols * sizeof(double) + est_column_sums_scratch(rows, cols));
}

static size_t sums_cuda_scratch(const est_call *c)
{
    int64_t rows = c->out[0].shape.dim[0], cols = c->out[0].shape.dim[1];

    return max_bytes(fused_cuda_scratch(c), EST_COLUMN_SCRATCH(rows, cols));
}

static bool sums_light(const est_call *c)
{
    return !est_node_bool(c->node, "transpose_a") && c->in[0]->shape.dim[1] <= EST_NARROW;
}

static est_status sums_cpu(est_call *c)
{
    int64_t         cols    = c->out[0].shape.dim[1];
    double         *sum     = c->scratch;
    est_column_sums columns = { .dtype = EST_F32, .rows = c->out[0].shape.dim[0], .cols = cols, .a = c->out[0].data };

    EST_TRY(relu_grad_cpu(c));
    if (cols == 0) return EST_OK;
    est_column_sums_run(c->pool, &columns, sum, sum + cols);
    for (int64_t j = 0; j < cols; j++) ((float *)c->out[1].data)[j] = (float)sum[j];
    return EST_OK;
}

const est_op est_op_matmul_relu_bias_grad = {
    .name      = "EstMatMulReluBiasGrad",
    .signature = "a: T, b: T, features: T -> product: T, sums: T; transpose_a: bool = false; "
                 "transpose_b: bool = false; bfloat16: bool = false; T: {float32}",
    .infer     = sums_infer,
    .cpu       = EST_KERNELS({ .run = sums_cpu, .prepare = relu_grad_prepare, .scratch = sums_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(matmul_relu_bias_grad),
                               .prepare = relu_grad_prepare,
                               .scratch = sums_cuda_scratch,
                               .light   = sums_light }),
    .heavy     = true,
    .planned   = true,
};

/* --- factors of two bytes, and nothing more ----------------------------------------------------------------------- */

static est_status bfloat16_prepare(est_call *c)
{
    c->param[TRANS_A].i = est_node_bool(c->node, "transpose_a");
    c->param[TRANS_B].i = est_node_bool(c->node, "transpose_b");
    return EST_OK;
}

static size_t bfloat16_scratch(const est_call *c)
{
    (void)c;
    return EST_GEMM_WORKSPACE;
}

const est_op est_op_matmul_bfloat16 = {
    .name      = "EstMatMulBfloat16",
    .signature = "a: T, b: T -> product: T; transpose_a: bool = false; transpose_b: bool = false; T: {float32}",
    .infer     = fused_infer,
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(matmul_bfloat16), .prepare = bfloat16_prepare, .scratch = bfloat16_scratch }),
    .heavy   = true,
    .planned = true,
};
