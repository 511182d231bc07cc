/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape and Size on a GPU: numbers of the recording. */
#include "cuda/launch.cuh"

template <typename T> static __global__ void put_numbers(T *out, est_shape numbers)
{
    int i = (int)threadIdx.x;

    if (i < numbers.rank) out[i] = (T)numbers.dim[i];
}

/* The first `rank` of them. */
static int put(const est_call *c, const est_shape &numbers)
{
    return c->out[0].dtype == EST_I32
               ? est_launch(c, put_numbers<int32_t>, dim3(1), 32, est_data<int32_t>(&c->out[0]), numbers)
               : est_launch(c, put_numbers<int64_t>, dim3(1), 32, est_data<int64_t>(&c->out[0]), numbers);
}

EST_DEFINE_LAUNCHER(shape)
{
    return put(c, c->in[0]->shape);
}

EST_DEFINE_LAUNCHER(size)
{
    est_shape one = {};

    one.rank   = 1;
    one.dim[0] = c->in[0]->count;
    return put(c, one);
}
