/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of elementwise.def on a GPU. */
#include <math.h>

#include "cuda/loops.cuh"

#define EXP(x)      exp(x)
#define EXPM1(x)    expm1(x)
#define LOG(x)      log(x)
#define LOG1P(x)    log1p(x)
#define TANH(x)     tanh(x)
#define SIGMOID(x)  sigmoid(x)
#define SOFTPLUS(x) softplus(x)
#define ERF(x)      erf(x)
#define SIN(x)      sin(x)
#define COS(x)      cos(x)
#define SQRT(x)     sqrt(x)
#define FLOOR(x)    floor(x)
#define CEIL(x)     ceil(x)
#define RINT(x)     rint(x)
#define ABS(x)      magnitude(x)
#define SELU_S      ((T)1.0507009873554804934193349852946)
#define SELU_A      ((T)(1.0507009873554804934193349852946 * 1.6732632423543772848170429916717))

template <typename T> static __device__ T magnitude(T x)
{
    return x < 0 ? -x : x == 0 ? (T)0 : x;
}

template <typename T> static __device__ T sigmoid(T x)
{
    T e = exp(-magnitude(x));

    return (x < 0 ? e : (T)1) / (1 + e) + (x != x ? x : (T)0);
}

template <typename T> static __device__ T softplus(T x)
{
    return (x > 0 ? x : (T)0) + log1p(exp(-magnitude(x)));
}

/* A functor of each row. */
#define OF_ONE(name, forward)                                                                                          \
    struct name##_of {                                                                                                 \
        template <typename T> __device__ T operator()(T x) const                                                       \
        {                                                                                                              \
            return (T)(forward);                                                                                       \
        }                                                                                                              \
    };
#define OF_TWO(name, forward)                                                                                          \
    struct name##_of {                                                                                                 \
        template <typename T> __device__ T operator()(T a, T b) const                                                  \
        {                                                                                                              \
            return (T)(forward);                                                                                       \
        }                                                                                                              \
    };
#define TEST(name, forward)                                                                                            \
    struct name##_of {                                                                                                 \
        template <typename T> __device__ bool operator()(T x) const                                                    \
        {                                                                                                              \
            return forward;                                                                                            \
        }                                                                                                              \
    };

template <typename F> static int launch_floats(const est_call *c, F f)
{
    return c->in[0]->dtype == EST_F32 ? est_map1_launch<float, float>(c, f) : est_map1_launch<double, double>(c, f);
}

template <typename F> static int launch_signed(const est_call *c, F f)
{
    switch (c->in[0]->dtype) {
    case EST_I32: return est_map1_launch<int32_t, int32_t>(c, f);
    case EST_I64: return est_map1_launch<int64_t, int64_t>(c, f);
    default: return launch_floats(c, f);
    }
}

template <typename F> static int launch_test(const est_call *c, F f)
{
    return c->in[0]->dtype == EST_F32 ? est_map1_launch<float, bool>(c, f) : est_map1_launch<double, bool>(c, f);
}

template <typename F> static int launch_gradient(const est_call *c, F f)
{
    return c->in[0]->dtype == EST_F32 ? est_map2_launch<float, float>(c, f) : est_map2_launch<double, double>(c, f);
}

#define LAUNCH_FLOATS launch_floats
#define LAUNCH_SIGNED launch_signed
#define LAUNCHER(name, launch)                                                                                         \
    EST_DEFINE_LAUNCHER(name)                                                                                          \
    {                                                                                                                  \
        return launch(c, name##_of());                                                                                 \
    }
#define UNARY(name, op, in, out, types, ns, forward, gradient)                                                         \
    OF_ONE(name, forward)                                                                                              \
    LAUNCHER(name, LAUNCH_##types)
#define UNARY_FLAT(name, op, types, ns, forward)                                                                       \
    OF_ONE(name, forward)                                                                                              \
    LAUNCHER(name, LAUNCH_##types)
#define UNARY_TEST(name, op, ns, forward)                                                                              \
    TEST(name, forward)                                                                                                \
    LAUNCHER(name, launch_test)
#define GRADIENT(name, op, a, b, z, ns, forward, gradient_a, gradient_b)                                               \
    OF_TWO(name, forward)                                                                                              \
    LAUNCHER(name, launch_gradient)
#include "ops/elementwise.def"

OF_ONE(logical_not, x ^ 1)

EST_DEFINE_LAUNCHER(logical_not)
{
    return est_map1_launch<uint8_t, uint8_t>(c, logical_not_of());
}
