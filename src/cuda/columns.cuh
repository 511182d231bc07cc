/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the rows of a matrix, one for each column, on a GPU: gradients of biases, parts of a result, and all that
 * is backward of a narrow layer, whose few outputs leave a matrix product nothing to do.
 *
 *   sums      y[j] = sum of x[i, j]; x may be masked where it lies, or made here as a product of few terms and then
 *             masked, so that a gradient crosses memory once for all of that
 *   weighted  y[j, e] = sum of x[i, j] by[i, e], for few e: the gradient of a narrow layer's kernel
 *
 * A block has a strip of columns, 128 bytes or less, and all rows if they are few, else a chunk of them. Of the blocks
 * of a strip the last one to be done then adds up the sums of all, in order. Sums of several matrices are one launch
 * (cuda/batch.cuh). */
#ifndef EST_CUDA_COLUMNS_CUH
#define EST_CUDA_COLUMNS_CUH

#include "cuda/batch.cuh"
#include "cuda/last_block.cuh"
#include "cuda/launchers.h"
#include "cuda/loops.cuh"
#include "cuda/reduce.cuh"

#define EST_COLUMN_STRIP  128       /* bytes of columns of a block at most */
#define EST_COLUMN_SECTOR 32        /* at least, which are read as one */
#define EST_COLUMN_SMALL  (4 << 20) /* bytes of a matrix whose strips may be as narrow: it is in the cache */
#define EST_COLUMN_STRIPS 32        /* that are enough */
#define EST_COLUMN_BLOCKS 256       /* of a matrix: two for each of 132 multiprocessors */
#define EST_COLUMN_ROWS   4         /* of a thread at a time, whose loads are then under way together */
#define EST_COLUMN_SIDE   4         /* weights of a block */
#define EST_COLUMN_JOINED 8         /* chunks of a thread at a time */
#define EST_COLUMN_STAGED 2048      /* terms or weights of the rows that a block takes at a time, at most */

template <typename T> struct est_columns {
    T       *x;     /* [rows, cols] */
    const T *mask;  /* as large: x becomes 0 where it is not above 0; NULL: x stays as it is */
    const T *a, *b; /* x = a b, with a [rows, k] and b[l, j] at l * next_b + j * col_b; NULL: x is there already */
    int64_t  next_b, col_b;
    const T *by;   /* [rows, n]; NULL: plain sums, n is 1 */
    T       *y;    /* [cols, n] */
    T       *part; /* [chunks, cols, n] */
    int64_t  rows, cols;
    int      k, n; /* at most EST_NARROW */

    /* by est_columns_launch */
    int64_t   chunk;
    int       lanes;  /* threads with different columns: a power of two, at most a warp */
    int       side;   /* weights of a block: 1 or EST_COLUMN_SIDE */
    bool      packed; /* 16 bytes of columns a thread */
    uint32_t *counters;
};

/* `scratch`: EST_COLUMN_SCRATCH bytes. */
template <typename T>
est_columns<T> est_columns_of(const T *x, const T *mask, T *y, int64_t rows, int64_t cols, void *scratch)
{
    est_columns<T> s = {};

    s.x    = (T *)x;
    s.mask = mask;
    s.y    = y;
    s.part = (T *)scratch;
    s.rows = rows;
    s.cols = cols;
    s.n    = 1;
    return s;
}

template <typename T> static inline __host__ __device__ int est_column_width(const est_columns<T> &s)
{
    return s.lanes * (s.packed ? EST_PACK(T) : 1);
}

/* Strips, as often as there are sides. */
template <typename T> static inline __host__ __device__ unsigned est_column_strips(const est_columns<T> &s)
{
    return (unsigned)((s.cols + est_column_width(s) - 1) / est_column_width(s)) *
           (unsigned)((s.n + s.side - 1) / s.side);
}

template <typename T> static inline __host__ __device__ unsigned est_column_chunks(const est_columns<T> &s)
{
    return s.rows > s.chunk ? (unsigned)((s.rows + s.chunk - 1) / s.chunk) : 1u; /* no rows: a chunk of none */
}

/* What a block works on: this thread's columns, and the rows of its chunk. */
typedef struct est_column_place {
    int      lane, line, lines;
    unsigned strip, chunk;
    int      weight;     /* the first of its side */
    int64_t  j;          /* the first column; there may be none */
    int64_t  first, end; /* rows of the chunk */
} est_column_place;

template <typename T> static __device__ est_column_place est_find_column(const est_columns<T> &s, unsigned block)
{
    unsigned         strips = est_column_strips(s), sides = (unsigned)((s.n + s.side - 1) / s.side);
    est_column_place p = {};

    p.lane   = (int)threadIdx.x & (s.lanes - 1);
    p.lines  = EST_BLOCK / s.lanes;
    p.chunk  = block / strips;
    p.strip  = block - p.chunk * strips;
    p.weight = (int)(p.strip % sides) * s.side;
    p.j      = (int64_t)(p.strip / sides) * est_column_width(s) + p.lane * (s.packed ? EST_PACK(T) : 1);
    p.line   = (int)threadIdx.x / s.lanes;
    p.first  = p.chunk * s.chunk;
    p.end    = p.first + s.chunk < s.rows ? p.first + s.chunk : s.rows;
    return p;
}

/* Where result i of a block goes in y, or in the part of a chunk; below 0: nowhere. */
template <typename T>
static __device__ int64_t est_column_result(const est_columns<T> &s, const est_column_place &p, int i)
{
    int64_t first = p.j - p.lane * (s.packed ? EST_PACK(T) : 1), j = first + (s.side == 1 ? i : i / EST_COLUMN_SIDE);
    int     e = p.weight + (s.side == 1 ? 0 : i % EST_COLUMN_SIDE);

    return j < s.cols && e < s.n ? j * s.n + e : -1;
}

/* Adds up the lines of S sums of each column. */
template <typename T, int N, int S>
static __device__ void est_keep_columns(const est_columns<T> &s, const est_column_place &p, T (&sum)[S][N])
{
    __shared__ T part[EST_BLOCK / EST_WARP][S * EST_COLUMN_STRIP / sizeof(T)];
    int          warp = (int)threadIdx.x / EST_WARP, i = (int)threadIdx.x;
    int64_t      to    = -1;
    double       total = 0;

    for (int half = EST_WARP / 2; half >= s.lanes; half /= 2) {
        for (int k = 0; k < S * N; k++) sum[k / N][k % N] += __shfl_xor_sync(0xFFFFFFFFu, sum[k / N][k % N], half);
    }
    for (int k = 0; k < S * N && i % EST_WARP < s.lanes; k++) {
        part[warp][(p.lane * N + k % N) * S + k / N] = sum[k / N][k % N];
    }
    __syncthreads();
    if (i < est_column_width(s) * S) to = est_column_result(s, p, i);
    if (to < 0) return;
    for (int k = 0; k < EST_BLOCK / EST_WARP; k++) total += (double)part[k][i];
    (est_column_chunks(s) > 1 ? s.part + p.chunk * s.cols * s.n : s.y)[to] = (T)total;
}

template <typename T, int N>
static __device__ void est_sum_own_columns(const est_columns<T> &s, const est_column_place &p)
{
    typedef est_pack<T, N> pack;
    T                      sum[1][N] = {};

    for (int64_t i = p.first + p.line; i < p.end && p.j < s.cols; i += EST_COLUMN_ROWS * p.lines) {
        pack x[EST_COLUMN_ROWS], mask[EST_COLUMN_ROWS];

        for (int r = 0; r < EST_COLUMN_ROWS; r++) {
            int64_t at = (i + r * p.lines) * s.cols + p.j;

            if (i + r * p.lines >= p.end) continue;
            x[r] = *(const pack *)(s.x + at);
            if (s.mask != NULL) mask[r] = *(const pack *)(s.mask + at);
        }
        for (int r = 0; r < EST_COLUMN_ROWS; r++) {
            if (i + r * p.lines >= p.end) continue;
            if (s.mask != NULL) {
                for (int e = 0; e < N; e++) x[r].v[e] = mask[r].v[e] > 0 ? x[r].v[e] : (T)0;
                *(pack *)(s.x + (i + r * p.lines) * s.cols + p.j) = x[r];
            }
            for (int e = 0; e < N; e++) sum[0][e] += x[r].v[e];
        }
    }
    est_keep_columns(s, p, sum);
}

/* The rows of a matrix of few columns that all threads of the block need, `n` elements, in shared memory. */
template <typename T> static __device__ void est_stage(const T *from, int64_t n, T *to)
{
    T own[EST_COLUMN_STAGED / EST_BLOCK];

    for (int k = 0; k < EST_COLUMN_STAGED / EST_BLOCK; k++) {
        int i = (int)threadIdx.x + k * EST_BLOCK;

        own[k] = i < n ? from[i] : (T)0;
    }
    for (int k = 0; k < EST_COLUMN_STAGED / EST_BLOCK; k++) to[(int)threadIdx.x + k * EST_BLOCK] = own[k];
}

/* The same of a product of few terms, which is made on the way. */
template <typename T, int N>
static __device__ void est_sum_made_columns(const est_columns<T> &s, const est_column_place &p, T *staged)
{
    typedef est_pack<T, N> pack;
    __shared__ pack        b[EST_NARROW][EST_COLUMN_STRIP / sizeof(pack)];
    int                    width = s.lanes * N, at = (int)threadIdx.x & (width - 1);
    int64_t                j         = p.j - p.lane * N + at;
    T                      sum[1][N] = {};

    for (int l = (int)threadIdx.x / width; l < s.k; l += EST_BLOCK / width) {
        b[l][at / N].v[at % N] = j < s.cols ? s.b[l * s.next_b + j * s.col_b] : (T)0;
    }
    for (int64_t i = p.first; i < p.end; i += EST_COLUMN_ROWS * p.lines) {
        pack x[EST_COLUMN_ROWS] = {}, mask[EST_COLUMN_ROWS];

        for (int r = 0; r < EST_COLUMN_ROWS && s.mask != NULL; r++) {
            int64_t row = i + p.line + r * p.lines;

            if (row < p.end && p.j < s.cols) mask[r] = *(const pack *)(s.mask + row * s.cols + p.j);
        }
        if (i > p.first) __syncthreads(); /* it has been used */
        est_stage(s.a + i * s.k, (p.end - i) * s.k, staged);
        __syncthreads();
        for (int l = 0; l < s.k; l++) {
            pack own = b[l][p.lane];

            for (int r = 0; r < EST_COLUMN_ROWS; r++) {
                T a = staged[(p.line + r * p.lines) * s.k + l];

                for (int e = 0; e < N; e++) x[r].v[e] += a * own.v[e];
            }
        }
        for (int r = 0; r < EST_COLUMN_ROWS; r++) {
            int64_t row = i + p.line + r * p.lines;

            if (row >= p.end || p.j >= s.cols) continue;
            for (int e = 0; e < N; e++) {
                if (s.mask != NULL && !(mask[r].v[e] > 0)) x[r].v[e] = 0;
                sum[0][e] += x[r].v[e];
            }
            *(pack *)(s.x + row * s.cols + p.j) = x[r];
        }
    }
    est_keep_columns(s, p, sum);
}

template <typename T, int N, int S>
static __device__ void est_sum_weighted_columns(const est_columns<T> &s, const est_column_place &p, T *staged)
{
    typedef est_pack<T, N> pack;
    T                      sum[S][N] = {};

    for (int64_t i = p.first; i < p.end; i += EST_COLUMN_ROWS * p.lines) {
        pack x[EST_COLUMN_ROWS] = {};

        for (int r = 0; r < EST_COLUMN_ROWS; r++) {
            int64_t row = i + p.line + r * p.lines;

            if (row < p.end && p.j < s.cols) x[r] = *(const pack *)(s.x + row * s.cols + p.j);
        }
        if (i > p.first) __syncthreads(); /* it has been used */
        est_stage(s.by + i * s.n, (p.end - i) * s.n, staged);
        __syncthreads();
        for (int r = 0; r < EST_COLUMN_ROWS; r++) {
            if (i + p.line + r * p.lines >= p.end) continue;
            for (int w = 0; w < S; w++) {
                T by = p.weight + w < s.n ? staged[(p.line + r * p.lines) * s.n + p.weight + w] : (T)0;

                for (int e = 0; e < N; e++) sum[w][e] += x[r].v[e] * by;
            }
        }
    }
    est_keep_columns(s, p, sum);
}

template <typename T, int N>
static __device__ void est_sum_some_columns(const est_columns<T> &s, const est_column_place &p, T *staged)
{
    if (s.by == NULL && s.a == NULL) {
        est_sum_own_columns<T, N>(s, p);
    } else if (s.by == NULL) {
        est_sum_made_columns<T, N>(s, p, staged);
    } else if (s.side == 1) {
        est_sum_weighted_columns<T, N, 1>(s, p, staged);
    } else {
        est_sum_weighted_columns<T, N, EST_COLUMN_SIDE>(s, p, staged);
    }
}

/* The chunks of a strip in order: groups of threads some of them each, then the groups. */
template <typename T> static __device__ void est_join_columns(const est_columns<T> &s, const est_column_place &p)
{
    __shared__ double all[EST_BLOCK];
    int               count = est_column_width(s) * s.side; /* a power of two */
    int               at = (int)threadIdx.x & (count - 1), group = (int)threadIdx.x / count, groups = EST_BLOCK / count;
    int               chunks = (int)est_column_chunks(s);
    int64_t           from = est_column_result(s, p, at), step = s.cols * s.n;
    double            sum = 0;

    static_assert(EST_COLUMN_STRIP / sizeof(T) * EST_COLUMN_SIDE <= EST_BLOCK, "each result has a thread");
    for (int first = group; first < chunks && from >= 0; first += EST_COLUMN_JOINED * groups) {
        T own[EST_COLUMN_JOINED];

        for (int k = 0; k < EST_COLUMN_JOINED; k++) {
            int chunk = first + k * groups;

            own[k] = chunk < chunks ? __ldcg(&s.part[chunk * step + from]) : (T)0;
        }
        for (int k = 0; k < EST_COLUMN_JOINED; k++) sum += (double)own[k];
    }
    all[threadIdx.x] = sum;
    __syncthreads();
    if (group != 0 || from < 0) return;
    for (int g = 1; g < groups; g++) sum += all[g * count + at];
    s.y[from] = (T)sum;
}

template <typename T>
static __global__ void __launch_bounds__(EST_BLOCK, 2)
    est_sum_columns(const __grid_constant__ est_many<est_columns<T>> m)
{
    __shared__ T          staged[EST_COLUMN_STAGED];
    unsigned              block, chunks;
    int                   own = est_own_call(m, &block);
    const est_columns<T> &s   = m.call[own];
    est_column_place      p   = est_find_column(s, block);

    if (s.packed) {
        est_sum_some_columns<T, EST_PACK(T)>(s, p, staged);
    } else {
        est_sum_some_columns<T, 1>(s, p, staged);
    }
    chunks = est_column_chunks(s);
    if (chunks > 1 && est_is_last_block(&s.counters[own * EST_BATCH_COUNTERS + (int)p.strip], chunks)) {
        est_join_columns(s, p);
    }
}

template <typename T> int est_columns_launch_many(const est_call *c, const est_columns<T> *calls, int n)
{
    typedef est_columns<T> columns;

    return est_launch_many(
        c, est_sum_columns<T>,
        est_many_of(calls, n, [](const columns &s) { return est_column_strips(s) * est_column_chunks(s); }), EST_BLOCK);
}

/* Cuts the matrix: into narrow strips rather than into chunks, which cost a pass over their sums; but not where each
 * strip reads rows of terms or weights again. */
template <typename T> void est_columns_cut(est_columns<T> *s)
{
    int     width = s->packed ? EST_PACK(T) : 1, most = EST_COLUMN_STRIP / (width * (int)sizeof(T));
    int     least = EST_COLUMN_SECTOR / (width * (int)sizeof(T)), with = s->a != NULL ? s->k : s->by != NULL ? s->n : 0;
    bool    small = with <= 1 && s->rows * s->cols * (int64_t)sizeof(T) <= EST_COLUMN_SMALL;
    int64_t pass; /* rows that a block takes at a time */

    static_assert(EST_COLUMN_ROWS * EST_BLOCK <= EST_COLUMN_STAGED, "a weight a row");
    s->lanes = 1;
    while (s->lanes < most && s->lanes < EST_WARP && s->lanes * width < s->cols) s->lanes *= 2;
    while (s->lanes < EST_WARP && EST_COLUMN_ROWS * EST_BLOCK / s->lanes * with > EST_COLUMN_STAGED) s->lanes *= 2;
    while (s->lanes > least && small && s->rows > EST_COLUMN_ROWS * EST_BLOCK / s->lanes &&
           est_column_strips(*s) < EST_COLUMN_STRIPS) {
        s->lanes /= 2;
    }
    pass     = EST_COLUMN_ROWS * EST_BLOCK / s->lanes;
    s->chunk = s->rows;
    if (s->rows <= (with > 1 ? 2 : 4) * pass || est_column_strips(*s) > EST_BATCH_COUNTERS) return;
    s->chunk = with > 1 ? pass : 2 * pass;
    if (s->chunk < EST_COLUMN_CHUNK) s->chunk = EST_COLUMN_CHUNK;
    while (est_column_strips(*s) * est_column_chunks(*s) > EST_COLUMN_BLOCKS && s->chunk < s->rows) s->chunk *= 2;
}

/* x_bytes: of the call's scratch, if x is there. */
template <typename T> int est_columns_launch(const est_call *c, est_columns<T> s, size_t x_bytes = 0)
{
    s.packed   = s.cols % EST_PACK(T) == 0 && est_aligned(s.x) && est_aligned(s.mask);
    s.side     = s.n > 1 ? EST_COLUMN_SIDE : 1;
    s.counters = c->counters;
    est_columns_cut(&s);
    return est_batch_add(c, est_columns_launch_many<T>, s,
                         s.rows > s.chunk ? EST_COLUMN_SCRATCH(s.rows, s.cols * s.n) : x_bytes);
}

/* y[i] = sum of part[p][i] over n parts, at most EST_CONV_PARTS, which begin the call's scratch. */
template <typename T> int est_sum_parts_launch(const est_call *c, int64_t n, int64_t count, T *y)
{
    const T *parts = (const T *)c->scratch;

    return est_columns_launch(c, est_columns_of(parts, (const T *)NULL, y, n, count, NULL),
                              (size_t)(n * count) * sizeof(T));
}

#endif
