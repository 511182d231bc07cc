/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution, bias, relu and 2x2 max pooling in one pass over the image, and the gradient of all four in one pass
 * back. Made only by runtime/fuse.c, in private copies of a graph.
 *
 *   EstConvPool      pooled = maxpool(relu(conv(x, filter) + bias)); which = the place (0..3) of each maximum in its
 *                    window, 4 when relu let nothing through
 *   EstConvPoolGrad  dfilter and dbias from x, dpooled and which
 *
 * With `bfloat16` what is multiplied is rounded before (EstRoundBfloat16), and dbias is not. A maximum is at one place:
 * its gradient is rounded there, or before it comes there.
 *
 * The activation before pooling is four times the size of the rest of the layer and is never stored: each pooled value
 * keeps its four convolutions in registers, and the way back needs only `which`. Stride 1, no padding, windows that do
 * not overlap. Float32, channels in blocks of LANES. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/ops.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define LANES 8
typedef float    lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
typedef int32_t  masks __attribute__((vector_size(LANES * sizeof(int32_t)), aligned(4)));
typedef uint32_t raw __attribute__((vector_size(LANES * sizeof(int32_t)), aligned(4)));
typedef uint8_t  bytes __attribute__((vector_size(LANES), aligned(1)));

#define DEAD 4 /* `which` of a window that relu closed */

/* est_to_bfloat16 of each. */
static inline lanes round_lanes(lanes x)
{
    raw bits   = (raw)x;
    raw number = (raw)(x == x);
    raw up     = bits + 0x7fffU + (bits >> 16 & 1U);

    return (lanes)(((up & number) | ((bits | 0x400000U) & ~number)) & 0xffff0000U);
}

/* Places as bytes and as lanes. Compilers convert these one by one. */
#ifdef __AVX2__
static inline void get_places(const unsigned char *which, masks *out)
{
    *out = (masks)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)which));
}

static inline void put_places(unsigned char *which, masks places)
{
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)places),
                                    _mm256_extracti128_si256((__m256i)places, 1));

    _mm_storel_epi64((__m128i *)(void *)which, _mm_packus_epi16(words, words));
}
#else
static inline void get_places(const unsigned char *which, masks *out)
{
    *out = __builtin_convertvector(*(const bytes *)which, masks);
}

static inline void put_places(unsigned char *which, masks places)
{
    *(bytes *)which = __builtin_convertvector(places, bytes);
}
#endif

/* The sizes of one call. */
typedef struct sizes {
    int64_t n, h, w, c; /* x */
    int64_t kh, kw, k;  /* filter */
    int64_t ph, pw;     /* pooled */
} sizes;

/* Half of what a window of k fits into n; -1 while one of them is unknown. */
static int64_t pooled_size(int64_t n, int64_t k)
{
    return n < 0 || k < 0 ? -1 : (n - k + 1) / 2;
}

static sizes sizes_of(const est_shape *x, int64_t kh, int64_t kw, int64_t k)
{
    return (sizes){
        x->dim[0], x->dim[1], x->dim[2], x->dim[3], kh, kw, k, pooled_size(x->dim[1], kh), pooled_size(x->dim[2], kw)
    };
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static est_status conv_pool_infer(est_infer *c)
{
    const est_shape *x = &c->in[0], *f = &c->in[1];

    for (int axis = 1; axis <= 2; axis++) { /* the errors that Conv2D and MaxPool would give */
        int64_t n = est_infer_dim(x, axis), k = est_infer_dim(f, axis - 1);
        if (n >= 0 && k >= 0 && n - k + 1 < 2) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "an image of %lld pixels is too small for a window of %lld and pooling", (long long)n,
                            (long long)k);
        }
    }
    c->out[0] = c->out[1] = EST_SHAPE(est_infer_dim(x, 0), pooled_size(est_infer_dim(x, 1), est_infer_dim(f, 0)),
                                      pooled_size(est_infer_dim(x, 2), est_infer_dim(f, 1)), est_infer_dim(f, 3));
    return EST_OK;
}

enum { BFLOAT16 }; /* in param[] */

static est_status keep_precision(est_call *c)
{
    c->param[BFLOAT16].i = est_node_bool(c->node, "bfloat16");
    return EST_OK;
}

typedef struct forward {
    sizes          s;
    const float   *x, *filter, *bias;
    float         *pooled;
    unsigned char *which;
} forward;

/* Pooled values and places of the maxima for LANES channels, from the four convolutions of a window. */
static inline void pool_lanes(const lanes y[4], lanes bias, float *pooled, unsigned char *which)
{
    lanes best  = y[0];
    masks place = { 0 }, dead;

    for (int q = 1; q < 4; q++) {
        masks more = y[q] > best;
        best       = (lanes)(((masks)y[q] & more) | ((masks)best & ~more));
        place      = (more & q) | (place & ~more);
    }
    best += bias;
    dead             = best <= 0; /* not so for NaN, which passes as it does through relu */
    *(lanes *)pooled = (lanes)((masks)best & ~dead);
    place            = (place & ~dead) | (dead & DEAD);
    put_places(which, place);
}

/* One place, n_vectors * LANES channels: the four windows share their filter loads, and two vectors keep enough sums in
 * flight to hide the latency of a multiply-add. n_vectors must be a constant; kh and kwc (taps of a row, channels and
 * all) are where the usual window is worth unrolling. */
static inline __attribute__((always_inline)) void pool_one(const forward *f, const float *x, int64_t kh, int64_t kwc,
                                                           int64_t channel, int n_vectors, float *pooled,
                                                           unsigned char *which)
{
    const sizes *s       = &f->s;
    int64_t      row     = s->w * s->c;
    lanes        y[2][4] = { 0 };
    const float *taps    = f->filter + channel;

    for (int64_t i = 0; i < kh; i++) {
        const float *at = x + i * row;
#pragma GCC unroll 3
        for (int64_t j = 0; j < kwc; j++, taps += s->k) {
#pragma GCC unroll 2
            for (int v = 0; v < n_vectors; v++) {
                lanes w = ((const lanes *)taps)[v];
                y[v][0] += at[j] * w;
                y[v][1] += at[j + s->c] * w;
                y[v][2] += at[j + row] * w;
                y[v][3] += at[j + row + s->c] * w;
            }
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; v++) {
        pool_lanes(y[v], *(const lanes *)(f->bias + channel + v * LANES), pooled + v * LANES, which + v * LANES);
    }
}

static inline __attribute__((always_inline)) void pool_row(const forward *f, const float *x, int64_t out, int64_t kh,
                                                           int64_t kwc)
{
    const sizes *s = &f->s;

    for (int64_t px = 0; px < s->pw; px++, out += s->k, x += 2 * s->c) {
        int64_t k = 0;
        for (; k + 2 * LANES <= s->k; k += 2 * LANES) {
            pool_one(f, x, kh, kwc, k, 2, f->pooled + out + k, f->which + out + k);
        }
        if (k < s->k) pool_one(f, x, kh, kwc, k, 1, f->pooled + out + k, f->which + out + k);
    }
}

static void forward_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const forward *f = arg;
    const sizes   *s = &f->s;

    (void)block;
    for (int64_t r = begin; r < end; r++) { /* one pooled row of one image */
        int64_t      n = r / s->ph, py = r % s->ph;
        const float *x = f->x + (n * s->h + 2 * py) * s->w * s->c;
        if (s->kh == 3 && s->kw * s->c == 3) {
            pool_row(f, x, r * s->pw * s->k, 3, 3);
        } else {
            pool_row(f, x, r * s->pw * s->k, s->kh, s->kw * s->c);
        }
    }
}

/* Rounded factors: x, and in the forward pass the filter behind it. */
static size_t rounded_bytes(const est_call *c, int n)
{
    size_t count = 0;

    for (int i = 0; i < n && est_node_bool(c->node, "bfloat16"); i++) count += (size_t)c->in[i]->count;
    return count * sizeof(float);
}

static size_t forward_scratch(const est_call *c)
{
    return rounded_bytes(c, 2);
}

static est_status conv_pool_cpu(est_call *c)
{
    const est_shape *fs = &c->in[1]->shape;
    forward          f  = { .s      = sizes_of(&c->in[0]->shape, fs->dim[0], fs->dim[1], fs->dim[3]),
                            .x      = c->in[0]->data,
                            .filter = c->in[1]->data,
                            .bias   = c->in[2]->data,
                            .pooled = c->out[0].data,
                            .which  = c->out[1].data };
    double           ns = (double)(f.s.pw * f.s.k * f.s.kh * f.s.kw * f.s.c) * 4 / 40;

    if (c->param[BFLOAT16].i != 0) {
        float *x = c->scratch, *filter = x + c->in[0]->count;

        est_round_floats(c->pool, f.x, c->in[0]->count, x);
        est_round_floats(c->pool, f.filter, c->in[1]->count, filter);
        f.x      = x;
        f.filter = filter;
    }
    est_parallel_for(c->pool, f.s.n * f.s.ph, f.s.ph, ns, forward_rows, &f);
    return EST_OK;
}

const est_op est_op_conv_pool = {
    .name      = "EstConvPool",
    .signature = "x: T, filter: T, bias: T -> pooled: T, which: uint8; bfloat16: bool = false; T: {float32}",
    .infer     = conv_pool_infer,
    .cpu       = EST_KERNELS({ .run = conv_pool_cpu, .prepare = keep_precision, .scratch = forward_scratch }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(conv_pool), .prepare = keep_precision }),
    .heavy     = true,
    .planned   = true,
};

/* --- backward ----------------------------------------------------------------------------------------------------- */

static est_status conv_pool_grad_infer(est_infer *c)
{
    est_shape filter;

    if (!est_infer_shape_from_value(c, 1, &filter)) filter = EST_SHAPE(-1, -1, -1, -1);
    c->out[0] = filter;
    c->out[1] = EST_SHAPE(est_infer_dim(&c->in[2], 3));
    return EST_OK;
}

#define TAPS_MAX 9 /* taps whose sums stay in registers at a time: a 3x3 window */

typedef struct backward {
    sizes                s;
    const float         *x, *dpooled;
    const unsigned char *which;
    float               *sums; /* per block: [taps + 1, k], the last row for the bias */
    bool                 bfloat16;
} backward;

/* Adds one pooled row's share of LANES channels to `taps` sums starting at tap `first`, and to the bias. */
static inline __attribute__((always_inline)) void back_row(const backward *b, const float *x, int64_t out,
                                                           int64_t channel, const int64_t *offset, int n_taps,
                                                           lanes *sum, lanes *bias)
{
    const sizes *s   = &b->s;
    int64_t      row = s->w * s->c;

    for (int64_t px = 0; px < s->pw; px++, out += s->k, x += 2 * s->c) {
        lanes dy = *(const lanes *)(b->dpooled + out + channel), part[4];
        masks place;
        get_places(b->which + out + channel, &place);
        *bias += (lanes)((masks)dy & (place != DEAD));
        if (b->bfloat16) dy = round_lanes(dy);
        for (int q = 0; q < 4; q++) part[q] = (lanes)((masks)dy & (place == q));
#pragma GCC unroll 9
        for (int t = 0; t < n_taps; t++) {
            const float *at = x + offset[t];
            sum[t] += at[0] * part[0] + at[s->c] * part[1] + (at[row] * part[2] + at[row + s->c] * part[3]);
        }
    }
}

#ifdef __AVX2__
/* Two rows of four pixels. */
static inline __m256 two_rows(const float *x, int64_t row)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x)), _mm_loadu_ps(x + row), 1);
}

/* The same for a 3x3 window over one channel. Of the four products of a tap three are with 0: each lane picks the pixel
 * that its maximum saw through the tap, which is bit for bit the same for finite pixels. For a tap in row i and column
 * j those are pixels j and j + 1 of rows i and i + 1. */
static inline void back_row_3x3(const backward *b, const float *x, int64_t out, int64_t channel, lanes sum[9],
                                lanes *bias)
{
    const sizes *s = &b->s;

    for (int64_t px = 0; px < s->pw; px++, out += s->k, x += 2) {
        lanes  dy      = *(const lanes *)(b->dpooled + out + channel);
        __m256 rows[3] = { two_rows(x, s->w), two_rows(x + s->w, s->w), two_rows(x + 2 * s->w, s->w) };
        masks  place, pick;

        get_places(b->which + out + channel, &place);
        pick = place + (place & 2); /* 0, 1, 4, 5 */
        dy   = (lanes)((masks)dy & (place != DEAD));
        *bias += dy;
        if (b->bfloat16) dy = round_lanes(dy);
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++, pick += 1) {
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++) {
                sum[3 * i + j] += (lanes)_mm256_permutevar8x32_ps(rows[i], (__m256i)pick) * dy;
            }
        }
    }
}
#else
#define back_row_3x3(b, x, out, channel, sum, bias) back_row(b, x, out, channel, offset, TAPS_MAX, sum, bias)
#endif

static void backward_block(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const backward *b    = arg;
    const sizes    *s    = &b->s;
    int64_t         taps = s->kh * s->kw * s->c;
    float          *sums = b->sums + block * (taps + 1) * s->k;
    int64_t         offset[TAPS_MAX];

    for (int64_t k = 0; k < s->k; k += LANES) {
        for (int64_t first = 0; first < taps; first += TAPS_MAX) {
            int   n_taps        = (int)(taps - first < TAPS_MAX ? taps - first : TAPS_MAX);
            lanes sum[TAPS_MAX] = { 0 }, bias = { 0 };
            for (int t = 0; t < n_taps; t++) {
                int64_t tap = first + t, i = tap / (s->kw * s->c), j = tap % (s->kw * s->c);
                offset[t] = i * s->w * s->c + j;
            }
            for (int64_t r = begin; r < end; r++) {
                int64_t      n = r / s->ph, py = r % s->ph;
                const float *x = b->x + (n * s->h + 2 * py) * s->w * s->c;
                if (s->c == 1 && s->kh == 3 && s->kw == 3) {
                    back_row_3x3(b, x, r * s->pw * s->k, k, sum, &bias);
                } else if (n_taps == TAPS_MAX) { /* a constant here keeps the sums in registers */
                    back_row(b, x, r * s->pw * s->k, k, offset, TAPS_MAX, sum, &bias);
                } else {
                    back_row(b, x, r * s->pw * s->k, k, offset, n_taps, sum, &bias);
                }
            }
            for (int t = 0; t < n_taps; t++) *(lanes *)(sums + (first + t) * s->k + k) = sum[t];
            *(lanes *)(sums + taps * s->k + k) = bias;
        }
    }
}

static double backward_ns(const sizes *s)
{
    return (double)(s->pw * s->k * s->kh * s->kw * s->c) * 4 / 30;
}

static size_t backward_scratch(const est_call *c)
{
    const est_shape *f = &c->out[0].shape;
    sizes            s = sizes_of(&c->in[0]->shape, f->dim[0], f->dim[1], f->dim[3]);

    return (size_t)(est_parallel_blocks(s.n * s.ph, backward_ns(&s)) * (s.kh * s.kw * s.c + 1) * s.k) * sizeof(float) +
           rounded_bytes(c, 1);
}

static est_status conv_pool_grad_cpu(est_call *c)
{
    const est_shape *fs      = &c->out[0].shape;
    backward         b       = { .s        = sizes_of(&c->in[0]->shape, fs->dim[0], fs->dim[1], fs->dim[3]),
                                 .x        = c->in[0]->data,
                                 .dpooled  = c->in[2]->data,
                                 .which    = c->in[3]->data,
                                 .sums     = c->scratch,
                                 .bfloat16 = c->param[BFLOAT16].i != 0 };
    int64_t          rows    = b.s.n * b.s.ph;
    int64_t          blocks  = est_parallel_blocks(rows, backward_ns(&b.s));
    int64_t          n_taps  = b.s.kh * b.s.kw * b.s.c * b.s.k;
    float           *dfilter = c->out[0].data, *dbias = c->out[1].data;

    memset(c->scratch, 0, (size_t)(blocks * (n_taps + b.s.k)) * sizeof(float)); /* an empty block adds nothing */
    if (b.bfloat16) {
        float *x = b.sums + blocks * (n_taps + b.s.k);

        est_round_floats(c->pool, b.x, c->in[0]->count, x);
        b.x = x;
    }
    est_parallel_for(c->pool, rows, 1, backward_ns(&b.s), backward_block, &b);
    memcpy(dfilter, b.sums, (size_t)n_taps * sizeof(float));
    memcpy(dbias, b.sums + n_taps, (size_t)b.s.k * sizeof(float));
    for (int64_t i = 1; i < blocks; i++) {
        const float *more = b.sums + i * (n_taps + b.s.k);
        for (int64_t t = 0; t < n_taps; t++) dfilter[t] += more[t];
        for (int64_t k = 0; k < b.s.k; k++) dbias[k] += more[n_taps + k];
    }
    return EST_OK;
}

/* On a GPU: the sums of each part of the segments; one of nothing. */
static size_t backward_cuda_scratch(const est_call *c)
{
    const est_shape *f     = &c->out[0].shape;
    sizes            s     = sizes_of(&c->in[0]->shape, f->dim[0], f->dim[1], f->dim[3]);
    int64_t          parts = (s.n * s.ph * EST_CONV_POOL_SEGMENTS(s.pw) + 7) / 8;

    if (parts < 1) parts = 1;
    if (parts > EST_CONV_POOL_PARTS) parts = EST_CONV_POOL_PARTS;
    return (size_t)(parts * (s.kh * s.kw * s.c + 1) * s.k) * sizeof(float);
}

const est_op est_op_conv_pool_grad = {
    .name      = "EstConvPoolGrad",
    .signature = "x: T, filter_sizes: Tshape, dpooled: T, which: uint8 -> dfilter: T, dbias: T; "
                 "bfloat16: bool = false; T: {float32}; Tshape: {int32, int64} = int32",
    .infer     = conv_pool_grad_infer,
    .cpu       = EST_KERNELS({ .run = conv_pool_grad_cpu, .prepare = keep_precision, .scratch = backward_scratch }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(conv_pool_grad), .prepare = keep_precision, .scratch = backward_cuda_scratch }),
    .heavy   = true,
    .planned = true,
};
