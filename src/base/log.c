/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: level, sink, and the lines on standard error: "2026-01-31 12:00:00.123 info step 500 loss 0.231". */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"

#define LINE_MAX_BYTES 2048 /* longer lines are cut */
#define LIMIT_UNSET    (EST_LOG_TRACE + 1)

atomic_int est_log_limit = LIMIT_UNSET;

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER; /* guards sink and sink_user */
static est_log_sink_fn sink;
static void           *sink_user;

static const char *const level_names[] = { "off", "error", "warn", "info", "debug", "trace" };

const char *est_log_level_name(est_log_level level)
{
    return (int)level >= EST_LOG_OFF && (int)level <= EST_LOG_TRACE ? level_names[level] : "unknown";
}

/* What EST_LOG says; info when it says nothing or no level's name. */
static int limit_from_environment(void)
{
    const char *text = getenv("EST_LOG");

    if (text == NULL || *text == '\0') return EST_LOG_INFO;
    for (int level = EST_LOG_OFF; level <= EST_LOG_TRACE; level++) {
        if (strcasecmp(text, level_names[level]) == 0) return level;
    }
    fprintf(stderr, "EST_LOG is \"%s\"; expected off, error, warn, info, debug or trace\n", text);
    return EST_LOG_INFO;
}

est_log_level est_log_get_level(void)
{
    int limit = atomic_load_explicit(&est_log_limit, memory_order_relaxed);

    if (limit == LIMIT_UNSET) {
        int unset = LIMIT_UNSET;

        limit = limit_from_environment();
        if (!atomic_compare_exchange_strong(&est_log_limit, &unset, limit)) limit = unset; /* someone was faster */
    }
    return (est_log_level)limit;
}

void est_log_set_level(est_log_level level)
{
    int limit = level < EST_LOG_OFF ? EST_LOG_OFF : level > EST_LOG_TRACE ? EST_LOG_TRACE : level;

    atomic_store_explicit(&est_log_limit, limit, memory_order_relaxed);
}

void est_log_set_sink(est_log_sink_fn new_sink, void *user)
{
    pthread_mutex_lock(&sink_lock);
    sink      = new_sink;
    sink_user = user;
    pthread_mutex_unlock(&sink_lock);
}

static void stderr_sink(est_log_level level, int64_t wall_ns, const char *line)
{
    time_t    secs = (time_t)(wall_ns / EST_NS_PER_SEC);
    char      stamp[32];
    struct tm t;

    localtime_r(&secs, &t);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &t);
    fprintf(stderr, "%s.%03d %s %s\n", stamp, (int)(wall_ns % EST_NS_PER_SEC / 1000000), est_log_level_name(level),
            line);
}

void est_log_write(est_log_level level, const char *fmt, ...)
{
    char            line[LINE_MAX_BYTES];
    est_log_sink_fn to;
    void           *user;
    va_list         args;
    int64_t         wall_ns;

    if (level > est_log_get_level()) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);

    wall_ns = est_wall_ns();
    pthread_mutex_lock(&sink_lock);
    to   = sink;
    user = sink_user;
    pthread_mutex_unlock(&sink_lock);
    if (to != NULL) {
        to(user, level, wall_ns, line);
    } else {
        stderr_sink(level, wall_ns, line);
    }
}
