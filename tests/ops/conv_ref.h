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

#endif
