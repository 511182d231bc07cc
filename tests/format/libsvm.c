/* SPDX-License-Identifier: Apache-2.0
 *
 * LIBSVM lines: every part, every error with its place, damage of every byte. */
#include <stdlib.h>
#include <string.h>

#include "format/libsvm.h"
#include "support/fault_loop.h"
#include "support/test.h"

static void expect_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

static est_str str(const char *text)
{
    return (est_str){ text, strlen(text) };
}

static void check_batch(const est_libsvm_batch *batch, int64_t n)
{
    est_ragged indices = { batch->indices, batch->splits }, values = { batch->values, batch->splits };

    assert_int_equal(est_tensor_count(batch->labels), n);
    assert_int_equal(est_tensor_count(batch->splits), n + 1);
    assert_int_equal(est_ragged_check(&indices), EST_OK);
    assert_int_equal(est_ragged_check(&values), EST_OK);
}

TEST(lines)
{
    const est_str    lines[] = { str("1 1:0.5 7:-2e3"), str("-1"), str("+1.5\t0:1  3:nan  # 9:9 qid:1"),
                                 str("0 qid:12 9223372036854775807:3#x"), str("  2 5:1 5:2 4:3 \r") };
    est_libsvm_batch batch;
    const float     *values;

    assert_int_equal(est_libsvm_parse(lines, 5, NULL, &batch, NULL), EST_OK);
    check_batch(&batch, 5);
    assert_null(batch.qids);
    assert_memory_equal(est_tensor_data(batch.labels), ((float[]){ 1, -1, 1.5f, 0, 2 }), 20);
    assert_memory_equal(est_tensor_data(batch.splits), ((int64_t[]){ 0, 2, 2, 4, 5, 8 }), 48);
    assert_memory_equal(est_tensor_data(batch.indices), ((int64_t[]){ 1, 7, 0, 3, INT64_MAX, 5, 5, 4 }), 64);
    values = est_tensor_data(batch.values);
    assert_true(values[0] == 0.5f && values[1] == -2000 && values[2] == 1 && values[3] != values[3] && values[4] == 3);
    assert_true(values[5] == 1 && values[6] == 2 && values[7] == 3);
    est_libsvm_batch_clear(&batch);
    assert_null(batch.labels);
}

TEST(options)
{
    const est_str    lines[] = { str("1 qid:3 1:1 10:2"), str("0 qid:-4") };
    est_libsvm_batch batch;

    assert_int_equal(est_libsvm_parse(lines, 2,
                                      &(est_libsvm_options){ .one_based = true, .keep_qid = true, .index_max = 9 },
                                      &batch, NULL),
                     EST_OK);
    check_batch(&batch, 2);
    assert_memory_equal(est_tensor_data(batch.indices), ((int64_t[]){ 0, 9 }), 16);
    assert_memory_equal(est_tensor_data(batch.qids), ((int64_t[]){ 3, -4 }), 16);
    est_libsvm_batch_clear(&batch);
    assert_int_equal(est_libsvm_parse(lines, 0, NULL, &batch, NULL), EST_OK);
    check_batch(&batch, 0);
    est_libsvm_batch_clear(&batch);
}

TEST(blank_lines)
{
    assert_true(est_libsvm_is_blank(str("")));
    assert_true(est_libsvm_is_blank((est_str){ NULL, 0 }));
    assert_true(est_libsvm_is_blank(str(" \t\r")));
    assert_true(est_libsvm_is_blank(str("  # 1 2:3")));
    assert_false(est_libsvm_is_blank(str("1 # 2:3")));
}

TEST(errors_say_where)
{
    static const struct {
        const char        *line, *text;
        est_libsvm_options options;
    } cases[] = {
        { "", "line 1, column 1: \"\" is where a label is missing", { 0 } },
        { "  # 1", "line 1, column 3: \"\" is where a label is missing", { 0 } },
        { "x 1:2", "line 1, column 1: \"x\" is not a number", { 0 } },
        { "1,2 1:2", "line 1, column 1: \"1,2\" is not a number", { 0 } },
        { "1:2", "line 1, column 1: \"1:2\" is not a number", { 0 } },
        { "1 5", "line 1, column 3: \"5\" is not index:value", { 0 } },
        { "1  :5", "line 1, column 4: \":5\" has no integer before the colon", { 0 } },
        { "1 1.5:5", "has no integer before the colon", { 0 } },
        { "1 -1:5", "line 1, column 3: \"-1:5\" has an index below 0", { 0 } },
        { "1 0:5", "has an index below 1", { .one_based = true } },
        { "1 2:5 8:1", "line 1, column 7: \"8:1\" has an index above the largest one", { .index_max = 7 } },
        { "1 9223372036854775808:5", "does not fit int64", { 0 } },
        { "1 1:", "line 1, column 3: \"1:\" has no number after the colon", { 0 } },
        { "1 1:x", "has no number after the colon", { 0 } },
        { "1 1:2:3", "has no number after the colon", { 0 } },
        { "1 qid:x", "\"qid:x\" has no integer after the colon", { 0 } },
        { "1 1:2 qid:3", "line 1, column 7: \"qid:3\" has no integer before the colon", { 0 } },
        { "1 1:2", "line 1, column 3: \"1:2\" is where \"qid:\" and a number are missing", { .keep_qid = true } },
        { "1 0123456789012345678901234567890123456789012345",
          "\"0123456789012345678901234567890123456789...\"",
          { 0 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const est_str    lines[] = { str("1 qid:2 1:1"), str(cases[i].line) };
        est_libsvm_batch batch   = { 0 };
        size_t           bad     = 9;

        assert_int_equal(est_libsvm_parse(lines, 2, &cases[i].options, &batch, &bad), EST_INVALID_ARGUMENT);
        expect_error(cases[i].text);
        assert_int_equal(bad, 1);
        assert_null(batch.labels);
    }
}

TEST(every_flip_and_cut)
{
    static const char good[] = "-1 qid:2 1:0.5 12345678:-2e3 7:1 # note: 1:2";
    size_t            size   = sizeof good - 1;

    for (size_t i = 0; i < 9 * size; i++) {
        size_t           n    = i < size ? i : size, bad;
        char            *line = malloc(n > 0 ? n : 1); /* exactly as large, for a checker of memory */
        est_libsvm_batch batch;
        est_status       status;

        assert_non_null(line);
        memcpy(line, good, n);
        if (i >= size) line[(i - size) / 8] = (char)(line[(i - size) / 8] ^ 1 << i % 8);
        status = est_libsvm_parse(&(est_str){ line, n }, 1, NULL, &batch, &bad);
        free(line);
        assert_int_equal(bad, status == EST_OK ? 1 : 0);
        if (status == EST_OK) {
            check_batch(&batch, 1);
            est_libsvm_batch_clear(&batch);
        } else {
            assert_int_equal(status, EST_INVALID_ARGUMENT);
            expect_error("line 0");
        }
    }
}

TEST(no_memory)
{
    const est_str line = str("1 qid:1 2:3");

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_libsvm_batch batch = { 0 };
        est_status       status;
        size_t           bad;

        fault_arm(&f);
        status = est_libsvm_parse(&line, 1, &(est_libsvm_options){ .keep_qid = true }, &batch, &bad);
        fault_check(&f, status);
        assert_int_equal(bad, 1);
        est_libsvm_batch_clear(&batch);
    }
}
