/* SPDX-License-Identifier: Apache-2.0
 *
 * Logging inside the library: est_log_info("step %" PRId64 " loss %g", step, loss). A level that is off costs one load
 * and one branch; its arguments are not evaluated. Lines are lower case and have no newline. Errors that are returned
 * to the caller are not also logged. Any thread. */
#ifndef EST_BASE_LOG_H
#define EST_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "estoc/log.h"

/* The level in force, or above all levels until the environment has been read. */
extern atomic_int est_log_limit;

/* Whether lines of this level are logged: for code that prepares more than arguments. */
static inline bool est_log_on(est_log_level level)
{
    return (int)level <= atomic_load_explicit(&est_log_limit, memory_order_relaxed);
}

void est_log_write(est_log_level level, const char *fmt, ...) EST_PRINTF(2, 3);

/* Whether lines down to info go to standard error as plain text. */
bool est_log_plain(void);

/* The status line: one line that stays below all others on the terminal, in one colour, dim, unless NO_COLOR is set. It
 * is truncated at the width of the terminal and replaced by the next one; NULL or "" removes it. It is shown only if
 * lines go to standard error and that is a terminal. It is not part of the log, so the log level does not apply. */
bool est_log_status_shown(void);
void est_log_status(const char *line);

#define EST_LOG_AT(level, ...)                                                                                         \
    do {                                                                                                               \
        if (est_log_on(level)) est_log_write((level), __VA_ARGS__);                                                    \
    } while (0)

/* Not est_log(level, ...): that name is the natural logarithm of a node. */
#define est_log_error(...) EST_LOG_AT(EST_LOG_ERROR, __VA_ARGS__)
#define est_log_warn(...)  EST_LOG_AT(EST_LOG_WARN, __VA_ARGS__)
#define est_log_info(...)  EST_LOG_AT(EST_LOG_INFO, __VA_ARGS__)
#define est_log_debug(...) EST_LOG_AT(EST_LOG_DEBUG, __VA_ARGS__)
#define est_log_trace(...) EST_LOG_AT(EST_LOG_TRACE, __VA_ARGS__)

#endif
