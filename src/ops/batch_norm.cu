/* SPDX-License-Identifier: Apache-2.0
 *
 * FusedBatchNormV3 and its gradient on a GPU, in double where sums are made: sums of chunks of rows for each channel,
 * their sum in order, and a pass over the elements. The variance is of differences from the mean, as on the CPU. */
#include <math.h>

#include "cuda/launchers.h"
#include "cuda/reduce.cuh"

#define COLUMNS 32
#define LINES   (EST_BLOCK / COLUMNS)

enum { EPSILON, TRAINING, AVERAGE }; /* in param[], as batch_norm.c has them */

/* A vector of statistics, float32 or float64. */
typedef struct numbers {
    void *data;
    bool  wide;
} numbers;

static numbers numbers_of(const est_view *view)
{
    return numbers{ view->data, view->dtype == EST_F64 };
}

static __device__ double get(numbers v, int64_t i)
{
    return v.wide ? ((const double *)v.data)[i] : (double)((const float *)v.data)[i];
}

static __device__ void put(numbers v, int64_t i, double x)
{
    if (v.wide) {
        ((double *)v.data)[i] = x;
    } else {
        ((float *)v.data)[i] = (float)x;
    }
}

/* Where sums are: two for each channel, then two for each channel and chunk. */
typedef struct sums {
    double *first, *second, *parts;
    int64_t rows, channels;
} sums;

static sums sums_of(const est_call *c, const est_view *x)
{
    sums s = {};

    s.channels = x->shape.dim[3];
    s.rows     = s.channels > 0 ? x->count / s.channels : 0;
    s.first    = (double *)c->scratch;
    s.second   = s.first + s.channels;
    s.parts    = s.second + s.channels;
    return s;
}

/* Of each channel of a chunk: sums of value(row, channel), which gives two. */
template <typename F> static __global__ void chunk_sums(sums s, F value)
{
    __shared__ double part[2][LINES][COLUMNS];
    est_grid_place    at     = est_find_block((unsigned)((s.channels + COLUMNS - 1) / COLUMNS));
    int               column = (int)threadIdx.x % COLUMNS, line = (int)threadIdx.x / COLUMNS;
    int64_t           j = (int64_t)at.across * COLUMNS + column, begin = (int64_t)at.down * EST_COLUMN_CHUNK;
    int64_t           end = begin + EST_COLUMN_CHUNK < s.rows ? begin + EST_COLUMN_CHUNK : s.rows;
    double            a = 0, b = 0;

    for (int64_t i = begin + line; i < end && j < s.channels; i += LINES) value(i, j, &a, &b);
    part[0][line][column] = a;
    part[1][line][column] = b;
    __syncthreads();
    if (line != 0 || j >= s.channels) return;
    for (int k = 1; k < LINES; k++) {
        a += part[0][k][column];
        b += part[1][k][column];
    }
    s.parts[(2 * (int64_t)at.down) * s.channels + j]     = a;
    s.parts[(2 * (int64_t)at.down + 1) * s.channels + j] = b;
}

/* A thread a channel: the sums of the chunks in order, then what is made of them. */
template <typename F> static __global__ void join_sums(sums s, int64_t chunks, F finish)
{
    int64_t j = est_thread();
    double  a = 0, b = 0;

    if (j >= s.channels) return;
    for (int64_t k = 0; k < chunks; k++) {
        a += s.parts[2 * k * s.channels + j];
        b += s.parts[(2 * k + 1) * s.channels + j];
    }
    finish(j, a, b);
}

template <typename F, typename G> static int launch_sums(const est_call *c, const sums &s, F value, G finish)
{
    int64_t chunks = est_blocks(s.rows, EST_COLUMN_CHUNK);
    int error = est_launch(c, chunk_sums<F>, est_grid(est_blocks(s.channels, COLUMNS), (unsigned)chunks), EST_BLOCK, s,
                           value);

    if (error != 0) return error;
    return est_launch(c, join_sums<G>, dim3(est_blocks(s.channels)), EST_BLOCK, s, chunks, finish);
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

template <typename T> struct value_of {
    const T *x;
    int64_t  channels;

    __device__ void operator()(int64_t i, int64_t j, double *a, double *) const
    {
        *a += (double)x[i * channels + j];
    }
};

template <typename T> struct square_of {
    const T *x;
    int64_t  channels;
    numbers  mean;

    __device__ void operator()(int64_t i, int64_t j, double *a, double *) const
    {
        double d = (double)(x[i * channels + j] - (T)get(mean, j));

        *a += d * d;
    }
};

struct keep_mean {
    numbers mean, running, old;
    double  n, f;

    __device__ void operator()(int64_t j, double a, double) const
    {
        put(mean, j, a / n);
        put(running, j, f == 1 ? a / n : (1 - f) * get(old, j) + f * (a / n));
    }
};

struct keep_variance {
    numbers variance, running, old;
    double  n, f;

    __device__ void operator()(int64_t j, double a, double) const
    {
        double v = a / n, unbiased = n > 1 ? v * (n / (n - 1)) : v;

        put(variance, j, v);
        put(running, j, f == 1 ? unbiased : (1 - f) * get(old, j) + f * unbiased);
    }
};

static __global__ void keep_given(numbers mean, numbers variance, numbers out1, numbers out2, numbers out3,
                                  numbers out4, int64_t channels)
{
    int64_t j = est_thread();

    if (j >= channels) return;
    put(out1, j, get(mean, j));
    put(out3, j, get(mean, j));
    put(out2, j, get(variance, j));
    put(out4, j, get(variance, j));
}

template <typename T>
static __global__ void normalize(const T *x, T *y, int64_t count, int64_t channels, numbers mean, numbers variance,
                                 numbers scale, numbers offset, double epsilon)
{
    int64_t i = est_thread(), j;

    if (i >= count) return;
    j    = i % channels;
    y[i] = (x[i] - (T)get(mean, j)) * (T)(get(scale, j) / sqrt(get(variance, j) + epsilon)) + (T)get(offset, j);
}

template <typename T> static int launch_forward(const est_call *c)
{
    const est_view *x    = c->in[0];
    sums            s    = sums_of(c, x);
    T              *data = est_data<T>(x);
    double          n = (double)s.rows, f = c->param[AVERAGE].f;
    int             error = 0;

    if (c->param[TRAINING].i != 0) {
        error = launch_sums(c, s, value_of<T>{ data, s.channels },
                            keep_mean{ numbers_of(&c->out[3]), numbers_of(&c->out[1]), numbers_of(c->in[3]), n, f });
        if (error != 0) return error;
        error = launch_sums(
            c, s, square_of<T>{ data, s.channels, numbers_of(&c->out[3]) },
            keep_variance{ numbers_of(&c->out[4]), numbers_of(&c->out[2]), numbers_of(c->in[4]), n, f });
    } else {
        error = est_launch(c, keep_given, dim3(est_blocks(s.channels)), EST_BLOCK, numbers_of(c->in[3]),
                           numbers_of(c->in[4]), numbers_of(&c->out[1]), numbers_of(&c->out[2]), numbers_of(&c->out[3]),
                           numbers_of(&c->out[4]), s.channels);
    }
    if (error != 0) return error;
    return est_launch(c, normalize<T>, dim3(est_blocks(x->count)), EST_BLOCK, data, est_data<T>(&c->out[0]), x->count,
                      s.channels, numbers_of(&c->out[3]), numbers_of(&c->out[4]), numbers_of(c->in[1]),
                      numbers_of(c->in[2]), c->param[EPSILON].f);
}

EST_DEFINE_LAUNCHER(batch_norm)
{
    return c->in[0]->dtype == EST_F32 ? launch_forward<float>(c) : launch_forward<double>(c);
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

template <typename T> struct gradient_of {
    const T *dy, *x;
    int64_t  channels;
    numbers  mean;

    __device__ void operator()(int64_t i, int64_t j, double *a, double *b) const
    {
        double d = (double)dy[i * channels + j];

        *a += d;
        *b += d * (double)(x[i * channels + j] - (T)get(mean, j));
    }
};

struct keep_gradients {
    sums    s;
    numbers variance, dscale, doffset, none1, none2;
    double  epsilon;

    __device__ void operator()(int64_t j, double a, double b) const
    {
        s.first[j]  = a;
        s.second[j] = b;
        put(dscale, j, b / sqrt(get(variance, j) + epsilon));
        put(doffset, j, a);
        if (j != 0) return;
        put(none1, 0, 0);
        put(none2, 0, 0);
    }
};

template <typename T>
static __global__ void spread(const T *dy, const T *x, T *dx, int64_t count, sums s, numbers mean, numbers variance,
                              numbers scale, double epsilon, bool training)
{
    int64_t i = est_thread(), j;
    double  n = (double)s.rows, r, k1;

    if (i >= count) return;
    j  = i % s.channels;
    r  = 1 / sqrt(get(variance, j) + epsilon);
    k1 = get(scale, j) * r;
    if (training) {
        dx[i] = dy[i] * (T)k1 + (x[i] - (T)get(mean, j)) * (T)(-k1 * r * r * s.second[j] / n) +
                (T)(-k1 * s.first[j] / n);
    } else {
        dx[i] = dy[i] * (T)k1;
    }
}

static __global__ void put_zeros(numbers a, numbers b)
{
    put(a, 0, 0);
    put(b, 0, 0);
}

template <typename T> static int launch_backward(const est_call *c)
{
    const est_view *x  = c->in[1];
    sums            s  = sums_of(c, x);
    T              *dy = est_data<T>(c->in[0]), *data = est_data<T>(x);
    int             error;

    if (s.channels == 0) {
        return est_launch(c, put_zeros, dim3(1), 1, numbers_of(&c->out[3]), numbers_of(&c->out[4]));
    }
    error = launch_sums(c, s, gradient_of<T>{ dy, data, s.channels, numbers_of(c->in[3]) },
                        keep_gradients{ s, numbers_of(c->in[4]), numbers_of(&c->out[1]), numbers_of(&c->out[2]),
                                        numbers_of(&c->out[3]), numbers_of(&c->out[4]), c->param[EPSILON].f });
    if (error != 0) return error;
    return est_launch(c, spread<T>, dim3(est_blocks(x->count)), EST_BLOCK, dy, data, est_data<T>(&c->out[0]), x->count,
                      s, numbers_of(c->in[3]), numbers_of(c->in[4]), numbers_of(c->in[2]), c->param[EPSILON].f,
                      c->param[TRAINING].i != 0);
}

EST_DEFINE_LAUNCHER(batch_norm_grad)
{
    return c->in[1]->dtype == EST_F32 ? launch_backward<float>(c) : launch_backward<double>(c);
}
