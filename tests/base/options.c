/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs: NULL, older and shorter, as they are, made without the macro, newer and longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/options.h"

typedef struct options {
    size_t struct_size;
    int    first, second;
} options;

static void test_take(void **state)
{
    options given = { .struct_size = sizeof given, .first = 1, .second = 2 }, out = { 7, 7, 7 };

    (void)state;
    assert_int_equal(est_options_take("EST_TEST", NULL, &out, sizeof out), EST_OK);
    assert_int_equal(out.struct_size, sizeof out);
    assert_int_equal(out.first + out.second, 0);
    assert_int_equal(est_options_take("EST_TEST", &given, &out, sizeof out), EST_OK);
    assert_memory_equal(&out, &given, sizeof out);
    given.struct_size = offsetof(options, second); /* an older header had no such field */
    assert_int_equal(est_options_take("EST_TEST", &given, &out, sizeof out), EST_OK);
    assert_int_equal(out.struct_size, sizeof out);
    assert_int_equal(out.first, 1);
    assert_int_equal(out.second, 0);
}

static void test_refused(void **state)
{
    const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, sizeof(options) + 1, SIZE_MAX };
    options      given   = { 0 }, out;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        given.struct_size = sizes[i];
        assert_int_equal(est_options_take("EST_TEST", &given, &out, sizeof out), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "make them with EST_TEST(...)"));
        assert_int_equal(out.first + out.second, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_take), cmocka_unit_test(test_refused) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
