/* SPDX-License-Identifier: Apache-2.0
 *
 * FusedBatchNormV3: y = (x - mean) / sqrt(variance + epsilon) * scale + offset, channel by channel over the last axis.
 *
 * Training takes mean and variance of the batch (divided by n) and returns them for the running averages, the variance
 * there unbiased (divided by n - 1); with exponential_avg_factor f below 1 it returns (1 - f) * input + f * batch
 * instead. Otherwise the mean and variance given are used. The statistics used, as they are, go to the gradient through
 * reserve_space_1 and reserve_space_2.
 *
 * The gradient, with d = x - mean and s = 1 / sqrt(variance + epsilon):
 *   doffset = sum(dy), dscale = s * sum(dy * d),
 *   dx = scale * s * (dy - doffset / n - d * s * dscale / n) when training, scale * s * dy otherwise. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/column_sums.h"
#include "kernels/parallel.h"
#include "kernels/vmath.h"
#include "ops/ops.h"

#define NORM_ATTRIBUTES                                                                                                \
    "T: {float32, float64}; U: {float32, float64}; epsilon: float = 0.0001; data_format: string = \"NHWC\"; "          \
    "is_training: bool = true"
#define ELEMENT_NS 0.3

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static est_status check_images(const est_infer *c, int input)
{
    const char *format = est_node_string(c->node, "data_format");

    if (strcmp(format, "NHWC") != 0) {
        return est_fail(EST_UNIMPLEMENTED, "data_format %s is not supported, only NHWC is", format);
    }
    return est_infer_rank(c, input, 4);
}

/* Input `input` must have one element for each of `*channels`; fills them in when they are still unknown. */
static est_status check_channels(const est_infer *c, int input, int64_t *channels)
{
    int64_t n = est_infer_dim(&c->in[input], 0);

    EST_TRY(est_infer_rank(c, input, 1));
    if (n >= 0 && *channels >= 0 && n != *channels) {
        return est_fail(EST_INVALID_ARGUMENT, "input %d has %" PRId64 " elements for %" PRId64 " channels", input, n,
                        *channels);
    }
    if (*channels < 0) *channels = n;
    return EST_OK;
}

static est_status batch_norm_infer(est_infer *c)
{
    int64_t channels = est_infer_dim(&c->in[0], 3);
    bool needs_old   = !est_node_bool(c->node, "is_training") || est_node_float(c->node, "exponential_avg_factor") != 1;

    EST_TRY(check_images(c, 0));
    EST_TRY(check_channels(c, 1, &channels));
    EST_TRY(check_channels(c, 2, &channels));
    for (int i = 3; i <= 4; i++) { /* training from scratch, TensorFlow passes empty ones */
        if (needs_old || est_infer_dim(&c->in[i], 0) != 0) EST_TRY(check_channels(c, i, &channels));
    }
    c->out[0] = EST_SHAPE(est_infer_dim(&c->in[0], 0), est_infer_dim(&c->in[0], 1), est_infer_dim(&c->in[0], 2),
                          channels);
    for (int i = 1; i <= 4; i++) c->out[i] = EST_SHAPE(channels);
    c->out[5] = EST_SHAPE(0); /* other devices keep something there, the CPU does not */
    return EST_OK;
}

static est_status batch_norm_grad_infer(est_infer *c)
{
    int64_t channels = est_infer_dim(&c->in[1], 3);

    EST_TRY(check_images(c, 0));
    EST_TRY(check_images(c, 1));
    EST_TRY(est_infer_merge(&c->in[0], &c->in[1], &c->out[0]));
    for (int i = 2; i <= 4; i++) EST_TRY(check_channels(c, i, &channels));
    c->out[1] = c->out[2] = EST_SHAPE(channels);
    c->out[3] = c->out[4] = EST_SHAPE_SCALAR;
    return EST_OK;
}

/* As in TensorFlow nothing flows into the statistics, given or returned. */
static void batch_norm_backward(est_grad *g)
{
    bool     training = est_node_bool(g->node, "is_training");
    est_node grad;

    if (g->dout[0].graph == NULL) return;
    grad = est_build(g->in[0].graph, &est_op_fused_batch_norm_grad,
                     EST_NODES(g->dout[0], g->in[0], g->in[1], training ? g->out[3] : g->in[3],
                               training ? g->out[4] : g->in[4], g->out[5]),
                     EST_ATTRS(est_attr_float("epsilon", est_node_float(g->node, "epsilon")),
                               est_attr_bool("is_training", training)));
    for (int i = 0; i < 3; i++) g->din[i].values = est_output(grad, i);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static double get(const est_view *v, int64_t i)
{
    return v->dtype == EST_F32 ? (double)((const float *)v->data)[i] : ((const double *)v->data)[i];
}

static void put(const est_view *v, int64_t i, double value)
{
    if (v->dtype == EST_F32) {
        ((float *)v->data)[i] = (float)value;
    } else {
        ((double *)v->data)[i] = value;
    }
}

/* Per-channel work space in front of what the column sums need. `center` and the coefficients are of x's dtype but have
 * room for doubles. */
typedef struct work {
    double *sum, *product;
    void   *center, *k1, *k2, *k3;
    void   *columns;
} work;

static work work_at(void *scratch, int64_t channels)
{
    double *at = scratch;

    return (work){
        at, at + channels, at + 2 * channels, at + 3 * channels, at + 4 * channels, at + 5 * channels, at + 6 * channels
    };
}

static size_t work_bytes(const est_view *x)
{
    int64_t channels = x->shape.dim[3], rows = channels > 0 ? x->count / channels : 0;

    return (size_t)(6 * channels) * sizeof(double) + est_column_sums_scratch(rows, channels);
}

/* v[i] of an array of x's dtype. */
static void set(void *v, est_dtype dtype, int64_t i, double value)
{
    put(&(est_view){ .data = v, .dtype = dtype }, i, value);
}

typedef struct affine {
    int64_t     channels;
    const void *x, *dy;
    void       *out;
    work        w;
} affine;

/* y = (x - center) * k1 + k2, and dx = dy * k1 + (x - center) * k2 + k3, by rows of channels. */
#define AFFINE_ROWS(T, suffix)                                                                                         \
    static void forward_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const affine *f          = arg;                                                                                \
        const T *restrict center = f->w.center, *restrict k1 = f->w.k1, *restrict k2 = f->w.k2;                        \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            const T *x                                                     = (const T *)f->x + r * f->channels;        \
            T       *y                                                     = (T *)f->out + r * f->channels;            \
            EST_INDEPENDENT for (int64_t c = 0; c < f->channels; c++) y[c] = (x[c] - center[c]) * k1[c] + k2[c];       \
        }                                                                                                              \
    }                                                                                                                  \
    static void backward_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                           \
    {                                                                                                                  \
        const affine *f          = arg;                                                                                \
        const T *restrict center = f->w.center, *restrict k1 = f->w.k1, *restrict k2 = f->w.k2,                        \
                          *restrict k3 = f->w.k3;                                                                      \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            const T *x = (const T *)f->x + r * f->channels, *dy = (const T *)f->dy + r * f->channels;                  \
            T       *dx = (T *)f->out + r * f->channels;                                                               \
            EST_INDEPENDENT for (int64_t c = 0; c < f->channels; c++)                                                  \
                dx[c] = dy[c] * k1[c] + (x[c] - center[c]) * k2[c] + k3[c];                                            \
        }                                                                                                              \
    }
AFFINE_ROWS(float, f32)
AFFINE_ROWS(double, f64)

enum { EPSILON, TRAINING, AVERAGE }; /* in param[]; the last is the forward op's only */

static est_status batch_norm_grad_prepare(est_call *c)
{
    c->param[EPSILON].f  = est_node_float(c->node, "epsilon");
    c->param[TRAINING].i = est_node_bool(c->node, "is_training");
    return EST_OK;
}

static est_status batch_norm_prepare(est_call *c)
{
    c->param[AVERAGE].f = est_node_float(c->node, "exponential_avg_factor");
    return batch_norm_grad_prepare(c);
}

/* Mean and biased variance of the batch into reserve_space_1 and 2 (outputs 3 and 4), running ones into 1 and 2. */
static void batch_statistics(est_call *c, const work *w, int64_t rows, int64_t channels)
{
    est_dtype       dtype   = c->in[0]->dtype;
    est_column_sums columns = {
        .dtype = dtype, .rows = rows, .cols = channels, .a = c->in[0]->data, .center = w->center
    };
    double n = (double)rows, unbias = rows > 1 ? n / (n - 1) : 1;
    double f = c->param[AVERAGE].f;

    columns.term = EST_COLUMN_VALUE;
    est_column_sums_run(c->pool, &columns, w->sum, w->columns);
    for (int64_t i = 0; i < channels; i++) {
        put(&c->out[3], i, w->sum[i] / n);
        set(w->center, dtype, i, w->sum[i] / n);
    }
    columns.term = EST_COLUMN_SQUARE;
    est_column_sums_run(c->pool, &columns, w->product, w->columns);
    for (int64_t i = 0; i < channels; i++) {
        double mean = w->sum[i] / n, variance = w->product[i] / n;

        put(&c->out[4], i, variance);
        put(&c->out[1], i, f == 1 ? mean : (1 - f) * get(c->in[3], i) + f * mean);
        put(&c->out[2], i, f == 1 ? variance * unbias : (1 - f) * get(c->in[4], i) + f * variance * unbias);
    }
}

static void given_statistics(est_call *c)
{
    for (int64_t i = 0; i < c->out[1].count; i++) {
        put(&c->out[1], i, get(c->in[3], i));
        put(&c->out[3], i, get(c->in[3], i));
        put(&c->out[2], i, get(c->in[4], i));
        put(&c->out[4], i, get(c->in[4], i));
    }
}

static size_t batch_norm_scratch(const est_call *c)
{
    return work_bytes(c->in[0]);
}

static est_status batch_norm_cpu(est_call *c)
{
    const est_view *x        = c->in[0];
    int64_t         channels = x->shape.dim[3], rows = channels > 0 ? x->count / channels : 0;
    double          epsilon = c->param[EPSILON].f;
    affine f = { .channels = channels, .x = x->data, .out = c->out[0].data, .w = work_at(c->scratch, channels) };

    if (c->param[TRAINING].i != 0) {
        batch_statistics(c, &f.w, rows, channels);
    } else {
        given_statistics(c);
    }
    for (int64_t i = 0; i < channels; i++) {
        set(f.w.center, x->dtype, i, get(&c->out[3], i));
        set(f.w.k1, x->dtype, i, get(c->in[1], i) / sqrt(get(&c->out[4], i) + epsilon));
        set(f.w.k2, x->dtype, i, get(c->in[2], i));
    }
    est_parallel_for(c->pool, rows, 1, ELEMENT_NS * (double)channels,
                     x->dtype == EST_F32 ? forward_rows_f32 : forward_rows_f64, &f);
    return EST_OK;
}

static size_t batch_norm_grad_scratch(const est_call *c)
{
    return work_bytes(c->in[1]);
}

static est_status batch_norm_grad_cpu(est_call *c)
{
    const est_view *x        = c->in[1];
    int64_t         channels = x->shape.dim[3], rows = channels > 0 ? x->count / channels : 0;
    double          epsilon = c->param[EPSILON].f, n = (double)rows;
    bool            training = c->param[TRAINING].i != 0;
    affine          f        = { .channels = channels,
                                 .x        = x->data,
                                 .dy       = c->in[0]->data,
                                 .out      = c->out[0].data,
                                 .w        = work_at(c->scratch, channels) };
    est_column_sums columns  = {
         .dtype = x->dtype, .rows = rows, .cols = channels, .a = f.dy, .b = f.x, .center = f.w.center
    };

    for (int64_t i = 0; i < channels; i++) set(f.w.center, x->dtype, i, get(c->in[3], i));
    columns.term = EST_COLUMN_VALUE;
    est_column_sums_run(c->pool, &columns, f.w.sum, f.w.columns);
    columns.term = EST_COLUMN_PRODUCT;
    est_column_sums_run(c->pool, &columns, f.w.product, f.w.columns);
    for (int64_t i = 0; i < channels; i++) {
        double s = 1 / sqrt(get(c->in[4], i) + epsilon), k1 = get(c->in[2], i) * s;

        put(&c->out[1], i, s * f.w.product[i]);
        put(&c->out[2], i, f.w.sum[i]);
        set(f.w.k1, x->dtype, i, k1);
        set(f.w.k2, x->dtype, i, training ? -k1 * s * s * f.w.product[i] / n : 0);
        set(f.w.k3, x->dtype, i, training ? -k1 * f.w.sum[i] / n : 0);
    }
    put(&c->out[3], 0, 0);
    put(&c->out[4], 0, 0);
    est_parallel_for(c->pool, rows, 1, ELEMENT_NS * (double)channels,
                     x->dtype == EST_F32 ? backward_rows_f32 : backward_rows_f64, &f);
    return EST_OK;
}

/* On a GPU: two sums for each channel, and as many for each chunk of rows. */
static size_t cuda_bytes(const est_view *x)
{
    int64_t channels = x->shape.dim[3], rows = channels > 0 ? x->count / channels : 0;

    return (size_t)(2 * channels * (1 + (rows + EST_COLUMN_CHUNK - 1) / EST_COLUMN_CHUNK)) * sizeof(double);
}

static size_t batch_norm_cuda_scratch(const est_call *c)
{
    return cuda_bytes(c->in[0]);
}

static size_t batch_norm_grad_cuda_scratch(const est_call *c)
{
    return cuda_bytes(c->in[1]);
}

const est_op est_op_fused_batch_norm = {
    .name = "FusedBatchNormV3",
    .signature =
        "x: T, scale: U, offset: U, mean: U, variance: U -> y: T, batch_mean: U, batch_variance: U, "
        "reserve_space_1: U, reserve_space_2: U, reserve_space_3: U; exponential_avg_factor: float = 1.0; " NORM_ATTRIBUTES,
    .infer = batch_norm_infer,
    .grad  = batch_norm_backward,
    .cpu   = EST_KERNELS({ .run = batch_norm_cpu, .scratch = batch_norm_scratch, .prepare = batch_norm_prepare }),
    .cuda  = EST_KERNELS(
         { .launch = EST_LAUNCH(batch_norm), .scratch = batch_norm_cuda_scratch, .prepare = batch_norm_prepare }),
    .inplace = 1u << 0,
};

const est_op est_op_fused_batch_norm_grad = {
    .name = "FusedBatchNormGradV3",
    .signature =
        "y_backprop: T, x: T, scale: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U -> "
        "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, reserve_space_5: U; " NORM_ATTRIBUTES,
    .infer = batch_norm_grad_infer,
    .cpu   = EST_KERNELS(
          { .run = batch_norm_grad_cpu, .scratch = batch_norm_grad_scratch, .prepare = batch_norm_grad_prepare }),
    .cuda    = EST_KERNELS({ .launch  = EST_LAUNCH(batch_norm_grad),
                             .scratch = batch_norm_grad_cuda_scratch,
                             .prepare = batch_norm_grad_prepare }),
    .inplace = 1u << 0 | 1u << 1,
};

/* The op takes images; anything else is seen as images of one pixel. */
void est_fused_batch_norm(est_node x, est_node scale, est_node offset, est_node mean, est_node variance, double epsilon,
                          bool training, est_node out[3])
{
    const est_shape *shape  = est_node_shape(x);
    int              rank   = shape != NULL ? shape->rank : -1;
    est_node         images = rank < 0 || rank == 4 ? x : est_reshape(x, EST_I64S(-1, 1, 1, est_node_dim(x, -1)));
    est_node         y;

    if (out == NULL) return;
    y      = est_build(x.graph, &est_op_fused_batch_norm, EST_NODES(images, scale, offset, mean, variance),
                       EST_ATTRS(est_attr_float("epsilon", epsilon), est_attr_bool("is_training", training)));
    out[0] = rank < 0 || rank == 4 ? y : est_reshape_to(y, est_shape_of(x));
    out[1] = est_output(y, 1);
    out[2] = est_output(y, 2);
}
