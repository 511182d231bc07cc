/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of binary.def on a GPU. Divisions and powers of integers, which can fail, stay on the host. */
#include <math.h>

#include "cuda/loops.cuh"

#define FLOOR(x)  floor(x)
#define POW(a, b) pow(a, b)

static __device__ double floored_remainder_float(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define BINARY_FLOATS(name, expr)                                                                                      \
    struct name##_floats {                                                                                             \
        template <typename T> __device__ T operator()(T a, T b) const                                                  \
        {                                                                                                              \
            return (T)(expr);                                                                                          \
        }                                                                                                              \
    };
/* Unsigned, so that an overflow wraps: only the order of numbers needs the sign. */
#define BINARY_INTS(name, expr)                                                                                        \
    struct name##_ints {                                                                                               \
        template <typename T> __device__ T operator()(T a, T b) const                                                  \
        {                                                                                                              \
            return (T)(expr);                                                                                          \
        }                                                                                                              \
    };
#include "ops/binary.def"

template <typename F> static int launch_floats(const est_call *c, F f)
{
    return c->in[0]->dtype == EST_F32 ? est_map2_launch<float, float>(c, f) : est_map2_launch<double, double>(c, f);
}

#define WITH_INTS(name, T32, T64)                                                                                      \
    EST_DEFINE_LAUNCHER(name)                                                                                          \
    {                                                                                                                  \
        if (c->in[0]->dtype == EST_I32) return est_map2_launch<T32, T32>(c, name##_ints());                            \
        if (c->in[0]->dtype == EST_I64) return est_map2_launch<T64, T64>(c, name##_ints());                            \
        return launch_floats(c, name##_floats());                                                                      \
    }
#define ONLY_FLOATS(name)                                                                                              \
    EST_DEFINE_LAUNCHER(name)                                                                                          \
    {                                                                                                                  \
        return launch_floats(c, name##_floats());                                                                      \
    }
WITH_INTS(add, uint32_t, uint64_t)
WITH_INTS(sub, uint32_t, uint64_t)
WITH_INTS(mul, uint32_t, uint64_t)
WITH_INTS(squared_difference, uint32_t, uint64_t)
WITH_INTS(maximum, int32_t, int64_t)
WITH_INTS(minimum, int32_t, int64_t)
ONLY_FLOATS(real_div)
ONLY_FLOATS(div_no_nan)
ONLY_FLOATS(floor_div)
ONLY_FLOATS(floor_mod)
ONLY_FLOATS(pow)
