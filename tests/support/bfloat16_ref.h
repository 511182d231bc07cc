/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to bfloat16 in double precision, for references. */
#ifndef EST_TESTS_BFLOAT16_REF_H
#define EST_TESTS_BFLOAT16_REF_H

#include <math.h>

/* The nearest number with 8 significant bits, ties to even, found by scaling. */
static inline double bfloat16_ref(double x)
{
    int e;

    if (x == 0 || !isfinite(x)) return x;
    (void)frexp(x, &e);     /* x = m 2^e with m in [0.5, 1) */
    if (e < -125) e = -125; /* subnormal: the last place stays */
    return ldexp(nearbyint(ldexp(x, 8 - e)), e - 8);
}

#endif
