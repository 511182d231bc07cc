/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the rows of a matrix, one for each column, on a GPU: gradients of biases, and all that is backward of a
 * narrow layer, whose few outputs leave a matrix product nothing to do.
 *
 *   sums      y[j] = sum of x[i, j]; x may be masked where it lies, or made here as a product of few terms and then
 *             masked, so that a gradient crosses memory once for all of that
 *   weighted  y[j, e] = sum of x[i, j] by[i, e], for few e: the gradient of a narrow layer's kernel
 *
 * Few rows are summed in one pass, more of them as chunks, and then the chunks in order. Sums of several matrices are
 * one launch (cuda/batch.cuh). */
#ifndef EST_CUDA_COLUMNS_CUH
#define EST_CUDA_COLUMNS_CUH

#include "cuda/batch.cuh"
#include "cuda/launchers.h"
#include "cuda/loops.cuh"

#define EST_COLUMN_LANES 32 /* threads with different columns */
#define EST_COLUMN_LINES 32 /* threads with different rows */
#define EST_COLUMN_BLOCK (EST_COLUMN_LANES * EST_COLUMN_LINES)
#define EST_COLUMN_FEW   512 /* rows that are one chunk */
#define EST_COLUMN_SIDE  4   /* sums whose lines are added up at a time */

template <typename T> struct est_columns {
    T       *x;     /* [rows, cols] */
    const T *mask;  /* as large: x becomes 0 where it is not above 0; NULL: x stays as it is */
    const T *a, *b; /* x = a b, with a [rows, k] and b[l, j] at l * next_b + j * col_b; NULL: x is there already */
    int64_t  next_b, col_b;
    const T *by;   /* [rows, n]; NULL: plain sums, n is 1 */
    T       *y;    /* [cols, n] */
    double  *part; /* [chunks, cols, n]; NULL: one chunk, whose sums go to y */
    int64_t  rows, cols, chunk;
    int      k, n;   /* at most EST_NARROW */
    bool     packed; /* four columns a thread */
};

/* `scratch`: EST_COLUMN_SCRATCH bytes. */
template <typename T>
est_columns<T> est_columns_of(const T *x, const T *mask, T *y, int64_t rows, int64_t cols, void *scratch)
{
    bool           few = rows <= EST_COLUMN_FEW;
    est_columns<T> s   = {};

    s.x      = (T *)x;
    s.mask   = mask;
    s.y      = y;
    s.part   = few ? NULL : (double *)scratch;
    s.rows   = rows;
    s.cols   = cols;
    s.chunk  = few ? rows : EST_COLUMN_CHUNK;
    s.n      = 1;
    s.packed = !few && sizeof(T) == 4 && cols % 4 == 0 && est_aligned(x) && est_aligned(mask);
    return s;
}

template <typename T> static inline __host__ __device__ unsigned est_column_strips(const est_columns<T> &s)
{
    int64_t width = s.packed ? 4 * EST_COLUMN_LANES : EST_COLUMN_LANES;

    return (unsigned)((s.cols + width - 1) / width);
}

template <typename T> static inline __host__ __device__ int64_t est_column_chunks(const est_columns<T> &s)
{
    return s.chunk > 0 ? (s.rows + s.chunk - 1) / s.chunk : 1; /* no rows: a chunk of none */
}

/* What a block works on: this thread's column, and the rows of its chunk. */
typedef struct est_column_place {
    int     lane, line;
    int64_t chunk, j, first, end;
} est_column_place;

template <typename T> static __device__ est_column_place est_find_column(const est_columns<T> &s, unsigned block)
{
    unsigned         strips = est_column_strips(s);
    est_column_place p      = {};

    p.lane  = (int)threadIdx.x % EST_COLUMN_LANES;
    p.line  = (int)threadIdx.x / EST_COLUMN_LANES;
    p.chunk = block / strips;
    p.j     = ((int64_t)(block % strips) * EST_COLUMN_LANES + p.lane) * (s.packed ? 4 : 1);
    p.first = p.chunk * s.chunk + p.line;
    p.end   = (p.chunk + 1) * s.chunk < s.rows ? (p.chunk + 1) * s.chunk : s.rows;
    return p;
}

/* Adds up the lines of `count` sums of each column, in order, and keeps them as results from p.j * n + first on. */
template <typename T>
static __device__ void est_keep_columns(const est_columns<T> &s, const est_column_place &p, const T *sum, int first,
                                        int count)
{
    __shared__ T part[EST_COLUMN_SIDE][EST_COLUMN_LINES][EST_COLUMN_LANES];
    int64_t      to    = p.j * s.n + first + p.line;
    double       total = 0;

    __syncthreads(); /* it may have been used before */
    for (int e = 0; e < EST_COLUMN_SIDE; e++) part[e][p.line][p.lane] = sum[e];
    __syncthreads();
    if (p.line >= count || p.j >= s.cols) return; /* a warp each */
    for (int k = 0; k < EST_COLUMN_LINES; k++) total += (double)part[p.line][k][p.lane];
    if (s.part != NULL) {
        s.part[p.chunk * s.cols * s.n + to] = total;
    } else {
        s.y[to] = (T)total;
    }
}

template <typename T, int N> static __device__ void est_sum_own_columns(const est_columns<T> &s, unsigned block)
{
    est_column_place p                    = est_find_column(s, block);
    T                sum[EST_COLUMN_SIDE] = {};

    EST_UNROLL(4)
    for (int64_t i = p.first; i < p.end; i += EST_COLUMN_LINES) {
        est_pack<T, N> *at = (est_pack<T, N> *)(s.x + i * s.cols + p.j), v;

        if (p.j >= s.cols) break;
        v = *at;
        if (s.mask != NULL) {
            est_pack<T, N> m = *(const est_pack<T, N> *)(s.mask + i * s.cols + p.j);

            for (int e = 0; e < N; e++) v.v[e] = m.v[e] > 0 ? v.v[e] : (T)0;
            *at = v;
        }
        for (int e = 0; e < N; e++) sum[e] += v.v[e];
    }
    est_keep_columns(s, p, sum, 0, N);
}

/* The same of a product of few terms, which is made on the way. */
template <typename T> static __device__ void est_sum_made_columns(const est_columns<T> &s, unsigned block)
{
    est_column_place p                    = est_find_column(s, block);
    T                sum[EST_COLUMN_SIDE] = {}, b[EST_NARROW] = {};

    for (int l = 0; l < EST_NARROW; l++) {
        if (l < s.k && p.j < s.cols) b[l] = s.b[l * s.next_b + p.j * s.col_b];
    }
    EST_UNROLL(4)
    for (int64_t i = p.first; i < p.end; i += EST_COLUMN_LINES) {
        T v = 0;

        if (p.j >= s.cols) break;
        for (int l = 0; l < EST_NARROW; l++) {
            if (l < s.k) v += s.a[i * s.k + l] * b[l];
        }
        if (s.mask != NULL && !(s.mask[i * s.cols + p.j] > 0)) v = 0;
        s.x[i * s.cols + p.j] = v;
        sum[0] += v;
    }
    est_keep_columns(s, p, sum, 0, 1);
}

template <typename T> static __device__ void est_sum_weighted_columns(const est_columns<T> &s, unsigned block)
{
    est_column_place p               = est_find_column(s, block);
    T                sum[EST_NARROW] = {};

    EST_UNROLL(4)
    for (int64_t i = p.first; i < p.end; i += EST_COLUMN_LINES) {
        T v;

        if (p.j >= s.cols) break;
        v = s.x[i * s.cols + p.j];
        for (int e = 0; e < EST_NARROW; e++) {
            if (e < s.n) sum[e] += v * s.by[i * s.n + e];
        }
    }
    EST_UNROLL(4)
    for (int e = 0; e < EST_NARROW; e += EST_COLUMN_SIDE) {
        if (e < s.n) est_keep_columns(s, p, sum + e, e, s.n - e < EST_COLUMN_SIDE ? s.n - e : EST_COLUMN_SIDE);
    }
}

template <typename T>
static __global__ void __launch_bounds__(EST_COLUMN_BLOCK)
    est_sum_columns(const __grid_constant__ est_many<est_columns<T>> m)
{
    unsigned              block;
    const est_columns<T> &s = m.call[est_own_call(m, &block)];

    if (s.by != NULL) {
        est_sum_weighted_columns(s, block);
    } else if (s.a != NULL) {
        est_sum_made_columns(s, block);
    } else if (s.packed) {
        est_sum_own_columns<T, 4>(s, block);
    } else {
        est_sum_own_columns<T, 1>(s, block);
    }
}

/* The chunks of 32 results, each of which has as many threads. */
template <typename T> static __global__ void est_join_columns(const __grid_constant__ est_many<est_columns<T>> m)
{
    __shared__ double     part[EST_COLUMN_LINES][EST_COLUMN_LANES];
    unsigned              block;
    const est_columns<T> &s    = m.call[est_own_call(m, &block)];
    int                   lane = (int)threadIdx.x % EST_COLUMN_LANES, line = (int)threadIdx.x / EST_COLUMN_LANES;
    int64_t               at = (int64_t)block * EST_COLUMN_LANES + lane, count = s.cols * s.n;
    double                total = 0;

    for (int64_t k = line; k < est_column_chunks(s) && at < count; k += EST_COLUMN_LINES)
        total += s.part[k * count + at];
    part[line][lane] = total;
    __syncthreads();
    if (line != 0 || at >= count) return;
    for (int k = 1; k < EST_COLUMN_LINES; k++) total += part[k][lane];
    s.y[at] = (T)total;
}

template <typename T> int est_columns_launch_many(const est_call *c, const est_columns<T> *calls, int n)
{
    typedef est_columns<T> columns;
    est_many<columns>      m = est_many_of(
             calls, n, [](const columns &s) { return est_column_strips(s) * (unsigned)est_column_chunks(s); });
    int error = est_launch_many(c, est_sum_columns<T>, m, EST_COLUMN_BLOCK);

    if (error != 0) return error;
    m = est_many_of(calls, n,
                    [](const columns &s) { return s.part != NULL ? est_blocks(s.cols * s.n, EST_COLUMN_LANES) : 0u; });
    return est_launch_many(c, est_join_columns<T>, m, EST_COLUMN_BLOCK);
}

template <typename T> int est_columns_launch(const est_call *c, const est_columns<T> &s)
{
    return est_batch_add(c, est_columns_launch_many<T>, s,
                         s.part != NULL ? EST_COLUMN_SCRATCH(s.rows, s.cols * s.n) : 0);
}

#endif
