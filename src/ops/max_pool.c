/* SPDX-License-Identifier: Apache-2.0
 *
 * MaxPool: the largest element of each window, channel by channel; padding counts as minus infinity. MaxPoolGrad: the
 * gradient goes to the first element of the window, row by row, that equals the maximum. */
#include <math.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/pooling.h"

#define POOL_ATTRIBUTES                                                                                                \
    "ksize: ints; strides: ints; padding: string; explicit_paddings: ints = []; "                                      \
    "data_format: string = \"NHWC\"; T: {float32, float64} = float32"
#define TAP_NS      0.1
#define GRAD_TAP_NS 0.25
#define CHUNK       64 /* channels whose gradient is under way at once */

static est_status max_pool_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_pooling_infer(c->node, &c->in[0], &g));
    c->out[0] = EST_SHAPE(g.n, g.oh, g.ow, g.c);
    return EST_OK;
}

static est_status max_pool_grad_infer(est_infer *c)
{
    est_conv_geometry g = { 0 };

    EST_TRY(est_pooling_infer(c->node, &c->in[0], &g));
    EST_TRY(est_conv_infer_dy(&c->in[1], g.n, g.oh, g.ow, g.c));
    EST_TRY(est_conv_infer_dy(&c->in[2], g.n, g.oh, g.ow, g.c));
    c->out[0] = c->in[0];
    return EST_OK;
}

static void max_pool_backward(est_grad *g)
{
    g->din[0].values = est_build3(
        &est_op_max_pool_grad, g->in[0], g->out[0], g->dout[0],
        EST_ATTRS(est_attr_ints("ksize", est_node_ints(g->node, "ksize")),
                  est_attr_ints("strides", est_node_ints(g->node, "strides")),
                  est_attr_string("padding", est_node_string(g->node, "padding")),
                  est_attr_ints("explicit_paddings", est_node_ints(g->node, "explicit_paddings"))));
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

typedef struct max_pool {
    est_conv_geometry g;
    const void       *x, *y, *dy;
    void             *out;
} max_pool;

#define MAX_POOL_KERNELS(T, suffix)                                                                                    \
    /* Output rows [begin, end) of all images. */                                                                      \
    static void max_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                \
    {                                                                                                                  \
        const max_pool          *m = arg;                                                                              \
        const est_conv_geometry *g = &m->g;                                                                            \
        int64_t                  a0, a1, b0, b1;                                                                       \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t p = begin * g->ow; p < end * g->ow; p++) {                                                        \
            int64_t  i = p / g->ow % g->oh, j = p % g->ow;                                                             \
            const T *image = (const T *)m->x + p / (g->oh * g->ow) * g->h * g->w * g->c;                               \
            T *restrict y  = (T *)m->out + p * g->c;                                                                   \
                                                                                                                       \
            est_conv_taps(i, g->sh, g->top, 1, g->kh, g->h, &a0, &a1);                                                 \
            est_conv_taps(j, g->sw, g->left, 1, g->kw, g->w, &b0, &b1);                                                \
            for (int64_t c = 0; c < g->c && (a0 == a1 || b0 == b1); c++) y[c] = (T)-INFINITY;                          \
            for (int64_t a = a0; a < a1; a++) {                                                                        \
                for (int64_t b = b0; b < b1; b++) {                                                                    \
                    int64_t at          = (i * g->sh - g->top + a) * g->w + j * g->sw - g->left + b;                   \
                    const T *restrict x = image + at * g->c;                                                           \
                    if (a == a0 && b == b0) {                                                                          \
                        memcpy(y, x, (size_t)g->c * sizeof(T));                                                        \
                        continue;                                                                                      \
                    }                                                                                                  \
                    for (int64_t c = 0; c < g->c; c++) y[c] = x[c] > y[c] ? x[c] : y[c];                               \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* One window, `n` channels: `left` holds what has not found its place yet. */                                     \
    static void window_grad_##suffix(const max_pool *m, int64_t p, int64_t c0, int64_t n)                              \
    {                                                                                                                  \
        const est_conv_geometry *g = &m->g;                                                                            \
        int64_t                  i = p / g->ow % g->oh, j = p % g->ow, a0, a1, b0, b1;                                 \
        int64_t                  image = p / (g->oh * g->ow) * g->h * g->w;                                            \
        const T *restrict y            = (const T *)m->y + p * g->c + c0;                                              \
        T left[CHUNK];                                                                                                 \
                                                                                                                       \
        memcpy(left, (const T *)m->dy + p * g->c + c0, (size_t)n * sizeof(T));                                         \
        est_conv_taps(i, g->sh, g->top, 1, g->kh, g->h, &a0, &a1);                                                     \
        est_conv_taps(j, g->sw, g->left, 1, g->kw, g->w, &b0, &b1);                                                    \
        for (int64_t a = a0; a < a1; a++) {                                                                            \
            for (int64_t b = b0; b < b1; b++) {                                                                        \
                int64_t at          = image + (i * g->sh - g->top + a) * g->w + j * g->sw - g->left + b;               \
                const T *restrict x = (const T *)m->x + at * g->c + c0;                                                \
                T *restrict dx      = (T *)m->out + at * g->c + c0;                                                    \
                for (int64_t c = 0; c < n; c++) {                                                                      \
                    T give = x[c] == y[c] ? left[c] : 0;                                                               \
                    T keep = x[c] == y[c] ? 0 : left[c];                                                               \
                    dx[c] += give;                                                                                     \
                    left[c] = keep;                                                                                    \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Images [begin, end): windows may overlap, so an image belongs to one thread. */                                 \
    static void grad_images_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                             \
    {                                                                                                                  \
        const max_pool          *m     = arg;                                                                          \
        const est_conv_geometry *g     = &m->g;                                                                        \
        int64_t                  image = g->h * g->w * g->c, pixels = g->oh * g->ow;                                   \
                                                                                                                       \
        (void)block;                                                                                                   \
        memset((T *)m->out + begin * image, 0, (size_t)((end - begin) * image) * sizeof(T));                           \
        for (int64_t p = begin * pixels; p < end * pixels; p++) {                                                      \
            for (int64_t c = 0; c < g->c; c += CHUNK) {                                                                \
                window_grad_##suffix(m, p, c, g->c - c < CHUNK ? g->c - c : CHUNK);                                    \
            }                                                                                                          \
        }                                                                                                              \
    }
MAX_POOL_KERNELS(float, f32)
MAX_POOL_KERNELS(double, f64)

/* Of both: the images are input 0. */
static est_status max_pool_prepare(est_call *c)
{
    return est_conv_keep(c, est_pooling_geometry(c->node, &c->in[0]->shape));
}

static est_status max_pool_cpu(est_call *c)
{
    max_pool m = { .g = est_conv_kept(c), .x = c->in[0]->data, .out = c->out[0].data };

    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, m.g.n * m.g.oh, 1, est_pooling_image_ns(&m.g, TAP_NS) / (double)m.g.oh,
                     c->out[0].dtype == EST_F32 ? max_rows_f32 : max_rows_f64, &m);
    return EST_OK;
}

static est_status max_pool_grad_cpu(est_call *c)
{
    max_pool m = {
        .g = est_conv_kept(c), .x = c->in[0]->data, .y = c->in[1]->data, .dy = c->in[2]->data, .out = c->out[0].data
    };

    est_parallel_for(c->pool, m.g.n, 1, est_pooling_image_ns(&m.g, GRAD_TAP_NS),
                     c->out[0].dtype == EST_F32 ? grad_images_f32 : grad_images_f64, &m);
    return EST_OK;
}

const est_op est_op_max_pool = {
    .name      = "MaxPool",
    .signature = "input: T -> output: T; " POOL_ATTRIBUTES,
    .infer     = max_pool_infer,
    .grad      = max_pool_backward,
    .cpu       = EST_KERNELS({ .run = max_pool_cpu, .prepare = max_pool_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(max_pool), .prepare = max_pool_prepare }),
};

const est_op est_op_max_pool_grad = {
    .name      = "MaxPoolGrad",
    .signature = "orig_input: T, orig_output: T, grad: T -> output: T; " POOL_ATTRIBUTES,
    .infer     = max_pool_grad_infer,
    .cpu       = EST_KERNELS({ .run = max_pool_grad_cpu, .prepare = max_pool_prepare }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(max_pool_grad), .prepare = max_pool_prepare }),
};

est_node est_max_pool(est_node x, int size_h, int size_w, int stride_h, int stride_w, est_padding padding)
{
    return est_build1(&est_op_max_pool, x,
                      EST_ATTRS(est_attr_ints("ksize", EST_I64S(1, size_h, size_w, 1)),
                                est_attr_ints("strides", EST_I64S(1, stride_h, stride_w, 1)),
                                est_attr_string("padding", est_padding_name(padding))));
}
