/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSigmoidCrossEntropy and EstSigmoidXentAndGrad on a GPU. */
#include <math.h>

#include "cuda/loops.cuh"
#include "cuda/reduction.cuh"

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

/* Sigmoid as elementwise.cu has it. more: added to the logits, or NULL. R makes the total. */
template <typename R, typename T>
static __global__ void __launch_bounds__(EST_CUT_BLOCK)
    sigmoid_xent_both(const T *logits, const T *more, const T *z, const T *dy, T *loss, T *back, int64_t count, T share,
                      T *total, double *part, uint32_t *counter)
{
    double own = 0;

    for (int64_t i = est_thread(); i < count; i += (int64_t)gridDim.x * blockDim.x) {
        T x = more != NULL ? logits[i] + more[i] : logits[i], l = sigmoid_xent_of()(x, z[i]);

        loss[i] = l;
        back[i] = *dy * share * (1 / (1 + exp(-x)) - z[i]);
        own += (double)l;
    }
    est_reduce_grid<R>(own, part, counter, total, count);
}

template <typename T> static int launch_both(const est_call *c)
{
    int64_t        count = c->out[0].count;
    bool           mean  = c->param[0].i != 0;
    T              share = mean && count > 0 ? (T)(1 / (double)count) : (T)1;
    est_reduce_cut cut   = est_reduce_cut_of(count);

    return est_launch(c, mean ? sigmoid_xent_both<est_reduce_mean<T>, T> : sigmoid_xent_both<est_reduce_sum<T>, T>,
                      dim3(cut.blocks), cut.block, est_data<T>(c->in[0]),
                      c->n_in > 3 ? est_data<T>(c->in[3]) : (const T *)NULL, est_data<T>(c->in[1]),
                      est_data<T>(c->in[2]), est_data<T>(&c->out[0]), est_data<T>(&c->out[1]), count, share,
                      est_data<T>(&c->out[2]), (double *)c->scratch, c->counters);
}

EST_DEFINE_LAUNCHER(sigmoid_xent_and_grad)
{
    return c->out[0].dtype == EST_F32 ? launch_both<float>(c) : launch_both<double>(c);
}
