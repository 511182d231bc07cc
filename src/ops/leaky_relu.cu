/* SPDX-License-Identifier: Apache-2.0
 *
 * LeakyRelu and LeakyReluGrad on a GPU: the value where the features are above 0, alpha times it elsewhere. */
#include "cuda/loops.cuh"

template <typename T> struct leaky {
    T alpha;

    __device__ T operator()(T v) const
    {
        return v > 0 ? v : v * alpha;
    }
    __device__ T operator()(T v, T sign) const
    {
        return sign > 0 ? v : v * alpha;
    }
};

EST_DEFINE_LAUNCHER(leaky_relu)
{
    return c->out[0].dtype == EST_F32 ? est_map1_launch<float, float>(c, leaky<float>{ (float)c->param[0].f })
                                      : est_map1_launch<double, double>(c, leaky<double>{ c->param[0].f });
}

EST_DEFINE_LAUNCHER(leaky_relu_grad)
{
    return c->out[0].dtype == EST_F32 ? est_map2_launch<float, float>(c, leaky<float>{ (float)c->param[0].f })
                                      : est_map2_launch<double, double>(c, leaky<double>{ c->param[0].f });
}
