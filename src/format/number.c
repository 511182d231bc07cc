/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from text, and as text. Up to eight characters are handled as one 64-bit word. Beyond that a decimal number
 * is an integer w times a power of ten, and there are three ways to round it right:
 *
 *   - w and the power are exact in float64: one multiplication or division (Clinger);
 *   - w has up to 19 digits and the power is at most 27: 5^27 fits 64 bits, so that product or quotient are found
 *     exactly in 128 bits and rounded once;
 *   - the rest goes to the C library, rewritten without a decimal point, which is all that a locale could change. */
#include "format/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/wire.h"

#define WORD_DIGITS   8
#define W_DIGITS_MAX  19 /* always fit 64 bits */
#define CLINGER_EXP   22 /* 10^22 is exact in float64 */
#define EXACT_EXP     27 /* 5^27 fits 64 bits */
#define F64_EXACT_MAX (1LL << 53)
#define LONG_DIGITS   800        /* more than decide the rounding of any float64 */
#define EXPONENT_MAX  1000000000 /* far beyond what is not zero or infinite, for any text that fits memory */

#define ONES        0x0101010101010101u
#define ASCII_ZEROS (0x30 * ONES)
#define HIGH_HALVES (0xf0 * ONES)

__extension__ typedef unsigned __int128 wide;

static const uint64_t powers_of_five[EXACT_EXP + 1] = {
    1u,
    5u,
    25u,
    125u,
    625u,
    3125u,
    15625u,
    78125u,
    390625u,
    1953125u,
    9765625u,
    48828125u,
    244140625u,
    1220703125u,
    6103515625u,
    30517578125u,
    152587890625u,
    762939453125u,
    3814697265625u,
    19073486328125u,
    95367431640625u,
    476837158203125u,
    2384185791015625u,
    11920928955078125u,
    59604644775390625u,
    298023223876953125u,
    1490116119384765625u,
    7450580596923828125u,
};

static const double powers_of_ten[CLINGER_EXP + 1] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void trim(const char **text, size_t *size)
{
    while (*size > 0 && is_blank(**text)) {
        ++*text;
        --*size;
    }
    while (*size > 0 && is_blank((*text)[*size - 1])) --*size;
}

/* --- eight characters at a time ----------------------------------------------------------------------------------- */

/* Up to eight characters, the first one in the lowest byte; what is above the last one is zero. */
static inline uint64_t load_word(const char *text, size_t size)
{
    const uint8_t *p = (const uint8_t *)text;

    if (size == 8) return est_wire_load64(p);
    if (size >= 4) return est_wire_load32(p) | (uint64_t)est_wire_load32(p + size - 4) << (8 * (size - 4));
    if (size == 0) return 0;
    return p[0] | (uint64_t)p[size / 2] << (8 * (size / 2)) | (uint64_t)p[size - 1] << (8 * (size - 1));
}

static inline bool all_digits(uint64_t word)
{
    return (word & HIGH_HALVES) == ASCII_ZEROS && ((word + 6 * ONES) & HIGH_HALVES) == ASCII_ZEROS;
}

/* The number that eight digits are: neighbours are joined to pairs, pairs to fours, fours to the whole. */
static inline uint32_t eight_digits(uint64_t word)
{
    word -= ASCII_ZEROS;
    word = word * 10 + (word >> 8);
    word = (word & 0x000000ff000000ffu) * 0x000f424000000064u +
           ((word >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u;
    return (uint32_t)(word >> 32);
}

/* The number of 1 to 8 digits at the start of a word; false when something else is among them. */
static inline bool word_number(uint64_t word, size_t size, uint32_t *out)
{
    if (size < 8) word = word << (8 * (8 - size)) | ASCII_ZEROS >> (8 * size);
    if (!all_digits(word)) return false;
    *out = eight_digits(word);
    return true;
}

/* --- integers ----------------------------------------------------------------------------------------------------- */

est_number_result est_number_i64(const char *text, size_t size, int64_t *out)
{
    uint64_t magnitude = 0, limit = INT64_MAX;
    uint32_t small;
    bool     negative;

    if (size > 0 && (is_blank(text[0]) || is_blank(text[size - 1]))) trim(&text, &size);
    negative = size > 0 && text[0] == '-';
    text += negative;
    size -= negative;
    if (size == 0) return EST_NUMBER_NONE;
    if (size <= WORD_DIGITS) {
        if (!word_number(load_word(text, size), size, &small)) return EST_NUMBER_NONE;
        *out = negative ? -(int64_t)small : (int64_t)small;
        return EST_NUMBER_OK;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return EST_NUMBER_NONE;
    }
    limit += negative;
    for (size_t i = 0; i < size; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');

        if (magnitude > (limit - digit) / 10) return EST_NUMBER_RANGE;
        magnitude = magnitude * 10 + digit;
    }
    *out = (int64_t)(negative ? 0 - magnitude : magnitude);
    return EST_NUMBER_OK;
}

est_number_result est_number_i32(const char *text, size_t size, int32_t *out)
{
    int64_t           value;
    est_number_result result = est_number_i64(text, size, &value);

    if (result != EST_NUMBER_OK) return result;
    if (value < INT32_MIN || value > INT32_MAX) return EST_NUMBER_RANGE;
    *out = (int32_t)value;
    return EST_NUMBER_OK;
}

/* --- decimal numbers ---------------------------------------------------------------------------------------------- */

/* A number taken apart: w times ten to the power of `exponent`. */
typedef struct decimal {
    uint64_t    w;
    int64_t     exponent;
    bool        negative;
    bool        is_long; /* w has overflowed: there are more than 19 digits that count */
    const char *digits;  /* first digit or point, */
    const char *end;     /* and after the last one */
    int64_t     written; /* the exponent as it is written */
} decimal;

/* Steps over digits, adding them to w. */
static const char *scan_digits(const char *p, const char *end, uint64_t *w)
{
    uint64_t value = *w;

    while (end - p >= WORD_DIGITS) {
        uint64_t word = est_wire_load64((const uint8_t *)p);

        if (!all_digits(word)) break;
        value = value * 100000000 + eight_digits(word);
        p += WORD_DIGITS;
    }
    while (p < end && *p >= '0' && *p <= '9') value = value * 10 + (uint64_t)(*p++ - '0');
    *w = value;
    return p;
}

/* "e-12" at p; false when there is something else. */
static bool scan_exponent(const char *p, const char *end, int64_t *out)
{
    int64_t value = 0;
    bool    negative;

    if (*p != 'e' && *p != 'E') return false;
    p++;
    negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (p == end) return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return false;
        if (value < EXPONENT_MAX) value = value * 10 + (*p - '0');
    }
    *out = negative ? -value : value;
    return true;
}

/* Takes a text without blanks around it apart; false when it is no decimal number. */
static bool scan_decimal(const char *text, size_t size, decimal *d)
{
    const char *p = text, *end     = text + size, *point;
    size_t      n_digits, fraction = 0;

    *d = (decimal){ .negative = *p == '-' };
    if (*p == '-' || *p == '+') p++;
    d->digits = p;
    p         = scan_digits(p, end, &d->w);
    n_digits  = (size_t)(p - d->digits);
    if (p < end && *p == '.') {
        point    = p + 1;
        p        = scan_digits(point, end, &d->w);
        fraction = (size_t)(p - point);
        n_digits += fraction;
    }
    d->end = p;
    if (n_digits == 0) return false;
    if (p < end && !scan_exponent(p, end, &d->written)) return false;
    d->exponent = d->written - (int64_t)fraction;
    if (n_digits > W_DIGITS_MAX) {
        const char *first = d->digits;

        while (first < d->end && (*first == '0' || *first == '.')) {
            n_digits -= *first == '0';
            first++;
        }
        d->is_long = n_digits > W_DIGITS_MAX;
    }
    return true;
}

/* Rounds x times two to the power of `exponent` to so many bits, ties to even. */
static double round_bits(wide x, int exponent, int bits)
{
    int      high   = (int)(x >> 64 != 0);
    uint64_t top    = high ? (uint64_t)(x >> 64) : (uint64_t)x;
    int      length = 64 * (high + 1) - __builtin_clzll(top);
    int      shift  = length - bits;
    uint64_t m;
    wide     rest, half;

    if (shift <= 0) return ldexp((double)(uint64_t)x, exponent);
    m    = (uint64_t)(x >> shift);
    half = (wide)1 << (shift - 1);
    rest = x & ((half << 1) - 1);
    m += rest > half || (rest == half && m % 2 != 0);
    return ldexp((double)m, exponent + shift);
}

/* w times 10^exponent rounded once to so many bits (at most 53); w is not 0, exponent within EXACT_EXP of 0. The result
 * is in the normal range of float64. */
static double round_exact(uint64_t w, int exponent, int bits)
{
    uint64_t five    = powers_of_five[abs(exponent)], divisor;
    int      w_shift = __builtin_clzll(w), five_shift;
    wide     dividend, quotient;

    if (exponent >= 0) return round_bits((wide)w * five, exponent, bits);

    /* Both have their highest bit set, so that the quotient has 62 bits or more; what is left over makes it odd, which
     * is as good as all of its further bits. */
    five_shift = __builtin_clzll(five);
    divisor    = five << five_shift;
    dividend   = (wide)(w << w_shift) << 63;
    quotient   = dividend / divisor;
    if (dividend % divisor != 0) quotient |= 1;
    return round_bits(quotient, exponent + five_shift - w_shift - 63, bits);
}

/* Rounds to float64 where one exact operation does it. */
static bool round_simply(const decimal *d, double *out)
{
    double w = (double)d->w;

    if (d->w > F64_EXACT_MAX || d->exponent < -CLINGER_EXP || d->exponent > CLINGER_EXP) return false;
    *out = d->exponent < 0 ? w / powers_of_ten[-d->exponent] : w * powers_of_ten[d->exponent];
    return true;
}

/* The digits and the exponent as text that no locale reads otherwise. Digits beyond LONG_DIGITS are dropped, and a 1 in
 * their place says that there were some: no number lies between that and the halfway point the digits may lie on. */
static void write_plain(const decimal *d, char text[LONG_DIGITS + 32])
{
    int64_t exponent = d->written;
    size_t  n        = 0;
    bool    rest = false, in_fraction = false;

    for (const char *p = d->digits; p < d->end; p++) {
        if (*p == '.') {
            in_fraction = true;
            continue;
        }
        exponent -= in_fraction;
        if (n == 0 && *p == '0') continue;
        if (n < LONG_DIGITS) {
            text[n++] = *p;
        } else {
            rest = rest || *p != '0';
            exponent++;
        }
    }
    if (n == 0) text[n++] = '0';
    if (rest) {
        text[n++] = '1';
        exponent--;
    }
    snprintf(text + n, 32, "e%lld", (long long)exponent);
}

/* "inf", "infinity", "nan" in any case, with a sign. */
static bool scan_word(const char *text, size_t size, double *out)
{
    bool negative = *text == '-', is_signed = negative || *text == '+';

    text += is_signed;
    size -= is_signed;
    if ((size == 3 && strncasecmp(text, "inf", 3) == 0) || (size == 8 && strncasecmp(text, "infinity", 8) == 0)) {
        *out = negative ? -INFINITY : INFINITY;
    } else if (size == 3 && strncasecmp(text, "nan", 3) == 0) {
        *out = copysign(NAN, negative ? -1 : 1);
    } else {
        return false;
    }
    return true;
}

/* A number of at most eight characters, no exponent: the digits as a whole number, and how many of them follow the
 * point. */
static inline bool scan_short(const char *text, size_t size, uint32_t *w, size_t *fraction)
{
    uint64_t word  = load_word(text, size);
    uint64_t x     = word ^ (0x2e * ONES);
    uint64_t point = (x - ONES) & ~x & (0x80 * ONES); /* its lowest bit is right: bytes below a zero do not borrow */

    *fraction = 0;
    if (point != 0) {
        size_t   at   = (size_t)__builtin_ctzll(point) / 8;
        uint64_t head = ((uint64_t)1 << (8 * at)) - 1;

        if (at >= size || size == 1) return false;
        word      = (word & head) | (word >> 8 & ~head);
        *fraction = size - 1 - at;
        size--;
    }
    return word_number(word, size, w);
}

est_number_result est_number_f64(const char *text, size_t size, double *out)
{
    decimal  d;
    uint32_t small;
    size_t   fraction;
    double   value;

    if (size > 0 && (is_blank(text[0]) || is_blank(text[size - 1]))) trim(&text, &size);
    if (size == 0) return EST_NUMBER_NONE;
    d.negative = *text == '-';
    if (size - d.negative - 1 < WORD_DIGITS && scan_short(text + d.negative, size - d.negative, &small, &fraction)) {
        value = fraction > 0 ? small / powers_of_ten[fraction] : small;
    } else if (!scan_decimal(text, size, &d)) {
        return scan_word(text, size, out) ? EST_NUMBER_OK : EST_NUMBER_NONE;
    } else if (d.is_long || d.exponent < -EXACT_EXP || d.exponent > EXACT_EXP) {
        char plain[LONG_DIGITS + 32];

        write_plain(&d, plain);
        value = strtod(plain, NULL);
    } else if (!round_simply(&d, &value)) {
        value = d.w == 0 ? 0 : round_exact(d.w, (int)d.exponent, DBL_MANT_DIG);
    }
    *out = d.negative ? -value : value;
    return EST_NUMBER_OK;
}

/* Whether a float64 that was rounded from a number may be rounded again, to float32: not when it lies halfway between
 * two, because the number itself may lie on either side. (A normal float32 drops 29 bits, and all numbers that are
 * rounded this way are above 1e-22.) */
static inline bool rounds_again(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x1fffffff) != 0x10000000;
}

est_number_result est_number_f32(const char *text, size_t size, float *out)
{
    decimal  d;
    uint32_t small;
    size_t   fraction;
    double   value;

    if (size > 0 && (is_blank(text[0]) || is_blank(text[size - 1]))) trim(&text, &size);
    if (size == 0) return EST_NUMBER_NONE;
    d.negative = *text == '-';
    if (size - d.negative - 1 < WORD_DIGITS && scan_short(text + d.negative, size - d.negative, &small, &fraction)) {
        value = small;
        if (fraction > 0) {
            value = small / powers_of_ten[fraction];
            if (!rounds_again(value)) value = round_exact(small, -(int)fraction, FLT_MANT_DIG);
        }
        *out = (float)(d.negative ? -value : value);
        return EST_NUMBER_OK;
    }
    if (!scan_decimal(text, size, &d)) {
        if (!scan_word(text, size, &value)) return EST_NUMBER_NONE;
        *out = (float)value;
        return EST_NUMBER_OK;
    }
    if (d.is_long || d.exponent < -EXACT_EXP || d.exponent > EXACT_EXP) {
        char plain[LONG_DIGITS + 32];

        write_plain(&d, plain);
        value = (double)strtof(plain, NULL);
    } else if (d.w == 0) {
        value = 0;
    } else if (!round_simply(&d, &value) || !rounds_again(value)) {
        value = round_exact(d.w, (int)d.exponent, FLT_MANT_DIG);
    }
    *out = (float)(d.negative ? -value : value);
    return EST_NUMBER_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Writes what is meant by digits[0].digits[1]digits[2]... times ten to the power of `exponent`. */
static void write_decimal(const char *digits, int n, int exponent, char text[EST_NUMBER_TEXT_MAX])
{
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, EST_NUMBER_TEXT_MAX - 1, "%c%s%.*se%+03d", digits[0], n > 1 ? "." : "", n - 1, digits + 1,
                 exponent);
    } else if (exponent < 0) {
        snprintf(text, EST_NUMBER_TEXT_MAX - 1, "0.%.*s%.*s", -exponent - 1, "000", n, digits);
    } else if (n <= exponent + 1) {
        snprintf(text, EST_NUMBER_TEXT_MAX - 1, "%.*s%.*s.0", n, digits, exponent + 1 - n, "000000000000000");
    } else {
        snprintf(text, EST_NUMBER_TEXT_MAX - 1, "%.*s.%.*s", exponent + 1, digits, n - exponent - 1,
                 digits + exponent + 1);
    }
}

/* `scientific` is what the C library made of the number with "%e"; between its digits is the locale's point. */
static const char *rewrite(const char *scientific, char text[EST_NUMBER_TEXT_MAX])
{
    const char *e = strchr(scientific, 'e');
    char        digits[DBL_DECIMAL_DIG];
    char       *to = text;
    int         n  = 0;

    if (*scientific == '-') *to++ = '-';
    for (const char *at = scientific; at < e; at++) {
        if (*at >= '0' && *at <= '9') digits[n++] = *at;
    }
    while (n > 1 && digits[n - 1] == '0') n--;
    write_decimal(digits, n, (int)strtol(e + 1, NULL, 10), to);
    return text;
}

static const char *special_text(double value, char text[EST_NUMBER_TEXT_MAX])
{
    memcpy(text, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", isnan(value) || value > 0 ? 4 : 5);
    return text;
}

const char *est_number_f32_text(float value, char text[EST_NUMBER_TEXT_MAX])
{
    char scientific[40];

    if (!isfinite(value)) return special_text(value, text);
    for (int digits = 6; digits <= FLT_DECIMAL_DIG; digits++) {
        snprintf(scientific, sizeof scientific, "%.*e", digits - 1, (double)value);
        if (strtof(scientific, NULL) == value) break;
    }
    return rewrite(scientific, text);
}

const char *est_number_f64_text(double value, char text[EST_NUMBER_TEXT_MAX])
{
    char scientific[40];
    int  digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG; /* subnormal ones have fewer; of others zeros are dropped */

    if (!isfinite(value)) return special_text(value, text);
    for (; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(scientific, sizeof scientific, "%.*e", digits - 1, value);
        if (strtod(scientific, NULL) == value) break;
    }
    return rewrite(scientific, text);
}
