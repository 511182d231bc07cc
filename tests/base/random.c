/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: published vectors of Philox, numbers that TensorFlow 2.15 gives for the same seeds, independence of
 * how a fill is split, and moments of the distributions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/test.h"

#define ROOM 4000

/* Seeds 87654321 and 12345 as TensorFlow's random ops take them. */
static const est_random tf_seeds = { .key = 87654321, .stream = 12345 };

/* Known answers of the Random123 distribution. */
TEST(philox_vectors)
{
    static const struct {
        uint64_t key, ctr_hi, ctr_lo;
        uint32_t out[4];
    } vectors[] = {
        { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { 0x299f31d0a4093822,
          0x0370734413198a2e,
          0x85a308d3243f6a88,
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t out[4];

        est_random_block(vectors[i].key, vectors[i].ctr_hi, vectors[i].ctr_lo, out);
        assert_memory_equal(out, vectors[i].out, sizeof out);
    }
}

/* Long fills take another path than single blocks, also across the carry into the upper half of the counter. */
TEST(words_are_the_blocks)
{
    static const uint64_t starts[] = { 0, 5, UINT64_MAX - 3, UINT64_MAX - 100, 1 + (UINT64_C(1) << 32) };
    uint32_t              words[4 * 150];

    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        est_random random = { .key = 42, .stream = 77, .block = starts[s] };

        est_random_fill_u32(&random, 0, 4 * 150, words);
        for (uint64_t block = 0; block < 150; block++) {
            uint64_t lo = starts[s] + block;
            uint32_t want[4];

            est_random_block(42, 77 + (lo < block), lo, want);
            assert_memory_equal(words + 4 * block, want, sizeof want);
        }
    }
}

TEST(same_numbers_as_tensorflow)
{
    static const float  uniform_f32[] = { 0x1.594304p-1f, 0x1.e32a2p-3f, 0x1.a4e598p-1f,
                                          0x1.dc33c8p-2f, 0x1.7bd5ap-4f, 0x1.5a952p-2f };
    static const double uniform_f64[] = { 0x1.943077c78ca88p-2, 0x1.272cd1f770cf2p-1, 0x1.7bd5aa956a548p-1,
                                          0x1.d9d72189256dp-1, 0x1.bdb1f6a4e719cp-2 };
    static const float  normal_f32[] = { 0.88424665f, 0.078430474f, 0.13639879f, -0.6109575f, 1.8525681f, -1.1506747f };
    static const double normal_f64[] = { -0.630551009, -1.208959153, -0.348798897, 0.689577124, -0.791938363 };
    static const int32_t int_i32[]   = { 774, 835, 180, 370, 829, 721 };
    static const int64_t int_i64[]   = { 392434730529, 625225653210, 988033459540, 529057637366, 291502019466 };
    float                f[6];
    double               d[5];
    int32_t              i32[6];
    int64_t              i64[5];

    est_random_fill_uniform_f32(&tf_seeds, 0, 6, f);
    assert_memory_equal(f, uniform_f32, sizeof f);
    est_random_fill_uniform_f64(&tf_seeds, 0, 5, d);
    assert_memory_equal(d, uniform_f64, sizeof d);
    est_random_fill_int_i32(&tf_seeds, 0, 6, -5, 1000, i32);
    assert_memory_equal(i32, int_i32, sizeof i32);
    est_random_fill_int_i64(&tf_seeds, 0, 5, -5, 1000000000000, i64);
    assert_memory_equal(i64, int_i64, sizeof i64);
    est_random_fill_normal_f32(&tf_seeds, 0, 6, f);
    for (int i = 0; i < 6; i++) assert_true(fabsf(f[i] - normal_f32[i]) < 1e-6f);
    est_random_fill_normal_f64(&tf_seeds, 0, 5, d);
    for (int i = 0; i < 5; i++) assert_true(fabs(d[i] - normal_f64[i]) < 1e-8);
}

TEST(same_truncated_normals_as_tensorflow)
{
    static const float  first_f32[] = { 0.88424665f,  0.078430474f, 0.13639879f, -0.6109575f, 0.45253217f,
                                        -0.81066346f, 0.88626873f,  -0.4226095f, 0.5570011f,  1.3653909f };
    static const float  last_f32[]  = { -0.28830132f, 0.93244857f, 0.6127388f,   -0.7897694f,   -1.1136832f,
                                        -0.2850257f,  -0.5759947f, -0.34502932f, -0.055343147f, -0.8291873f };
    static const double first_f64[] = {
        -0.630551009, -1.208959153, -0.027147859, 0.436090832, -0.659398665, 1.671633412
    };
    static const double last_f64[] = {
        -1.15920232, 0.207885549, -1.184076304, -0.71010542, -0.568420604, -1.071166583
    };
    float  f[200];
    double d[200];

    est_random_fill_truncated_f32(&tf_seeds, 0, 200, f);
    for (int i = 0; i < 10; i++) {
        assert_true(fabsf(f[i] - first_f32[i]) < 1e-6f);
        assert_true(fabsf(f[190 + i] - last_f32[i]) < 1e-6f);
    }
    est_random_fill_truncated_f64(&tf_seeds, 0, 200, d);
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(d[i] - first_f64[i]) < 1e-8);
        assert_true(fabs(d[194 + i] - last_f64[i]) < 1e-8);
    }
}

/* --- splitting ---------------------------------------------------------------------------------------------------- */

typedef void (*fill_fn)(const est_random *random, int64_t first, int64_t n, void *out);

static void fill_u32(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_u32(r, first, n, out);
}

static void fill_uniform_f32(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_uniform_f32(r, first, n, out);
}

static void fill_uniform_f64(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_uniform_f64(r, first, n, out);
}

static void fill_normal_f32(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_normal_f32(r, first, n, out);
}

static void fill_normal_f64(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_normal_f64(r, first, n, out);
}

static void fill_truncated_f32(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_truncated_f32(r, first, n, out);
}

static void fill_truncated_f64(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_truncated_f64(r, first, n, out);
}

static void fill_int_i32(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_int_i32(r, first, n, -7, 100, out);
}

static void fill_int_i64(const est_random *r, int64_t first, int64_t n, void *out)
{
    est_random_fill_int_i64(r, first, n, INT64_MIN, INT64_MAX, out);
}

static const struct {
    fill_fn fill;
    size_t  size;
} fills[] = {
    { fill_u32, 4 },           { fill_uniform_f32, 4 }, { fill_uniform_f64, 8 },
    { fill_normal_f32, 4 },    { fill_normal_f64, 8 },  { fill_truncated_f32, 4 },
    { fill_truncated_f64, 8 }, { fill_int_i32, 4 },     { fill_int_i64, 8 },
};

TEST(splits_do_not_matter)
{
    char      *whole = malloc(ROOM * 8), *parts = malloc(ROOM * 8);
    est_random random = { .key = 9, .stream = 3, .block = UINT64_MAX - 20 };

    for (size_t f = 0; f < sizeof fills / sizeof fills[0]; f++) {
        size_t size = fills[f].size;

        fills[f].fill(&random, 0, ROOM, whole);
        for (int step = 1; step < 200; step = step * 2 + 1) {
            memset(parts, 0xee, ROOM * size);
            for (int64_t first = 0; first < ROOM; first += step) {
                int64_t n = ROOM - first < step ? ROOM - first : step;

                fills[f].fill(&random, first, n, parts + (size_t)first * size);
            }
            assert_memory_equal(whole, parts, ROOM * size);
        }
    }
    free(whole);
    free(parts);
}

TEST(fills_stay_inside)
{
    unsigned char room[8 * 70];
    est_random    random = { .key = 1 };

    for (size_t f = 0; f < sizeof fills / sizeof fills[0]; f++) {
        for (int64_t n = 0; n < 67; n++) {
            memset(room, 0xa5, sizeof room);
            fills[f].fill(&random, 3, n, room + 8);
            for (size_t i = 0; i < 8; i++) assert_int_equal(room[i], 0xa5);
            for (size_t i = 8 + (size_t)n * fills[f].size; i < sizeof room; i++) assert_int_equal(room[i], 0xa5);
        }
    }
}

TEST(streams_differ)
{
    est_random a = { .key = 1 }, b = { .key = 2 }, c = { .key = 1, .stream = 1 }, d = { .key = 1, .block = 2 };
    uint32_t   wa[64], wb[64], wc[64], wd[64];
    int        equal = 0;

    est_random_fill_u32(&a, 0, 64, wa);
    est_random_fill_u32(&b, 0, 64, wb);
    est_random_fill_u32(&c, 0, 64, wc);
    est_random_fill_u32(&d, 0, 64, wd);
    for (int i = 0; i < 64; i++) equal += (wa[i] == wb[i]) + (wa[i] == wc[i]) + (wb[i] == wc[i]);
    assert_true(equal <= 1);
    assert_memory_equal(wa + 8, wd, 56 * sizeof *wa); /* `block` skips */
}

/* --- distributions ------------------------------------------------------------------------------------------------ */

#define SAMPLES 400000

typedef struct moments {
    double mean, variance, low, high;
} moments;

static moments moments_of(const double *x)
{
    moments m = { .low = INFINITY, .high = -INFINITY };

    for (int i = 0; i < SAMPLES; i++) {
        m.mean += x[i] / SAMPLES;
        m.low  = fmin(m.low, x[i]);
        m.high = fmax(m.high, x[i]);
    }
    for (int i = 0; i < SAMPLES; i++) m.variance += (x[i] - m.mean) * (x[i] - m.mean) / (SAMPLES - 1);
    return m;
}

/* Mean and variance within five standard errors; `fourth` is the distribution's fourth central moment. */
static void check_moments(const moments *m, double mean, double variance, double fourth)
{
    double mean_error     = sqrt(variance / SAMPLES);
    double variance_error = sqrt((fourth - variance * variance) / SAMPLES);

    assert_true(fabs(m->mean - mean) < 5 * mean_error);
    assert_true(fabs(m->variance - variance) < 5 * variance_error);
}

/* Neighbours are uncorrelated: the pairs of Box and Muller, and elements of one block. */
static void check_neighbours(const double *x, const moments *m)
{
    for (int lag = 1; lag <= 4; lag++) {
        double sum = 0;

        for (int i = 0; i + lag < SAMPLES; i++) sum += (x[i] - m->mean) * (x[i + lag] - m->mean);
        assert_true(fabs(sum / SAMPLES / m->variance) < 5 / sqrt(SAMPLES));
    }
}

/* Draws in float or double, as doubles. */
static double *draw(fill_fn fill_float, fill_fn fill_double)
{
    double    *x      = malloc(SAMPLES * sizeof *x);
    est_random random = { .key = 20260101, .stream = 5 };

    if (fill_double != NULL) {
        fill_double(&random, 0, SAMPLES, x);
    } else {
        float *f = malloc(SAMPLES * sizeof *f);

        fill_float(&random, 0, SAMPLES, f);
        for (int i = 0; i < SAMPLES; i++) x[i] = (double)f[i];
        free(f);
    }
    return x;
}

TEST(uniform)
{
    for (int kind = 0; kind < 2; kind++) {
        double *x           = kind == 0 ? draw(fill_uniform_f32, NULL) : draw(NULL, fill_uniform_f64);
        moments m           = moments_of(x);
        double  chi_squared = 0;
        int     bins[100]   = { 0 };

        check_moments(&m, 0.5, 1.0 / 12, 1.0 / 80);
        check_neighbours(x, &m);
        assert_true(m.low >= 0 && m.high < 1);
        assert_true(m.low < 1e-4 && m.high > 1 - 1e-4);
        for (int i = 0; i < SAMPLES; i++) bins[(int)(x[i] * 100)]++;
        for (int i = 0; i < 100; i++) chi_squared += pow(bins[i] - SAMPLES / 100.0, 2) / (SAMPLES / 100.0);
        assert_true(chi_squared > 45 && chi_squared < 175); /* 99 degrees of freedom, beyond five sigma either way */
        free(x);
    }
}

TEST(normal)
{
    for (int kind = 0; kind < 2; kind++) {
        double *x        = kind == 0 ? draw(fill_normal_f32, NULL) : draw(NULL, fill_normal_f64);
        moments m        = moments_of(x);
        int     beyond_1 = 0, beyond_3 = 0;

        check_moments(&m, 0, 1, 3);
        check_neighbours(x, &m);
        assert_true(m.high > 3.8 && m.low < -3.8 && m.high < 6 && m.low > -6);
        for (int i = 0; i < SAMPLES; i++) {
            beyond_1 += fabs(x[i]) > 1;
            beyond_3 += fabs(x[i]) > 3;
        }
        assert_true(fabs(beyond_1 - 0.31731 * SAMPLES) < 5 * sqrt(0.31731 * 0.68269 * SAMPLES));
        assert_true(fabs(beyond_3 - 0.0026998 * SAMPLES) < 5 * sqrt(0.0026998 * SAMPLES));
        free(x);
    }
}

TEST(truncated_normal)
{
    /* Of a normal cut at 2: variance 1 - 4 phi(2) / (2 Phi(2) - 1), fourth moment 3 - 28 phi(2) / (2 Phi(2) - 1). */
    const double phi = 0.053990966513188, inside = 0.954499736103642;
    const double variance = 1 - 4 * phi / inside, fourth = 3 - 28 * phi / inside;

    for (int kind = 0; kind < 2; kind++) {
        double *x = kind == 0 ? draw(fill_truncated_f32, NULL) : draw(NULL, fill_truncated_f64);
        moments m = moments_of(x);

        check_moments(&m, 0, variance, fourth);
        check_neighbours(x, &m);
        assert_true(m.high < 2 && m.low > -2 && m.high > 1.99 && m.low < -1.99);
        free(x);
    }
}

TEST(integers)
{
    static int32_t i32[SAMPLES];
    static int64_t i64[SAMPLES];
    est_random     random   = { .key = 11 };
    int            bins[10] = { 0 };

    est_random_fill_int_i32(&random, 0, SAMPLES, -3, 7, i32);
    for (int i = 0; i < SAMPLES; i++) {
        assert_true(i32[i] >= -3 && i32[i] < 7);
        bins[i32[i] + 3]++;
    }
    for (int i = 0; i < 10; i++) assert_true(abs(bins[i] - SAMPLES / 10) < 5 * sqrt(SAMPLES * 0.09));

    est_random_fill_int_i32(&random, 0, 100, INT32_MIN, INT32_MAX, i32);
    for (int i = 0; i < 100; i++) assert_true(i32[i] < INT32_MAX);
    est_random_fill_int_i64(&random, 0, SAMPLES, INT64_C(1) << 40, (INT64_C(1) << 40) + 3, i64);
    for (int i = 0; i < SAMPLES; i++) assert_true(i64[i] >> 40 == 1 && (i64[i] & 0xff) < 3);
    est_random_fill_int_i64(&random, 0, 100, 5, 6, i64);
    for (int i = 0; i < 100; i++) assert_int_equal(i64[i], 5);
}
