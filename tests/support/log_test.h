/* SPDX-License-Identifier: Apache-2.0
 *
 * The log as tests see it: every line with its level in front, "warn the disk is full". Any thread may log; one thread at a
 * time asks. A text with "*" in it matches a line that has its parts in this order. */
#ifndef EST_TESTS_LOG_TEST_H
#define EST_TESTS_LOG_TEST_H

#include <stdbool.h>

#include "estoc/log.h"

/* Keeps lines down to `level` instead of writing them, and forgets those of before. */
void log_keep(est_log_level level);

/* Lines go to standard error again, at the level of before log_keep. Those that were kept stay. */
void log_release(void);

void log_clear(void);

/* How many lines of the level, EST_LOG_OFF: of any level, match. */
int log_count(est_log_level level, const char *text);

bool log_has(const char *text);

/* Fails with all lines unless one matches. */
void log_expect(const char *text);

/* Line i; of a negative i from the last one, -1, backwards; "": there is none. Until log_clear. */
const char *log_line(int i);

/* All lines, each with a newline. Until the next call. */
const char *log_text(void);

#endif
