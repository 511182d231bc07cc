/* SPDX-License-Identifier: Apache-2.0
 *
 * EstConvPool and EstConvPoolGrad on a GPU: for images of few channels, which leave a product nothing to do.
 *
 * Neighbouring threads have neighbouring output channels, so that they all look at the same pixels, and each goes along
 * a pooled row. With a 3x3 window over one channel a warp has a segment of a pooled row and 32 channels: the pixels under
 * it are in shared memory, the filter and the 4x4 pixels of a pooling in registers. */
#include "cuda/bfloat16.h"
#include "cuda/last_block.cuh"
#include "cuda/launchers.h"
#include "cuda/loops.cuh"
#include "cuda/reduce.cuh"
#include "cuda/window.cuh"

#define DEAD     4 /* as fused_conv_pool.c has it */
#define TAPS_MAX 9 /* whose sums are in registers at a time */

typedef struct sizes {
    int64_t rows;    /* pooled, of all images */
    int     h, w, c; /* x */
    int     kh, kw, k;
    int     ph, pw;         /* pooled */
    int     segments, each; /* of a pooled row, and the pooled values of each */
} sizes;

static bool is_small(const sizes &s)
{
    return s.c == 1 && s.kh == 3 && s.kw == 3;
}

static sizes sizes_of(const est_view *x, const est_shape *filter, const est_shape *pooled)
{
    const int64_t *d = x->shape.dim;
    sizes          s = { pooled->dim[0] * pooled->dim[1],
                         (int)d[1],
                         (int)d[2],
                         (int)d[3],
                         (int)filter->dim[0],
                         (int)filter->dim[1],
                         (int)filter->dim[3],
                         (int)pooled->dim[1],
                         (int)pooled->dim[2] };

    s.segments = (int)EST_CONV_POOL_SEGMENTS(s.pw);
    s.each     = s.segments > 0 ? (s.pw + s.segments - 1) / s.segments : 0;
    return s;
}

enum { BFLOAT16 }; /* in param[], as fused_conv_pool.c has it */

template <bool ROUND> static __device__ float factor(float x)
{
    return ROUND ? est_to_bfloat16(x) : x;
}

/* Where the pixels of a pooled row begin. */
static __device__ const float *pixels_of(const float *x, const sizes &s, int64_t r)
{
    int64_t image = est_divide(r, s.ph), row = r - image * s.ph;

    return x + (image * s.h + 2 * row) * s.w * s.c;
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

#define WARPS     (EST_BLOCK / EST_WARP)
#define PATCH_ROW (2 * EST_CONV_POOL_SEGMENT + 2) /* pixels under a segment */

/* A segment of a pooled row, of a thread's channel. */
typedef struct segment {
    int64_t out;      /* its first pooled value */
    int     n;        /* pooled values; none of a channel that there is not */
    float   pixel[2]; /* this thread's of the patch under it, zero behind the row */
} segment;

/* Segment i of all pooled rows. */
static __device__ segment load_segment(const float *x, const sizes &s, int64_t i, int channel)
{
    int64_t      r     = est_divide(i, s.segments);
    int          first = (int)(i - r * s.segments) * s.each, lane = (int)threadIdx.x % EST_WARP;
    int          col = lane % PATCH_ROW;
    const float *at  = pixels_of(x, s, r) + lane / PATCH_ROW * s.w + 2 * first + col;
    segment      g   = { (r * s.pw + first) * s.k + channel, s.pw - first < s.each ? s.pw - first : s.each, {} };

    static_assert(PATCH_ROW == EST_WARP / 2, "a warp has two rows at a time");
    for (int half = 0; half < 2; half++) {
        if (2 * first + col < s.w) g.pixel[half] = at[2 * half * s.w];
    }
    if (channel >= s.k) g.n = 0;
    return g;
}

/* The pixels under a segment come to the warp's own patch. */
template <bool ROUND> static __device__ void put_patch(const segment &g, float (*patch)[PATCH_ROW])
{
    int lane = (int)threadIdx.x % EST_WARP;

    __syncwarp(); /* it may have been used before */
    for (int half = 0; half < 2; half++)
        patch[lane / PATCH_ROW + 2 * half][lane % PATCH_ROW] = factor<ROUND>(g.pixel[half]);
    __syncwarp();
}

/* The next two columns of the patch; the last two go before them. */
static __device__ void slide(float (&seen)[4][4], float (*patch)[PATCH_ROW], int col)
{
    for (int a = 0; a < 4; a++) {
        est_pack<float, 2> next = *(const est_pack<float, 2> *)&patch[a][col];

        seen[a][0] = seen[a][2];
        seen[a][1] = seen[a][3];
        seen[a][2] = next.v[0];
        seen[a][3] = next.v[1];
    }
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static __device__ void pool_four(const float y[4], float bias, float *pooled, uint8_t *which)
{
    float best  = y[0];
    int   place = 0;

    for (int q = 1; q < 4; q++) {
        if (y[q] > best) {
            best  = y[q];
            place = q;
        }
    }
    best += bias;
    *pooled = best <= 0 ? 0 : best; /* a NaN passes */
    *which  = (uint8_t)(best <= 0 ? DEAD : place);
}

template <bool ROUND>
static __global__ void conv_pool_any(const float *x, const float *filter, const float *bias, float *pooled,
                                     uint8_t *which, sizes s)
{
    int64_t      i = est_thread(), r = est_divide(i, s.k), out = r * s.pw * s.k;
    int          channel = (int)(i - r * s.k), row = s.w * s.c, kwc = s.kw * s.c;
    const float *at;

    if (r >= s.rows) return;
    at = pixels_of(x, s, r);
    out += channel;
    for (int px = 0; px < s.pw; px++, out += s.k, at += 2 * s.c) {
        float        y[4] = {};
        const float *tap  = filter + channel;

        for (int a = 0; a < s.kh; a++) {
            for (int j = 0; j < kwc; j++, tap += s.k) {
                const float *here = at + a * row + j;
                float        w    = factor<ROUND>(*tap);

                y[0] += factor<ROUND>(here[0]) * w;
                y[1] += factor<ROUND>(here[s.c]) * w;
                y[2] += factor<ROUND>(here[row]) * w;
                y[3] += factor<ROUND>(here[row + s.c]) * w;
            }
        }
        pool_four(y, bias[channel], &pooled[out], &which[out]);
    }
}

/* A warp goes along some segments; the pixels of the next are under way while it computes. */
template <bool ROUND>
static __global__ void __launch_bounds__(EST_BLOCK, 4)
    conv_pool_3x3(const float *__restrict__ x, const float *__restrict__ filter, const float *__restrict__ bias,
                  float *__restrict__ pooled, uint8_t *__restrict__ which, sizes s)
{
    alignas(8) __shared__ float patches[WARPS][4][PATCH_ROW];
    float(*patch)[PATCH_ROW] = patches[threadIdx.x / EST_WARP];
    int     channel          = (int)blockIdx.y * EST_WARP + (int)threadIdx.x % EST_WARP;
    int64_t i = est_thread() / EST_WARP, all = s.rows * s.segments, step = (int64_t)gridDim.x * WARPS;
    float   tap[3][3] = {}, own = 0;
    segment next;

    if (i >= all) return; /* the whole warp */
    next = load_segment(x, s, i, channel);
    for (int t = 0; t < 9 && channel < s.k; t++) tap[t / 3][t % 3] = factor<ROUND>(filter[t * s.k + channel]);
    if (channel < s.k) own = bias[channel];
    for (; i < all; i += step) {
        segment  g          = next;
        float    seen[4][4] = {};
        float   *value      = pooled + g.out;
        uint8_t *place      = which + g.out;

        put_patch<ROUND>(g, patch);
        if (i + step < all) next = load_segment(x, s, i + step, channel);
        slide(seen, patch, 0);
        EST_UNROLL(EST_CONV_POOL_SEGMENT)
        for (int px = 0; px < EST_CONV_POOL_SEGMENT; px++, value += s.k, place += s.k) {
            float y[4] = {};

            slide(seen, patch, 2 * px + 2);
            for (int a = 0; a < 3; a++) {
                for (int b = 0; b < 3; b++) {
                    y[0] += seen[a][b] * tap[a][b];
                    y[1] += seen[a][b + 1] * tap[a][b];
                    y[2] += seen[a + 1][b] * tap[a][b];
                    y[3] += seen[a + 1][b + 1] * tap[a][b];
                }
            }
            if (px < g.n) pool_four(y, own, value, place);
        }
    }
}

template <bool ROUND> static int launch_forward(const est_call *c)
{
    sizes        s     = sizes_of(c->in[0], &c->in[1]->shape, &c->out[0].shape);
    bool         small = is_small(s);
    const float *x = est_data<float>(c->in[0]), *filter = est_data<float>(c->in[1]), *bias = est_data<float>(c->in[2]);

    return est_launch(c, small ? conv_pool_3x3<ROUND> : conv_pool_any<ROUND>,
                      small ? dim3(est_blocks(s.rows * s.segments, EST_CONV_POOL_EACH(s.rows * s.segments)),
                                   est_blocks(s.k, EST_WARP))
                            : dim3(est_blocks(s.rows * s.k)),
                      EST_BLOCK, x, filter, bias, est_data<float>(&c->out[0]), est_data<uint8_t>(&c->out[1]), s);
}

EST_DEFINE_LAUNCHER(conv_pool)
{
    return c->param[BFLOAT16].i != 0 ? launch_forward<true>(c) : launch_forward<false>(c);
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

#define JOINED 16 /* parts that a block adds up */

/* The first n of JOINED numbers, whose loads are under way together. */
static __device__ float sum_of_parts(const float *part, unsigned n, int64_t step)
{
    float sum = 0;

    EST_UNROLL(JOINED)
    for (unsigned p = 0; p < JOINED; p++) sum += p < n ? __ldcg(&part[p * step]) : 0;
    return sum;
}

/* The sums [taps + 1, k] of all parts, by the last of the blocks of JOINED parts and then by the last of all; the part
 * of each block is written. The bias's gradient is the last row. */
static __device__ void join_parts(float *parts, int count, int split, uint32_t *counters, float *dfilter, float *dbias)
{
    unsigned n = gridDim.x, first = blockIdx.x / JOINED * JOINED, groups = (n + JOINED - 1) / JOINED;
    unsigned members = n - first < JOINED ? n - first : JOINED;

    if (!est_is_last_block(&counters[1 + blockIdx.x / JOINED], members * gridDim.y)) return;
    parts += (int64_t)first * count;
    for (int i = (int)threadIdx.x; i < count; i += EST_BLOCK) parts[i] = sum_of_parts(parts + i, members, count);
    parts -= (int64_t)first * count;
    if (!est_is_last_block(&counters[0], groups)) return;
    for (int i = (int)threadIdx.x; i < count; i += EST_BLOCK) {
        float sum = 0;

        for (unsigned g = 0; g < groups; g += JOINED)
            sum += sum_of_parts(parts + (int64_t)g * JOINED * count + i, groups - g, (int64_t)JOINED * count);
        if (i < split) {
            dfilter[i] = sum;
        } else {
            dbias[i - split] = sum;
        }
    }
}

/* The sums of a thread over the threads of its block that have the same channel, into a part. */
static __device__ void keep_sum(float sum, int lanes, int group, int groups, bool live, float *to)
{
    __shared__ float all[EST_BLOCK];

    all[threadIdx.x] = sum;
    __syncthreads();
    if (group == 0 && live) {
        for (int g = 1; g < groups; g++) sum += all[g * lanes + (int)threadIdx.x];
        *to = sum;
    }
    __syncthreads();
}

/* A part of the pooled rows; a block has as many threads a channel as fit. */
template <bool ROUND>
static __global__ void conv_pool_grad_any(const float *x, const float *dpooled, const uint8_t *which, float *parts,
                                          sizes s, int64_t each, uint32_t *counters, float *dfilter, float *dbias)
{
    int     lanes = s.k < EST_BLOCK ? s.k : EST_BLOCK, groups = EST_BLOCK / lanes, taps = s.kh * s.kw * s.c;
    int     group = (int)threadIdx.x / lanes, channel = (int)blockIdx.y * lanes + (int)threadIdx.x % lanes;
    int     row = s.w * s.c, kwc = s.kw * s.c;
    bool    live  = group < groups && channel < s.k;
    int64_t begin = (int64_t)blockIdx.x * each, end = begin + each < s.rows ? begin + each : s.rows;
    float  *to = parts + (int64_t)blockIdx.x * (taps + 1) * s.k + channel, bias = 0;

    for (int first = 0; first < taps; first += TAPS_MAX) {
        float sum[TAPS_MAX] = {};
        int   n             = taps - first < TAPS_MAX ? taps - first : TAPS_MAX;

        bias = 0;
        for (int64_t r = begin + group; r < end && live; r += groups) {
            const float *at  = pixels_of(x, s, r);
            int64_t      out = r * s.pw * s.k + channel;

            for (int px = 0; px < s.pw; px++, out += s.k, at += 2 * s.c) {
                float dy    = dpooled[out], part[4];
                int   place = which[out];

                for (int q = 0; q < 4; q++) part[q] = place == q ? factor<ROUND>(dy) : 0.0f;
                bias += place == DEAD ? 0.0f : dy;
                for (int t = 0; t < TAPS_MAX; t++) {
                    int          tap  = first + (t < n ? t : 0);
                    const float *here = at + tap / kwc * row + tap % kwc;

                    sum[t] += factor<ROUND>(here[0]) * part[0] + factor<ROUND>(here[s.c]) * part[1] +
                              (factor<ROUND>(here[row]) * part[2] + factor<ROUND>(here[row + s.c]) * part[3]);
                }
            }
        }
        for (int t = 0; t < TAPS_MAX; t++) {
            if (t < n) keep_sum(sum[t], lanes, group, groups, live, to + (int64_t)(first + t) * s.k);
        }
    }
    keep_sum(bias, lanes, group, groups, live, to + (int64_t)taps * s.k);
    join_parts(parts, (taps + 1) * s.k, taps * s.k, counters, dfilter, dbias);
}

/* A part of the segments. Four blocks at a time on a multiprocessor: then the EST_CONV_POOL_PARTS of a large batch run
 * at once on one with 132 of them. */
template <bool ROUND>
static __global__ void __launch_bounds__(EST_BLOCK, 4)
    conv_pool_grad_3x3(const float *__restrict__ x, const float *__restrict__ dpooled,
                       const uint8_t *__restrict__ which, float *parts, sizes s, int64_t each, uint32_t *counters,
                       float *dfilter, float *dbias)
{
    alignas(8) __shared__ float patches[WARPS][4][PATCH_ROW];
    __shared__ float            sums[WARPS][TAPS_MAX + 1][EST_WARP];
    int                         warp = (int)threadIdx.x / EST_WARP, lane = (int)threadIdx.x % EST_WARP;
    int                         base = (int)blockIdx.y * EST_WARP, channel = base + lane;
    int64_t                     begin = (int64_t)blockIdx.x * each, all = s.rows * s.segments,
            end               = begin + each < all ? begin + each : all;
    float   sum[TAPS_MAX + 1] = {}; /* the last one is the bias's */
    segment next              = {};

    if (begin + warp < end) next = load_segment(x, s, begin + warp, channel);
    for (int64_t i = begin + warp; i < end; i += WARPS) {
        segment        g                         = next;
        float          dy[EST_CONV_POOL_SEGMENT] = {}, seen[4][4] = {};
        int            place[EST_CONV_POOL_SEGMENT];
        const uint8_t *from = which + g.out;
        const float   *back = dpooled + g.out;

        for (int px = 0; px < EST_CONV_POOL_SEGMENT; px++) {
            place[px] = px < g.n ? from[px * s.k] : DEAD;
            if (px < g.n) dy[px] = back[px * s.k];
        }
        put_patch<ROUND>(g, patches[warp]);
        if (i + WARPS < end) next = load_segment(x, s, i + WARPS, channel);
        slide(seen, patches[warp], 0);
        EST_UNROLL(EST_CONV_POOL_SEGMENT)
        for (int px = 0; px < EST_CONV_POOL_SEGMENT; px++) {
            float part[4];

            for (int q = 0; q < 4; q++) part[q] = place[px] == q ? factor<ROUND>(dy[px]) : 0.0f;
            sum[TAPS_MAX] += place[px] == DEAD ? 0.0f : dy[px];
            slide(seen, patches[warp], 2 * px + 2);
            for (int t = 0; t < TAPS_MAX; t++) {
                int a = t / 3, b = t % 3;

                sum[t] += seen[a][b] * part[0];
                sum[t] += seen[a][b + 1] * part[1];
                sum[t] += seen[a + 1][b] * part[2];
                sum[t] += seen[a + 1][b + 1] * part[3];
            }
        }
    }
    for (int t = 0; t <= TAPS_MAX; t++) sums[warp][t][lane] = sum[t];
    __syncthreads();
    for (int t = warp; t <= TAPS_MAX; t += WARPS) {
        float total = sums[0][t][lane];

        for (int k = 1; k < WARPS; k++) total += sums[k][t][lane];
        if (channel < s.k) parts[((int64_t)blockIdx.x * (TAPS_MAX + 1) + t) * s.k + channel] = total;
    }
    join_parts(parts, (TAPS_MAX + 1) * s.k, TAPS_MAX * s.k, counters, dfilter, dbias);
}

template <bool ROUND> static int launch_backward(const est_call *c)
{
    sizes   s     = sizes_of(c->in[0], &c->out[0].shape, &c->in[2]->shape);
    bool    small = is_small(s);
    int64_t items = small ? s.rows * s.segments : s.rows, each = EST_CONV_POOL_EACH(items);

    /* nothing is a part of zeros */
    return est_launch(c, small ? conv_pool_grad_3x3<ROUND> : conv_pool_grad_any<ROUND>,
                      dim3(items > 0 ? est_blocks(items, each) : 1, est_blocks(s.k, small ? EST_WARP : EST_BLOCK)),
                      EST_BLOCK, est_data<float>(c->in[0]), est_data<float>(c->in[2]), est_data<uint8_t>(c->in[3]),
                      (float *)c->scratch, s, each, c->counters, est_data<float>(&c->out[0]),
                      est_data<float>(&c->out[1]));
}

EST_DEFINE_LAUNCHER(conv_pool_grad)
{
    return c->param[BFLOAT16].i != 0 ? launch_backward<true>(c) : launch_backward<false>(c);
}
