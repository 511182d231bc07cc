/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing variables on a GPU. Nothing is written after a failure. */
#include "cuda/launch.cuh"

struct assign_of {
    template <typename T> __device__ T operator()(T, T x) const
    {
        return x;
    }
};
struct assign_add_of {
    template <typename T> __device__ T operator()(T w, T x) const
    {
        return w + x;
    }
};
struct assign_sub_of {
    template <typename T> __device__ T operator()(T w, T x) const
    {
        return w - x;
    }
};

/* w[i] = f(w[i], x[i * step]) */
template <typename T, typename F>
static __global__ void write_variable(T *w, const T *x, int64_t count, int64_t step, est_reporter reporter, F f)
{
    int64_t i = est_thread();

    if (i < count && !est_has_failed(reporter)) w[i] = f(w[i], x[i * step]);
}

template <typename T, typename F> static int launch(const est_call *c, int64_t step, F f)
{
    const est_view *w = &est_call_variable(c, 0)->value;

    if (w->data == c->in[1]->data) return 0; /* the variable's own value */
    return est_launch(c, write_variable<T, F>, dim3(est_blocks(w->count)), EST_BLOCK, est_data<T>(w),
                      est_data<T>(c->in[1]), w->count, step, est_reporter_of(c), f);
}

static int launch_bytes(const est_call *c, int64_t step)
{
    size_t bytes = est_element_bytes(c->in[1]->dtype);

    return bytes == 8   ? launch<uint64_t>(c, step, assign_of())
           : bytes == 4 ? launch<uint32_t>(c, step, assign_of())
                        : launch<uint8_t>(c, step, assign_of());
}

template <typename F> static int launch_numbers(const est_call *c, F f)
{
    switch (c->in[1]->dtype) {
    case EST_F32: return launch<float>(c, 1, f);
    case EST_F64: return launch<double>(c, 1, f);
    case EST_I32: return launch<uint32_t>(c, 1, f); /* unsigned: integers wrap around */
    default: return launch<uint64_t>(c, 1, f);
    }
}

EST_DEFINE_LAUNCHER(assign_variable)
{
    return launch_bytes(c, 1);
}

EST_DEFINE_LAUNCHER(assign_fill)
{
    return launch_bytes(c, 0);
}

EST_DEFINE_LAUNCHER(assign_add_variable)
{
    return launch_numbers(c, assign_add_of());
}

EST_DEFINE_LAUNCHER(assign_sub_variable)
{
    return launch_numbers(c, assign_sub_of());
}
