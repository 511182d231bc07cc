/* SPDX-License-Identifier: Apache-2.0
 *
 * bench/synth: its files have the same bytes on every machine, in shards as in one file, and the rows are distributed
 * as the options say. Bounds are five standard deviations of what is counted. */
#include <math.h>

#include "base/crc32c.h"
#include "cli/tool.h"
#include "estoc/tfrecord.h"
#include "support/synth_model.h"

#define N_ROWS 100000

/* Rows as the program draws them. */
static synth_row *draw(double zipf, double positive, const uint32_t *cardinality, int n_cardinality, size_t n_rows)
{
    synth_options options = { .seed = 1, .zipf = zipf, .positive = positive };
    synth_row    *rows    = est_alloc(n_rows * sizeof *rows);
    synth_model  *model;

    assert_non_null(rows);
    for (int k = 0; k < SYNTH_CATEGORICAL; k++) options.cardinality[k] = cardinality[k % n_cardinality];
    tool_check(synth_model_create(&options, &model));
    for (size_t i = 0; i < n_rows; i++) synth_model_draw(model, i, &rows[i]);
    synth_model_free(model);
    return rows;
}

static synth_row *draw_default(double positive, size_t n_rows)
{
    return draw(1.1, positive, (const uint32_t[]){ 10, 100, 1000, 10000, 100000 }, 5, n_rows);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void expect_crc(const char *path, uint32_t crc)
{
    size_t size;
    char  *bytes = tool_read_file(path, &size);

    assert_int_equal(est_crc32c(bytes, size), crc);
    est_free(bytes);
}

/* The checksums were found once; every machine must agree, and a change of the generator shows. */
TEST(same_bytes)
{
    const char *path = tool_path("a.tfrecord");

    TOOL_OUT(0, "1000 synthetic rows, 250 of them clicks; AUC of the true probabilities: 0.795269333333333\n", "", "-o",
             path, "--rows", "1000", "--with-probability");
    expect_crc(path, 0x3b192b08);
    TOOL_OUT(0, "1000 synthetic rows, 251 of them clicks; AUC of the true probabilities: 0.812935175187102\n", "", "-o",
             path, "--rows", "1000", "--seed", "7", "--cardinality", "3,1e5", "--zipf", "0.7");
    expect_crc(path, 0x78166ae6);
}

static est_tfrecord_reader *open_records(const char *name)
{
    est_tfrecord_reader *reader;

    tool_check(est_tfrecord_open(tool_path(name), NULL, &reader));
    return reader;
}

/* Row i is in shard i modulo n, and does not depend on the number of rows. */
TEST(shards)
{
    est_tfrecord_reader *one, *shards[3];
    tool_run             run = TOOL(0, "-o", tool_path("one.tfrecord"), "--rows", "1000");
    est_str              a, b;

    tool_run_free(&run);
    run = TOOL(0, "-o", tool_path("three.tfrecord"), "--rows", "800", "--shards", "3");
    tool_run_free(&run);
    one = open_records("one.tfrecord");
    for (int i = 0; i < 3; i++) {
        char name[40];

        snprintf(name, sizeof name, "three-%05d-of-00003.tfrecord", i);
        shards[i] = open_records(name);
    }
    for (int i = 0; i < 800; i++) {
        tool_check(est_tfrecord_next(one, &a));
        tool_check(est_tfrecord_next(shards[i % 3], &b));
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, a.size);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(est_tfrecord_next(shards[i], &b), EST_OUT_OF_RANGE);
        est_tfrecord_close(shards[i]);
    }
    est_tfrecord_close(one);
    run = TOOL(0, "-o", tool_path("x"), "--rows", "0", "--shards", "2");
    tool_expect_part(run.out, "0 synthetic rows, 0 of them clicks; AUC of the true probabilities: ", "the output");
    tool_run_free(&run);
    assert_int_equal(tool_count_files("x-00001-of-00002"), 1);
}

/* --- distributions ------------------------------------------------------------------------------------------------ */

static void expect_near(double got, double want, double deviation, const char *what)
{
    if (fabs(got - want) > 5 * deviation) fail_msg("%s: %g is not within 5 times %g of %g", what, got, deviation, want);
}

/* The constant was found from a sample of 32768 rows, which has a deviation of its own. */
TEST(click_rate)
{
    static const double rates[] = { 0.25, 0.02, 0.9 };

    for (int i = 0; i < 3; i++) {
        double     rate = rates[i], n = N_ROWS, clicks = 0;
        synth_row *rows = draw_default(rate, N_ROWS);

        for (int k = 0; k < N_ROWS; k++) clicks += rows[k].label;
        expect_near(clicks / n, rate, sqrt(rate * (1 - rate) * (1 / n + 1 / 32768.)), "click rate");
        est_free(rows);
    }
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static int compare_counts(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* How often each category of a column occurs, in falling order; returns their number, and how many rows have one. */
static size_t count_categories(const synth_row *rows, size_t n_rows, int k, double *counts, double *n)
{
    uint32_t *ids   = est_alloc(n_rows * sizeof *ids);
    size_t    n_ids = 0, n_counts = 0;

    assert_non_null(ids);
    for (size_t i = 0; i < n_rows; i++) {
        if (!(rows[i].missing >> k & 1)) ids[n_ids++] = rows[i].category[k];
    }
    qsort(ids, n_ids, sizeof *ids, compare_ids);
    for (size_t i = 0; i < n_ids; i++) {
        if (i == 0 || ids[i] != ids[i - 1]) counts[n_counts++] = 0;
        counts[n_counts - 1]++;
    }
    qsort(counts, n_counts, sizeof *counts, compare_counts);
    est_free(ids);
    *n = (double)n_ids;
    return n_counts;
}

/* Categories are as many as wanted, and as frequent as their ranks say. Neighbours far down may change places, which
 * moves a count by less than its deviation. */
static void check_zipf(double exponent, uint32_t n_categories)
{
    synth_row *rows = draw(exponent, 0.25, &n_categories, 1, N_ROWS);
    double     counts[1000], n, sum = 0;

    for (uint32_t k = 1; k <= n_categories; k++) sum += pow(k, -exponent);
    for (int column = 0; column < 3; column++) {
        assert_int_equal(count_categories(rows, N_ROWS, column, counts, &n), n_categories);
        expect_near(N_ROWS - n, N_ROWS / 64., sqrt(N_ROWS / 64.), "missing categories");
        for (uint32_t k = 1; k <= n_categories; k++) {
            double p = pow(k, -exponent) / sum;

            expect_near(counts[k - 1], n * p, sqrt(n * p * (1 - p)), "count of a category");
        }
    }
    est_free(rows);
}

TEST(zipf)
{
    check_zipf(1.5, 40);
    check_zipf(1, 300);
    check_zipf(0, 50);
    check_zipf(2, 1);
}

/* Columns differ by their cardinality. */
TEST(cardinalities)
{
    static const uint32_t cardinality[] = { 2, 10, 30 };
    size_t                n_rows        = 20000;
    synth_row            *rows          = draw(0.5, 0.25, cardinality, 3, n_rows);
    double                counts[1000], n;

    for (int k = 0; k < SYNTH_CATEGORICAL; k++) {
        assert_int_equal(count_categories(rows, n_rows, k, counts, &n), cardinality[k % 3]);
    }
    est_free(rows);
}

/* Counts are whole; some columns have gaps, every fourth has none. */
TEST(numeric)
{
    size_t     n_rows      = 20000;
    synth_row *rows        = draw_default(0.25, n_rows);
    int        n_with_gaps = 0;

    for (int k = 0; k < SYNTH_NUMERIC; k++) {
        size_t gaps = 0, different = 0;

        for (size_t i = 0; i < n_rows; i++) {
            assert_true(rows[i].numeric[k] >= -1);
            gaps += rows[i].numeric[k] == -1;
            different += rows[i].numeric[k] != rows[0].numeric[k];
        }
        assert_true(different > 0 && gaps < n_rows / 2);
        if (k % 4 == 0) assert_int_equal(gaps, 0);
        n_with_gaps += gaps > 0;
    }
    assert_in_range(n_with_gaps, 5, 9);
    est_free(rows);
}

/* --- probabilities ------------------------------------------------------------------------------------------------ */

static int compare_rows(const void *a, const void *b)
{
    const synth_row *x = a, *y = b;

    return (x->probability > y->probability) - (x->probability < y->probability);
}

/* From the sum of the ranks of the clicks, ties having the mean of their ranks. */
static double auc_by_ranks(synth_row *rows, size_t n)
{
    double ranks = 0, n_positive = 0;

    qsort(rows, n, sizeof *rows, compare_rows);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first; end < n && rows[end].probability == rows[first].probability; end++) {}
        for (size_t i = first; i < end; i++) {
            ranks += rows[i].label * ((double)(first + end + 1) / 2);
            n_positive += rows[i].label;
        }
    }
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * ((double)n - n_positive));
}

/* Clicks come as often as the probability says, for low ones as for high ones; and its AUC is the one that is
 * printed. */
TEST(probabilities)
{
    size_t     n_rows    = 50000;
    synth_row *rows      = draw_default(0.25, n_rows);
    tool_run   run       = TOOL(0, "-o", tool_path("p.tfrecord"), "--rows", "50000");
    double     clicks[4] = { 0 }, expected[4] = { 0 }, variance[4] = { 0 }, auc;

    for (size_t i = 0; i < n_rows; i++) {
        double p   = (double)rows[i].probability / SYNTH_P_ONE;
        int    bin = (int)(p * 4);

        assert_true(p > 0 && p < 1 && p == (double)(float)p);
        clicks[bin] += rows[i].label;
        expected[bin] += p;
        variance[bin] += p * (1 - p);
    }
    for (int i = 0; i < 4; i++) expect_near(clicks[i], expected[i], sqrt(variance[i]), "clicks");
    auc = auc_by_ranks(rows, n_rows);
    assert_true(fabs(auc - strtod(strrchr(run.out, ' '), NULL)) < 1e-12);
    assert_true(auc > 0.7 && auc < 0.95); /* there is something to learn, and not all of it */
    est_free(rows);
    tool_run_free(&run);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

TEST(usage)
{
    static const char *const bad_cardinalities[] = {
        "", "0", "10,1.5", "1e8", "10,nan", "10,", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
    };
    const char *out = tool_path("usage.tfrecord");

    TOOL_OUT(2, "", "--output is missing", "--rows", "1");
    TOOL_OUT(2, "", "unexpected argument \"x\"", "-o", out, "x");
    TOOL_OUT(2, "", "--rows takes a number from 0", "-o", out, "--rows", "-1");
    for (size_t i = 0; i < sizeof bad_cardinalities / sizeof bad_cardinalities[0]; i++) {
        TOOL_OUT(2, "", "--cardinality takes up to 26 whole numbers", "-o", out, "--cardinality", bad_cardinalities[i]);
    }
    TOOL_OUT(2, "", "--zipf takes a number from 0 to 4", "-o", out, "--zipf", "-0.5");
    TOOL_OUT(2, "", "--zipf takes a number from 0 to 4", "-o", out, "--zipf", "nan");
    TOOL_OUT(2, "", "--positive takes a number from 0.001 to 0.999", "-o", out, "--positive", "0");
    TOOL_OUT(2, "", "--shards takes a number from 1 to 10000", "-o", out, "--shards", "0");
    TOOL_OUT(1, "", "no-such-folder/x", "-o", tool_path("no-such-folder/x.tfrecord"));
    assert_int_equal(tool_count_files("usage"), 0);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
