/* SPDX-License-Identifier: Apache-2.0
 *
 * BiasAdd: y[.., j] = x[.., j] + bias[j], and BiasAddGrad: dbias[j] = the sum of dy[.., j] over all leading axes. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/column_sums.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

#define FORMAT_ATTRIBUTE "data_format: string = \"NHWC\"; "

static est_status check_value(const est_infer *c)
{
    const char *format = est_node_string(c->node, "data_format");
    char        text[EST_SHAPE_TEXT_MAX];

    if (strcmp(format, "NHWC") != 0) {
        return est_fail(EST_UNIMPLEMENTED, "data_format %s is not supported, only NHWC is", format);
    }
    if (c->in[0].rank == 0 || c->in[0].rank == 1) {
        return est_fail(EST_INVALID_ARGUMENT, "values to add a bias to have at least two axes, got %s",
                        est_shape_text(&c->in[0], text));
    }
    return EST_OK;
}

static est_status bias_add_infer(est_infer *c)
{
    int64_t channels = est_infer_dim(&c->in[0], -1), bias = est_infer_dim(&c->in[1], 0);
    char    text[EST_SHAPE_TEXT_MAX];

    EST_TRY(check_value(c));
    EST_TRY(est_infer_rank(c, 1, 1));
    if (channels >= 0 && bias >= 0 && channels != bias) {
        return est_fail(EST_INVALID_ARGUMENT, "a bias of [%" PRId64 "] does not fit the last axis of %s", bias,
                        est_shape_text(&c->in[0], text));
    }
    c->out[0] = c->in[0];
    if (c->out[0].rank > 0 && channels < 0) c->out[0].dim[c->out[0].rank - 1] = bias;
    return EST_OK;
}

static void bias_add_backward(est_grad *g)
{
    g->din[0].values = g->dout[0];
    g->din[1].values = est_build1(&est_op_bias_add_grad, g->dout[0], EST_NO_ATTRS);
}

#define ADD_ROWS(T, suffix)                                                                                            \
    static void add_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                \
    {                                                                                                                  \
        const est_call *c      = arg;                                                                                  \
        int64_t         cols   = c->in[1]->count;                                                                      \
        const T *restrict bias = c->in[1]->data;                                                                       \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            const T *x                                              = (const T *)c->in[0]->data + r * cols;            \
            T       *y                                              = (T *)c->out[0].data + r * cols;                  \
            EST_INDEPENDENT for (int64_t j = 0; j < cols; j++) y[j] = x[j] + bias[j];                                  \
        }                                                                                                              \
    }
ADD_ROWS(float, f32)
ADD_ROWS(double, f64)
ADD_ROWS(uint32_t, i32) /* unsigned: overflow wraps */
ADD_ROWS(uint64_t, i64)

static est_status bias_add_cpu(est_call *c)
{
    int64_t      cols = c->in[1]->count;
    est_dtype    type = c->out[0].dtype;
    est_range_fn rows = type == EST_F32   ? add_rows_f32
                        : type == EST_F64 ? add_rows_f64
                        : type == EST_I32 ? add_rows_i32
                                          : add_rows_i64;

    if (cols > 0) est_parallel_for(c->pool, c->out[0].count / cols, 1, 0.2 * (double)cols, rows, c);
    return EST_OK;
}

const est_op est_op_bias_add = {
    .name        = "BiasAdd",
    .signature   = "value: T, bias: T -> output: T; " FORMAT_ATTRIBUTE "T: {float32, float64, int32, int64}",
    .infer       = bias_add_infer,
    .grad        = bias_add_backward,
    .cpu         = EST_KERNELS({ .run = bias_add_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(bias_add) }),
    .elementwise = true,
    .inplace     = 1u << 0,
};

/* --- the gradient ------------------------------------------------------------------------------------------------- */

static est_status bias_add_grad_infer(est_infer *c)
{
    EST_TRY(check_value(c));
    c->out[0] = EST_SHAPE(est_infer_dim(&c->in[0], -1));
    return EST_OK;
}

/* Each element of dy went into one sum. */
static void bias_add_grad_backward(est_grad *g)
{
    g->din[0].values = est_broadcast_to(g->dout[0], est_shape_of(g->in[0]));
}

static int64_t rows_of(const est_call *c)
{
    return c->out[0].count > 0 ? c->in[0]->count / c->out[0].count : 0;
}

/* The sums as doubles, then what they are made from. */
static size_t bias_add_grad_scratch(const est_call *c)
{
    return (size_t)c->out[0].count * sizeof(double) + est_column_sums_scratch(rows_of(c), c->out[0].count);
}

static size_t bias_add_grad_cuda_scratch(const est_call *c)
{
    return EST_COLUMN_SCRATCH(rows_of(c), c->out[0].count);
}

static est_status bias_add_grad_cpu(est_call *c)
{
    int64_t         cols    = c->out[0].count;
    double         *sum     = c->scratch;
    est_column_sums columns = {
        .dtype = c->in[0]->dtype, .term = EST_COLUMN_VALUE, .rows = rows_of(c), .cols = cols, .a = c->in[0]->data
    };

    if (cols == 0) return EST_OK;
    est_column_sums_run(c->pool, &columns, sum, sum + cols);
    for (int64_t j = 0; j < cols; j++) {
        if (c->out[0].dtype == EST_F32) {
            ((float *)c->out[0].data)[j] = (float)sum[j];
        } else {
            ((double *)c->out[0].data)[j] = sum[j];
        }
    }
    return EST_OK;
}

const est_op est_op_bias_add_grad = {
    .name      = "BiasAddGrad",
    .signature = "out_backprop: T -> output: T; " FORMAT_ATTRIBUTE "T: {float32, float64}",
    .infer     = bias_add_grad_infer,
    .grad      = bias_add_grad_backward,
    .cpu       = EST_KERNELS({ .run = bias_add_grad_cpu, .scratch = bias_add_grad_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(bias_add_grad), .scratch = bias_add_grad_cuda_scratch }),
};

est_node est_bias_add(est_node x, est_node bias)
{
    return est_build2(&est_op_bias_add, x, bias, EST_NO_ATTRS);
}
