/* SPDX-License-Identifier: Apache-2.0
 *
 * EstCheckRange on a GPU: a copy that reports what is out of range. */
#include "cuda/launch.cuh"

static __device__ int64_t report_of(int64_t x)
{
    return x;
}

static __device__ int64_t report_of(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Wide: as errors show a number of type T. */
template <typename T, typename Wide>
static __global__ void check_elements(const T *x, T *y, int64_t count, double low, double high, est_reporter reporter)
{
    int64_t i = est_thread();

    if (i >= count) return;
    if (!((double)x[i] >= low && (double)x[i] <= high)) est_report(reporter, i, report_of((Wide)x[i]), 0);
    y[i] = x[i];
}

template <typename T, typename Wide> static int launch(const est_call *c)
{
    return est_launch(c, check_elements<T, Wide>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(&c->out[0]), c->out[0].count, c->param[0].f, c->param[1].f, est_reporter_of(c));
}

EST_DEFINE_LAUNCHER(check_range)
{
    switch (c->out[0].dtype) {
    case EST_F32: return launch<float, double>(c);
    case EST_F64: return launch<double, double>(c);
    case EST_I32: return launch<int32_t, int64_t>(c);
    default: return launch<int64_t, int64_t>(c);
    }
}
