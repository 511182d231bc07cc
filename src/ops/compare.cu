/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons and logic of two arguments on a GPU. */
#include "cuda/loops.cuh"

#define RELATION(name, expr)                                                                                           \
    struct name##_of {                                                                                                 \
        template <typename T> __device__ uint8_t operator()(T a, T b) const                                            \
        {                                                                                                              \
            return (uint8_t)(expr);                                                                                    \
        }                                                                                                              \
    };                                                                                                                 \
                                                                                                                       \
    EST_DEFINE_LAUNCHER(name)                                                                                          \
    {                                                                                                                  \
        return launch(c, name##_of());                                                                                 \
    }

template <typename F> static int launch(const est_call *c, F f)
{
    switch (c->in[0]->dtype) {
    case EST_F32: return est_map2_launch<float, uint8_t>(c, f);
    case EST_F64: return est_map2_launch<double, uint8_t>(c, f);
    case EST_I32: return est_map2_launch<int32_t, uint8_t>(c, f);
    case EST_I64: return est_map2_launch<int64_t, uint8_t>(c, f);
    default: return est_map2_launch<uint8_t, uint8_t>(c, f);
    }
}

RELATION(equal, a == b)
RELATION(not_equal, a != b)
RELATION(less, a < b)
RELATION(less_equal, a <= b)
RELATION(greater, a > b)
RELATION(greater_equal, a >= b)

struct and_of {
    __device__ uint8_t operator()(uint8_t a, uint8_t b) const
    {
        return a & b;
    }
};
struct or_of {
    __device__ uint8_t operator()(uint8_t a, uint8_t b) const
    {
        return a | b;
    }
};

EST_DEFINE_LAUNCHER(logical_and)
{
    return est_map2_launch<uint8_t, uint8_t>(c, and_of());
}

EST_DEFINE_LAUNCHER(logical_or)
{
    return est_map2_launch<uint8_t, uint8_t>(c, or_of());
}
