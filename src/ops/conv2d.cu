/* SPDX-License-Identifier: Apache-2.0
 *
 * Conv2D and its gradients on a GPU: each is a matrix product whose left side is never written out, only looked up.
 *
 *   forward  y[pixel, k]       = x(pixel under tap, c) w[tap c, k]
 *   input    dx[pixel, c]      = dy(pixel that saw it through tap, k) w[tap c, k]
 *   filter   dw[tap c, k]      = x(pixel under tap, c) dy[pixel, k], parts of the pixels first, then their sum
 *
 * A block of 16 x 16 threads makes 64 x 64 elements, 4 x 4 a thread, from tiles of both sides in shared memory. */
#include "cuda/columns.cuh"
#include "cuda/window.cuh"

#define TILE  64
#define DEPTH 16
#define EACH  4 /* rows and columns of a thread */
#define LOADS (TILE * DEPTH / EST_BLOCK)

enum mode { FORWARD, INPUT, FILTER };

template <typename T> struct conv_operands {
    const T          *left, *right; /* x or dy; the filter or dy */
    T                *y;            /* or the parts */
    est_conv_geometry g;
    int64_t           m, n, k; /* of the product */
    int64_t           part;    /* how much of k a part has */
};

/* The element of an image under a tap of an output pixel; 0 in the padding. */
template <typename T> static __device__ T under_tap(const conv_operands<T> &p, est_pixel at, int a, int b, int channel)
{
    const est_conv_geometry &g   = p.g;
    int                      row = at.row * (int)g.sh - (int)g.top + a * (int)g.dh;
    int                      col = at.col * (int)g.sw - (int)g.left + b * (int)g.dw;

    if (row < 0 || row >= g.h || col < 0 || col >= g.w) return 0;
    return p.left[((at.image * g.h + row) * g.w + col) * g.c + channel];
}

/* The gradient of the output pixel that saw an input pixel through a tap; 0 where there is none. */
template <typename T>
static __device__ T seen_through(const conv_operands<T> &p, est_pixel at, int a, int b, int channel)
{
    const est_conv_geometry &g   = p.g;
    int                      row = at.row + (int)g.top - a * (int)g.dh, col = at.col + (int)g.left - b * (int)g.dw;
    int                      i = row / (int)g.sh, j = col / (int)g.sw;

    if (row < 0 || col < 0 || i >= g.oh || j >= g.ow || i * (int)g.sh != row || j * (int)g.sw != col) return 0;
    return p.left[((at.image * g.oh + i) * g.ow + j) * g.k + channel];
}

/* Element [tap * width + channel] of the rows, or of the depth, taken apart. */
typedef struct place {
    int a, b, channel;
} place;

static __device__ place place_of(unsigned i, unsigned width, unsigned kw)
{
    unsigned tap = i / width, a = tap / kw;
    place    p = { (int)a, (int)(tap - a * kw), (int)(i - tap * width) };

    return p;
}

template <int MODE, typename T> static __global__ void conv_tile(conv_operands<T> p)
{
    __shared__ T             tile_a[DEPTH][TILE + 1], tile_b[DEPTH][TILE + 1];
    const est_conv_geometry &g         = p.g;
    int64_t                  first_row = (int64_t)blockIdx.x * TILE, first_col = (int64_t)blockIdx.y * TILE;
    int64_t                  begin = (int64_t)blockIdx.z * p.part, end = begin + p.part < p.k ? begin + p.part : p.k;
    int                      row = (int)threadIdx.x / 16, col = (int)threadIdx.x % 16;
    int       lane = (int)threadIdx.x % TILE, step = (int)threadIdx.x / TILE; /* a thread loads one row of the tile */
    int64_t   i = first_row + lane, j = first_col + lane;
    T         sum[EACH][EACH] = {};
    est_pixel pixel           = {};
    place     tap             = {};

    if (MODE == FORWARD) pixel = est_pixel_of(i, g.oh, g.ow);
    if (MODE == INPUT) pixel = est_pixel_of(i, g.h, g.w);
    if (MODE == FILTER) tap = place_of((unsigned)i, (unsigned)g.c, (unsigned)g.kw);
    for (int64_t depth = begin; depth < end; depth += DEPTH) {
        for (int q = 0; q < LOADS; q++) {
            int     d = step + q * (EST_BLOCK / TILE);
            int64_t l = depth + d;
            T       a = 0, b = 0;

            if (l < end && MODE == FORWARD) {
                place at = place_of((unsigned)l, (unsigned)g.c, (unsigned)g.kw);
                if (i < p.m) a = under_tap(p, pixel, at.a, at.b, at.channel);
                if (j < p.n) b = p.right[l * g.k + j];
            }
            if (l < end && MODE == INPUT) {
                place at = place_of((unsigned)l, (unsigned)g.k, (unsigned)g.kw);
                if (i < p.m) a = seen_through(p, pixel, at.a, at.b, at.channel);
                if (j < p.n) b = p.right[((at.a * g.kw + at.b) * g.c + j) * g.k + at.channel];
            }
            if (l < end && MODE == FILTER) {
                if (i < p.m) a = under_tap(p, est_pixel_of(l, g.oh, g.ow), tap.a, tap.b, tap.channel);
                if (j < p.n) b = p.right[l * g.k + j];
            }
            tile_a[d][lane] = a;
            tile_b[d][lane] = b;
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            for (int r = 0; r < EACH; r++) {
                for (int s = 0; s < EACH; s++) sum[r][s] += tile_a[d][row + 16 * r] * tile_b[d][col + 16 * s];
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < EACH; r++) {
        for (int s = 0; s < EACH; s++) {
            int64_t y = first_row + row + 16 * r, x = first_col + col + 16 * s;

            if (y < p.m && x < p.n) p.y[((int64_t)blockIdx.z * p.m + y) * p.n + x] = sum[r][s];
        }
    }
}

template <int MODE, typename T> static int launch_tiles(const est_call *c, const conv_operands<T> &p)
{
    if (p.m == 0 || p.n == 0) return 0;
    return est_launch(c, conv_tile<MODE, T>,
                      dim3(est_blocks(p.m, TILE), est_blocks(p.n, TILE), p.k > 0 ? est_blocks(p.k, p.part) : 1),
                      EST_BLOCK, p);
}

template <typename T> static int launch_forward(const est_call *c)
{
    est_conv_geometry g    = est_window_geometry(c);
    int64_t           taps = g.kh * g.kw * g.c;
    conv_operands<T>  p    = {
            est_data<T>(c->in[0]), est_data<T>(c->in[1]), est_data<T>(&c->out[0]), g, g.n * g.oh * g.ow, g.k, taps, taps
    };

    return launch_tiles<FORWARD>(c, p);
}

template <typename T> static int launch_input(const est_call *c)
{
    est_conv_geometry g    = est_window_geometry(c);
    int64_t           taps = g.kh * g.kw * g.k;
    conv_operands<T>  p    = {
            est_data<T>(c->in[2]), est_data<T>(c->in[1]), est_data<T>(&c->out[0]), g, g.n * g.h * g.w, g.c, taps, taps
    };

    return launch_tiles<INPUT>(c, p);
}

template <typename T> static int launch_filter(const est_call *c)
{
    est_conv_geometry g = est_window_geometry(c);
    int64_t           m = g.kh * g.kw * g.c, pixels = g.n * g.oh * g.ow, n_parts = EST_CONV_PARTS(pixels);
    T                *parts = n_parts > 1 ? (T *)c->scratch : est_data<T>(&c->out[0]);
    conv_operands<T>  p     = { est_data<T>(c->in[0]),           est_data<T>(c->in[2]), parts, g, m, g.k, pixels,
                                (pixels + n_parts - 1) / n_parts };
    int               error;

    error = launch_tiles<FILTER>(c, p);
    if (error != 0 || n_parts == 1) return error;
    return est_sum_parts_launch(c, (int64_t)est_blocks(pixels, p.part), m * g.k, est_data<T>(&c->out[0]));
}

EST_DEFINE_LAUNCHER(conv2d)
{
    return c->out[0].dtype == EST_F32 ? launch_forward<float>(c) : launch_forward<double>(c);
}

EST_DEFINE_LAUNCHER(conv2d_backprop_input)
{
    return c->out[0].dtype == EST_F32 ? launch_input<float>(c) : launch_input<double>(c);
}

EST_DEFINE_LAUNCHER(conv2d_backprop_filter)
{
    return c->out[0].dtype == EST_F32 ? launch_filter<float>(c) : launch_filter<double>(c);
}
