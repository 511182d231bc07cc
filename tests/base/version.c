/* SPDX-License-Identifier: Apache-2.0
 *
 * The version as a number, as text, of the headers and of the library. scripts/check-install compares it with what is
 * installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "estoc/version.h"

static void test_number_and_text(void **state)
{
    char text[64];

    (void)state;
    assert_int_equal(est_version_number(), EST_VERSION);
    assert_string_equal(est_version(), EST_VERSION_TEXT);
    (void)snprintf(text, sizeof text, "%d.%d.%d", EST_VERSION / 1000000, EST_VERSION / 1000 % 1000, EST_VERSION % 1000);
    assert_string_equal(text, EST_VERSION_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_number_and_text) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
