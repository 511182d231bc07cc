/* SPDX-License-Identifier: Apache-2.0
 *
 * The state file of checkpoints: TensorFlow's own bytes, everything its text format allows, cut and damaged texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "format/checkpoint_state.h"
#include "support/locale_test.h"

static const char full_text[] = "model_checkpoint_path: \"model.ckpt-200\"\n"
                                "all_model_checkpoint_paths: \"model.ckpt-100\"\n"
                                "all_model_checkpoint_paths: \"model.ckpt-200\"\n"
                                "all_model_checkpoint_timestamps: 1700000000.25\n"
                                "all_model_checkpoint_timestamps: 1700000600.5\n"
                                "last_preserved_timestamp: 1699999000.0\n";

static est_status parse(est_checkpoint_state *state, const char *text)
{
    memset(state, 0, sizeof *state);
    return est_checkpoint_state_parse(state, "dir/checkpoint", (est_str){ text, strlen(text) });
}

static void expect_printed(const est_checkpoint_state *state, const char *want)
{
    est_strbuf text = { 0 };

    est_checkpoint_state_print(state, &text);
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

static void test_full(void **ignored)
{
    est_checkpoint_state state;

    (void)ignored;
    assert_int_equal(parse(&state, full_text), EST_OK);
    assert_string_equal(state.model_checkpoint_path, "model.ckpt-200");
    assert_int_equal(state.n_paths, 2);
    assert_string_equal(state.paths[0], "model.ckpt-100");
    assert_int_equal(state.n_timestamps, 2);
    assert_true(state.timestamps[1] == 1700000600.5);
    assert_true(state.has_last_preserved && state.last_preserved_timestamp == 1699999000.0);
    expect_printed(&state, full_text);
    est_checkpoint_state_clear(&state);
}

static void test_tensorflow_file(void **ignored)
{
    est_checkpoint_state state = { 0 };

    (void)ignored;
    assert_int_equal(est_checkpoint_state_read(&state, EST_SOURCE_DIR "/tests/golden/format/checkpoint"), EST_OK);
    assert_string_equal(state.model_checkpoint_path, "tensorflow.ckpt");
    expect_printed(&state, "model_checkpoint_path: \"tensorflow.ckpt\"\n"
                           "all_model_checkpoint_paths: \"tensorflow.ckpt\"\n");
    est_checkpoint_state_clear(&state);
}

static void test_locale(void **ignored)
{
    est_checkpoint_state state = { 0 };
    const char          *text  = "model_checkpoint_path: \"a\"\nlast_preserved_timestamp: 0.25f";

    (void)ignored;
    locale_comma();
    assert_int_equal(est_checkpoint_state_parse(&state, "text", (est_str){ text, strlen(text) }), EST_OK);
    expect_printed(&state, "model_checkpoint_path: \"a\"\nlast_preserved_timestamp: 0.25\n");
    locale_point();
    est_checkpoint_state_clear(&state);
}

static void test_escapes(void **ignored)
{
    est_checkpoint_state state = { 0 };
    const char          *odd   = "a\"b'c\\d\n\t\r\xc3\xa9\x01";

    (void)ignored;
    assert_int_equal(est_checkpoint_state_set_latest(&state, odd), EST_OK);
    expect_printed(&state, "model_checkpoint_path: \"a\\\"b\\'c\\\\d\\n\\t\\r\\303\\251\\001\"\n");
    est_checkpoint_state_clear(&state);

    assert_int_equal(parse(&state, "model_checkpoint_path: \"a\\\"b\\'c\\\\d\\n\\t\\r\\303\\251\\x01\""), EST_OK);
    assert_string_equal(state.model_checkpoint_path, odd);
    est_checkpoint_state_clear(&state);
    assert_int_equal(parse(&state, "model_checkpoint_path: '\\u00e9\\U0001F600'"), EST_OK);
    assert_string_equal(state.model_checkpoint_path, "\xc3\xa9\xf0\x9f\x98\x80");
    est_checkpoint_state_clear(&state);
}

static void test_all_that_is_allowed(void **ignored)
{
    est_checkpoint_state state;
    const char          *text = "# a comment\n"
                                "model_checkpoint_path:'one'\"two\"  # joined\n 'three';"
                                "all_model_checkpoint_paths: [\"a\", 'b'],\n"
                                "future_field: 12 future { x: 1 y: [ { z: -3.5e2 }, {} ] w <> [ext.name]: \"q\" }\n"
                                "future_list: [FOO, BAR]\n"
                                "all_model_checkpoint_timestamps: [1, 2e0]";

    (void)ignored;
    assert_int_equal(parse(&state, text), EST_OK);
    assert_string_equal(state.model_checkpoint_path, "onetwothree");
    assert_int_equal(state.n_paths, 2);
    assert_string_equal(state.paths[1], "b");
    assert_int_equal(state.n_timestamps, 2);
    est_checkpoint_state_clear(&state);
}

static void test_errors(void **ignored)
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
    est_checkpoint_state state;

    (void)ignored;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(parse(&state, texts[i]), EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), "dir/checkpoint"));
        est_checkpoint_state_clear(&state);
    }
    assert_int_equal(parse(&state, "# x\nmodel_checkpoint_path 'a'"), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "dir/checkpoint:2: no : after the name"));
    est_checkpoint_state_clear(&state);
}

/* Deep nesting must not use up the stack, and no cut may read past the end. */
static void test_hostile(void **ignored)
{
    est_checkpoint_state state;
    char                *deep = malloc(200001);

    (void)ignored;
    for (int i = 0; i < 100000; i++) memcpy(deep + 2 * i, "x{", 2);
    deep[200000] = '\0';
    assert_int_equal(parse(&state, deep), EST_DATA_LOSS);
    est_checkpoint_state_clear(&state);
    memset(deep, '[', 200000);
    memcpy(deep, "x:", 2);
    assert_int_equal(parse(&state, deep), EST_DATA_LOSS);
    est_checkpoint_state_clear(&state);
    free(deep);
    for (size_t n = 0; n < sizeof full_text; n++) {
        char *copy = malloc(n + 1);

        memcpy(copy, full_text, n);
        memset(&state, 0, sizeof state);
        copy              = realloc(copy, n > 0 ? n : 1);
        est_status status = est_checkpoint_state_parse(&state, "checkpoint", (est_str){ copy, n });
        assert_true(status == EST_OK || status == EST_DATA_LOSS);
        est_checkpoint_state_clear(&state);
        free(copy);
    }
}

static void test_memory_failures(void **ignored)
{
    (void)ignored;
    for (int64_t n = 1;; n++) {
        est_checkpoint_state state;
        est_status           status;

        est_fault_arm_alloc(n);
        status = parse(&state, full_text);
        if (status == EST_OK) {
            est_strbuf text = { 0 };

            est_checkpoint_state_print(&state, &text);
            status = est_strbuf_status(&text);
            est_strbuf_clear(&text);
        }
        est_checkpoint_state_clear(&state);
        if (!est_fault_fired()) {
            assert_int_equal(status, EST_OK);
            break;
        }
        assert_int_equal(status, EST_RESOURCE_EXHAUSTED);
    }
    est_fault_arm_alloc(0);
}

static void test_write(void **ignored)
{
    char                 path[] = "/tmp/est-state-XXXXXX";
    int                  fd     = mkstemp(path);
    est_checkpoint_state state, again = { 0 };

    (void)ignored;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(parse(&state, full_text), EST_OK);
    assert_int_equal(est_checkpoint_state_write(&state, path), EST_OK);
    assert_int_equal(est_checkpoint_state_read(&again, path), EST_OK);
    expect_printed(&again, full_text);
    est_checkpoint_state_clear(&state);
    est_checkpoint_state_clear(&again);
    unlink(path);
    assert_int_equal(est_checkpoint_state_read(&again, path), EST_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),   cmocka_unit_test(test_tensorflow_file),     cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_all_that_is_allowed), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_write),  cmocka_unit_test(test_memory_failures),     cmocka_unit_test(test_locale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
