/* SPDX-License-Identifier: Apache-2.0
 *
 * ClipByValue on a GPU. */
#include "cuda/loops.cuh"

template <typename T>
static __global__ void clip_elements(const T *t, const T *low, const T *high, T *out, int64_t count, est_places p)
{
    int64_t i = est_thread(), at[3];
    T       x, lo, hi;

    if (i >= count) return;
    est_find_places(p, 3, i, at);
    x      = t[at[0]];
    lo     = low[at[1]];
    hi     = high[at[2]];
    out[i] = x < lo ? lo : x > hi ? hi : x; /* a NaN stays one */
}

template <typename T> static int launch(const est_call *c)
{
    const est_shape *shapes[3] = { &c->in[0]->shape, &c->in[1]->shape, &c->in[2]->shape };

    return est_launch(c, clip_elements<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(c->in[0]),
                      est_data<T>(c->in[1]), est_data<T>(c->in[2]), est_data<T>(&c->out[0]), c->out[0].count,
                      est_places_of(shapes, 3, &c->out[0].shape));
}

EST_DEFINE_LAUNCHER(clip_by_value)
{
    switch (c->out[0].dtype) {
    case EST_F32: return launch<float>(c);
    case EST_F64: return launch<double>(c);
    case EST_I32: return launch<int32_t>(c);
    default: return launch<int64_t>(c);
    }
}
