/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over images as the tests see them: TensorFlow's padding rule written down a second time, and plain loops. */
#ifndef EST_TESTS_OPS_CONV_REF_H
#define EST_TESTS_OPS_CONV_REF_H

#include <string.h>

#include "support/op_check.h"

#define SAME(sh, sw)  est_attr_ints("strides", EST_I64S(1, sh, sw, 1)), est_attr_string("padding", "SAME")
#define VALID(sh, sw) est_attr_ints("strides", EST_I64S(1, sh, sw, 1)), est_attr_string("padding", "VALID")
#define EXPLICIT(sh, sw, top, bottom, left, right)                                                                     \
    est_attr_ints("strides", EST_I64S(1, sh, sw, 1)), est_attr_string("padding", "EXPLICIT"),                          \
        est_attr_ints("explicit_paddings", EST_I64S(0, 0, top, bottom, left, right, 0, 0))
#define DILATED(dh, dw) est_attr_ints("dilations", EST_I64S(1, dh, dw, 1))
#define WINDOW(h, w)    est_attr_ints("ksize", EST_I64S(1, h, w, 1))

/* The int32 vector of sizes that gradient ops take. */
#define SIZES(...)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(4), .dtype = EST_I32, .constant = true, .values = (const double[])                          \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

typedef struct ref_window {
    int64_t stride[2], dilation[2], before[2], size[2];
} ref_window;

static inline bool ref_has(const est_node_def *node, const char *name)
{
    for (int i = 0; i < node->n_attr; i++) {
        if (strcmp(node->attr[i].name, name) == 0) return true;
    }
    return false;
}

/* size: of the window; in: of the image, height and width. */
static inline ref_window ref_window_of(const est_node_def *node, const int64_t *in, int64_t kh, int64_t kw)
{
    ref_window  w       = { .size = { kh, kw }, .dilation = { 1, 1 } };
    const char *padding = est_node_string(node, "padding");

    for (int i = 0; i < 2; i++) {
        w.stride[i] = est_node_ints(node, "strides").data[i + 1];
        if (ref_has(node, "dilations")) w.dilation[i] = est_node_ints(node, "dilations").data[i + 1];
        if (strcmp(padding, "EXPLICIT") == 0) w.before[i] = est_node_ints(node, "explicit_paddings").data[2 + 2 * i];
        if (strcmp(padding, "SAME") == 0) {
            int64_t reach = (w.size[i] - 1) * w.dilation[i] + 1, s = w.stride[i];
            int64_t total = ((in[i] + s - 1) / s - 1) * s + reach - in[i];
            w.before[i]   = total > 0 ? total / 2 : 0;
        }
    }
    return w;
}

/* The element of `image` [n, h, w, c] under tap (a, b) of the window of output (i, j), -1 when that is padding. */
static inline int64_t ref_at(const ref_window *w, const est_shape *image, int64_t n, int64_t i, int64_t j, int64_t a,
                             int64_t b, int64_t c)
{
    int64_t row = i * w->stride[0] - w->before[0] + a * w->dilation[0];
    int64_t col = j * w->stride[1] - w->before[1] + b * w->dilation[1];

    if (row < 0 || row >= image->dim[1] || col < 0 || col >= image->dim[2]) return -1;
    return ((n * image->dim[1] + row) * image->dim[2] + col) * image->dim[3] + c;
}

/* Runs over (n, i, j, a, b) of all windows: for (ref_walk at = ...; ref_more(&at, ...);) */
typedef struct ref_walk {
    int64_t n, i, j, a, b, pixel, tap;
} ref_walk;

static inline bool ref_walk_at(int64_t step, const est_shape *y, const ref_window *w, ref_walk *at)
{
    int64_t taps = w->size[0] * w->size[1], pixels = y->dim[0] * y->dim[1] * y->dim[2];

    if (step >= taps * pixels) return false;
    at->tap   = step % taps;
    at->pixel = step / taps;
    at->a     = at->tap / w->size[1];
    at->b     = at->tap % w->size[1];
    at->j     = at->pixel % y->dim[2];
    at->i     = at->pixel / y->dim[2] % y->dim[1];
    at->n     = at->pixel / (y->dim[1] * y->dim[2]);
    return true;
}

/* Adds x * w into y, w * y into x or x * y into w, whichever is asked for. Depthwise: output channel k sees input
 * channel k / m alone; otherwise each sees all. */
static inline void ref_convolve(const est_node_def *node, const est_shape *xs, const est_shape *ws, const est_shape *ys,
                                const double *x, const double *w, const double *y, double *dx, double *dw, double *dy)
{
    bool       is_depthwise = strncmp(node->op->name, "Depthwise", strlen("Depthwise")) == 0;
    ref_window win          = ref_window_of(node, xs->dim + 1, ws->dim[0], ws->dim[1]);
    int64_t    n_c = ws->dim[2], m = ws->dim[3], n_k = is_depthwise ? n_c * m : m;
    ref_walk   at = { 0 };

    for (int64_t step = 0; ref_walk_at(step, ys, &win, &at); step++) {
        for (int64_t ck = 0; ck < n_c * m; ck++) {
            int64_t xi = ref_at(&win, xs, at.n, at.i, at.j, at.a, at.b, ck / m);
            int64_t wi = at.tap * n_c * m + ck, yi = at.pixel * n_k + (is_depthwise ? ck : ck % m);

            if (xi < 0) continue;
            if (dy != NULL) dy[yi] += x[xi] * w[wi];
            if (dx != NULL) dx[xi] += w[wi] * y[yi];
            if (dw != NULL) dw[wi] += x[xi] * y[yi];
        }
    }
}

static inline void ref_clear(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
}

static inline void conv_ref(est_ref *r)
{
    ref_clear(r);
    ref_convolve(r->node, &r->in_shape[0], &r->in_shape[1], &r->out_shape[0], r->in[0], r->in[1], NULL, NULL, NULL,
                 r->out[0]);
}

static inline void input_ref(est_ref *r)
{
    ref_clear(r);
    ref_convolve(r->node, &r->out_shape[0], &r->in_shape[1], &r->in_shape[2], NULL, r->in[1], r->in[2], r->out[0], NULL,
                 NULL);
}

static inline void filter_ref(est_ref *r)
{
    ref_clear(r);
    ref_convolve(r->node, &r->in_shape[0], &r->out_shape[0], &r->in_shape[2], r->in[0], NULL, r->in[2], NULL, r->out[0],
                 NULL);
}

#endif
