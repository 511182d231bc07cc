/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over NHWC images on a GPU: what convolutions and poolings share. */
#ifndef EST_CUDA_WINDOW_CUH
#define EST_CUDA_WINDOW_CUH

#include "cuda/launch.cuh"
#include "kernels/conv_geometry.h"

/* What prepare() has kept (ops/conv2d.h). */
static inline est_conv_geometry est_window_geometry(const est_call *c)
{
    est_conv_geometry g;

    memcpy(&g, c->param, sizeof g);
    return g;
}

/* A pixel [image, row, column] of images of a size. */
typedef struct est_pixel {
    int64_t image;
    int     row, col;
} est_pixel;

static inline __device__ est_pixel est_pixel_of(int64_t i, int64_t rows, int64_t cols)
{
    int64_t   line = est_divide(i, cols), image = est_divide(line, rows);
    est_pixel p = { image, (int)(line - image * rows), (int)(i - line * cols) };

    return p;
}

/* Of one axis, the outputs [*first, *end) whose windows, without dilation, hold the input `at`. */
static inline __device__ void est_windows_of(int at, int before, int window, int stride, int outputs, int *first,
                                             int *end)
{
    int last = at + before - (window - 1); /* where the first such window begins, if it is one */

    *first = last <= 0 ? 0 : (last + stride - 1) / stride;
    *end   = (at + before) / stride + 1;
    if (*end > outputs) *end = outputs;
}

/* Of one axis, the taps [*first, *end) of output `out`, without dilation, that lie inside; tap 0 is at *start. */
static inline __device__ void est_taps_of(int out, int before, int window, int stride, int inputs, int *start,
                                          int *first, int *end)
{
    *start = out * stride - before;
    *first = *start < 0 ? -*start : 0;
    *end   = inputs - *start < window ? inputs - *start : window;
}

#endif
