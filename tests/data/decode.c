/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding batches of rows: Examples, CSV and libsvm; the same with any number of workers; bad rows by file and line,
 * left out one by one; headers of CSV files; positions. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "estoc/log.h"
#include "support/data_test.h"
#include "support/source_test.h"
#include "support/test.h"

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static const est_component line_component = { .name = "line", .dtype = EST_STRING, .shape = { 0 } };

/* --- examples ----------------------------------------------------------------------------------------------------- */

/* Row i: "x" = i and -i, "words" = i % 3 times "w<i>", "ids" = i % 4 times i; every eleventh one has no "x". */
static est_status example_row(int64_t row, int i, est_tensor **out)
{
    const float  x[2]   = { (float)row, (float)-row };
    const char   word[] = { 'w', (char)('0' + row % 10) };
    est_str      words[3];
    int64_t      ids[3] = { row, row, row };
    est_example *example;
    est_str      bytes;
    est_status   status;

    (void)i;
    EST_TRY(est_example_create(&example));
    for (int k = 0; k < 3; k++) words[k] = (est_str){ word, sizeof word };
    if (row % 11 != 10) est_example_set_f32s(example, "x", x, 2);
    est_example_set_bytes(example, "words", words, (size_t)(row % 3));
    est_example_set_i64s(example, "ids", ids, (size_t)(row % 4));
    status = est_example_serialize(example, &bytes);
    if (status == EST_OK) status = est_tensor_string(bytes.data, bytes.size, out);
    est_example_free(example);
    return status;
}

static const est_feature_spec specs[] = {
    { .name = "x", .dtype = EST_F32, .shape = { 1, { 2 } } },
    { .name = "words", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "ids", .dtype = EST_I64, .rows = EST_ROWS_PADDED },
};

static est_dataset *examples(int64_t n, int64_t batch, const est_parse_options *options)
{
    est_dataset *d = est_test_rows(&line_component, 1, n, example_row, "file.tfrecord");

    return est_dataset_parse_examples(d, (est_feature_specs){ specs, 3 }, batch, options);
}

TEST(examples)
{
    for (int workers = 0; workers <= 4; workers++) {
        est_test_yields(examples(5, 2, EST_PARSE(.workers = workers)),
                        "[[0 0] [1 -1]] | [\"w1\"]/[0 0 1] | [[0] [1]] | [0 1] ; "
                        "[[2 -2] [3 -3]] | [\"w2\" \"w2\"]/[0 2 2] | [[2 2 0] [3 3 3]] | [2 3] ; "
                        "[[4 -4]] | [\"w4\"]/[0 1] | empty[1,0] | [0]");
        est_test_yields(examples(5, 2, EST_PARSE(.workers = workers, .drop_remainder = true)),
                        "[[0 0] [1 -1]] | [\"w1\"]/[0 0 1] | [[0] [1]] | [0 1] ; "
                        "[[2 -2] [3 -3]] | [\"w2\" \"w2\"]/[0 2 2] | [[2 2 0] [3 3 3]] | [2 3]");
    }
}

static void expect_component(const est_dataset *d, int i, const char *name, const char *shape, bool ragged)
{
    const est_component *c = est_dataset_component(d, i);
    char                 text[EST_SHAPE_TEXT_MAX];

    assert_string_equal(c->name, name);
    assert_string_equal(est_shape_text(&c->shape, text), shape);
    assert_int_equal(c->ragged, ragged);
}

TEST(examples_components)
{
    est_dataset *d = est_test_finish(examples(5, 2, NULL));

    assert_int_equal(est_dataset_components(d), 4);
    expect_component(d, 0, "x", "[?,2]", false);
    expect_component(d, 1, "words", "[?]", true);
    expect_component(d, 2, "ids", "[?,?]", false);
    expect_component(d, 3, "ids/lengths", "[?]", false);
    est_dataset_free(d);
    d = est_test_finish(examples(5, 2, EST_PARSE(.drop_remainder = true)));
    expect_component(d, 0, "x", "[2,2]", false);
    expect_component(d, 3, "ids/lengths", "[2]", false);
    est_dataset_free(d);
    d = est_test_finish(examples(5, 2, EST_PARSE(.drop_remainder = true, .bad_rows_max = 1)));
    expect_component(d, 0, "x", "[?,2]", false); /* a batch may lose a row */
    est_dataset_free(d);
}

/* The specs and the defaults in them are copied. */
TEST(examples_default)
{
    const int64_t    seven   = 7;
    est_feature_spec spec    = { .name = "none", .dtype = EST_I64 };
    est_tensor      *seventh = NULL;
    est_dataset     *d;

    check(est_tensor_i64(EST_SHAPE_SCALAR, &seven, &seventh));
    spec.default_value = seventh;
    d                  = est_test_rows(&line_component, 1, 3, example_row, NULL);
    d                  = est_dataset_parse_examples(d, (est_feature_specs){ &spec, 1 }, 2, NULL);
    est_tensor_free(seventh);
    spec = (est_feature_spec){ 0 };
    est_test_yields(d, "[7 7] ; [7]");
}

TEST(examples_bad_rows)
{
    for (int workers = 0; workers <= 3; workers++) {
        /* 10 and 21 are bad. */
        est_test_breaks(examples(24, 4, EST_PARSE(.workers = workers)), EST_INVALID_ARGUMENT,
                        "file.tfrecord:11: feature \"x\": ");
        est_test_breaks(examples(24, 4, EST_PARSE(.workers = workers, .bad_rows_max = 1)), EST_INVALID_ARGUMENT,
                        "file.tfrecord:22: feature \"x\": ");
        for (int64_t max = 2; max <= 3; max++) {
            est_dataset  *d    = est_test_finish(examples(24, 4, EST_PARSE(.workers = workers, .bad_rows_max = max)));
            est_iterator *rows = est_test_iterate(d);
            est_field     element[4] = { 0 };
            int64_t       value      = 0;

            for (int b = 0; b < 6; b++) {
                const float *x;
                int64_t      n;

                check(est_iterator_next(rows, element));
                n = est_tensor_shape(element[0].values)->dim[0];
                x = est_tensor_data(element[0].values);
                assert_int_equal(n, b == 2 || b == 5 ? 3 : 4);
                for (int64_t i = 0; i < n; i++, value++) {
                    if (value % 11 == 10) value++;
                    assert_true(x[2 * i] == (float)value);
                }
                est_element_clear(element, 4);
            }
            assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
            assert_int_equal(est_iterator_get_stats(rows).bad_rows, 2);
            est_iterator_free(rows);
            est_dataset_free(d);
        }
    }
    /* A batch that loses all its rows is no batch. */
    est_test_yields(est_dataset_skip(examples(11, 1, EST_PARSE(.bad_rows_max = 1, .workers = 2)), 9),
                    "[[9 -9]] | empty[0]/[0 0] | [[9]] | [1]");
}

TEST(examples_refused)
{
    const est_feature_spec deep    = { .name = "d", .dtype = EST_F32, .shape = { 8, { 1, 1, 1, 1, 1, 1, 1, 1 } } };
    const est_feature_spec twice[] = { { .name = "a", .dtype = EST_I64, .rows = EST_ROWS_PADDED },
                                       { .name = "a/lengths", .dtype = EST_I64 } };
    est_dataset           *d       = est_test_rows(&line_component, 1, 3, example_row, NULL);

    est_test_refused(est_dataset_parse_examples(d, (est_feature_specs){ specs, 0 }, 2, NULL), "at least one feature");
    est_test_refused(examples(3, 0, NULL), "a batch of 0 rows");
    est_test_refused(examples(3, 1, EST_PARSE(.workers = 5000)), "5000 workers");
    est_test_refused(examples(3, 1, EST_PARSE(.bad_rows_max = -1)), "bad_rows_max is -1");
    est_test_refused(examples(3, 1, &(est_parse_options){ 0 }), "make it with EST_PARSE");
    d = est_test_rows(&line_component, 1, 3, example_row, NULL);
    est_test_refused(est_dataset_parse_examples(d, (est_feature_specs){ &deep, 1 }, 2, NULL), "feature \"d\"");
    d = est_test_rows(&line_component, 1, 3, example_row, NULL);
    est_test_refused(est_dataset_parse_examples(d, (est_feature_specs){ twice, 2 }, 2, NULL), "a/lengths");
    est_test_refused(est_dataset_parse_examples(est_dataset_range(0, 3, 1), (est_feature_specs){ specs, 3 }, 2, NULL),
                     "serialized Examples");
}

/* --- csv ---------------------------------------------------------------------------------------------------------- */

static const est_csv_columns people = {
    (const est_csv_column[]){ { .name = "age", .dtype = EST_I32 }, { .name = "name", .dtype = EST_STRING } }, 2
};

static est_dataset *csv(const char *pattern, const est_csv_options *options, int64_t batch,
                        const est_parse_options *parse)
{
    return est_dataset_csv(est_dataset_files(source_path(pattern)), people, options, batch, parse);
}

TEST(csv)
{
    source_write_text("a.csv", "1,ann\n2,\"bob, jr\"\n,\"new\nline\"\n4,d\n");
    for (int workers = 0; workers <= 3; workers++) {
        est_test_yields(csv("a.csv", NULL, 3, EST_PARSE(.workers = workers)),
                        "[1 2 0] | [\"ann\" \"bob, jr\" \"new\\nline\"] ; [4] | [\"d\"]");
    }
    source_write_text("blank.csv", "\n1,ann\n\r\n2,bob\n\n");
    est_test_yields(csv("blank.csv", NULL, 3, NULL), "[1 2] | [\"ann\" \"bob\"]");
    source_write_text("s.csv", "x;1;ann\ny;NA;bob\n");
    est_test_yields(csv("s.csv",
                        EST_CSV(.delimiter = ';', .na_value = "NA", .field_names = EST_STRINGS("id", "age", "name")), 3,
                        NULL),
                    "[1 0] | [\"ann\" \"bob\"]");
}

TEST(csv_header)
{
    source_write_text("h1.csv", "name,age\nann,1\nbob,2\n");
    source_write_text("h2.csv", "age,more,name\n3,x,cyd\n4,x,dan\n5,x,eve\n");
    source_write_text("h3.csv.gz", "name,age\nfay,6\n");
    for (int workers = 0; workers <= 3; workers++) {
        /* Rows of files with other orders in one batch. */
        est_test_yields(csv("h*", EST_CSV(.header = true), 4, EST_PARSE(.workers = workers)),
                        "[1 2 3 4] | [\"ann\" \"bob\" \"cyd\" \"dan\"] ; [5 6] | [\"eve\" \"fay\"]");
        est_test_yields(csv("h*", EST_CSV(.header = true), 6, EST_PARSE(.workers = workers)),
                        "[1 2 3 4 5 6] | [\"ann\" \"bob\" \"cyd\" \"dan\" \"eve\" \"fay\"]");
    }
    source_write_text("m.csv", "name,years\nann,1\n");
    est_test_breaks(csv("m.csv", EST_CSV(.header = true), 4, NULL), EST_INVALID_ARGUMENT, "m.csv: column \"age\"");
    est_test_breaks(csv("m.csv", EST_CSV(.header = true), 4, EST_PARSE(.bad_rows_max = 9)), EST_INVALID_ARGUMENT,
                    "its header is: name,years");
}

/* Nobody may be of the age `user`. */
static est_status not_of_age(void *user, const est_field *rows)
{
    const int32_t *ages = est_tensor_data(rows[0].values);

    for (int64_t i = 0; i < est_tensor_count(rows[0].values); i++) {
        if (ages[i] == *(const int *)user) return est_fail(EST_INVALID_ARGUMENT, "nobody is %d", ages[i]);
    }
    return EST_OK;
}

/* What the caller finds bad is as bad as what cannot be read. */
TEST(csv_checked)
{
    int never = 3;

    source_write_text("c.csv", "1,ann\n2,bob\n3,cyd\n4,dan\n3,eve\n");
    for (int workers = 0; workers <= 2; workers++) {
        est_parse_options parse = {
            .struct_size = sizeof parse, .workers = workers, .check = not_of_age, .check_user = &never
        };

        est_test_breaks(csv("c.csv", NULL, 4, &parse), EST_INVALID_ARGUMENT, "c.csv:3: nobody is 3");
        parse.bad_rows_max = 1;
        est_test_breaks(csv("c.csv", NULL, 4, &parse), EST_INVALID_ARGUMENT, "c.csv:5: nobody is 3");
        parse.bad_rows_max = 2;
        est_test_yields(csv("c.csv", NULL, 4, &parse), "[1 2 4] | [\"ann\" \"bob\" \"dan\"]");
    }
}

static est_status text_row(int64_t row, int i, est_tensor **out)
{
    char text[64];
    int  size = snprintf(text, sizeof text, "%s%" PRId64 ",n%" PRId64, row % 5 == 3 ? "x" : "", row, row);

    (void)i;
    return est_tensor_string(text, (size_t)size, out);
}

static est_dataset *memory_csv(int64_t n, const est_csv_options *options, int64_t batch, const est_parse_options *parse)
{
    return est_dataset_decode_csv(est_test_rows(&line_component, 1, n, text_row, NULL), people, options, batch, parse);
}

TEST(csv_from_memory)
{
    est_test_yields(memory_csv(3, NULL, 2, NULL), "[0 1] | [\"n0\" \"n1\"] ; [2] | [\"n2\"]");
    est_test_breaks(memory_csv(3, EST_CSV(.header = true), 2, NULL), EST_FAILED_PRECONDITION, "come from a file");
    est_test_breaks(memory_csv(9, NULL, 3, EST_PARSE(.workers = 2)), EST_INVALID_ARGUMENT,
                    "row 0 of the batch, column \"age\": \"x3\"");
    est_test_breaks(memory_csv(9, NULL, 9, NULL), EST_INVALID_ARGUMENT, "row 3 of the batch, column \"age\": \"x3\"");
}

TEST(csv_bad_rows)
{
    source_write_text("b1.csv", "age,name\n1,ann\nx,bob\n3,cyd\n");
    source_write_text("b2.csv", "name,age\ndan,4\neve\nfay,6\ngil,y\n");
    for (int workers = 0; workers <= 3; workers++) {
        for (int64_t batch = 1; batch <= 7; batch++) {
            est_dataset  *d;
            est_iterator *rows;
            est_field     element[2] = { 0 };
            int64_t       n          = 0;

            est_test_breaks(csv("b?.csv", EST_CSV(.header = true), batch, EST_PARSE(.workers = workers)),
                            EST_INVALID_ARGUMENT, "b1.csv:3: column \"age\": \"x\"");
            est_test_breaks(
                csv("b?.csv", EST_CSV(.header = true), batch, EST_PARSE(.workers = workers, .bad_rows_max = 1)),
                EST_INVALID_ARGUMENT, "b2.csv:3: 1 field where 2 are expected: \"eve\"");
            est_test_breaks(
                csv("b?.csv", EST_CSV(.header = true), batch, EST_PARSE(.workers = workers, .bad_rows_max = 2)),
                EST_INVALID_ARGUMENT, "b2.csv:5: column \"age\": \"y\"");
            d = est_test_finish(
                csv("b?.csv", EST_CSV(.header = true), batch, EST_PARSE(.workers = workers, .bad_rows_max = 3)));
            rows = est_test_iterate(d);
            while (est_iterator_next(rows, element) == EST_OK) {
                for (int64_t i = 0; i < est_tensor_count(element[0].values); i++) {
                    assert_int_equal(((const int32_t *)est_tensor_data(element[0].values))[i],
                                     ((int[]){ 1, 3, 4, 6 })[n++]);
                }
                est_element_clear(element, 2);
            }
            assert_int_equal(n, 4);
            assert_int_equal(est_iterator_get_stats(rows).bad_rows, 3);
            est_iterator_free(rows);
            est_dataset_free(d);
        }
    }
}

/* A quote in the middle of a field, one that nobody closes, and one with another delimiter. */
TEST(csv_quotes)
{
    est_dataset  *d;
    est_iterator *rows;
    char         *text;

    source_write_text("q1.csv", "age,name\n1,5\" disk\n2,bob\n3,\"c\nd\"\n4,\"e\n5,fay\n");
    d    = est_test_finish(csv("q1.csv", EST_CSV(.header = true), 9, EST_PARSE(.bad_rows_max = 2)));
    rows = est_test_iterate(d);
    text = est_test_elements(rows, d, EST_FOREVER);
    assert_string_equal(text, "[2 3 5] | [\"bob\" \"c\\nd\" \"fay\"]");
    assert_int_equal(est_iterator_get_stats(rows).bad_rows, 2);
    est_free(text);
    est_iterator_free(rows);
    est_dataset_free(d);
    est_test_breaks(csv("q1.csv", EST_CSV(.header = true), 9, EST_PARSE(.bad_rows_max = 1)), EST_INVALID_ARGUMENT,
                    "q1.csv:6: column \"name\": \"\"e\" has no closing quote");
    source_write_text("q2.csv", "age;name\n1; \"a\nb\"\n2;x,\"y\n3;z\n");
    est_test_yields(
        csv("q2.csv", EST_CSV(.header = true, .delimiter = ';', .trim = true), 9, EST_PARSE(.bad_rows_max = 1)),
        "[1 3] | [\"a\\nb\" \"z\"]");
}

/* A file that can be read only once has no header to look up. */
TEST(csv_pipe)
{
    char path[64];
    int  ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "age,name\n1,ann\n", 15), 15);
    close(ends[1]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    est_test_breaks(est_dataset_csv(est_dataset_files(path), people, EST_CSV(.header = true), 4, NULL),
                    EST_FAILED_PRECONDITION, "is not a regular file");
    close(ends[0]);
}

TEST(csv_refused)
{
    est_csv_columns none = { 0 };

    est_test_refused(est_dataset_decode_csv(est_test_rows(&line_component, 1, 3, text_row, NULL), none, NULL, 2, NULL),
                     "at least one column");
    est_test_refused(memory_csv(3, EST_CSV(.delimiter = '"'), 2, NULL), "delimiter");
    est_test_refused(memory_csv(3, &(est_csv_options){ 0 }, 2, NULL), "make it with EST_CSV");
    est_test_refused(est_dataset_decode_csv(est_dataset_range(0, 3, 1), people, NULL, 2, NULL), "lines of CSV");
    est_test_refused(csv("a.csv", EST_CSV(.delimiter = '"'), 2, NULL), "delimiter");
}

/* --- libsvm ------------------------------------------------------------------------------------------------------- */

static est_dataset *libsvm(const char *name, int64_t batch, const est_parse_options *options)
{
    est_dataset *d = est_dataset_lines(est_dataset_files(source_path(name)), NULL);

    return est_dataset_decode_libsvm(d, batch, options);
}

TEST(libsvm)
{
    est_dataset *d;

    source_write_text("a.svm", "1 3:0.5 7:2\n-1\n0 1:1\n");
    for (int workers = 0; workers <= 2; workers++) {
        est_test_yields(libsvm("a.svm", 2, EST_PARSE(.workers = workers)),
                        "[1 -1] | [3 7]/[0 2 2] | [0.5 2]/[0 2 2] ; [0] | [1]/[0 1] | [1]/[0 1]");
    }
    d = est_test_finish(libsvm("a.svm", 2, EST_PARSE(.drop_remainder = true)));
    expect_component(d, 0, "label", "[2]", false);
    expect_component(d, 1, "index", "[?]", true);
    expect_component(d, 2, "value", "[?]", true);
    est_dataset_free(d);
    source_write_text("b.svm", "1 3:0.5\n1 x:2\n0 1:1\n");
    est_test_breaks(libsvm("b.svm", 3, NULL), EST_INVALID_ARGUMENT, "b.svm:2: column 3");
    est_test_yields(libsvm("b.svm", 3, EST_PARSE(.bad_rows_max = 1)), "[1 0] | [3 1]/[0 1 2] | [0.5 1]/[0 1 2]");
    est_test_refused(libsvm("b.svm", 0, NULL), "a batch of 0 rows");
    source_write_text("c.svm", "# label index:value\n\n1 3:0.5\n  \n0 1:1 # here\n# end\n");
    est_test_yields(libsvm("c.svm", 3, NULL), "[1 0] | [3 1]/[0 1 2] | [0.5 1]/[0 1 2]");
    source_write_text("c.svm", "# nothing\n\n");
    est_test_yields(libsvm("c.svm", 3, NULL), "");
}

/* --- what holds for all ------------------------------------------------------------------------------------------- */

TEST(unordered)
{
    est_dataset *d = est_test_finish(
        memory_csv(200, NULL, 3, EST_PARSE(.workers = 3, .unordered = true, .bad_rows_max = EST_FOREVER)));
    est_iterator *rows       = est_test_iterate(d);
    est_field     element[2] = { 0 };
    int           seen[200]  = { 0 };

    while (est_iterator_next(rows, element) == EST_OK) {
        for (int64_t i = 0; i < est_tensor_count(element[0].values); i++) {
            seen[((const int32_t *)est_tensor_data(element[0].values))[i]]++;
        }
        est_element_clear(element, 2);
    }
    for (int i = 0; i < 200; i++) assert_int_equal(seen[i], i % 5 == 3 ? 0 : 1);
    assert_int_equal(est_iterator_get_stats(rows).bad_rows, 40);
    est_iterator_free(rows);
    est_dataset_free(d);
}

static est_dataset *make_examples(void)
{
    return examples(26, 3, EST_PARSE(.workers = 2, .bad_rows_max = 2));
}

static est_dataset *make_csv(void)
{
    est_dataset *d = memory_csv(30, NULL, 2, EST_PARSE(.workers = 3, .bad_rows_max = EST_FOREVER));

    return est_dataset_prefetch(d, 2);
}

static est_dataset *make_calm_csv(void)
{
    return memory_csv(12, NULL, 1, EST_PARSE(.bad_rows_max = 3, .drop_remainder = true));
}

static est_dataset *make_mixed(void)
{
    est_dataset *d = est_dataset_files(source_path("h*"));

    d = est_dataset_lines(d, EST_LINES(.skip = 1, .interleave = EST_INTERLEAVE(.cycle = 3)));
    return est_dataset_decode_csv(d, people, EST_CSV(.header = true), 2, EST_PARSE(.workers = 2));
}

static est_dataset *make_libsvm(void)
{
    return libsvm("a.svm", 1, EST_PARSE(.workers = 1));
}

TEST(positions)
{
    est_test_positions(make_examples, 10);
    est_test_positions(make_csv, 16);
    est_test_positions(make_calm_csv, 11);
    est_test_positions(make_mixed, 4);
    est_test_positions(make_libsvm, 4);
}

/* A position with one bit changed is refused, or read as another one; it does no harm. */
TEST(positions_changed)
{
    est_dataset  *d    = est_test_finish(make_csv());
    est_iterator *rows = est_test_iterate(d);
    char         *text = est_test_elements(rows, d, 3);
    est_tensor   *position;

    check(est_iterator_save(rows, &position));
    est_iterator_free(rows);
    for (int64_t i = 0; i < est_tensor_count(position); i++) {
        uint8_t *bytes = est_tensor_mutable_data(position);

        for (int bit = 0; bit < 8; bit++) {
            est_field element[2] = { 0 };

            bytes[i] ^= (uint8_t)(1 << bit);
            rows = est_test_iterate(d);
            if (est_iterator_restore(rows, position) == EST_OK) { /* another value, but a possible one */
                for (int k = 0; k < 20 && est_iterator_next(rows, element) == EST_OK; k++) {
                    est_element_clear(element, 2);
                }
            }
            est_iterator_free(rows);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    }
    est_tensor_free(position);
    est_free(text);
    est_dataset_free(d);
}

TEST(allocations)
{
    est_test_allocations(make_examples, 6);
    est_test_allocations(make_csv, 6);
    est_test_allocations(make_mixed, 3);
    est_test_allocations(make_libsvm, 3);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR); /* bad rows are warned about */
    return est_test_run(source_setup, source_teardown);
}
