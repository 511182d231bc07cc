/* SPDX-License-Identifier: Apache-2.0
 *
 * What is drawn on a terminal: that of the test, which a child writes to. */
#ifndef EST_TESTS_TERMINAL_TEST_H
#define EST_TESTS_TERMINAL_TEST_H

#include <stdbool.h>

extern char screen[1 << 16]; /* all that the child wrote */

/* Calls `body` in a child whose standard error is a terminal of that width; it returns 0. */
void on_terminal(int columns, int (*body)(void));

bool screen_has(const char *text);
void expect_on_screen(const char *text);

/* A status line: erases the one before, and writes in dim. */
#define DRAWN(text) "\r\033[K\033[2m" text "\033[0m"

#endif
