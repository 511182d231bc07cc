/* SPDX-License-Identifier: Apache-2.0
 *
 * Where windows lie: sizes, strides, dilations and padding of convolutions and poolings over NHWC images.
 *
 * Output o of an axis looks at inputs o * stride - before + tap * dilation for taps 0 .. window-1; positions outside
 * the image are padding. Three paddings, as TensorFlow names them: VALID has none, SAME pads so that there are ceil(in
 * / stride) outputs with the smaller half in front, EXPLICIT says how much. */
#ifndef EST_KERNELS_CONV_GEOMETRY_H
#define EST_KERNELS_CONV_GEOMETRY_H

#include "graph/op.h"

typedef struct est_conv_geometry {
    int64_t n, h, w, c; /* input [n, h, w, c] */
    int64_t kh, kw, k;  /* filter [kh, kw, c, k]; a pool's window, and its k is c */
    int64_t oh, ow;     /* output [n, oh, ow, k] */
    int64_t sh, sw;     /* strides */
    int64_t dh, dw;     /* dilations */
    int64_t top, left;  /* padding in front; what is needed behind follows from the sizes */
} est_conv_geometry;

/* One axis: outputs and padding for a window of `window` taps. -1 for a size that is not known yet. */
typedef struct est_conv_axis {
    int64_t in, window, stride, dilation;
    int64_t before, after; /* in for EXPLICIT, out otherwise */
    int64_t out;
} est_conv_axis;

est_status est_conv_axis_solve(est_conv_axis *axis, const char *padding, const char *axis_name);

/* Checks the attributes strides, padding, data_format and, where the op has them, dilations and explicit_paddings; puts
 * them with the spatial sizes h, w, kh, kw (-1: unknown) into *g and solves both axes. */
est_status est_conv_attributes(const est_node_def *node, int64_t h, int64_t w, int64_t kh, int64_t kw,
                               est_conv_geometry *g);

/* The image coordinates' half-open range of taps that lie inside an axis of length `in` for the output at `out`. */
static inline void est_conv_taps(int64_t out, int64_t stride, int64_t before, int64_t dilation, int64_t window,
                                 int64_t in, int64_t *first, int64_t *last)
{
    int64_t start = out * stride - before; /* where tap 0 lies */

    *first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    *last  = start >= in ? 0 : (in - start + dilation - 1) / dilation;
    if (*last > window) *last = window;
    if (*last < *first) *last = *first;
}

#endif
