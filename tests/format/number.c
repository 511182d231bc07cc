/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in text: every kind of text by hand, and very many against the C library. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/number.h"
#include "support/locale_test.h"
#include "support/test.h"

#define N_TEXTS   200000
#define TEXT_MAX  2048
#define LONG_ZERO 900

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return below == 0 ? seed : seed % below;
}

/* Our reading of a text in a block of exactly its size is the C library's, bit for bit, or it is no number to both. */
static void check_text(const char *text)
{
    size_t size   = strlen(text);
    char  *exact  = malloc(size > 0 ? size : 1), *end;
    double want64 = strtod(text, &end), got64 = 0;
    float  want32 = strtof(text, NULL), got32 = 0;
    bool   good = size > 0 && *end == 0;

    assert_non_null(exact);
    memcpy(exact, text, size);
    if ((est_number_f64(exact, size, &got64) == EST_NUMBER_OK) != good ||
        (est_number_f32(exact, size, &got32) == EST_NUMBER_OK) != good ||
        (good && (memcmp(&want64, &got64, sizeof got64) != 0 || memcmp(&want32, &got32, sizeof got32) != 0))) {
        fail_msg("\"%s\": %.17g and %.9g, expected %.17g and %.9g (%s)", text, got64, (double)got32, want64,
                 (double)want32, good ? "a number" : "no number");
    }
    free(exact);
}

/* clang-format off */
static const char *const numbers[] = {
    "0", "-0", "1", "+1", ".5", "5.", "-.5", "1e5", "1E+5", "1e-5", "12345678", "123456789", "0.1",
    "0.30000000000000004", "9007199254740993", "9007199254740993.0000000001", "16777217", "16777219", "8388608.5",
    "8388609.5", "0.50000003", "1e22", "1e23", "1e-22", "1e-23", "1e27", "1e28", "1e-27", "1e-28",
    "18446744073709551615", "18446744073709551616", "9999999999999999999", "10000000000000000000", "3.4028234e38",
    "3.4028235e38", "3.40282356e38", "3.40282357e38", "3.4028236e38", "1.17549435e-38", "1.17549434e-38", "1.4e-45",
    "7e-46", "7.1e-46", "1.7976931348623157e308", "1.7976931348623159e308", "1e400", "-1e400",
    "2.2250738585072014e-308", "2.2250738585072011e-308", "4.9e-324", "2.4e-324", "2.5e-324", "1e-400",
    "1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "0000000000000000000000001",
    "0.000000000000000000000000000001", "00000000000000000000.50",
    "1.00000000000000000000000000000000000000000000000000000000000000000001", "inf", "-Inf", "+INF", "infinity",
    "-InFiNiTy", "nan", "NaN", "-nan",
};

static const char *const no_numbers[] = {
    "", "-", "+", ".", "-.", "e5", "1e", "1e+", "1e-", "1e5.0", "1.5.5", "..5", "1_0", "1.5f", "1d5", "--1", "+-1",
    "in", "infi", "na", "nano", "1 2", "12345678x", "1234x678", "1,5", "123456789x", "0x", "1e5e5", "\xd9\xa1", "/5",
    ":5", "5/", "5:", "12:45678",
};
/* clang-format on */

TEST(known)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) check_text(numbers[i]);
    for (size_t i = 0; i < sizeof no_numbers / sizeof no_numbers[0]; i++) check_text(no_numbers[i]);
}

/* Halfway between two neighbours, and a digit far behind that decides; zeros before and after. */
TEST(long_texts)
{
    char text[TEXT_MAX + LONG_ZERO];

    for (int i = 0; i < 300; i++) {
        float    low, high;
        double   low64, high64;
        uint32_t bits   = (uint32_t)draw(0x7f000000);
        uint64_t bits64 = draw(0x7fe0000000000000u);
        int      n;

        if (i % 4 == 0) bits %= 1 << 20; /* subnormal */
        if (i % 4 == 0) bits64 %= 1LL << 40;
        memcpy(&low, &bits, 4);
        bits++;
        memcpy(&high, &bits, 4);
        n = snprintf(text, TEXT_MAX, "%.*f", 200, ((double)low + (double)high) / 2);
        check_text(text);
        memcpy(text + n, "1", 2);
        check_text(text);
        memset(text + n, '0', LONG_ZERO);
        memcpy(text + n + LONG_ZERO, "1", 2);
        check_text(text);

        memcpy(&low64, &bits64, 8);
        bits64++;
        memcpy(&high64, &bits64, 8);
        n = snprintf(text, TEXT_MAX, "%.1100Lf", ((long double)low64 + (long double)high64) / 2);
        check_text(text);
        memcpy(text + n, "1", 2);
        check_text(text);
    }
    memset(text, '0', 1000);
    memcpy(text + 1000, "1.5", 4);
    check_text(text);
    memcpy(text, "0.", 2);
    memcpy(text + 1000, "15e1002", 8);
    check_text(text);
}

/* A float32 that a float64 lies halfway of though the number does not: rounding twice would be wrong. */
TEST(double_rounding)
{
    char text[TEXT_MAX];

    check_text("1.00000005960464477539062499999");
    check_text("1.00000017881393432617187500001");
    check_text("0.500000089406967");
    for (int i = 0; i < N_TEXTS / 4; i++) {
        uint32_t bits = (uint32_t)(0x33000000 + draw(0x1a000000));
        float    low, high;

        memcpy(&low, &bits, 4);
        bits++;
        memcpy(&high, &bits, 4);
        snprintf(text, sizeof text, "%.*g", 8 + (int)draw(20), ((double)low + (double)high) / 2);
        check_text(text);
    }
}

static size_t put_digits(char *to, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) to[i] = (char)('0' + draw(10));
    return n;
}

static void generate(char text[TEXT_MAX])
{
    static const int whole[]    = { 6, 10, 25, 300 };
    static const int fraction[] = { 5, 12, 18, 500 };
    size_t           n          = 0;
    uint64_t         bits       = draw(0);
    uint32_t         bits32     = (uint32_t)draw(0);
    double           f64;
    float            f32;
    uint64_t         kind = draw(6);

    memcpy(&f64, &bits, 8);
    memcpy(&f32, &bits32, 4);
    if (kind == 4 && isfinite(f64)) {
        snprintf(text, TEXT_MAX, "%.*g", 1 + (int)draw(20), f64);
        return;
    }
    if (kind == 5 && isfinite(f32)) {
        snprintf(text, TEXT_MAX, "%.*g", 1 + (int)draw(12), (double)f32);
        return;
    }
    kind %= 4;
    if (draw(3) == 0) text[n++] = "+-"[draw(2)];
    n += put_digits(text + n, draw((uint64_t)whole[kind]));
    if (draw(2) == 0) {
        text[n++] = '.';
        n += put_digits(text + n, draw((uint64_t)fraction[kind]));
    }
    text[n] = 0;
    if (draw(3) == 0) snprintf(text + n, 16, "e%d", (int)draw(120) - 60);
}

TEST(generated)
{
    char text[TEXT_MAX];

    for (int i = 0; i < N_TEXTS; i++) {
        generate(text);
        check_text(text);
    }
}

TEST(blanks)
{
    double  f64;
    float   f32;
    int64_t i64;
    int32_t i32;

    assert_int_equal(est_number_f64(" \t1.5 \t", 7, &f64), EST_NUMBER_OK);
    assert_true(f64 == 1.5);
    assert_int_equal(est_number_f32(" 2", 2, &f32), EST_NUMBER_OK);
    assert_true(f32 == 2);
    assert_int_equal(est_number_i64("-3 ", 3, &i64), EST_NUMBER_OK);
    assert_int_equal(i64, -3);
    assert_int_equal(est_number_i32("\t4", 2, &i32), EST_NUMBER_OK);
    assert_int_equal(i32, 4);
    assert_int_equal(est_number_f64("  ", 2, &f64), EST_NUMBER_NONE);
    assert_int_equal(est_number_f32("- 1", 3, &f32), EST_NUMBER_NONE);
    assert_int_equal(est_number_i64(" ", 1, &i64), EST_NUMBER_NONE);
    assert_int_equal(est_number_f64("0x10", 4, &f64), EST_NUMBER_NONE);
}

TEST(integers)
{
    static const struct {
        const char       *text;
        est_number_result result64, result32;
        int64_t           value;
    } cases[] = {
        { "0", 0, 0, 0 },
        { "-0", 0, 0, 0 },
        { "7", 0, 0, 7 },
        { "-12", 0, 0, -12 },
        { "123", 0, 0, 123 },
        { "1234567", 0, 0, 1234567 },
        { "-12345678", 0, 0, -12345678 },
        { "123456789", 0, 0, 123456789 },
        { "00000000000000000000012", 0, 0, 12 },
        { "2147483647", 0, 0, 2147483647 },
        { "-2147483648", 0, 0, INT32_MIN },
        { "2147483648", 0, EST_NUMBER_RANGE, 2147483648 },
        { "-2147483649", 0, EST_NUMBER_RANGE, -2147483649 },
        { "9223372036854775807", 0, EST_NUMBER_RANGE, INT64_MAX },
        { "-9223372036854775808", 0, EST_NUMBER_RANGE, INT64_MIN },
        { "9223372036854775808", EST_NUMBER_RANGE, EST_NUMBER_RANGE, 0 },
        { "-9223372036854775809", EST_NUMBER_RANGE, EST_NUMBER_RANGE, 0 },
        { "99999999999999999999999", EST_NUMBER_RANGE, EST_NUMBER_RANGE, 0 },
        { "", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "-", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "+1", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "1.5", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "1e3", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "12345x78", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "1234567890:", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { "/", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
        { ":", EST_NUMBER_NONE, EST_NUMBER_NONE, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t i64 = 0;
        int32_t i32 = 0;

        assert_int_equal(est_number_i64(cases[i].text, strlen(cases[i].text), &i64), cases[i].result64);
        assert_int_equal(i64, cases[i].value);
        assert_int_equal(est_number_i32(cases[i].text, strlen(cases[i].text), &i32), cases[i].result32);
        if (cases[i].result32 == EST_NUMBER_OK) assert_int_equal(i32, cases[i].value);
    }
    for (int i = 0; i < N_TEXTS; i++) {
        int64_t want = (int64_t)draw(0) >> draw(64), got;
        char    text[32];
        int     n = snprintf(text, sizeof text, "%lld", (long long)want);

        assert_int_equal(est_number_i64(text, (size_t)n, &got), EST_NUMBER_OK);
        assert_int_equal(got, want);
    }
}

/* As Python's repr has them; float32 as protobuf's text format. */
TEST(written)
{
    static const struct {
        double      value;
        const char *f64, *f32;
    } cases[] = {
        { 0, "0.0", "0.0" },
        { -0.0, "-0.0", "-0.0" },
        { 1, "1.0", "1.0" },
        { -2.5, "-2.5", "-2.5" },
        { 0.1, "0.1", "0.1" },
        { 100, "100.0", "100.0" },
        { 0.0001, "0.0001", "0.0001" },
        { 0.00012345, "0.00012345", "0.00012345" },
        { 0.00001, "1e-05", "1e-05" },
        { 1e15, "1000000000000000.0", "1000000000000000.0" },
        { 1e16, "1e+16", "1e+16" },
        { 1.5e300, "1.5e+300", "inf" },
        { 1. / 3, "0.3333333333333333", "0.33333334" },
        { 2. / 3 * 1e-5, "6.666666666666667e-06", "6.6666666e-06" },
        { 16777217, "16777217.0", "16777216.0" },
        { 1700000000.123456, "1700000000.123456", "1700000000.0" },
        { DBL_MAX, "1.7976931348623157e+308", "inf" },
        { -DBL_MAX, "-1.7976931348623157e+308", "-inf" },
        { DBL_MIN, "2.2250738585072014e-308", "0.0" },
        { 0x1p-1074, "5e-324", "0.0" },
        { 0x1p-149, "1.401298464324817e-45", "1.4013e-45" },
        { NAN, "nan", "nan" },
        { -INFINITY, "-inf", "-inf" },
    };
    char text[EST_NUMBER_TEXT_MAX];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(est_number_f64_text(cases[i].value, text), cases[i].f64);
        assert_string_equal(est_number_f32_text((float)cases[i].value, text), cases[i].f32);
    }
    for (int i = 0; i < N_TEXTS; i++) {
        uint64_t bits = draw(0);
        double   want, got;
        float    want32, got32;

        memcpy(&want, &bits, sizeof want);
        memcpy(&want32, &bits, sizeof want32);
        if (isfinite(want)) {
            est_number_f64_text(want, text);
            assert_int_equal(est_number_f64(text, strlen(text), &got), EST_NUMBER_OK);
            assert_true(got == want);
        }
        if (isfinite(want32)) {
            est_number_f32_text(want32, text);
            assert_int_equal(est_number_f32(text, strlen(text), &got32), EST_NUMBER_OK);
            assert_true(got32 == want32);
        }
    }
}

/* A locale with a decimal comma changes nothing, not even for texts that the C library has to read. */
TEST(locale)
{
    char   f32[EST_NUMBER_TEXT_MAX], f64[EST_NUMBER_TEXT_MAX];
    double value;

    locale_comma();
    assert_int_equal(est_number_f64("1.5e100", 7, &value), EST_NUMBER_OK);
    est_number_f32_text(1.25e-9F, f32);
    est_number_f64_text(-0.1, f64);
    locale_point();
    assert_true(value == 1.5e100);
    assert_string_equal(f32, "1.25e-09");
    assert_string_equal(f64, "-0.1");
}
