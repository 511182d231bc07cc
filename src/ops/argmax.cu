/* SPDX-License-Identifier: Apache-2.0
 *
 * ArgMax and ArgMin on a GPU: a warp a result. The axis may be known to the device alone. */
#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"

struct arg_call {
    est_shape   x;
    const void *axis;
    bool        wide, out_wide;
    void       *out;
    int64_t     count;
};

/* The best element so far and where it is; below 0: none. */
template <typename V> struct arg_best {
    V       value;
    int64_t at;
};

/* Of equal ones the first; NaN never wins. */
template <typename V, bool MOST> static __device__ bool beats(arg_best<V> a, arg_best<V> b)
{
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;

    if (a.at < 0 || b.at < 0) return a.at >= 0;
    if (a_nan || b_nan) return a_nan == b_nan ? a.at < b.at : b_nan;
    if (a.value == b.value) return a.at < b.at;
    return MOST ? a.value > b.value : a.value < b.value;
}

/* V: T, wide enough to be shuffled. */
template <typename T, typename V, bool MOST>
static __global__ void find_best(const T *x, const __grid_constant__ arg_call c)
{
    int64_t     i = est_thread() / EST_WARP, inner = 1, outer, n;
    int         lane = (int)threadIdx.x % EST_WARP, axis = (int)est_index_at(c.axis, c.wide, 0);
    arg_best<V> best = { 0, -1 };

    if (i >= c.count) return; /* the whole warp */
    if (axis < 0) axis += c.x.rank;
    for (int a = axis + 1; a < c.x.rank; a++) inner *= c.x.dim[a];
    n     = c.x.dim[axis];
    outer = est_divide(i, inner);
    x += outer * n * inner + i - outer * inner;
    for (int64_t k = lane; k < n; k += EST_WARP) {
        arg_best<V> next = { (V)x[k * inner], k };

        if (beats<V, MOST>(next, best)) best = next;
    }
    for (int half = EST_WARP / 2; half > 0; half /= 2) {
        arg_best<V> other = { __shfl_xor_sync(0xFFFFFFFFu, best.value, half),
                              __shfl_xor_sync(0xFFFFFFFFu, best.at, half) };

        if (beats<V, MOST>(other, best)) best = other;
    }
    if (lane != 0) return;
    if (c.out_wide) {
        ((int64_t *)c.out)[i] = best.at;
    } else {
        ((int32_t *)c.out)[i] = (int32_t)best.at;
    }
}

template <typename T, typename V, bool MOST> static int launch_as(const est_call *c)
{
    arg_call a = { c->in[0]->shape, c->in[1]->data, c->in[1]->dtype == EST_I64, c->out[0].dtype == EST_I64,
                   c->out[0].data,  c->out[0].count };

    return est_launch(c, find_best<T, V, MOST>, dim3(est_blocks(a.count * EST_WARP)), EST_BLOCK, est_data<T>(c->in[0]),
                      a);
}

template <bool MOST> static int launch(const est_call *c)
{
    switch (c->in[0]->dtype) {
    case EST_F32: return launch_as<float, float, MOST>(c);
    case EST_F64: return launch_as<double, double, MOST>(c);
    case EST_I32: return launch_as<int32_t, int64_t, MOST>(c);
    case EST_I64: return launch_as<int64_t, int64_t, MOST>(c);
    default: return launch_as<uint8_t, int64_t, MOST>(c);
    }
}

EST_DEFINE_LAUNCHER(argmax)
{
    return launch<true>(c);
}

EST_DEFINE_LAUNCHER(argmin)
{
    return launch<false>(c);
}
