/* SPDX-License-Identifier: Apache-2.0
 *
 * A locale with a decimal comma, for tests that nothing we write or read depends on one. No installed locale is needed:
 * the file that the C library would load is made here, as localedef would make it. */
#ifndef EST_TESTS_LOCALE_TEST_H
#define EST_TESTS_LOCALE_TEST_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/dir_test.h"
#include "support/test.h"

/* glibc's LC_NUMERIC: a number that says what it is, how many parts there are, where they begin; then the parts: the
 * point, what is between thousands, their grouping (twice three), the first two as wide characters, the character set.
 * Numbers are 32 bits in the order of the machine. */
static inline void locale_write_numeric(const char *path)
{
    static const uint32_t head[]  = { 0x20031114, 6, 32, 34, 36, 40, 44, 48 };
    static const char     texts[] = ",\0.\0\3\3\0";
    static const uint32_t wide[]  = { ',', '.' };
    static const char     set[]   = "ANSI_X3.4-1968";
    FILE                 *file    = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(head, sizeof head, 1, file), 1);
    assert_int_equal(fwrite(texts, sizeof texts, 1, file), 1); /* with the 0 that ends the literal: 8 bytes */
    assert_int_equal(fwrite(wide, sizeof wide, 1, file), 1);
    assert_int_equal(fwrite(set, sizeof set, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* From here to locale_point the program writes 0.25 as 0,25. */
static inline void locale_comma(void)
{
    char dir[64], folder[96], path[128], text[8];

    est_test_dir(dir);
    snprintf(folder, sizeof folder, "%s/comma", dir);
    snprintf(path, sizeof path, "%s/LC_NUMERIC", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    locale_write_numeric(path);
    assert_int_equal(setenv("LOCPATH", dir, 1), 0);
    assert_non_null(setlocale(LC_NUMERIC, "comma"));
    unsetenv("LOCPATH");
    est_test_dir_remove(dir);
    snprintf(text, sizeof text, "%.2f", 0.25);
    assert_string_equal(text, "0,25");
}

static inline void locale_point(void)
{
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

#endif
