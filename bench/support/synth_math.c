/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithms, powers and the logistic function in integers; tables for Zipf's distribution. */
#include "support/synth_math.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"

#define LOG_BITS 24
#define LOG2_E   6196328019u         /* Q32 */
#define BOX      ((uint64_t)1 << 32) /* what a box holds */

__extension__ typedef unsigned __int128 wide;

/* clang-format off */
/* 2^-(2^-1), 2^-(2^-2) and so on, Q64. */
static const uint64_t roots_of_half[LOG_BITS] = {
    0xb504f333f9de6484, 0xd744fccad69d6af4, 0xeac0c6e7dd24392f, 0xf5257d152486cc2c,
    0xfa83b2db722a033a, 0xfd3e0c0cf486c175, 0xfe9e115c7b8f884c, 0xff4ecb59511ec8a5,
    0xffa756521c8daed2, 0xffd3a751c0f7e10c, 0xffe9d2b2f7db2756, 0xfff4e91bff1b8c3e,
    0xfffa747ea0040664, 0xfffd3a3b7814eb54, 0xfffe9d1cc60ddab1, 0xffff4e8e25879bfa,
    0xffffa7470363f451, 0xffffd3a37dda0313, 0xffffe9d1bdf703af, 0xfffff4e8debe025e,
    0xfffffa746f4fa150, 0xfffffd3a37a3f8b0, 0xfffffe9d1bd1065a, 0xffffff4e8de845ae,
};
/* clang-format on */

/* Squaring a number from 1 to 2 doubles its logarithm, which gives its bits one by one. */
uint32_t synth_log2(uint32_t x)
{
    uint32_t whole = 31 - (uint32_t)__builtin_clz(x);
    uint64_t m     = (uint64_t)x << (63 - whole); /* Q63 */
    uint32_t log   = whole;

    for (int i = 0; i < LOG_BITS; i++) {
        wide square = (wide)m * m >> 63;
        bool two    = square >> 64 != 0;

        m   = (uint64_t)(square >> two);
        log = log << 1 | two;
    }
    return log;
}

uint64_t synth_exp2_minus(uint64_t x)
{
    uint64_t whole = x >> LOG_BITS, power = (uint64_t)1 << 63;

    if (whole > 63) return 0;
    for (int i = 0; i < LOG_BITS; i++) {
        if (x >> (LOG_BITS - 1 - i) & 1) power = (uint64_t)((wide)power * roots_of_half[i] >> 64);
    }
    return power >> whole;
}

uint32_t synth_logistic(int32_t z)
{
    uint64_t one = (uint64_t)1 << 40; /* Q40 */
    uint64_t e   = synth_exp2_minus((uint64_t)llabs(z) * LOG2_E >> 24) >> 23;
    uint32_t p   = (uint32_t)((one << SYNTH_P_BITS) / (one + e)); /* from a half up */

    if (p > SYNTH_P_ONE - 1) p = SYNTH_P_ONE - 1;
    return z >= 0 ? p : SYNTH_P_ONE - p;
}

/* --- Zipf's distribution ------------------------------------------------------------------------------------------ */

/* What each rank is worth, n boxes in all. */
static void share_out(uint64_t *shares, uint32_t n, uint64_t exponent)
{
    wide     sum  = 0;
    uint64_t left = n * BOX;

    for (uint32_t i = 0; i < n; i++) {
        shares[i] = synth_exp2_minus((uint64_t)((wide)synth_log2(i + 1) * exponent >> 32));
        sum += shares[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        shares[i] = (uint64_t)((wide)shares[i] * (n * BOX) / sum);
        left -= shares[i];
    }
    shares[0] += left; /* of rounding: less than n of n 2^32 */
}

/* Fills up the box of a rank that is worth less with a rank that is worth more, until all are full. The waiting ranks
 * of the first kind are at the beginning of `waiting`, those of the second at its end. */
static void fill_boxes(synth_box *boxes, uint64_t *shares, uint32_t *waiting, uint32_t n)
{
    uint32_t n_less = 0, more = n;

    for (uint32_t i = 0; i < n; i++) {
        boxes[i].other = i; /* what is left at the end is worth a box */
        if (shares[i] < BOX) {
            waiting[n_less++] = i;
        } else {
            waiting[--more] = i;
        }
    }
    while (n_less > 0 && more < n) {
        uint32_t small = waiting[--n_less], large = waiting[more];

        boxes[small] = (synth_box){ (uint32_t)shares[small], large };
        shares[large] -= BOX - shares[small];
        if (shares[large] < BOX) {
            waiting[n_less++] = large;
            more++;
        }
    }
}

est_status synth_zipf_init(synth_zipf *zipf, uint32_t n, double exponent)
{
    synth_box *boxes   = est_zalloc(n * sizeof *boxes);
    uint64_t  *shares  = est_alloc(n * sizeof *shares);
    uint32_t  *waiting = est_alloc(n * sizeof *waiting);
    bool       ok      = boxes != NULL && shares != NULL && waiting != NULL;

    if (ok) {
        share_out(shares, n, (uint64_t)(exponent * 0x1p32)); /* exact but for bits below 2^-32 */
        fill_boxes(boxes, shares, waiting, n);
        *zipf = (synth_zipf){ boxes, n };
    } else {
        est_free(boxes);
    }
    est_free(shares);
    est_free(waiting);
    return ok ? EST_OK : est_no_memory();
}

void synth_zipf_clear(synth_zipf *zipf)
{
    est_free(zipf->boxes);
    *zipf = (synth_zipf){ 0 };
}
