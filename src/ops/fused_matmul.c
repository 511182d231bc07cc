/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products that finish their tiles while they are warm. Made only by runtime/fuse.c, in private copies of a
 * graph, so they have no gradient and are never written to a file.
 *
 *   EstMatMulBias      y = op(a) op(b) + bias, then max(y, 0) when `relu` is set
 *   EstMatMulReluGrad  y = op(a) op(b) where features > 0, else 0
 *   EstMatMulReluBiasGrad  the same, and the sums of its columns, for devices that run by themselves
 *
 *   EstMatMulBfloat16  y = op(a) op(b)
 *
 * Factors of type uint8 are what EstPackBfloat16 makes, as those of the last one always are: GPUs have units for such
 * numbers, a CPU makes floats of them first. */
#include "cuda/bfloat16.h"
#include "cuda/launchers.h"
#include "kernels/column_sums.h"
#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "ops/matmul.h"
#include "ops/ops.h"

/* The shape of numbers that are stored as bytes, two for each. */
static est_shape unpacked_shape(const est_shape *bytes)
{
    est_shape shape = *bytes;

    if (shape.rank > 0 && shape.dim[shape.rank - 1] > 0) shape.dim[shape.rank - 1] /= 2;
    return shape;
}

static est_status fused_infer(est_infer *c)
{
    bool      packed = est_node_type(c->node, "T") == EST_U8;
    est_shape a = packed ? unpacked_shape(&c->in[0]) : c->in[0], b = packed ? unpacked_shape(&c->in[1]) : c->in[1];
    int64_t   m, n;

    EST_TRY(
        est_matmul_sizes(&a, est_node_bool(c->node, "transpose_a"), &b, est_node_bool(c->node, "transpose_b"), &m, &n));
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

static est_status keep_sides(est_call *c)
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
    int64_t elements = c->in[0]->dtype == EST_U8 ? c->in[0]->count / 2 : c->in[0]->count;

    return est_product_scratch(est_node_bool(c->node, "transpose_a"), elements);
}

static bool fused_light(const est_call *c)
{
    return c->in[0]->dtype == EST_F32 && est_matmul_is_narrow(c);
}

/* --- factors that are bytes, on a CPU ----------------------------------------------------------------------------- */

static bool is_packed(const est_call *c)
{
    return c->in[0]->dtype == EST_U8;
}

static bool is_not_packed(const est_call *c)
{
    return c->in[0]->dtype != EST_U8;
}

/* A call whose factors are floats: in the scratch of the one with bytes, before its own. */
typedef struct unpacked {
    est_call  call;
    est_view  factor[2];
    est_view *in[3];
    size_t    bytes;
} unpacked;

/* NULL where its size is asked for, or nothing is needed. */
static void *in_scratch(const est_call *c, size_t offset)
{
    return c->scratch == NULL ? NULL : (char *)c->scratch + offset;
}

static void describe_unpacked(const est_call *c, unpacked *u)
{
    u->bytes = 0;
    for (int i = 0; i < 2; i++) {
        u->factor[i] = (est_view){ .data  = in_scratch(c, u->bytes),
                                   .dtype = EST_F32,
                                   .shape = unpacked_shape(&c->in[i]->shape),
                                   .count = c->in[i]->count / 2 };
        u->in[i]     = &u->factor[i];
        u->bytes += ((size_t)u->factor[i].count * sizeof(float) + 63) / 64 * 64;
    }
    u->in[2]        = c->n_in > 2 ? c->in[2] : NULL;
    u->call         = *c;
    u->call.in      = u->in;
    u->call.scratch = in_scratch(c, u->bytes);
}

typedef struct numbers {
    const uint16_t *bits;
    float          *x;
} numbers;

static void unpack_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const numbers *n = arg;

    (void)block;
    for (int64_t i = begin; i < end; i++) n->x[i] = est_of_bfloat16_bits(n->bits[i]);
}

static est_status run_unpacked(const est_call *c, est_status (*run)(est_call *c))
{
    unpacked u;

    describe_unpacked(c, &u);
    for (int i = 0; i < 2; i++) {
        est_parallel_for(c->pool, u.factor[i].count, 64, 0.2, unpack_range,
                         &(numbers){ c->in[i]->data, u.factor[i].data });
    }
    return run(&u.call);
}

static size_t unpacked_scratch(const est_call *c, size_t (*scratch)(const est_call *c))
{
    unpacked u;

    describe_unpacked(c, &u);
    return u.bytes + scratch(&u.call);
}

static size_t packed_scratch(const est_call *c)
{
    return unpacked_scratch(c, fused_scratch);
}

/* --- with something added or masked ------------------------------------------------------------------------------- */

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

static est_status packed_bias_cpu(est_call *c)
{
    return run_unpacked(c, bias_cpu);
}

static est_status packed_relu_grad_cpu(est_call *c)
{
    return run_unpacked(c, relu_grad_cpu);
}

const est_op est_op_matmul_bias = {
    .name      = "EstMatMulBias",
    .signature = "a: T, b: T, bias: float32 -> product: float32; transpose_a: bool = false; "
                 "transpose_b: bool = false; relu: bool = false; T: {float32, uint8}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS(
              { .run = bias_cpu, .accepts = is_not_packed, .prepare = bias_prepare, .scratch = fused_scratch },
              { .run = packed_bias_cpu, .accepts = is_packed, .prepare = bias_prepare, .scratch = packed_scratch }),
    .cuda    = EST_KERNELS({ .launch  = EST_LAUNCH(matmul_bias),
                             .prepare = bias_prepare,
                             .scratch = fused_cuda_scratch,
                             .light   = fused_light }),
    .heavy   = true,
    .planned = true,
};

const est_op est_op_matmul_relu_grad = {
    .name      = "EstMatMulReluGrad",
    .signature = "a: T, b: T, features: float32 -> product: float32; transpose_a: bool = false; "
                 "transpose_b: bool = false; T: {float32, uint8}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS(
              { .run = relu_grad_cpu, .accepts = is_not_packed, .prepare = keep_sides, .scratch = fused_scratch },
              { .run = packed_relu_grad_cpu, .accepts = is_packed, .prepare = keep_sides, .scratch = packed_scratch }),
    .cuda    = EST_KERNELS({ .launch  = EST_LAUNCH(matmul_relu_grad),
                             .prepare = keep_sides,
                             .scratch = fused_cuda_scratch,
                             .light   = fused_light }),
    .heavy   = true,
    .planned = true,
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
    return c->in[0]->dtype == EST_F32 && !est_node_bool(c->node, "transpose_a") && c->in[0]->shape.dim[1] <= EST_NARROW;
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

static est_status packed_sums_cpu(est_call *c)
{
    return run_unpacked(c, sums_cpu);
}

static size_t packed_sums_scratch(const est_call *c)
{
    return unpacked_scratch(c, sums_scratch);
}

const est_op est_op_matmul_relu_bias_grad = {
    .name      = "EstMatMulReluBiasGrad",
    .signature = "a: T, b: T, features: float32 -> product: float32, sums: float32; transpose_a: bool = false; "
                 "transpose_b: bool = false; T: {float32, uint8}",
    .infer     = sums_infer,
    .cpu       = EST_KERNELS(
              { .run = sums_cpu, .accepts = is_not_packed, .prepare = keep_sides, .scratch = sums_scratch },
              { .run = packed_sums_cpu, .accepts = is_packed, .prepare = keep_sides, .scratch = packed_sums_scratch }),
    .cuda    = EST_KERNELS({ .launch  = EST_LAUNCH(matmul_relu_bias_grad),
                             .prepare = keep_sides,
                             .scratch = sums_cuda_scratch,
                             .light   = sums_light }),
    .heavy   = true,
    .planned = true,
};

/* --- factors of two bytes, and nothing more ----------------------------------------------------------------------- */

static est_status plain_cpu(est_call *c)
{
    est_matmul_run(c, c->param[TRANS_A].i != 0, c->param[TRANS_B].i != 0, NULL, NULL);
    return EST_OK;
}

static est_status packed_cpu(est_call *c)
{
    return run_unpacked(c, plain_cpu);
}

const est_op est_op_matmul_bfloat16 = {
    .name      = "EstMatMulBfloat16",
    .signature = "a: T, b: T -> product: float32; transpose_a: bool = false; transpose_b: bool = false; T: {uint8}",
    .infer     = fused_infer,
    .cpu       = EST_KERNELS({ .run = packed_cpu, .prepare = keep_sides, .scratch = packed_scratch }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(matmul_bfloat16), .prepare = keep_sides, .scratch = fused_cuda_scratch }),
    .heavy   = true,
    .planned = true,
};
