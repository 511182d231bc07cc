/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV rows: fields as tf.io.decode_csv reads them, headers, every error, many random rows against a plain reader,
 * damage of every byte, and the way back from fields to text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/csv.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define COLUMNS_MAX 8

static const est_csv_column mixed[] = {
    { .name = "f", .dtype = EST_F32, .default_text = "-1.5" },    { .name = "d", .dtype = EST_F64 },
    { .name = "i", .dtype = EST_I32, .default_text = "7" },       { .name = "l", .dtype = EST_I64, .required = true },
    { .name = "s", .dtype = EST_STRING, .default_text = "none" },
};

#define N_MIXED 5

static void expect_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

static est_str str(const char *text)
{
    return (est_str){ text, strlen(text) };
}

static est_csv_decoder *decoder_of(const est_csv_column *columns, size_t n, const est_csv_options *options)
{
    est_csv_decoder *d;

    assert_int_equal(est_csv_decoder_create(columns, n, options, &d), EST_OK);
    return d;
}

static void free_all(est_tensor **tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) est_tensor_free(tensors[i]);
}

static void expect_text(const est_tensor *tensor, size_t i, const char *want)
{
    est_str got = ((const est_str *)est_tensor_data(tensor))[i];

    if (got.size != strlen(want) || memcmp(got.data, want, got.size) != 0) {
        fail_msg("element %zu is \"%.*s\", expected \"%s\"", i, (int)got.size, got.data, want);
    }
}

/* One row of one string column is this text, or an error with this in it when `want` begins with '!'. */
static void expect_field(const char *row, const est_csv_options *options, const char *want)
{
    static const est_csv_column column = { .name = "word", .dtype = EST_STRING, .default_text = "(none)" };
    est_csv_decoder            *d      = decoder_of(&column, 1, options);
    est_tensor                 *out    = NULL;
    size_t                      bad;
    est_status                  status = est_csv_decode(d, &(est_str){ row, strlen(row) }, 1, &out, &bad);

    if (want[0] == '!') {
        assert_int_equal(status, EST_INVALID_ARGUMENT);
        assert_int_equal(bad, 0);
        assert_null(out);
        expect_error(want + 1);
    } else {
        assert_int_equal(status, EST_OK);
        expect_text(out, 0, want);
        est_tensor_free(out);
    }
    est_csv_decoder_free(d);
}

TEST(every_type)
{
    static const char *const texts[] = { "1.5,2.5,3,4,five", ",,,5,",
                                         "-1e3, 0.1 ,-2147483648,-9223372036854775808,\"a,\"\"b\"\"\"",
                                         "inf,nan,2147483647,9223372036854775807,x" };
    est_csv_decoder         *d       = decoder_of(mixed, N_MIXED, NULL);
    est_str                  rows[4];
    est_tensor              *out[N_MIXED];
    const float             *f;
    const double            *f64;

    for (int i = 0; i < 4; i++) rows[i] = str(texts[i]);
    assert_int_equal(est_csv_decode(d, rows, 4, out, NULL), EST_OK);
    for (int i = 0; i < N_MIXED; i++) {
        assert_int_equal(est_tensor_dtype(out[i]), mixed[i].dtype);
        assert_true(est_shape_equal(est_tensor_shape(out[i]), &EST_SHAPE(4)));
    }
    f   = est_tensor_data(out[0]);
    f64 = est_tensor_data(out[1]);
    assert_true(f[0] == 1.5f && f[1] == -1.5f && f[2] == -1000 && f[3] > 1e38f);
    assert_true(f64[0] == 2.5 && f64[1] == 0 && f64[2] == 0.1 && f64[3] != f64[3]);
    assert_memory_equal(est_tensor_data(out[2]), ((int32_t[]){ 3, 7, INT32_MIN, INT32_MAX }), 16);
    assert_memory_equal(est_tensor_data(out[3]), ((int64_t[]){ 4, 5, INT64_MIN, INT64_MAX }), 32);
    expect_text(out[4], 0, "five");
    expect_text(out[4], 1, "none");
    expect_text(out[4], 2, "a,\"b\"");
    expect_text(out[4], 3, "x");
    free_all(out, N_MIXED);
    est_csv_decoder_free(d);
}

TEST(quotes)
{
    expect_field("a b ", NULL, "a b ");
    expect_field("\"a\"", NULL, "a");
    expect_field("\"a,b\nc\r\n\"", NULL, "a,b\nc\r\n");
    expect_field("\"a\"\"b\"", NULL, "a\"b");
    expect_field("\"\"\"\"", NULL, "\"");
    expect_field("\"\"", NULL, "(none)");
    expect_field("", NULL, "(none)");
    expect_field("abc\n", NULL, "abc");
    expect_field("abc\r\n", NULL, "abc");
    expect_field("\"abc\"\r\n", NULL, "abc");
    expect_field("a\"b", NULL, "!row 0, column \"word\": \"a\"b\" has a quote inside");
    expect_field("\"a\"b", NULL, "!is followed by more after its quote");
    expect_field("\"a\" ", NULL, "!is followed by more after its quote");
    expect_field(" \"a\"", NULL, "!has a quote inside");
    expect_field("\"a", NULL, "!has no closing quote");
    expect_field("\"", NULL, "!has no closing quote");
    expect_field("\"a\"\"", NULL, "!has no closing quote");
    expect_field("a\rb", NULL, "!has a line break outside quotes");
    expect_field("a\nb", NULL, "!\"a?b\" has a line break outside quotes");
    expect_field("a\"b", EST_CSV(.no_quotes = true), "a\"b");
    expect_field("\"a\"", EST_CSV(.no_quotes = true), "\"a\"");
    expect_field("a,b", EST_CSV(.delimiter = '\t'), "a,b");
    expect_field("\"a\tb\"", EST_CSV(.delimiter = '\t'), "a\tb");
    expect_field("a,b", NULL, "!row 0, 2 fields where 1 are expected: \"a,b\"");
    expect_field("0123456789012345678901234567890123456789\"x", NULL,
                 "!\"0123456789012345678901234567890123456789...\" has");
}

TEST(trim_and_na)
{
    expect_field(" \ta b\t ", EST_CSV(.trim = true), "a b");
    expect_field(" \" a \" ", EST_CSV(.trim = true), " a ");
    expect_field("   ", EST_CSV(.trim = true), "(none)");
    expect_field("   ", NULL, "   ");
    expect_field("?", EST_CSV(.na_value = "?"), "(none)");
    expect_field(" ?", EST_CSV(.na_value = "?"), " ?");
    expect_field(" ?", EST_CSV(.na_value = "?", .trim = true), "(none)");
    expect_field("\"NA\"", EST_CSV(.na_value = "NA"), "(none)");
    expect_field("NAN", EST_CSV(.na_value = "NA"), "NAN");
    expect_field("?", EST_CSV(.na_value = ""), "?");
}

/* Rows around the size of a block, delimiters at every place in it. */
/* Tabs between fields are no blanks, though tabs may be: an empty field stays one. */
TEST(trim_with_tabs)
{
    static const est_csv_column columns[]  = { { "a", EST_STRING }, { "b", EST_STRING }, { "c", EST_STRING } };
    est_csv_decoder            *d          = decoder_of(columns, 3, EST_CSV(.delimiter = '\t', .trim = true));
    const est_str               rows[]     = { str("x\t\t\"y\""), str(" \"x\" \t\t y "), str("\t\"x\"\t") };
    static const char *const    want[3][3] = { { "x", "x", "" }, { "", "", "x" }, { "y", "y", "" } };
    est_tensor                 *out[3];

    assert_int_equal(est_csv_decode(d, rows, 3, out, NULL), EST_OK);
    for (size_t c = 0; c < 3; c++) {
        for (size_t r = 0; r < 3; r++) expect_text(out[c], r, want[c][r]);
    }
    free_all(out, 3);
    est_csv_decoder_free(d);
}

/* As tf.io.decode_csv of TensorFlow 2.15.1: too large is inf, too small is 0, blanks are 0 and not the default. */
TEST(floats_as_tensorflow)
{
    static const est_csv_column columns[] = { { "f", EST_F32, false, "5" }, { "d", EST_F64, false, "5" } };
    static const est_csv_column whole     = { "i", EST_I32, false, "5" };
    static const struct {
        const char *text;
        double      want;
    } cases[] = {
        { "1e400", INFINITY }, { "-1e400", -INFINITY }, { "1e-400", 0 }, { "  ", 0 }, { "", 5 }, { " 1 ", 1 }
    };
    est_csv_decoder *d = decoder_of(columns, 2, NULL);
    est_tensor      *out[2];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char row[40];

        snprintf(row, sizeof row, "%s,%s", cases[i].text, cases[i].text);
        assert_int_equal(est_csv_decode(d, &(est_str){ row, strlen(row) }, 1, out, NULL), EST_OK);
        assert_true((double)*(const float *)est_tensor_data(out[0]) == cases[i].want);
        assert_true(*(const double *)est_tensor_data(out[1]) == cases[i].want);
        free_all(out, 2);
    }
    est_csv_decoder_free(d);
    d = decoder_of(&whole, 1, NULL);
    assert_int_equal(est_csv_decode(d, &(est_str){ "  ", 2 }, 1, out, NULL), EST_INVALID_ARGUMENT);
    est_csv_decoder_free(d);
}

TEST(split)
{
    est_arena *scratch = NULL;
    est_str    fields[3];
    size_t     n;

    assert_int_equal(est_csv_split(str("a;\"b\"\"\n;\";; c"), ';', true, false, &scratch, fields, 3, &n), EST_OK);
    assert_int_equal(n, 4); /* of which the first three are given */
    assert_int_equal(fields[0].size, 1);
    assert_int_equal(fields[1].size, 4);
    assert_memory_equal(fields[1].data, "b\"\n;", 4);
    assert_int_equal(fields[2].size, 0);
    assert_int_equal(est_csv_split(str(""), ',', true, false, &scratch, fields, 3, &n), EST_OK);
    assert_int_equal(n, 1);
    assert_int_equal(est_csv_split(str("a,b\"c"), ',', true, false, &scratch, fields, 3, &n), EST_INVALID_ARGUMENT);
    expect_error("field 2: \"b\"c\" has a quote inside");
    assert_int_equal(est_csv_split(str("\"a"), ',', true, false, &scratch, fields, 3, &n), EST_INVALID_ARGUMENT);
    expect_error("field 1: \"\"a\" has no closing quote");
    assert_int_equal(est_csv_split(str(" a b ,\t\" c \" ,  "), ',', true, true, &scratch, fields, 3, &n), EST_OK);
    assert_int_equal(n, 3);
    assert_int_equal(fields[0].size, 3);
    assert_memory_equal(fields[0].data, "a b", 3);
    assert_int_equal(fields[1].size, 3);
    assert_memory_equal(fields[1].data, " c ", 3);
    assert_int_equal(fields[2].size, 0);
    assert_int_equal(est_csv_split(str("\"a,b\"c"), ',', false, false, &scratch, fields, 3, &n), EST_OK);
    assert_int_equal(n, 2);
    assert_memory_equal(fields[0].data, "\"a", 2);
    assert_memory_equal(fields[1].data, "b\"c", 3);
    est_arena_free(scratch);
}

TEST(row_sizes)
{
    static const est_csv_column columns[] = { { .name = "a", .dtype = EST_STRING },
                                              { .name = "b", .dtype = EST_STRING },
                                              { .name = "c", .dtype = EST_I64 } };
    est_csv_decoder            *d         = decoder_of(columns, 3, NULL);

    for (size_t size = 2; size < 200; size++) {
        for (size_t at = 0; at + 2 <= size; at++) {
            char       *row = malloc(size);
            est_tensor *out[3];
            est_str     a, b;

            assert_non_null(row);
            memset(row, 'x', size);
            row[at]       = ',';
            row[size - 1] = size % 2 == 0 ? '5' : ',';
            if (size % 2 == 0 && size - 2 > at) row[size - 2] = ',';
            if (size % 2 == 0 && size - 2 <= at) {
                assert_int_equal(est_csv_decode(d, &(est_str){ row, size }, 1, out, NULL), EST_INVALID_ARGUMENT);
                free(row);
                continue;
            }
            assert_int_equal(est_csv_decode(d, &(est_str){ row, size }, 1, out, NULL), EST_OK);
            a = *(const est_str *)est_tensor_data(out[0]);
            b = *(const est_str *)est_tensor_data(out[1]);
            assert_int_equal(a.size, at);
            assert_int_equal(b.size, size - at - (size % 2 == 0 ? 3 : 2));
            assert_memory_equal(a.data, row, a.size);
            assert_memory_equal(b.data, row + at + 1, b.size);
            assert_int_equal(*(const int64_t *)est_tensor_data(out[2]), size % 2 == 0 ? 5 : 0);
            free_all(out, 3);
            free(row);
        }
    }
    est_csv_decoder_free(d);
}

TEST(header)
{
    static const est_csv_column columns[] = { { .name = "b", .dtype = EST_I32 },
                                              { .name = "a \"x\"", .dtype = EST_STRING } };
    est_csv_decoder            *d         = decoder_of(columns, 2, EST_CSV(.header = true, .trim = true));
    est_tensor                 *out[2];

    assert_int_equal(est_csv_decode(d, &(est_str){ "1,2", 3 }, 1, out, NULL), EST_FAILED_PRECONDITION);
    assert_int_equal(est_csv_decoder_header(d, str("\"a \"\"x\"\"\", other, b,c\r\n")), EST_OK);
    assert_int_equal(est_csv_decode(d, &(est_str){ "one, junk, 2,,", 13 }, 1, out, NULL), EST_OK);
    assert_int_equal(*(const int32_t *)est_tensor_data(out[0]), 2);
    expect_text(out[1], 0, "one");
    free_all(out, 2);
    assert_int_equal(est_csv_decode(d, &(est_str){ "one,junk,2", 10 }, 1, out, NULL), EST_INVALID_ARGUMENT);
    expect_error("row 0, 3 fields where 4 are expected");
    assert_int_equal(est_csv_decode(d, &(est_str){ "one,junk,2,3,4", 14 }, 1, out, NULL), EST_INVALID_ARGUMENT);
    expect_error("row 0, 5 fields where 4 are expected");
    assert_int_equal(est_csv_decoder_header(d, str("b,c")), EST_INVALID_ARGUMENT);
    expect_error("column \"a \"x\"\" is not among the names of the fields");
    assert_int_equal(est_csv_decoder_header(d, str("other,bb,\"a \"\"x\"\"\"")), EST_INVALID_ARGUMENT);
    expect_error("column \"b\" is not among the names of the fields; did you mean \"bb\"?");
    assert_int_equal(est_csv_decoder_header(d, str("a;b")), EST_INVALID_ARGUMENT);
    expect_error("there is only one field: is the delimiter right (data.csv.delimiter in a job file)?");
    assert_int_equal(est_csv_decoder_header(d, str("b,b")), EST_INVALID_ARGUMENT);
    expect_error("column \"b\" is there twice");
    assert_int_equal(est_csv_decoder_header(d, str("b,\"c")), EST_INVALID_ARGUMENT);
    expect_error("header, field 2");
    assert_int_equal(est_csv_decode(d, &(est_str){ "one,junk,2,3", 12 }, 1, out, NULL), EST_OK); /* the old one holds */
    free_all(out, 2);
    assert_int_equal(est_csv_decoder_header(d, str("b,\"a \"\"x\"\"\"")), EST_OK);
    assert_int_equal(est_csv_decode(d, &(est_str){ "2,one", 5 }, 1, out, NULL), EST_OK);
    expect_text(out[1], 0, "one");
    free_all(out, 2);
    est_csv_decoder_free(d);
}

TEST(field_names)
{
    static const est_csv_column columns[] = { { .name = "income", .dtype = EST_STRING },
                                              { .name = "age", .dtype = EST_F32 } };
    static const char *const    names[]   = { "age", "job", "income" };
    est_csv_decoder            *d         = decoder_of(columns, 2, EST_CSV(.field_names = { names, 3 }, .trim = true));
    est_tensor                 *out[2];

    assert_int_equal(est_csv_decode(d, &(est_str){ "39, State-gov, <=50K", 20 }, 1, out, NULL), EST_OK);
    expect_text(out[0], 0, "<=50K");
    assert_true(*(const float *)est_tensor_data(out[1]) == 39);
    free_all(out, 2);
    assert_int_equal(est_csv_decode(d, &(est_str){ "39,\"x\"y,z", 9 }, 1, out, NULL), EST_INVALID_ARGUMENT);
    expect_error("row 0, field 2: \"x\" is followed");
    assert_int_equal(est_csv_decoder_header(d, str("a")), EST_FAILED_PRECONDITION);
    est_csv_decoder_free(d);
}

TEST(errors_say_where)
{
    static const struct {
        const char *row, *text;
    } cases[] = {
        { "x,2,3,4,5", "row 1, column \"f\": \"x\" is not a number" },
        { "1,0x10,3,4,5", "row 1, column \"d\": \"0x10\" is not a number" },
        { "1,2,2147483648,4,5", "row 1, column \"i\": \"2147483648\" does not fit int32" },
        { "1,2,3.5,4,5", "row 1, column \"i\": \"3.5\" is not an integer" },
        { "1,2,3,9223372036854775808,5", "row 1, column \"l\": \"9223372036854775808\" does not fit int64" },
        { "1,2,3,,5",
          "row 1, column \"l\": \"\" is a missing value, but the column is required; give it a default or leave .required out" },
        { "1,2,3,4", "row 1, 4 fields where 5 are expected: \"1,2,3,4\"" },
        { "", "row 1, 1 field where 5 are expected" },
        { "1,2,3,4,5,6,7", "row 1, 7 fields where 5 are expected" },
        { "1,2,3,4,\"5\",6,7", "row 1, 7 fields where 5 are expected" },
        { "1,\"2\",\"x\",4,5", "row 1, column \"i\": \"x\" is not an integer" },
    };
    est_csv_decoder *d = decoder_of(mixed, N_MIXED, NULL);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_str     rows[] = { str("1,2,3,4,5"), str(cases[i].row), str("bad") };
        est_tensor *out[N_MIXED];
        size_t      bad = 99;

        assert_int_equal(est_csv_decode(d, rows, 3, out, &bad), EST_INVALID_ARGUMENT);
        expect_error(cases[i].text);
        assert_int_equal(bad, 1);
        assert_int_equal(est_csv_decode(d, rows, 1, out, &bad), EST_OK);
        assert_int_equal(bad, 1); /* n: no row is bad */
        free_all(out, N_MIXED);
    }
    est_csv_decoder_free(d);
}

TEST(bad_specs)
{
    static const char *const    names[] = { "f" };
    static const est_csv_column twice[] = { { .name = "f", .dtype = EST_F32 }, { .name = "f", .dtype = EST_F32 } };
    const struct {
        est_csv_column         column;
        const est_csv_options *options;
        const char            *text;
    } cases[] = {
        { { .dtype = EST_F32 }, NULL, "without a name" },
        { { .name = "x" }, NULL, "column \"x\"" },
        { { .name = "x", .dtype = EST_U8 }, NULL, "uint8" },
        { { .name = "x", .dtype = EST_F32, .default_text = "?" }, NULL, "the default \"?\" is not a number" },
        { { .name = "f", .dtype = EST_F32 }, EST_CSV(.delimiter = '"'), "delimiter" },
        { { .name = "f", .dtype = EST_F32 },
          EST_CSV(.field_names = { names, 1 }, .header = true),
          "both field names and .header are set" },
        { { .name = "x", .dtype = EST_F32 }, EST_CSV(.field_names = { names, 1 }), "not among the names" },
        { { .name = "x", .dtype = EST_F32 }, &(est_csv_options){ .delimiter = ';' }, "EST_CSV" },
    };
    est_csv_decoder *d;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(est_csv_decoder_create(&cases[i].column, 1, cases[i].options, &d), EST_INVALID_ARGUMENT);
        expect_error(cases[i].text);
    }
    assert_int_equal(est_csv_decoder_create(twice, 2, NULL, &d), EST_INVALID_ARGUMENT);
    expect_error("column \"f\" is given twice");
    assert_int_equal(est_csv_decoder_create(twice, 0, NULL, &d), EST_INVALID_ARGUMENT);
    est_csv_decoder_free(NULL);
}

/* Columns own few blocks, however many rows there are, and the rows may go. */
TEST(few_allocations)
{
    est_csv_decoder *d    = decoder_of(mixed, N_MIXED, NULL);
    char            *text = malloc(1000 * 40);
    est_str         *rows = malloc(1000 * sizeof *rows);
    est_tensor      *out[N_MIXED];
    uint64_t         before;

    assert_true(text != NULL && rows != NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(text + 40 * i, 40, "1.5,2,3,4,word%.*s%d", i % 10, "0123456789", i);
        rows[i] = str(text + 40 * i);
    }
    before = est_alloc_count();
    assert_int_equal(est_csv_decode(d, rows, 1000, out, NULL), EST_OK);
    assert_true(est_alloc_count() - before < 20);
    for (int i = 0; i < 1000; i++) {
        char want[40];

        memcpy(want, text + 40 * i + 10, 30);
        memset(text + 40 * i, '!', 40);
        expect_text(out[4], (size_t)i, want);
    }
    free(rows);
    free(text);
    free_all(out, N_MIXED);
    est_csv_decoder_free(d);
}

TEST(no_rows)
{
    est_csv_decoder *d = decoder_of(mixed, N_MIXED, NULL);
    est_tensor      *out[N_MIXED];

    assert_int_equal(est_csv_decode(d, NULL, 0, out, NULL), EST_OK);
    for (int i = 0; i < N_MIXED; i++) assert_int_equal(est_tensor_count(out[i]), 0);
    free_all(out, N_MIXED);
    est_csv_decoder_free(d);
}

/* Random fields, written by est_csv_append_field, come back; so both ways agree. */
TEST(write_and_read)
{
    static const char alphabet[] = "ab ,;\"\"\n\r\t0x";
    est_csv_column    columns[COLUMNS_MAX];
    char              names[COLUMNS_MAX][12], fields[COLUMNS_MAX][130];
    uint64_t          seed = 7;

    for (int k = 0; k < COLUMNS_MAX; k++) {
        snprintf(names[k], sizeof names[k], "%d", k);
        columns[k] = (est_csv_column){ .name = names[k], .dtype = EST_STRING };
    }
    for (int round = 0; round < 3000; round++) {
        size_t           n         = 1 + (size_t)round % COLUMNS_MAX;
        char             delimiter = ",;\t"[round % 3];
        bool             trim      = round % 5 == 0;
        est_csv_decoder *d         = decoder_of(columns, n, EST_CSV(.delimiter = delimiter, .trim = trim));
        est_strbuf       row       = { 0 };
        est_tensor      *out[COLUMNS_MAX];

        for (size_t k = 0; k < n; k++) {
            size_t size = (seed >> 40) % (round % 2 == 0 ? 6 : 130);

            for (size_t i = 0; i < size; i++) {
                seed         = seed * 6364136223846793005u + 1442695040888963407u;
                fields[k][i] = alphabet[(seed >> 33) % (sizeof alphabet - 1)];
            }
            fields[k][size] = 0;
            if (k > 0) est_strbuf_append_bytes(&row, &delimiter, 1);
            est_csv_append_field(&row, str(fields[k]), delimiter);
        }
        assert_int_equal(est_csv_decode(d, &(est_str){ row.data, row.size }, 1, out, NULL), EST_OK);
        for (size_t k = 0; k < n; k++) expect_text(out[k], 0, fields[k]);
        free_all(out, n);
        est_strbuf_clear(&row);
        est_csv_decoder_free(d);
    }
}

TEST(append_field)
{
    static const char *const pairs[][2] = { { "a", "a" },           { "", "" },
                                            { "a b", "a b" },       { " a", "\" a\"" },
                                            { "a,b", "\"a,b\"" },   { "a;b", "a;b" },
                                            { "\"", "\"\"\"\"" },   { "a\"b\"c", "\"a\"\"b\"\"c\"" },
                                            { "a\nb", "\"a\nb\"" }, { "a\r", "\"a\r\"" } };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        est_strbuf buf = { 0 };

        est_csv_append_field(&buf, str(pairs[i][0]), ',');
        assert_string_equal(est_strbuf_text(&buf), pairs[i][1]);
        est_strbuf_clear(&buf);
    }
}

/* Each flip of a bit and each cut gives an error that names the row, or a result; never a crash. */
TEST(every_flip_and_cut)
{
    static const char good[] = "1.5,-2e-3,31,12345678901,\"a\"\"b,\", word ,1,x";
    est_csv_column    columns[COLUMNS_MAX];
    est_csv_decoder  *d;
    size_t            size = sizeof good - 1;

    memcpy(columns, mixed, sizeof mixed);
    columns[5] = (est_csv_column){ .name = "w", .dtype = EST_STRING };
    columns[6] = (est_csv_column){ .name = "b", .dtype = EST_I32 };
    columns[7] = (est_csv_column){ .name = "z", .dtype = EST_STRING, .required = true };
    d          = decoder_of(columns, 8, EST_CSV(.na_value = "?", .trim = true));
    for (size_t i = 0; i < 9 * size; i++) {
        size_t      n   = i < size ? i : size, bad;
        char       *row = malloc(n + 1);
        est_tensor *out[COLUMNS_MAX];
        est_status  status;

        assert_non_null(row);
        memcpy(row, good, n);
        if (i >= size) row[(i - size) / 8] = (char)(row[(i - size) / 8] ^ 1 << i % 8);
        row    = realloc(row, n > 0 ? n : 1); /* exactly as large, for a checker of memory */
        status = est_csv_decode(d, &(est_str){ row, n }, 1, out, &bad);
        free(row);
        assert_int_equal(bad, status == EST_OK ? 1 : 0);
        if (status != EST_OK) {
            assert_int_equal(status, EST_INVALID_ARGUMENT);
            expect_error("row 0");
            continue;
        }
        for (int k = 0; k < 8; k++) assert_int_equal(est_tensor_count(out[k]), 1);
        free_all(out, 8);
    }
    est_csv_decoder_free(d);
}

TEST(no_memory)
{
    static const char *const texts[] = { "1,2,3,4,five", "1,2,3,4,\"fi\"\"ve\"" };
    est_str                  rows[]  = { str(texts[0]), str(texts[1]) };

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_csv_decoder *d            = NULL;
        est_tensor      *out[N_MIXED] = { NULL };
        est_status       status;
        size_t           bad = 0;

        fault_arm(&f);
        status = est_csv_decoder_create(mixed, N_MIXED, EST_CSV(.header = true, .na_value = "?"), &d);
        if (status == EST_OK) status = est_csv_decoder_header(d, str("f,d,i,l,\"s\",\"\"\"\""));
        if (status == EST_OK) status = est_csv_decoder_header(d, str("f,d,i,l,\"s\""));
        if (status == EST_OK) status = est_csv_decode(d, rows, 2, out, &bad);
        fault_check(&f, status);
        free_all(out, N_MIXED);
        est_csv_decoder_free(d);
        assert_true(bad == 0 || bad == 2); /* no row is at fault */
    }
    FAULT_LOOP(f, FAULT_ALLOCATIONS) { /* without a header */
        est_csv_decoder *d = NULL;
        est_status       status;

        fault_arm(&f);
        status = est_csv_decoder_create(mixed, N_MIXED, NULL, &d);
        fault_check(&f, status);
        est_csv_decoder_free(d);
    }
}
