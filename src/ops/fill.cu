/* SPDX-License-Identifier: Apache-2.0
 *
 * Fill, ZerosLike and OnesLike on a GPU. */
#include "cuda/launch.cuh"

template <typename T> static __global__ void fill_from(T *y, const T *value, int64_t count)
{
    int64_t i = est_thread();

    if (i < count) y[i] = *value;
}

template <typename T> static __global__ void fill_with(T *y, T value, int64_t count)
{
    int64_t i = est_thread();

    if (i < count) y[i] = value;
}

template <typename T> static int launch_from(const est_call *c)
{
    return est_launch(c, fill_from<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(&c->out[0]),
                      est_data<T>(c->in[1]), c->out[0].count);
}

template <typename T> static int launch_with(const est_call *c, T value)
{
    return est_launch(c, fill_with<T>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<T>(&c->out[0]), value,
                      c->out[0].count);
}

static int launch_number(const est_call *c, int value)
{
    switch (c->out[0].dtype) {
    case EST_F32: return launch_with(c, (float)value);
    case EST_F64: return launch_with(c, (double)value);
    case EST_I32: return launch_with(c, (int32_t)value);
    case EST_I64: return launch_with(c, (int64_t)value);
    default: return launch_with(c, (uint8_t)value);
    }
}

EST_DEFINE_LAUNCHER(fill)
{
    size_t bytes = est_element_bytes(c->out[0].dtype);

    return bytes == 8 ? launch_from<uint64_t>(c) : bytes == 4 ? launch_from<uint32_t>(c) : launch_from<uint8_t>(c);
}

EST_DEFINE_LAUNCHER(zeros_like)
{
    return launch_number(c, 0);
}

EST_DEFINE_LAUNCHER(ones_like)
{
    return launch_number(c, 1);
}
