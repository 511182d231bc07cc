/* SPDX-License-Identifier: Apache-2.0
 *
 * DepthwiseConv2dNative and its gradients on a GPU. Channels lie side by side, and so do threads: one an output, one an
 * element of an image, and for the filter one an element of it and a slice of the pixels, whose parts are then summed in
 * order. */
#include "cuda/columns.cuh"
#include "cuda/window.cuh"

template <typename T> struct depthwise_call {
    const T          *x, *w, *dy;
    T                *out; /* or the parts */
    est_conv_geometry g;
    int64_t           m; /* outputs per channel */
    int64_t           count;
    int64_t           part; /* pixels of one */
};

/* The pixel of x under a tap of an output pixel; below 0: padding. */
template <typename T> static __device__ int64_t pixel_under(const depthwise_call<T> &d, est_pixel at, int a, int b)
{
    const est_conv_geometry &g   = d.g;
    int                      row = at.row * (int)g.sh - (int)g.top + a * (int)g.dh;
    int                      col = at.col * (int)g.sw - (int)g.left + b * (int)g.dw;

    if (row < 0 || row >= g.h || col < 0 || col >= g.w) return -1;
    return (at.image * g.h + row) * g.w + col;
}

template <typename T> static __global__ void depthwise_forward(depthwise_call<T> d)
{
    const est_conv_geometry &g = d.g;
    int64_t                  i = est_thread(), p = est_divide(i, g.k), q = i - p * g.k, channel = est_divide(q, d.m);
    est_pixel                at  = est_pixel_of(p, g.oh, g.ow);
    T                        sum = 0;

    if (i >= d.count) return;
    for (int a = 0; a < g.kh; a++) {
        for (int b = 0; b < g.kw; b++) {
            int64_t from = pixel_under(d, at, a, b);

            if (from >= 0) sum += d.x[from * g.c + channel] * d.w[(a * g.kw + b) * g.k + q];
        }
    }
    d.out[i] = sum;
}

template <typename T> static __global__ void depthwise_input(depthwise_call<T> d)
{
    const est_conv_geometry &g = d.g;
    int64_t                  i = est_thread(), p = est_divide(i, g.c), channel = i - p * g.c;
    est_pixel                at  = est_pixel_of(p, g.h, g.w);
    T                        sum = 0;

    if (i >= d.count) return;
    for (int a = 0; a < g.kh; a++) {
        int row = at.row + (int)g.top - a * (int)g.dh, y = row / (int)g.sh;

        if (row < 0 || y >= g.oh || y * (int)g.sh != row) continue;
        for (int b = 0; b < g.kw; b++) {
            int      col = at.col + (int)g.left - b * (int)g.dw, x = col / (int)g.sw;
            const T *dy, *w;

            if (col < 0 || x >= g.ow || x * (int)g.sw != col) continue;
            dy = d.dy + ((at.image * g.oh + y) * g.ow + x) * g.k + channel * d.m;
            w  = d.w + (a * g.kw + b) * g.k + channel * d.m;
            for (int64_t q = 0; q < d.m; q++) sum += dy[q] * w[q];
        }
    }
    d.out[i] = sum;
}

#define FILTER_LANES 32 /* elements of the filter that a block has; as many threads share each as there are groups */

template <typename T> static __global__ void depthwise_filter(depthwise_call<T> d)
{
    __shared__ T             total[EST_BLOCK];
    const est_conv_geometry &g    = d.g;
    int                      lane = (int)threadIdx.x % FILTER_LANES, group = (int)threadIdx.x / FILTER_LANES;
    int                      groups = EST_BLOCK / FILTER_LANES;
    int64_t                  i = (int64_t)blockIdx.x * FILTER_LANES + lane, tap = est_divide(i, g.k), q = i - tap * g.k;
    int64_t                  pixels = g.n * g.oh * g.ow, first = (int64_t)blockIdx.y * d.part;
    int64_t                  end = first + d.part < pixels ? first + d.part : pixels;
    int                      a = (int)est_divide(tap, g.kw), b = (int)(tap - a * g.kw);
    T                        sum = 0;

    for (int64_t p = first + group; p < end && i < d.count; p += groups) {
        int64_t from = pixel_under(d, est_pixel_of(p, g.oh, g.ow), a, b);

        if (from >= 0) sum += d.x[from * g.c + est_divide(q, d.m)] * d.dy[p * g.k + q];
    }
    total[threadIdx.x] = sum;
    __syncthreads();
    if (group != 0 || i >= d.count) return;
    for (int k = 1; k < groups; k++) sum += total[k * FILTER_LANES + lane];
    d.out[(int64_t)blockIdx.y * d.count + i] = sum;
}

template <typename T> static depthwise_call<T> depthwise_of(const est_call *c)
{
    depthwise_call<T> d = {};

    d.g     = est_window_geometry(c);
    d.m     = d.g.c > 0 ? d.g.k / d.g.c : 1;
    d.out   = est_data<T>(&c->out[0]);
    d.count = c->out[0].count;
    return d;
}

template <typename T> static int launch_forward(const est_call *c)
{
    depthwise_call<T> d = depthwise_of<T>(c);

    d.x = est_data<T>(c->in[0]);
    d.w = est_data<T>(c->in[1]);
    return est_launch(c, depthwise_forward<T>, dim3(est_blocks(d.count)), EST_BLOCK, d);
}

template <typename T> static int launch_input(const est_call *c)
{
    depthwise_call<T> d = depthwise_of<T>(c);

    d.w  = est_data<T>(c->in[1]);
    d.dy = est_data<T>(c->in[2]);
    return est_launch(c, depthwise_input<T>, dim3(est_blocks(d.count)), EST_BLOCK, d);
}

template <typename T> static int launch_filter(const est_call *c)
{
    depthwise_call<T> d      = depthwise_of<T>(c);
    int64_t           pixels = d.g.n * d.g.oh * d.g.ow, parts = EST_CONV_PARTS(pixels);
    T                *out = d.out;
    int               error;

    d.x    = est_data<T>(c->in[0]);
    d.dy   = est_data<T>(c->in[2]);
    d.part = (pixels + parts - 1) / parts;
    if (parts > 1) d.out = (T *)c->scratch;
    parts = d.part > 0 ? (int64_t)est_blocks(pixels, d.part) : 1;
    error = est_launch(c, depthwise_filter<T>, dim3(est_blocks(d.count, FILTER_LANES), (unsigned)parts), EST_BLOCK, d);
    if (error != 0 || d.out == out) return error;
    return est_sum_parts_launch(c, parts, d.count, out);
}

EST_DEFINE_LAUNCHER(depthwise_conv2d)
{
    return c->out[0].dtype == EST_F32 ? launch_forward<float>(c) : launch_forward<double>(c);
}

EST_DEFINE_LAUNCHER(depthwise_conv2d_backprop_input)
{
    return c->out[0].dtype == EST_F32 ? launch_input<float>(c) : launch_input<double>(c);
}

EST_DEFINE_LAUNCHER(depthwise_conv2d_backprop_filter)
{
    return c->out[0].dtype == EST_F32 ? launch_filter<float>(c) : launch_filter<double>(c);
}
