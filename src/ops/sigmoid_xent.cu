/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSigmoidCrossEntropy and EstSigmoidXentAndGrad on a GPU. */
#include <math.h>

#include "cuda/loops.cuh"

struct sigmoid_xent_of {
    template <typename T> __device__ T operator()(T x, T z) const
    {
        return (x > 0 ? x : (T)0) - x * z + log1p(exp(x > 0 ? -x : x));
    }
};

EST_DEFINE_LAUNCHER(sigmoid_xent)
{
    return c->out[0].dtype == EST_F32 ? est_map2_launch<float, float>(c, sigmoid_xent_of())
                                      : est_map2_launch<double, double>(c, sigmoid_xent_of());
}

/* Sigmoid as elementwise.cu has it. */
template <typename T>
static __global__ void sigmoid_xent_both(const T *x, const T *z, const T *dy, T *loss, T *back, int64_t count, T share)
{
    int64_t i = est_thread();

    if (i >= count) return;
    loss[i] = sigmoid_xent_of()(x[i], z[i]);
    back[i] = *dy * share * (1 / (1 + exp(-x[i])) - z[i]);
}

template <typename T> static int launch_both(const est_call *c)
{
    int64_t count = c->out[0].count;
    T       share = c->param[0].i != 0 && count > 0 ? (T)(1 / (double)count) : (T)1;

    return est_launch(c, sigmoid_xent_both<T>, dim3(est_blocks(count)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(c->in[1]), est_data<T>(c->in[2]), est_data<T>(&c->out[0]), est_data<T>(&c->out[1]),
                      count, share);
}

EST_DEFINE_LAUNCHER(sigmoid_xent_and_grad)
{
    return c->out[0].dtype == EST_F32 ? launch_both<float>(c) : launch_both<double>(c);
}
