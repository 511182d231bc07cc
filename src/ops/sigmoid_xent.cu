/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSigmoidCrossEntropy on a GPU. */
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
