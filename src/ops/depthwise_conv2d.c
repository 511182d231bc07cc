/* SPDX-License-Identifier: Apache-2.0
 *
 * DepthwiseConv2dNative: every channel is convolved with filters of its own,
 *   y[n, i, j, c * m + q] = sum over a, b of x[n, i * sh + a * dh - top, j * sw + b * dw - left, c] * w[a, b, c, q],
 * and its two gradients. There are too few multiplications per element for tiles in registers to matter: plain loops
 * along the channels, which lie side by side. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/conv2d.h"
#include "ops/ops.h"

#define DEPTHWISE_ATTRIBUTES                                                                                           \
    "strides: ints; padding: string; explicit_paddings: ints = []; data_format: string = \"NHWC\"; "                   \
    "dilations: ints = [1, 1, 1, 1]; T: {float32, float64}"
#define TAP_NS     0.15 /* one channel of one tap */
#define SLICES_MAX 16   /* partial filter gradients */

/* --- shapes and gradients ----------------------------------------------------------------------------------------- */

/* k of the geometry becomes the number of output channels. */
static est_status depthwise_geometry(const est_node_def *node, const est_shape *x, const est_shape *filter,
                                     est_conv_geometry *g)
{
    EST_TRY(est_conv_infer(node, x, filter, 2, g));
    g->k = g->c >= 0 && g->k >= 0 ? g->c * g->k : -1;
    return EST_OK;
}

static est_status depthwise_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(depthwise_geometry(c->node, &c->in[0], &c->in[1], &g));
    c->out[0] = EST_SHAPE(g.n, g.oh, g.ow, g.k);
    return EST_OK;
}

static est_status depthwise_input_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_conv_infer_sizes(c, 0, &c->out[0]));
    EST_TRY(depthwise_geometry(c->node, &c->out[0], &c->in[1], &g));
    return est_conv_infer_dy(&c->in[2], g.n, g.oh, g.ow, g.k);
}

static est_status depthwise_filter_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_conv_infer_sizes(c, 1, &c->out[0]));
    EST_TRY(depthwise_geometry(c->node, &c->in[0], &c->out[0], &g));
    return est_conv_infer_dy(&c->in[2], g.n, g.oh, g.ow, g.k);
}

static void depthwise_grad(est_grad *g)
{
    est_node x = g->in[0], w = g->in[1], dy = est_round_gradient(g);

    g->din[0].values = est_conv_build(&est_op_depthwise_conv2d_backprop_input, g->node,
                                      EST_NODES(est_shape_of(x), w, dy));
    g->din[1].values = est_conv_build(&est_op_depthwise_conv2d_backprop_filter, g->node,
                                      EST_NODES(x, est_shape_of(w), dy));
}

static void depthwise_input_grad(est_grad *g)
{
    est_node w = g->in[1], dy = g->in[2], ddx = g->dout[0];

    g->din[1].values = est_conv_build(&est_op_depthwise_conv2d_backprop_filter, g->node,
                                      EST_NODES(ddx, est_shape_of(w), dy));
    g->din[2].values = est_conv_build(&est_op_depthwise_conv2d, g->node, EST_NODES(ddx, w));
}

static void depthwise_filter_grad(est_grad *g)
{
    est_node x = g->in[0], dy = g->in[2], ddw = g->dout[0];

    g->din[0].values = est_conv_build(&est_op_depthwise_conv2d_backprop_input, g->node,
                                      EST_NODES(est_shape_of(x), ddw, dy));
    g->din[2].values = est_conv_build(&est_op_depthwise_conv2d, g->node, EST_NODES(x, ddw));
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

typedef struct depthwise {
    est_conv_geometry g;
    int64_t           m; /* outputs per channel */
    const void       *x, *w, *dy;
    void             *out, *partial;
    int64_t           n_slices;
} depthwise;

static est_conv_geometry call_geometry(const est_call *c, const est_view *x, const est_view *filter)
{
    est_conv_geometry g = { 0 };
    est_status        status;

    status = depthwise_geometry(c->node, &x->shape, &filter->shape, &g);
    (void)status; /* infer has accepted these shapes */
    return g;
}

static est_status depthwise_prepare(est_call *c)
{
    return est_conv_keep(c, call_geometry(c, c->in[0], c->in[1]));
}

static est_status depthwise_input_prepare(est_call *c)
{
    return est_conv_keep(c, call_geometry(c, &c->out[0], c->in[1]));
}

static est_status depthwise_filter_prepare(est_call *c)
{
    return est_conv_keep(c, call_geometry(c, c->in[0], &c->out[0]));
}

static depthwise make_job(const est_call *c, const est_view *x, const est_view *filter)
{
    return (depthwise){
        .g = est_conv_kept(c), .m = filter->shape.dim[3], .x = x->data, .w = filter->data, .out = c->out[0].data
    };
}

/* What is done with one tap of one window, along the channels. Offsets are in elements: of a pixel of x, of a tap of
 * the filter, of a pixel of y. `sum` is the filter gradient that the caller adds up. */
typedef void (*tap_fn)(const depthwise *d, int64_t x_at, int64_t w_at, int64_t y_at, void *sum);

/* All taps, inside the image, of the windows of output rows [begin, end) counted over all images. Inline, so that `fn`
 * is not a call. */
static inline __attribute__((always_inline)) void for_taps(const depthwise *d, int64_t begin, int64_t end, tap_fn fn,
                                                           void *sum)
{
    const est_conv_geometry *g = &d->g;
    int64_t                  a0, a1, b0, b1;

    for (int64_t r = begin; r < end; r++) {
        int64_t i = r % g->oh, top = r / g->oh * g->h + i * g->sh - g->top;

        est_conv_taps(i, g->sh, g->top, g->dh, g->kh, g->h, &a0, &a1);
        for (int64_t j = 0; j < g->ow; j++) {
            int64_t left = j * g->sw - g->left;

            est_conv_taps(j, g->sw, g->left, g->dw, g->kw, g->w, &b0, &b1);
            for (int64_t a = a0; a < a1; a++) {
                for (int64_t b = b0; b < b1; b++) {
                    fn(d, ((top + a * g->dh) * g->w + left + b * g->dw) * g->c, (a * g->kw + b) * g->k,
                       (r * g->ow + j) * g->k, sum);
                }
            }
        }
    }
}

/* For every channel c and each of its outputs q: the statement. With one output each it is a plain loop. */
#define FOR_CHANNELS(d, statement)                                                                                     \
    if ((d)->m == 1) {                                                                                                 \
        for (int64_t c = 0, q = 0; c < (d)->g.c; c++, q++) statement;                                                  \
    } else {                                                                                                           \
        for (int64_t c = 0; c < (d)->g.c; c++) {                                                                       \
            for (int64_t q = c * (d)->m; q < (c + 1) * (d)->m; q++) statement;                                         \
        }                                                                                                              \
    }

#define DEPTHWISE_KERNELS(T, suffix)                                                                                   \
    static inline void forward_tap_##suffix(const depthwise *d, int64_t x_at, int64_t w_at, int64_t y_at, void *sum)   \
    {                                                                                                                  \
        const T *restrict x = (const T *)d->x + x_at, *restrict w = (const T *)d->w + w_at;                            \
        T *restrict y = (T *)d->out + y_at;                                                                            \
        (void)sum;                                                                                                     \
        FOR_CHANNELS(d, y[q] += x[c] * w[q])                                                                           \
    }                                                                                                                  \
    static inline void input_tap_##suffix(const depthwise *d, int64_t x_at, int64_t w_at, int64_t y_at, void *sum)     \
    {                                                                                                                  \
        const T *restrict dy = (const T *)d->dy + y_at, *restrict w = (const T *)d->w + w_at;                          \
        T *restrict dx = (T *)d->out + x_at;                                                                           \
        (void)sum;                                                                                                     \
        FOR_CHANNELS(d, dx[c] += dy[q] * w[q])                                                                         \
    }                                                                                                                  \
    static inline void filter_tap_##suffix(const depthwise *d, int64_t x_at, int64_t w_at, int64_t y_at, void *sum)    \
    {                                                                                                                  \
        const T *restrict x = (const T *)d->x + x_at, *restrict dy = (const T *)d->dy + y_at;                          \
        T *restrict dw = (T *)sum + w_at;                                                                              \
        FOR_CHANNELS(d, dw[q] += x[c] * dy[q])                                                                         \
    }                                                                                                                  \
    /* Output rows [begin, end) of all images. */                                                                      \
    static void forward_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const depthwise *d   = arg;                                                                                    \
        int64_t          row = d->g.ow * d->g.k;                                                                       \
        (void)block;                                                                                                   \
        memset((T *)d->out + begin * row, 0, (size_t)((end - begin) * row) * sizeof(T));                               \
        for_taps(d, begin, end, forward_tap_##suffix, NULL);                                                           \
    }                                                                                                                  \
    /* Images [begin, end): windows overlap, so an image belongs to one thread. */                                     \
    static void input_images_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const depthwise *d     = arg;                                                                                  \
        int64_t          image = d->g.h * d->g.w * d->g.c;                                                             \
        (void)block;                                                                                                   \
        memset((T *)d->out + begin * image, 0, (size_t)((end - begin) * image) * sizeof(T));                           \
        for_taps(d, begin * d->g.oh, end * d->g.oh, input_tap_##suffix, NULL);                                         \
    }                                                                                                                  \
    /* One slice of the images, into a filter gradient of its own. */                                                  \
    static void filter_slice_##suffix(void *arg, int64_t slice, int thread)                                            \
    {                                                                                                                  \
        const depthwise *d     = arg;                                                                                  \
        int64_t          size  = d->g.kh * d->g.kw * d->g.k;                                                           \
        int64_t          begin = slice * d->g.n / d->n_slices, end = (slice + 1) * d->g.n / d->n_slices;               \
        T               *sum = slice == 0 ? (T *)d->out : (T *)d->partial + (slice - 1) * size;                        \
        (void)thread;                                                                                                  \
        memset(sum, 0, (size_t)size * sizeof(T));                                                                      \
        for_taps(d, begin * d->g.oh, end * d->g.oh, filter_tap_##suffix, sum);                                         \
    }                                                                                                                  \
    static void add_slices_##suffix(const depthwise *d)                                                                \
    {                                                                                                                  \
        int64_t size    = d->g.kh * d->g.kw * d->g.k;                                                                  \
        T *restrict sum = d->out;                                                                                      \
        for (int64_t s = 1; s < d->n_slices; s++) {                                                                    \
            const T *restrict term = (const T *)d->partial + (s - 1) * size;                                           \
            for (int64_t i = 0; i < size; i++) sum[i] += term[i];                                                      \
        }                                                                                                              \
    }
DEPTHWISE_KERNELS(float, f32)
DEPTHWISE_KERNELS(double, f64)

static double image_ns(const est_conv_geometry *g)
{
    return TAP_NS * (double)(g->oh * g->ow) * (double)(g->kh * g->kw * g->k);
}

static est_status depthwise_cpu(est_call *c)
{
    depthwise d = make_job(c, c->in[0], c->in[1]);

    est_parallel_for(c->pool, d.g.n * d.g.oh, 1, image_ns(&d.g) / (double)(d.g.oh > 0 ? d.g.oh : 1),
                     c->out[0].dtype == EST_F32 ? forward_rows_f32 : forward_rows_f64, &d);
    return EST_OK;
}

static est_status depthwise_input_cpu(est_call *c)
{
    depthwise d = make_job(c, &c->out[0], c->in[1]);

    d.dy = c->in[2]->data;
    est_parallel_for(c->pool, d.g.n, 1, image_ns(&d.g),
                     c->out[0].dtype == EST_F32 ? input_images_f32 : input_images_f64, &d);
    return EST_OK;
}

static int64_t filter_slices(const est_conv_geometry *g)
{
    int64_t n = est_parallel_blocks(g->n, image_ns(g));

    return n < SLICES_MAX ? n : SLICES_MAX;
}

static size_t depthwise_filter_scratch(const est_call *c)
{
    est_conv_geometry g = call_geometry(c, c->in[0], &c->out[0]);

    return (size_t)((filter_slices(&g) - 1) * c->out[0].count) * est_dtype_size(c->out[0].dtype);
}

static est_status depthwise_filter_cpu(est_call *c)
{
    depthwise d = make_job(c, c->in[0], &c->out[0]);

    if (c->out[0].count == 0) return EST_OK;
    d.dy       = c->in[2]->data;
    d.partial  = c->scratch;
    d.n_slices = filter_slices(&d.g);
    if (c->out[0].dtype == EST_F32) {
        est_pool_for(c->pool, d.n_slices, filter_slice_f32, &d);
        add_slices_f32(&d);
    } else {
        est_pool_for(c->pool, d.n_slices, filter_slice_f64, &d);
        add_slices_f64(&d);
    }
    return EST_OK;
}

/* On a GPU: a result for each part of the pixels. */
static size_t depthwise_filter_cuda_scratch(const est_call *c)
{
    est_conv_geometry g     = call_geometry(c, c->in[0], &c->out[0]);
    int64_t           parts = EST_CONV_PARTS(g.n * g.oh * g.ow);

    return parts > 1 ? (size_t)(parts * c->out[0].count) * est_dtype_size(c->out[0].dtype) : 0;
}

const est_op est_op_depthwise_conv2d = {
    .name      = "DepthwiseConv2dNative",
    .signature = "input: T, filter: T -> output: T; " DEPTHWISE_ATTRIBUTES,
    .infer     = depthwise_infer,
    .grad      = depthwise_grad,
    .cpu       = EST_KERNELS({ .run = depthwise_cpu, .prepare = depthwise_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(depthwise_conv2d), .prepare = depthwise_prepare }),
    .heavy     = true,
};

const est_op est_op_depthwise_conv2d_backprop_input = {
    .name      = "DepthwiseConv2dNativeBackpropInput",
    .signature = "input_sizes: int32, filter: T, out_backprop: T -> output: T; " DEPTHWISE_ATTRIBUTES,
    .infer     = depthwise_input_infer,
    .grad      = depthwise_input_grad,
    .cpu       = EST_KERNELS({ .run = depthwise_input_cpu, .prepare = depthwise_input_prepare }),
    .cuda  = EST_KERNELS({ .launch = EST_LAUNCH(depthwise_conv2d_backprop_input), .prepare = depthwise_input_prepare }),
    .heavy = true,
};

const est_op est_op_depthwise_conv2d_backprop_filter = {
    .name      = "DepthwiseConv2dNativeBackpropFilter",
    .signature = "input: T, filter_sizes: int32, out_backprop: T -> output: T; " DEPTHWISE_ATTRIBUTES,
    .infer     = depthwise_filter_infer,
    .grad      = depthwise_filter_grad,
    .cpu       = EST_KERNELS(
              { .run = depthwise_filter_cpu, .scratch = depthwise_filter_scratch, .prepare = depthwise_filter_prepare }),
    .cuda  = EST_KERNELS({ .launch  = EST_LAUNCH(depthwise_conv2d_backprop_filter),
                           .scratch = depthwise_filter_cuda_scratch,
                           .prepare = depthwise_filter_prepare }),
    .heavy = true,
};

est_node est_depthwise_conv2d(est_node x, est_node filter, int stride_h, int stride_w, est_padding padding)
{
    return est_build2(&est_op_depthwise_conv2d, x, filter,
                      EST_ATTRS(est_attr_ints("strides", EST_I64S(1, stride_h, stride_w, 1)),
                                est_attr_string("padding", est_padding_name(padding))));
}
