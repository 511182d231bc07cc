/* SPDX-License-Identifier: Apache-2.0
 *
 * AvgPool: the mean of each window, channel by channel, over the elements that lie inside the image. AvgPoolGrad: each
 * of them gets its share of the gradient. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/pooling.h"

#define POOL_ATTRIBUTES                                                                                                \
    "ksize: ints; strides: ints; padding: string; data_format: string = \"NHWC\"; T: {float32, float64}"
#define TAP_NS 0.15

static est_status avg_pool_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_pooling_infer(c->node, &c->in[0], &g));
    c->out[0] = EST_SHAPE(g.n, g.oh, g.ow, g.c);
    return EST_OK;
}

static est_status avg_pool_grad_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_conv_infer_sizes(c, 0, &c->out[0]));
    EST_TRY(est_pooling_infer(c->node, &c->out[0], &g));
    if (g.c < 0) c->out[0].dim[3] = g.c = est_infer_dim(&c->in[1], 3);
    return est_conv_infer_dy(&c->in[1], g.n, g.oh, g.ow, g.c);
}

static void avg_pool_backward(est_grad *g)
{
    g->din[0].values = est_pooling_build(&est_op_avg_pool_grad, g->node, EST_NODES(est_shape_of(g->in[0]), g->dout[0]));
}

/* The gradient is linear in dy, and the transpose of its transpose is the pooling itself. */
static void avg_pool_grad_backward(est_grad *g)
{
    g->din[1].values = est_pooling_build(&est_op_avg_pool, g->node, EST_NODES(g->dout[0]));
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

typedef struct avg_pool {
    est_conv_geometry g;
    const void       *in; /* x, or dy */
    void             *out;
} avg_pool;

/* The taps of output pixel p inside its image, and the image pixel under tap (0, 0). */
typedef struct window {
    int64_t a0, a1, b0, b1, origin;
} window;

static window window_of(const est_conv_geometry *g, int64_t p)
{
    int64_t i = p / g->ow % g->oh, j = p % g->ow;
    window  w;

    est_conv_taps(i, g->sh, g->top, 1, g->kh, g->h, &w.a0, &w.a1);
    est_conv_taps(j, g->sw, g->left, 1, g->kw, g->w, &w.b0, &w.b1);
    w.origin = (p / (g->oh * g->ow) * g->h + i * g->sh - g->top) * g->w + j * g->sw - g->left;
    return w;
}

#define AVG_POOL_KERNELS(T, suffix)                                                                                    \
    /* Output rows [begin, end) of all images. */                                                                      \
    static void avg_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                \
    {                                                                                                                  \
        const avg_pool          *m = arg;                                                                              \
        const est_conv_geometry *g = &m->g;                                                                            \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t p = begin * g->ow; p < end * g->ow; p++) {                                                        \
            window w      = window_of(g, p);                                                                           \
            T      share  = (T)1 / (T)((w.a1 - w.a0) * (w.b1 - w.b0));                                                 \
            T *restrict y = (T *)m->out + p * g->c;                                                                    \
                                                                                                                       \
            memset(y, 0, (size_t)g->c * sizeof(T));                                                                    \
            for (int64_t a = w.a0; a < w.a1; a++) {                                                                    \
                for (int64_t b = w.b0; b < w.b1; b++) {                                                                \
                    const T *restrict x = (const T *)m->in + (w.origin + a * g->w + b) * g->c;                         \
                    for (int64_t c = 0; c < g->c; c++) y[c] += x[c];                                                   \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t c = 0; c < g->c; c++) y[c] *= share;                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Images [begin, end): windows may overlap, so an image belongs to one thread. */                                 \
    static void grad_images_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                             \
    {                                                                                                                  \
        const avg_pool          *m     = arg;                                                                          \
        const est_conv_geometry *g     = &m->g;                                                                        \
        int64_t                  image = g->h * g->w * g->c, pixels = g->oh * g->ow;                                   \
                                                                                                                       \
        (void)block;                                                                                                   \
        memset((T *)m->out + begin * image, 0, (size_t)((end - begin) * image) * sizeof(T));                           \
        for (int64_t p = begin * pixels; p < end * pixels; p++) {                                                      \
            window w             = window_of(g, p);                                                                    \
            T      share         = (T)1 / (T)((w.a1 - w.a0) * (w.b1 - w.b0));                                          \
            const T *restrict dy = (const T *)m->in + p * g->c;                                                        \
                                                                                                                       \
            for (int64_t a = w.a0; a < w.a1; a++) {                                                                    \
                for (int64_t b = w.b0; b < w.b1; b++) {                                                                \
                    T *restrict dx = (T *)m->out + (w.origin + a * g->w + b) * g->c;                                   \
                    for (int64_t c = 0; c < g->c; c++) dx[c] += dy[c] * share;                                         \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
AVG_POOL_KERNELS(float, f32)
AVG_POOL_KERNELS(double, f64)

static est_status avg_pool_prepare(est_call *c)
{
    return est_conv_keep(c, est_pooling_geometry(c->node, &c->in[0]->shape));
}

static est_status avg_pool_grad_prepare(est_call *c)
{
    return est_conv_keep(c, est_pooling_geometry(c->node, &c->out[0].shape));
}

static est_status avg_pool_cpu(est_call *c)
{
    avg_pool m = { .g = est_conv_kept(c), .in = c->in[0]->data, .out = c->out[0].data };

    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, m.g.n * m.g.oh, 1, est_pooling_image_ns(&m.g, TAP_NS) / (double)m.g.oh,
                     c->out[0].dtype == EST_F32 ? avg_rows_f32 : avg_rows_f64, &m);
    return EST_OK;
}

static est_status avg_pool_grad_cpu(est_call *c)
{
    avg_pool m = { .g = est_conv_kept(c), .in = c->in[1]->data, .out = c->out[0].data };

    est_parallel_for(c->pool, m.g.n, 1, est_pooling_image_ns(&m.g, TAP_NS),
                     c->out[0].dtype == EST_F32 ? grad_images_f32 : grad_images_f64, &m);
    return EST_OK;
}

const est_op est_op_avg_pool = {
    .name      = "AvgPool",
    .signature = "value: T -> output: T; " POOL_ATTRIBUTES,
    .infer     = avg_pool_infer,
    .grad      = avg_pool_backward,
    .cpu       = EST_KERNELS({ .run = avg_pool_cpu, .prepare = avg_pool_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(avg_pool), .prepare = avg_pool_prepare }),
};

const est_op est_op_avg_pool_grad = {
    .name      = "AvgPoolGrad",
    .signature = "orig_input_shape: int32, grad: T -> output: T; " POOL_ATTRIBUTES,
    .infer     = avg_pool_grad_infer,
    .grad      = avg_pool_grad_backward,
    .cpu       = EST_KERNELS({ .run = avg_pool_grad_cpu, .prepare = avg_pool_grad_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(avg_pool_grad), .prepare = avg_pool_grad_prepare }),
};

est_node est_avg_pool(est_node x, int size_h, int size_w, int stride_h, int stride_w, est_padding padding)
{
    return est_build1(&est_op_avg_pool, x,
                      EST_ATTRS(est_attr_ints("ksize", EST_I64S(1, size_h, size_w, 1)),
                                est_attr_ints("strides", EST_I64S(1, stride_h, stride_w, 1)),
                                est_attr_string("padding", est_padding_name(padding))));
}
