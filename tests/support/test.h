/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test program includes: cmocka with the headers it needs, and tests that register themselves, in the order of
 * the file. A program without a main of its own has that of test_main.c; an argument selects tests by pattern. */
#ifndef EST_TESTS_TEST_H
#define EST_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct est_test {
    struct CMUnitTest unit;
    int               line;
    struct est_test  *next;
} est_test;

/* One test: TEST(name) { ... } or TEST(name, .setup_func = f, .teardown_func = g) { ... }, members of struct
 * CMUnitTest. */
#define TEST(name_, ...)                                                                                               \
    static void                              test_##name_(void **state);                                               \
    __attribute__((constructor)) static void add_test_##name_(void)                                                    \
    {                                                                                                                  \
        static est_test test = { { .name = "test_" #name_, .test_func = test_##name_, __VA_ARGS__ }, __LINE__, NULL }; \
        est_test_add(&test);                                                                                           \
    }                                                                                                                  \
    static void test_##name_(__attribute__((unused)) void **state)

void est_test_add(est_test *test);

/* One more test, a row of a table: `test` with *state = `row`. Rows come before the tests of the file. */
void est_test_row(const char *name, CMUnitTestFunction test, const void *row);

/* Runs the tests of the program; the exit code of main. `setup` and `teardown` run once, around all of them; NULL:
 * none. */
int est_test_run(CMFixtureFunction setup, CMFixtureFunction teardown);

/* The same for tests that mostly wait: each in a process of its own, with `setup` and `teardown` around it, some at a
 * time. */
int est_test_run_apart(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
