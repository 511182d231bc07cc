/* SPDX-License-Identifier: Apache-2.0
 *
 * AddN on a GPU: all terms of an element in one thread, in order. */
#include "cuda/launch.cuh"
#include "cuda/launchers.h"

template <typename T> struct terms {
    const T *x[EST_ADD_N_MAX];
    int      n;
};

template <typename T> static __global__ void add_terms(terms<T> t, T *y, int64_t count)
{
    int64_t i = est_thread();
    T       sum;

    if (i >= count) return;
    sum = t.x[0][i];
    for (int k = 1; k < t.n; k++) sum += t.x[k][i];
    y[i] = sum;
}

template <typename T> static int launch(const est_call *c)
{
    terms<T> t = {};

    t.n = c->n_in;
    for (int k = 0; k < c->n_in; k++) t.x[k] = est_data<T>(c->in[k]);
    return est_launch(c, add_terms<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, t, est_data<T>(&c->out[0]),
                      c->out[0].count);
}

EST_DEFINE_LAUNCHER(add_n)
{
    switch (c->out[0].dtype) {
    case EST_F32: return launch<float>(c);
    case EST_F64: return launch<double>(c);
    case EST_I32: return launch<uint32_t>(c); /* unsigned: overflow wraps */
    default: return launch<uint64_t>(c);
    }
}
