/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc synth`: the files are the same again and again, in shards as in one file, in either format; and what they hold
 * is distributed as the options say. Bounds are five standard deviations of what is counted. */
#include "cli/tool.h"

#include <math.h>

#include "base/crc32c.h"

#define N_FIELDS 41 /* label, 13, 26, p_true */
#define P_TRUE   40

/* The rows of a CSV file. */
typedef struct rows {
    char        *text;
    const char **fields; /* N_FIELDS a row; NULL where the file has fewer */
    size_t       n;
} rows;

static rows read_rows(const char *path)
{
    size_t size;
    rows   r    = { .text = tool_read_file(path, &size) };
    char  *last = r.text + size;
    char  *line = strchr(r.text, '\n') + 1;

    for (char *at = line; *at != '\0'; at++) r.n += *at == '\n';
    r.fields = est_zalloc((r.n + 1) * N_FIELDS * sizeof *r.fields);
    assert_non_null(r.fields);
    for (size_t i = 0; i < r.n; i++) {
        char *end = memchr(line, '\n', (size_t)(last - line)); /* ASan measures all of a text to search it */

        *end = '\0';
        for (int k = 0; line != NULL; k++) r.fields[i * N_FIELDS + k] = strsep(&line, ",");
        line = end + 1;
    }
    return r;
}

static const char *field(const rows *r, size_t row, int k)
{
    return r->fields[row * N_FIELDS + k];
}

static void free_rows(rows *r)
{
    est_free(r->text);
    est_free(r->fields);
}

static void expect_same_files(const char *a, const char *b)
{
    size_t n, m;
    char  *x = tool_read_file(a, &n), *y = tool_read_file(b, &m);

    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    est_free(x);
    est_free(y);
}

#define SYNTH(...)                                                                                                     \
    do {                                                                                                               \
        tool_run run_ = TOOL(0, "synth", __VA_ARGS__);                                                                 \
                                                                                                                       \
        tool_expect_text(run_.err, "", "standard error");                                                              \
        tool_run_free(&run_);                                                                                          \
    } while (0)

/* The sums were found once; every machine has to agree, and a change of the generator shows. */
TEST(same_bytes)
{
    size_t size;
    char  *bytes;

    SYNTH("-o", tool_path("a.csv"), "--rows", "1000", "--with-probability");
    SYNTH("-o", tool_path("b.csv"), "--rows", "1000", "--with-probability");
    expect_same_files(tool_path("a.csv"), tool_path("b.csv"));
    bytes = tool_read_file(tool_path("a.csv"), &size);
    assert_int_equal(est_crc32c(bytes, size), 0x8c148027);
    est_free(bytes);
    SYNTH("-o", tool_path("a.tfrecord"), "--rows", "1000", "--seed", "7", "--cardinality", "3,1e5", "--zipf", "0.7");
    bytes = tool_read_file(tool_path("a.tfrecord"), &size);
    assert_int_equal(est_crc32c(bytes, size), 0x78166ae6);
    est_free(bytes);
}

/* Row i is in shard i modulo n, and does not depend on how many rows there are. */
TEST(shards)
{
    rows one, shards[3];

    SYNTH("-o", tool_path("one.csv"), "--rows", "1000");
    SYNTH("-o", tool_path("three.csv"), "--rows", "800", "--shards", "3");
    one = read_rows(tool_path("one.csv"));
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "three-%05d-of-00003.csv", i);
        shards[i] = read_rows(tool_path(name));
    }
    assert_int_equal(one.n, 1000);
    assert_int_equal(shards[0].n + shards[1].n + shards[2].n, 800);
    for (size_t i = 0; i < 800; i++) {
        for (int k = 0; k < P_TRUE; k++) {
            assert_string_equal(field(&one, i, k), field(&shards[i % 3], i / 3, k));
        }
    }
    free_rows(&one);
    for (int i = 0; i < 3; i++) free_rows(&shards[i]);
    SYNTH("-o", tool_path("x"), "--rows", "5", "--shards", "2");
    assert_int_equal(tool_count_files("x-00001-of-00002"), 1);
}

/* The TFRecord file is, byte by byte, what convert makes of the CSV file. */
TEST(formats)
{
    est_strbuf columns = { 0 };
    tool_run   run;

    est_strbuf_append(&columns, "label:int64,p_true:float");
    for (int k = 1; k <= 13; k++) est_strbuf_printf(&columns, ",I%d:float", k);
    for (int k = 1; k <= 26; k++) est_strbuf_printf(&columns, ",C%d:bytes", k);
    SYNTH("-o", tool_path("f.csv"), "--rows", "2000", "--with-probability");
    SYNTH("-o", tool_path("f.tfrecord"), "--rows", "2000", "--with-probability");
    run = TOOL(0, "convert", tool_path("f.csv"), "-o", tool_path("g.tfrecord"), "--na", "", "--columns",
               est_strbuf_text(&columns));
    tool_run_free(&run);
    expect_same_files(tool_path("f.tfrecord"), tool_path("g.tfrecord"));
    SYNTH("-o", tool_path("f"), "--rows", "2000", "--with-probability", "--format", "csv");
    expect_same_files(tool_path("f"), tool_path("f.csv"));
    est_strbuf_clear(&columns);
}

/* --- distributions ---------------------------------------------------------------------------------------------- */

static void expect_near(double got, double want, double deviation, const char *what)
{
    if (fabs(got - want) > 5 * deviation) fail_msg("%s: %g is not within 5 times %g of %g", what, got, deviation, want);
}

/* The constant was found from a sample of 32768 rows, which has a deviation of its own. */
TEST(click_rate)
{
    static const char *const rates[] = { "0.25", "0.02", "0.9" };

    for (int i = 0; i < 3; i++) {
        double    rate = strtod(rates[i], NULL), n = 100000, clicks;
        tool_run  run    = TOOL(0, "synth", "-o", tool_path("rate.tfrecord"), "--positive", rates[i], "--json");
        est_json *report = tool_json(run.out);

        tool_check(est_json_f64(report, &clicks, "positive"));
        expect_near(clicks / n, rate, sqrt(rate * (1 - rate) * (1 / n + 1 / 32768.)), "click rate");
        est_json_free(report);
        tool_run_free(&run);
    }
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_counts(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* How often each category of a column comes, in falling order; returns how many there are, and how many rows have one. */
static size_t count_categories(const rows *r, int k, double *counts, double *n)
{
    const char **values   = est_alloc(r->n * sizeof *values);
    size_t       n_values = 0, n_counts = 0;

    assert_non_null(values);
    for (size_t i = 0; i < r->n; i++) {
        if (field(r, i, k)[0] != '\0') values[n_values++] = field(r, i, k);
    }
    qsort(values, n_values, sizeof *values, compare_text);
    for (size_t i = 0; i < n_values; i++) {
        assert_int_equal(strlen(values[i]), 8);
        assert_int_equal(strspn(values[i], "0123456789abcdef"), 8);
        if (i == 0 || strcmp(values[i], values[i - 1]) != 0) counts[n_counts++] = 0;
        counts[n_counts - 1]++;
    }
    qsort(counts, n_counts, sizeof *counts, compare_counts);
    est_free(values);
    *n = (double)n_values;
    return n_counts;
}

/* Categories are as many as wanted, and as frequent as their ranks say. Neighbours far down may change places, which
 * moves a count by less than its deviation. */
static void check_zipf(const char *exponent, const char *cardinality)
{
    int    n_categories = (int)strtod(cardinality, NULL);
    double counts[1000], n, sum = 0, s = strtod(exponent, NULL);
    rows   r;

    SYNTH("-o", tool_path("zipf.csv"), "--zipf", exponent, "--cardinality", cardinality);
    r = read_rows(tool_path("zipf.csv"));
    for (int k = 1; k <= n_categories; k++) sum += pow(k, -s);
    for (int column = 14; column < 17; column++) {
        assert_int_equal(count_categories(&r, column, counts, &n), n_categories);
        expect_near((double)r.n - n, (double)r.n / 64, sqrt((double)r.n / 64), "missing categories");
        for (int k = 1; k <= n_categories; k++) {
            double p = pow(k, -s) / sum;

            expect_near(counts[k - 1], n * p, sqrt(n * p * (1 - p)), "count of a category");
        }
    }
    free_rows(&r);
}

TEST(zipf)
{
    check_zipf("1.5", "40");
    check_zipf("1", "300");
    check_zipf("0", "50");
    check_zipf("2", "1");
}

/* Cardinalities are taken in turn. */
TEST(cardinalities)
{
    double counts[1000], n;
    rows   r;

    SYNTH("-o", tool_path("turn.csv"), "--rows", "20000", "--cardinality", "2,1e1,30", "--zipf", "0.5");
    r = read_rows(tool_path("turn.csv"));
    for (int k = 0; k < 26; k++) {
        assert_int_equal(count_categories(&r, 14 + k, counts, &n), k % 3 == 0 ? 2 : k % 3 == 1 ? 10 : 30);
    }
    free_rows(&r);
}

/* Counts are whole; some columns have gaps, every fourth has none. */
TEST(numeric)
{
    rows r;
    int  n_with_gaps = 0;

    SYNTH("-o", tool_path("numeric.csv"), "--rows", "20000");
    r = read_rows(tool_path("numeric.csv"));
    for (int k = 1; k <= 13; k++) {
        size_t gaps = 0, different = 0;

        for (size_t i = 0; i < r.n; i++) {
            gaps += field(&r, i, k)[0] == '\0';
            different += strcmp(field(&r, i, k), field(&r, 0, k)) != 0;
            assert_int_equal(strspn(field(&r, i, k), "0123456789"), strlen(field(&r, i, k)));
        }
        assert_true(different > 0 && gaps < r.n / 2);
        if (k % 4 == 1) assert_int_equal(gaps, 0);
        n_with_gaps += gaps > 0;
    }
    assert_in_range(n_with_gaps, 5, 9);
    free_rows(&r);
}

/* --- probabilities ---------------------------------------------------------------------------------------------- */

typedef struct scored {
    double p;
    int    label;
} scored;

static int compare_scores(const void *a, const void *b)
{
    const scored *x = a, *y = b;

    return (x->p > y->p) - (x->p < y->p);
}

/* From the sum of the ranks of the clicks, ties having the mean of their ranks. */
static double auc_by_ranks(scored *s, size_t n)
{
    double ranks = 0, n_positive = 0;

    qsort(s, n, sizeof *s, compare_scores);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first; end < n && s[end].p == s[first].p; end++) {}
        for (size_t i = first; i < end; i++) {
            ranks += s[i].label * ((double)(first + end + 1) / 2);
            n_positive += s[i].label;
        }
    }
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * ((double)n - n_positive));
}

/* Clicks come as often as p_true says, for low ones as for high ones; and its AUC is the one that was reported. */
TEST(probabilities)
{
    tool_run  run       = TOOL(0, "synth", "-o", tool_path("p.csv"), "--with-probability", "--json", "--rows", "50000");
    est_json *report    = tool_json(run.out);
    rows      r         = read_rows(tool_path("p.csv"));
    scored   *s         = est_alloc(r.n * sizeof *s);
    double    clicks[4] = { 0 }, expected[4] = { 0 }, variance[4] = { 0 }, auc, reported;
    bool      synthetic;

    assert_non_null(s);
    for (size_t i = 0; i < r.n; i++) {
        int bin;

        s[i] = (scored){ strtod(field(&r, i, P_TRUE), NULL), field(&r, i, 0)[0] == '1' };
        bin  = (int)(s[i].p * 4);
        assert_true(s[i].p > 0 && s[i].p < 1 && s[i].p == (double)(float)s[i].p);
        clicks[bin] += s[i].label;
        expected[bin] += s[i].p;
        variance[bin] += s[i].p * (1 - s[i].p);
    }
    for (int i = 0; i < 4; i++) expect_near(clicks[i], expected[i], sqrt(variance[i]), "clicks");
    tool_check(est_json_f64(report, &reported, "auc"));
    tool_check(est_json_bool(report, &synthetic, "synthetic"));
    auc = auc_by_ranks(s, r.n);
    assert_true(fabs(auc - reported) < 1e-12);
    assert_true(auc > 0.7 && auc < 0.95); /* there is something to learn, and not all of it */
    assert_true(synthetic);
    est_free(s);
    free_rows(&r);
    est_json_free(report);
    tool_run_free(&run);
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

TEST(report)
{
    tool_run run = TOOL(0, "synth", "-o", tool_path("r.csv"), "--rows", "100");

    tool_expect_part(run.out, "100 synthetic rows, ", "standard output");
    tool_expect_part(run.out, "AUC of the true probabilities on them: 0.", "standard output");
    tool_run_free(&run);
    run = TOOL(0, "synth", "-o", tool_path("r.csv"), "--rows", "0", "--json"); /* no clicks, no AUC */
    tool_expect_part(run.out, "\"rows\": 0, \"positive\": 0, \"auc\": null, ", "standard output");
    tool_run_free(&run);
}

TEST(usage)
{
    const char *out = tool_path("usage.csv");

    TOOL_OUT(2, "", "--output is missing", "synth");
    TOOL_OUT(2, "", "it takes no arguments, and 1 are given", "synth", "-o", out, "x");
    TOOL_OUT(2, "", "--format takes csv or tfrecord, not \"libsvm\"", "synth", "-o", out, "--format", "libsvm");
    TOOL_OUT(2, "", "--rows takes a number from 0 up", "synth", "-o", out, "--rows", "-1");
    TOOL_OUT(2, "", "--cardinality takes whole numbers", "synth", "-o", out, "--cardinality", "");
    TOOL_OUT(2, "", "--cardinality takes whole numbers", "synth", "-o", out, "--cardinality", "0");
    TOOL_OUT(2, "", "--cardinality takes whole numbers", "synth", "-o", out, "--cardinality", "10,1.5");
    TOOL_OUT(2, "", "--cardinality takes whole numbers", "synth", "-o", out, "--cardinality", "1e8");
    TOOL_OUT(2, "", "--cardinality takes whole numbers", "synth", "-o", out, "--cardinality", "10,nan");
    TOOL_OUT(2, "", "--cardinality takes whole numbers", "synth", "-o", out, "--cardinality", "10,");
    TOOL_OUT(2, "", "more than 26 numbers", "synth", "-o", out, "--cardinality",
             "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
    TOOL_OUT(2, "", "--zipf takes a number from 0 to 4", "synth", "-o", out, "--zipf", "-0.5");
    TOOL_OUT(2, "", "--zipf takes a number from 0 to 4", "synth", "-o", out, "--zipf", "nan");
    TOOL_OUT(2, "", "--positive takes a number from 0.001 to 0.999", "synth", "-o", out, "--positive", "0");
    TOOL_OUT(2, "", "--shards takes a number from 1 to 10000", "synth", "-o", out, "--shards", "0");
    TOOL_OUT(2, "", "is there and is not a regular file", "synth", "-o", est_test_root);
    TOOL_OUT(1, "", "no-such-folder/x", "synth", "-o", tool_path("no-such-folder/x.csv"));
    TOOL_OUT(1, "", "no-such-folder/x", "synth", "-o", tool_path("no-such-folder/x.tfrecord"));
    assert_int_equal(tool_count_files("usage"), 0);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
