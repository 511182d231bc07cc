/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSumToShape on a GPU. */
#include "cuda/reduction.cuh"

/* The axes of dy that x has not, or of size 1. */
static uint32_t repeated_axes(const est_shape *dy, const est_shape *x)
{
    int      missing = dy->rank - x->rank;
    uint32_t mask    = 0;

    for (int a = 0; a < dy->rank; a++) {
        if (a < missing || x->dim[a - missing] == 1) mask |= 1u << a;
    }
    return mask;
}

template <typename T> static int launch(est_call *c)
{
    est_axes axes = { NULL, false, 0, repeated_axes(&c->in[0]->shape, &c->in[1]->shape) };

    return est_reduce_launch<est_reduce_sum<T>, T>(c, c->in[0], &c->out[0], axes);
}

EST_DEFINE_LAUNCHER(sum_to_shape)
{
    switch (c->in[0]->dtype) {
    case EST_F32: return launch<float>(c);
    case EST_F64: return launch<double>(c);
    case EST_I32: return launch<uint32_t>(c);
    default: return launch<uint64_t>(c);
    }
}
