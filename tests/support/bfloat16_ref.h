/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to bfloat16 in double precision, for references. */
#ifndef EST_TESTS_BFLOAT16_REF_H
#define EST_TESTS_BFLOAT16_REF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The nearest number with 8 significant bits, ties to even, found by scaling. */
static inline double bfloat16_ref(double x)
{
    int e;

    if (x == 0 || !isfinite(x)) return x;
    (void)frexp(x, &e);     /* x = m 2^e with m in [0.5, 1) */
    if (e < -125) e = -125; /* subnormal: the last place stays */
    return ldexp(nearbyint(ldexp(x, 8 - e)), e - 8);
}

/* Byte `which` of two, lower first, of a number that is rounded so; and the number that two bytes are. */
static inline int bfloat16_byte(double x, int which)
{
    float    rounded = (float)bfloat16_ref(x);
    uint32_t bits;

    memcpy(&bits, &rounded, sizeof bits);
    return (int)(bits >> (16 + 8 * which) & 0xff);
}

static inline double bfloat16_of_bytes(double low, double high)
{
    uint32_t bits = (uint32_t)low << 16 | (uint32_t)high << 24;
    float    x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
