/* SPDX-License-Identifier: Apache-2.0
 *
 * Cast on a GPU. */
#include "cuda/loops.cuh"

template <typename To> struct cast_to {
    template <typename From> __device__ To operator()(From x) const
    {
        return (To)x;
    }
};
template <> struct cast_to<bool> {
    template <typename From> __device__ bool operator()(From x) const
    {
        return x != 0;
    }
};
/* A float that no integer holds, also NaN, becomes the least one, as on the CPU. */
template <typename To> struct cast_to_int {
    template <typename From> __device__ To operator()(From x) const
    {
        return (To)x;
    }
    __device__ To operator()(float x) const
    {
        return held(x);
    }
    __device__ To operator()(double x) const
    {
        return held(x);
    }
    template <typename From> static __device__ To held(From x)
    {
        const From least = (From)(sizeof(To) == 4 ? -0x1p31 : -0x1p63);

        return (To)(x >= least && x < -least ? x : least);
    }
};
template <> struct cast_to<int32_t> : cast_to_int<int32_t> {
};
template <> struct cast_to<int64_t> : cast_to_int<int64_t> {
};

template <typename From> static int launch(const est_call *c)
{
    switch (c->out[0].dtype) {
    case EST_F32: return est_map1_launch<From, float>(c, cast_to<float>());
    case EST_F64: return est_map1_launch<From, double>(c, cast_to<double>());
    case EST_I32: return est_map1_launch<From, int32_t>(c, cast_to<int32_t>());
    case EST_I64: return est_map1_launch<From, int64_t>(c, cast_to<int64_t>());
    case EST_U8: return est_map1_launch<From, uint8_t>(c, cast_to<uint8_t>());
    default: return est_map1_launch<From, bool>(c, cast_to<bool>());
    }
}

EST_DEFINE_LAUNCHER(cast)
{
    switch (c->in[0]->dtype) {
    case EST_F32: return launch<float>(c);
    case EST_F64: return launch<double>(c);
    case EST_I32: return launch<int32_t>(c);
    case EST_I64: return launch<int64_t>(c);
    default: return launch<uint8_t>(c); /* bool is a byte, 0 or 1 */
    }
}
