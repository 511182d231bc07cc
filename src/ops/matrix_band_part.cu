/* SPDX-License-Identifier: Apache-2.0
 *
 * MatrixBandPart on a GPU. How wide the band is may be known to the device alone. */
#include "cuda/strided.cuh"

struct band_limits {
    const void  *lower, *upper;
    bool         wide;
    int64_t      rows, cols; /* of a matrix */
    est_reporter reporter;
};

/* Below 0 a limit is none; one that is larger than the matrices is reported. */
static __device__ int64_t band_limit(const band_limits &b, const void *limit, int which, int64_t most)
{
    int64_t n = est_index_at(limit, b.wide, 0);

    if (n > most && blockIdx.x == 0 && threadIdx.x == 0) est_report(b.reporter, which, n, most);
    return n < 0 ? most : n;
}

template <typename W> static __global__ void keep_band(const W *in, W *out, int64_t count, band_limits b)
{
    int64_t i = est_thread(), line = est_divide(i, b.cols), col = i - line * b.cols;
    int64_t row   = line - est_divide(line, b.rows) * b.rows;
    int64_t lower = band_limit(b, b.lower, 0, b.rows), upper = band_limit(b, b.upper, 1, b.cols);

    if (i < count) out[i] = row - col <= lower && col - row <= upper ? in[i] : (W)0;
}

template <typename W> static int launch(const est_call *c)
{
    const est_shape &s = c->in[0]->shape;
    band_limits      b = { c->in[1]->data,    c->in[2]->data,    c->in[1]->dtype == EST_I64,
                           s.dim[s.rank - 2], s.dim[s.rank - 1], est_reporter_of(c) };

    return est_launch(c, keep_band<W>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<W>(c->in[0]),
                      est_data<W>(&c->out[0]), c->out[0].count, b);
}

EST_DEFINE_LAUNCHER(matrix_band_part)
{
    return EST_BY_WIDTH(c->out[0].dtype, launch, c);
}
