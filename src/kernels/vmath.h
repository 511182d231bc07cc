/* SPDX-License-Identifier: Apache-2.0
 *
 * Float versions of the usual functions that a compiler can vectorise: plain arithmetic, no branches, no tables, no
 * calls. A loop over est_expf runs eight elements at a time with AVX2, where one over expf makes a call per element.
 *
 * Results are within 2 ulp of the exact ones (3 for tanh and sigmoid) over the whole range, with infinities, NaN and
 * denormal results as libm gives them; tests/kernels/vmath.c checks that. The polynomials are minimax fits; the comment
 * at each says of what and where.
 *
 * Conditions are written as `test ? a : b` with both sides harmless, so that they become blends; a NaN falls through
 * every comparison to the side that keeps it. */
#ifndef EST_KERNELS_VMATH_H
#define EST_KERNELS_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* In front of a loop whose iterations touch only their own elements: an output may be the very memory of an input, and
 * the compiler need not test for anything in between. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops that call libm stay as they are */
#define EST_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EST_INDEPENDENT _Pragma("GCC ivdep")
#endif

static inline int32_t est_float_bits(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float est_float_from_bits(int32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n for -126 <= n <= 127. */
static inline float est_pow2f(int32_t n)
{
    return est_float_from_bits((int32_t)((uint32_t)(n + 127) << 23));
}

/* ln 2 in two parts: the first has few bits, so that n * EST_LN2_HI is exact for every exponent n. */
#define EST_LN2_HI 0.693145751953125f
#define EST_LN2_LO 1.42860682030941723e-6f

/* x = n ln 2 + r with |r| <= ln(2) / 2. n is rounded by adding 1.5 * 2^23, which leaves no bits for a fraction. */
static inline float est_exp_reduce(float x, int32_t *n)
{
    const float round = 12582912.0f;
    float       whole = x * 1.44269504088896341f + round;

    *n = est_float_bits(whole) - est_float_bits(round);
    whole -= round;
    return (x - whole * EST_LN2_HI) - whole * EST_LN2_LO;
}

/* (exp(r) - 1 - r) / r^2 for |r| <= 0.347. */
static inline float est_exp_poly(float r)
{
    float p = 0.0001991431121f;

    p = p * r + 0.0013941126195f;
    p = p * r + 0.0083332728137f;
    p = p * r + 0.041666353253f;
    p = p * r + 0.16666666818f;
    return p * r + 0.50000000467f;
}

static inline float est_expf(float x)
{
    int32_t n, half;
    float   r;

    x    = x > 89.0f ? 89.0f : x; /* exp(89) is infinite already, exp(-104) already 0 */
    x    = x < -104.0f ? -104.0f : x;
    r    = est_exp_reduce(x, &n);
    r    = 1.0f + (r + r * r * est_exp_poly(r));
    half = n >> 1; /* two factors, so that neither leaves the range when the result is denormal or infinite */
    return r * est_pow2f(half) * est_pow2f(n - half);
}

/* exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), at half scale because 2^128 is not a float. */
static inline float est_expm1f(float x)
{
    int32_t n;
    float   r, half, y;

    y    = x > 89.0f ? 89.0f : x;
    y    = y < -20.0f ? -20.0f : y; /* rounds to -1 */
    r    = est_exp_reduce(y, &n);
    half = est_pow2f(n - 1);
    y    = 2.0f * (half * (r + r * r * est_exp_poly(r)) + (half - 0.5f));
    return x == 0.0f ? x : y; /* keeps -0 */
}

/* k ln 2 + log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2): f - f^2/2 + f^3 p(f). */
static inline float est_log_poly(float f, float k)
{
    float p = 0.069153366441f, square = f * f;

    p = p * f - 0.11789732149f;
    p = p * f + 0.11872945459f;
    p = p * f - 0.12384358784f;
    p = p * f + 0.14218664321f;
    p = p * f - 0.16669250489f;
    p = p * f + 0.20002226252f;
    p = p * f - 0.249999866f;
    p = p * f + 0.33333310446f;
    p = p * f * square + k * EST_LN2_LO;
    return k * EST_LN2_HI + (f + (p - 0.5f * square));
}

/* The exponent k for which x 2^-k is in [sqrt(1/2), sqrt(2)); x must be normal. */
static inline int32_t est_log_exponent(float x)
{
    return (int32_t)((uint32_t)est_float_bits(x) - 0x3f3504f3u) >> 23;
}

/* x 2^-k. Unsigned, because x may be a NaN or negative, whose result nobody looks at. */
static inline float est_log_mantissa(float x, int32_t k)
{
    return est_float_from_bits((int32_t)((uint32_t)est_float_bits(x) - ((uint32_t)k << 23)));
}

static inline float est_logf(float x)
{
    float   normal = x < 0x1p-126f ? x * 0x1p23f : x;
    int32_t k      = est_log_exponent(normal);
    float   f      = est_log_mantissa(normal, k) - 1.0f;
    float   y      = est_log_poly(f, (float)(x < 0x1p-126f ? k - 23 : k));

    y = x < INFINITY ? y : x; /* infinity and NaN as they are */
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f ? NAN : y;
}

/* log(1 + x): with k from the rounded sum, f = x 2^-k + (2^-k - 1) is exact enough for every x. */
static inline float est_log1pf(float x)
{
    float   sum   = 1.0f + x;
    int32_t k     = est_log_exponent(sum);
    float   scale = est_pow2f(k > 100 ? -100 : -k);
    float   small = x * scale + (scale - 1.0f);
    float   large = est_log_mantissa(sum, k) - 1.0f; /* the 1 no longer counts */
    float   y     = est_log_poly(k > 30 ? large : small, (float)k);

    y = x < INFINITY ? y : x;
    y = x == -1.0f ? -INFINITY : y;
    y = x == 0.0f ? x : y;
    return x < -1.0f ? NAN : y;
}

/* tanh |x| = -t / (2 + t) with t = expm1(-2|x|), which keeps small x exact and large x finite. */
static inline float est_tanhf(float x)
{
    float t = est_expm1f(-2.0f * fabsf(x));

    return copysignf(t / (2.0f + t), x);
}

/* 1 / (1 + exp(-x)), with exp of a negative number only: it cannot overflow and small results keep their digits. */
static inline float est_sigmoidf(float x)
{
    float e = est_expf(-fabsf(x));

    return (x < 0.0f ? e : 1.0f) / (1.0f + e) + (x != x ? x : 0.0f);
}

/* log(1 + exp(x)). */
static inline float est_softplusf(float x)
{
    return (x > 0.0f ? x : 0.0f) + est_log1pf(est_expf(-fabsf(x)));
}

/* erf: x + x p(x^2) up to 0.93, then 1 - exp(-q(|x|)) with q = -log(erfc). */
static inline float est_erff(float x)
{
    float a = fabsf(x), square = x * x, p, q;

    p = 8.3452181938e-5f;
    p = p * square - 0.0008137435747f;
    p = p * square + 0.0052006341199f;
    p = p * square - 0.026859270696f;
    p = p * square + 0.1128369394f;
    p = p * square - 0.37612633697f;
    p = p * square + 0.12837916664f;
    p = x + x * p;

    a = a > 4.0f ? 4.0f : a; /* erf(4) rounds to 1 */
    q = -0.00019380828015f;
    q = q * a + 0.0030224525263f;
    q = q * a - 0.022144665359f;
    q = q * a + 0.10376211791f;
    q = q * a + 0.63737395202f;
    q = q * a + 1.1275626518f;
    q = q * a + 0.00022280255593f;
    q = copysignf(1.0f - est_expf(-q), x);
    return fabsf(x) > 0.93f ? q : p;
}

#endif
