/* SPDX-License-Identifier: Apache-2.0
 *
 * EstConvPool and EstConvPoolGrad on a GPU: for images of few channels, which leave a product nothing to do.
 *
 * Neighbouring threads have neighbouring output channels, so that they all look at the same pixels, and each goes along
 * a pooled row. A 3x3 window over one channel keeps its filter and the 4x4 pixels of a pooling in registers. */
#include "cuda/launchers.h"
#include "cuda/window.cuh"

#define DEAD     4 /* as fused_conv_pool.c has it */
#define TAPS_MAX 9 /* whose sums are in registers at a time */

typedef struct sizes {
    int64_t rows;    /* pooled, of all images */
    int     h, w, c; /* x */
    int     kh, kw, k;
    int     ph, pw; /* pooled */
} sizes;

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

    return s;
}

/* Where the pixels of a pooled row begin. */
static __device__ const float *pixels_of(const float *x, const sizes &s, int64_t r)
{
    int64_t image = est_divide(r, s.ph), row = r - image * s.ph;

    return x + (image * s.h + 2 * row) * s.w * s.c;
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

                y[0] += here[0] * *tap;
                y[1] += here[s.c] * *tap;
                y[2] += here[row] * *tap;
                y[3] += here[row + s.c] * *tap;
            }
        }
        pool_four(y, bias[channel], &pooled[out], &which[out]);
    }
}

static __global__ void conv_pool_3x3(const float *__restrict__ x, const float *__restrict__ filter,
                                     const float *__restrict__ bias, float *__restrict__ pooled,
                                     uint8_t *__restrict__ which, sizes s)
{
    int64_t      i = est_thread(), r = est_divide(i, s.k), out = r * s.pw * s.k;
    int          channel = (int)(i - r * s.k);
    float        tap[3][3], seen[4][4], own;
    const float *at;

    if (r >= s.rows) return;
    at = pixels_of(x, s, r);
    out += channel;
    own = bias[channel];
    for (int t = 0; t < 9; t++) tap[t / 3][t % 3] = filter[t * s.k + channel];
    for (int a = 0; a < 4; a++) {
        seen[a][2] = at[a * s.w];
        seen[a][3] = at[a * s.w + 1];
    }
    EST_UNROLL(4)
    for (int px = 0; px < s.pw; px++, out += s.k, at += 2) {
        float y[4] = {};

        for (int a = 0; a < 4; a++) {
            seen[a][0] = seen[a][2];
            seen[a][1] = seen[a][3];
            seen[a][2] = at[a * s.w + 2];
            seen[a][3] = at[a * s.w + 3];
        }
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++) {
                y[0] += seen[a][b] * tap[a][b];
                y[1] += seen[a][b + 1] * tap[a][b];
                y[2] += seen[a + 1][b] * tap[a][b];
                y[3] += seen[a + 1][b + 1] * tap[a][b];
            }
        }
        pool_four(y, own, &pooled[out], &which[out]);
    }
}

EST_DEFINE_LAUNCHER(conv_pool)
{
    sizes s = sizes_of(c->in[0], &c->in[1]->shape, &c->out[0].shape);

    return est_launch(c, s.c == 1 && s.kh == 3 && s.kw == 3 ? conv_pool_3x3 : conv_pool_any,
                      dim3(est_blocks(s.rows * s.k)), EST_BLOCK, est_data<float>(c->in[0]), est_data<float>(c->in[1]),
                      est_data<float>(c->in[2]), est_data<float>(&c->out[0]), est_data<uint8_t>(&c->out[1]), s);
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

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

/* A part of the pooled rows; a block has as many threads a channel as fit. Four blocks at a time on a multiprocessor:
 * then the EST_CONV_POOL_PARTS of a large batch run at once on one with 132 of them. */
template <bool SMALL>
static __global__ void __launch_bounds__(EST_BLOCK, 4)
    conv_pool_grad_part(const float *__restrict__ x, const float *__restrict__ dpooled,
                        const uint8_t *__restrict__ which, float *__restrict__ parts, sizes s, int64_t each)
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
            float        seen[4][4];

            if (SMALL) {
                for (int a = 0; a < 4; a++) {
                    seen[a][2] = at[a * s.w];
                    seen[a][3] = at[a * s.w + 1];
                }
            }
            EST_UNROLL(4)
            for (int px = 0; px < s.pw; px++, out += s.k, at += 2 * s.c) {
                float dy    = dpooled[out], part[4];
                int   place = which[out];

                for (int q = 0; q < 4; q++) part[q] = place == q ? dy : 0.0f;
                bias += place == DEAD ? 0.0f : dy;
                if (SMALL) {
                    for (int a = 0; a < 4; a++) {
                        seen[a][0] = seen[a][2];
                        seen[a][1] = seen[a][3];
                        seen[a][2] = at[a * s.w + 2];
                        seen[a][3] = at[a * s.w + 3];
                    }
                    for (int t = 0; t < TAPS_MAX; t++) {
                        int a = t / 3, b = t % 3;

                        sum[t] += seen[a][b] * part[0] + seen[a][b + 1] * part[1] +
                                  (seen[a + 1][b] * part[2] + seen[a + 1][b + 1] * part[3]);
                    }
                } else {
                    for (int t = 0; t < TAPS_MAX; t++) {
                        int          tap  = first + (t < n ? t : 0);
                        const float *here = at + tap / kwc * row + tap % kwc;

                        sum[t] += here[0] * part[0] + here[s.c] * part[1] +
                                  (here[row] * part[2] + here[row + s.c] * part[3]);
                    }
                }
            }
        }
        for (int t = 0; t < TAPS_MAX; t++) {
            if (t < n) keep_sum(sum[t], lanes, group, groups, live, to + (int64_t)(first + t) * s.k);
        }
    }
    keep_sum(bias, lanes, group, groups, live, to + (int64_t)taps * s.k);
}

EST_DEFINE_LAUNCHER(conv_pool_grad)
{
    sizes   s     = sizes_of(c->in[0], &c->out[0].shape, &c->in[2]->shape);
    bool    small = s.c == 1 && s.kh == 3 && s.kw == 3;
    int64_t taps = s.kh * s.kw * s.c, each = EST_CONV_POOL_EACH(s.rows), n = (s.rows + each - 1) / each;
    float  *parts = (float *)c->scratch;
    int     error = est_launch(c, small ? conv_pool_grad_part<true> : conv_pool_grad_part<false>,
                               dim3((unsigned)n, est_blocks(s.k)), EST_BLOCK, est_data<float>(c->in[0]),
                               est_data<float>(c->in[2]), est_data<uint8_t>(c->in[3]), parts, s, each);

    if (error != 0) return error;
    return est_sum_parts_launch(c, (const float *)parts, n, (taps + 1) * s.k, est_data<float>(&c->out[0]), taps * s.k,
                                est_data<float>(&c->out[1]));
}
