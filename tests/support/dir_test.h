/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories of tests. */
#ifndef EST_TESTS_DIR_TEST_H
#define EST_TESTS_DIR_TEST_H

#include <stdbool.h>

/* A new directory, in memory where there is room: tests sync many files. What a test that failed left goes at exit. */
void est_test_dir(char out[64]);

/* With all that is in it; it may be gone already. */
void est_test_dir_remove(const char *dir);

/* Whether the path of an open file has this in it. */
bool est_test_is_open(int fd, const char *text);

/* The directory of all tests of a program, for est_test_run(est_test_root_make, est_test_root_remove). */
extern char est_test_root[64];
int         est_test_root_make(void **state);
int         est_test_root_remove(void **state);

#endif
