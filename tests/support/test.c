/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of registered tests, sorted by line: compilers may run constructors in any order. */
#include "support/test.h"

#include <stdlib.h>

#define TESTS_MAX 200

static est_test *first;

void est_test_add(est_test *test)
{
    est_test **at = &first;

    while (*at != NULL && (*at)->line <= test->line) at = &(*at)->next;
    test->next = *at;
    *at        = test;
}

void est_test_row(const char *name, CMUnitTestFunction test, const void *row)
{
    est_test *one = calloc(1, sizeof *one);

    if (one == NULL) abort();
    one->unit = (struct CMUnitTest){ .name = name, .test_func = test, .initial_state = (void *)(uintptr_t)row };
    est_test_add(one);
}

int est_test_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest units[TESTS_MAX];
    size_t            n = 0;

    for (const est_test *test = first; test != NULL && n < TESTS_MAX; test = test->next) units[n++] = test->unit;
    if (n == 0 || n == TESTS_MAX) return 1;
    return _cmocka_run_group_tests("tests", units, n, setup, teardown);
}
