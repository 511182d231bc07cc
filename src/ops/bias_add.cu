/* SPDX-License-Identifier: Apache-2.0
 *
 * BiasAdd and BiasAddGrad on a GPU. */
#include "cuda/columns.cuh"

struct plus {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};

EST_DEFINE_LAUNCHER(bias_add)
{
    switch (c->out[0].dtype) {
    case EST_F32: return est_map2_launch<float, float>(c, plus());
    case EST_F64: return est_map2_launch<double, double>(c, plus());
    case EST_I32: return est_map2_launch<uint32_t, uint32_t>(c, plus()); /* unsigned: overflow wraps */
    default: return est_map2_launch<uint64_t, uint64_t>(c, plus());
    }
}

template <typename T> static int launch_sums(const est_call *c)
{
    int64_t cols = c->out[0].count, rows = cols > 0 ? c->in[0]->count / cols : 0;

    return est_columns_launch(
        c, est_columns_of(est_data<T>(c->in[0]), (const T *)NULL, est_data<T>(&c->out[0]), rows, cols, c->scratch));
}

EST_DEFINE_LAUNCHER(bias_add_grad)
{
    return c->out[0].dtype == EST_F32 ? launch_sums<float>(c) : launch_sums<double>(c);
}
