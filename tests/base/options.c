/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs: NULL, older and shorter, as they are, made without the macro, newer and longer,
 * of another kind. */
#include <ctype.h>
#include <string.h>

#include "base/options.h"
#include "estoc/estoc.h"
#include "support/test.h"

#define WANTED EST_STRUCT_SIZE(est_timeline_options)

TEST(take)
{
    est_timeline_options given = { .struct_size = WANTED, .no_dataflow = true, .show_memory = true };
    est_timeline_options out   = { 7, true, true };

    assert_int_equal(est_options_take(WANTED, NULL, &out), EST_OK);
    assert_int_equal(out.struct_size, WANTED);
    assert_false(out.no_dataflow || out.show_memory);
    assert_int_equal(est_options_take(WANTED, &given, &out), EST_OK);
    assert_memory_equal(&out, &given, sizeof out);
    given.struct_size = sizeof given; /* of a binding that knows no kinds */
    assert_int_equal(est_options_take(WANTED, &given, &out), EST_OK);
    assert_int_equal(out.struct_size, WANTED);
    assert_true(out.no_dataflow && out.show_memory);
    given.struct_size -= sizeof given -
                         offsetof(est_timeline_options, show_memory); /* an older header had no such field */
    assert_int_equal(est_options_take(WANTED, &given, &out), EST_OK);
    assert_int_equal(out.struct_size, WANTED);
    assert_true(out.no_dataflow);
    assert_false(out.show_memory);
}

TEST(refused)
{
    const size_t         sizes[] = { 0, 1, sizeof(size_t) - 1, sizeof(est_timeline_options) + 1, WANTED + 1, SIZE_MAX };
    est_timeline_options given   = { .no_dataflow = true }, out;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        given.struct_size = sizes[i];
        assert_int_equal(est_options_take(WANTED, &given, &out), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "make it with EST_TIMELINE(...)"));
        assert_false(out.no_dataflow);
    }
}

/* Of the same size or not: the struct of another function is found out, and both are named. */
TEST(wrong_kind)
{
    const void *const given[] = { EST_TASK_RULES(.no_chief_ok = true), EST_RUN_CONFIG(.quiet = true) };
    const char *const found[] = { "est_task_rules of", "est_run_config of" };

    assert_int_equal(sizeof(est_task_rules), sizeof(est_timeline_options));
    for (int i = 0; i < 2; i++) {
        est_timeline_options out;
        assert_int_equal(est_options_take(WANTED, given[i], &out), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), found[i]));
        assert_non_null(strstr(est_error_message(), "est_timeline_options of at most 16 bytes expected"));
    }
}

/* Structs of functions that programs embed: one of an older header lacks its tail, and no other kind is taken for
 * it. */
TEST(embedded)
{
    const size_t        whole = EST_STRUCT_SIZE(est_hook);
    est_hook            hook = EST_HOOK(.idle = true), unmade = { .idle = true };
    est_saving_listener listener = EST_SAVING_LISTENER();

    assert_int_equal(est_struct_check(whole, &hook), EST_OK);
    assert_true(EST_MEMBER(&hook, idle));
    hook.struct_size -= sizeof hook - offsetof(est_hook, idle);
    assert_int_equal(est_struct_check(whole, &hook), EST_OK);
    assert_false(EST_MEMBER(&hook, idle));
    hook.struct_size = whole + 8;
    assert_int_equal(est_struct_check(whole, &hook), EST_INVALID_ARGUMENT);
    assert_int_equal(est_struct_check(whole, &unmade), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "est_hook: struct_size is 0; make it with EST_HOOK(...)");
    assert_int_equal(est_struct_check(whole, &listener), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "est_saving_listener of 40 bytes found, est_hook of at most 88 bytes"));
}

/* The macro of a struct is its name in capitals, without _OPTIONS where that is free. */
TEST(names)
{
    static const char *const names[][2] = {
#define NAMES(type, macro) { #type, #macro },
        EST_OPTIONS_LIST(NAMES)
#undef NAMES
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *type = names[i][0], *macro = names[i][1];
        size_t      n = 0;

        while (macro[n] != '\0' && macro[n] == toupper((unsigned char)type[n])) n++;
        assert_int_equal(macro[n], '\0');
        assert_true(type[n] == '\0' || strcmp(type + n, "_options") == 0);
    }
}
