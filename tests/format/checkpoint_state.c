/* SPDX-License-Identifier: Apache-2.0
 *
 * The state file of checkpoints: TensorFlow's own bytes, everything its text format allows, cut and damaged texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/checkpoint_state.h"
#include "support/fault_loop.h"
#include "support/locale_test.h"
#include "support/test.h"

static const char full_text[] = "model_checkpoint_path: \"model.ckpt-200\"\n"
                                "all_model_checkpoint_paths: \"model.ckpt-100\"\n"
                                "all_model_checkpoint_paths: \"model.ckpt-200\"\n"
                                "all_model_checkpoint_timestamps: 1700000000.25\n"
                                "all_model_checkpoint_timestamps: 1700000600.5\n"
                                "last_preserved_timestamp: 1699999000.0\n";

static est_status parse(est_checkpoint_state *found, const char *text)
{
    memset(found, 0, sizeof *found);
    return est_checkpoint_state_parse(found, "dir/checkpoint", (est_str){ text, strlen(text) });
}

static void expect_printed(const est_checkpoint_state *found, const char *want)
{
    est_strbuf text = { 0 };

    est_checkpoint_state_print(found, &text);
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

TEST(full)
{
    est_checkpoint_state found;

    assert_int_equal(parse(&found, full_text), EST_OK);
    assert_string_equal(found.model_checkpoint_path, "model.ckpt-200");
    assert_int_equal(found.n_paths, 2);
    assert_string_equal(found.paths[0], "model.ckpt-100");
    assert_int_equal(found.n_timestamps, 2);
    assert_true(found.timestamps[1] == 1700000600.5);
    assert_true(found.has_last_preserved && found.last_preserved_timestamp == 1699999000.0);
    expect_printed(&found, full_text);
    est_checkpoint_state_clear(&found);
}

TEST(tensorflow_file)
{
    est_checkpoint_state found = { 0 };

    assert_int_equal(est_checkpoint_state_read(&found, EST_SOURCE_DIR "/tests/golden/format/checkpoint"), EST_OK);
    assert_string_equal(found.model_checkpoint_path, "tensorflow.ckpt");
    expect_printed(&found, "model_checkpoint_path: \"tensorflow.ckpt\"\n"
                           "all_model_checkpoint_paths: \"tensorflow.ckpt\"\n");
    est_checkpoint_state_clear(&found);
}

TEST(locale)
{
    est_checkpoint_state found = { 0 };
    const char          *text  = "model_checkpoint_path: \"a\"\nlast_preserved_timestamp: 0.25f";

    locale_comma();
    assert_int_equal(est_checkpoint_state_parse(&found, "text", (est_str){ text, strlen(text) }), EST_OK);
    expect_printed(&found, "model_checkpoint_path: \"a\"\nlast_preserved_timestamp: 0.25\n");
    locale_point();
    est_checkpoint_state_clear(&found);
}

TEST(escapes)
{
    est_checkpoint_state found = { 0 };
    const char          *odd   = "a\"b'c\\d\n\t\r\xc3\xa9\x01";

    assert_int_equal(est_checkpoint_state_set_latest(&found, odd), EST_OK);
    expect_printed(&found, "model_checkpoint_path: \"a\\\"b\\'c\\\\d\\n\\t\\r\\303\\251\\001\"\n");
    est_checkpoint_state_clear(&found);

    assert_int_equal(parse(&found, "model_checkpoint_path: \"a\\\"b\\'c\\\\d\\n\\t\\r\\303\\251\\x01\""), EST_OK);
    assert_string_equal(found.model_checkpoint_path, odd);
    est_checkpoint_state_clear(&found);
    assert_int_equal(parse(&found, "model_checkpoint_path: '\\u00e9\\U0001F600'"), EST_OK);
    assert_string_equal(found.model_checkpoint_path, "\xc3\xa9\xf0\x9f\x98\x80");
    est_checkpoint_state_clear(&found);
}

TEST(all_that_is_allowed)
{
    est_checkpoint_state found;
    const char          *text = "# a comment\n"
                                "model_checkpoint_path:'one'\"two\"  # joined\n 'three';"
                                "all_model_checkpoint_paths: [\"a\", 'b'],\n"
                                "future_field: 12 future { x: 1 y: [ { z: -3.5e2 }, {} ] w <> [ext.name]: \"q\" }\n"
                                "future_list: [FOO, BAR]\n"
                                "all_model_checkpoint_timestamps: [1, 2e0]";

    assert_int_equal(parse(&found, text), EST_OK);
    assert_string_equal(found.model_checkpoint_path, "onetwothree");
    assert_int_equal(found.n_paths, 2);
    assert_string_equal(found.paths[1], "b");
    assert_int_equal(found.n_timestamps, 2);
    est_checkpoint_state_clear(&found);
}

TEST(errors)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        "all_model_checkpoint_paths: \"a\"",
        "model_checkpoint_path",
        "model_checkpoint_path:",
        "model_checkpoint_path: 5",
        "model_checkpoint_path: \"a",
        "model_checkpoint_path: \"a\\",
        "model_checkpoint_path: \"a\\q\"",
        "model_checkpoint_path: \"a\\777\"",
        "model_checkpoint_path: \"\\UFFFFFFFF\"",
        "model_checkpoint_path: \"a\\0b\"",
        "model_checkpoint_path: \"a\nb\"",
        "model_checkpoint_path: \"a\" }",
        "model_checkpoint_path: \"a\" x { y: 1",
        "model_checkpoint_path: \"a\" last_preserved_timestamp: soon",
        "model_checkpoint_path: \"a\" all_model_checkpoint_timestamps: 1",
    };
    est_checkpoint_state found;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(parse(&found, texts[i]), EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), "dir/checkpoint"));
        est_checkpoint_state_clear(&found);
    }
    assert_int_equal(parse(&found, "# x\nmodel_checkpoint_path 'a'"), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "dir/checkpoint:2: no : after the name"));
    est_checkpoint_state_clear(&found);
}

/* Deep nesting must not use up the stack, and no cut may read past the end. */
TEST(hostile)
{
    est_checkpoint_state found;
    char                *deep = malloc(200001);

    for (int i = 0; i < 100000; i++) memcpy(deep + 2 * i, "x{", 2);
    deep[200000] = '\0';
    assert_int_equal(parse(&found, deep), EST_DATA_LOSS);
    est_checkpoint_state_clear(&found);
    memset(deep, '[', 200000);
    memcpy(deep, "x:", 2);
    assert_int_equal(parse(&found, deep), EST_DATA_LOSS);
    est_checkpoint_state_clear(&found);
    free(deep);
    for (size_t n = 0; n < sizeof full_text; n++) {
        char *copy = malloc(n + 1);

        memcpy(copy, full_text, n);
        memset(&found, 0, sizeof found);
        copy              = realloc(copy, n > 0 ? n : 1);
        est_status status = est_checkpoint_state_parse(&found, "checkpoint", (est_str){ copy, n });
        assert_true(status == EST_OK || status == EST_DATA_LOSS);
        est_checkpoint_state_clear(&found);
        free(copy);
    }
}

TEST(memory_failures)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_checkpoint_state found;
        est_status           status;

        fault_arm(&f);
        status = parse(&found, full_text);
        if (status == EST_OK) {
            est_strbuf text = { 0 };

            est_checkpoint_state_print(&found, &text);
            status = est_strbuf_status(&text);
            est_strbuf_clear(&text);
        }
        est_checkpoint_state_clear(&found);
        fault_check(&f, status);
    }
}

TEST(write)
{
    char                 path[] = "/tmp/est-found-XXXXXX";
    int                  fd     = mkstemp(path);
    est_checkpoint_state found, again = { 0 };

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(parse(&found, full_text), EST_OK);
    assert_int_equal(est_checkpoint_state_write(&found, path), EST_OK);
    assert_int_equal(est_checkpoint_state_read(&again, path), EST_OK);
    expect_printed(&again, full_text);
    est_checkpoint_state_clear(&found);
    est_checkpoint_state_clear(&again);
    unlink(path);
    assert_int_equal(est_checkpoint_state_read(&again, path), EST_NOT_FOUND);
}
