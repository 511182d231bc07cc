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
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"

#define LINE_MAX_BYTES 2048 /* longer lines are cut */
#define ESCAPED_MAX    6    /* bytes that one may become, as \u0007 */
#define LIMIT_UNSET    (EST_LOG_TRACE + 1)
#define STATUS_MAX     512
#define ERASE_LINE     "\r\033[K"

atomic_int est_log_limit = LIMIT_UNSET;

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER; /* guards sink and sink_user */
static est_log_sink_fn sink;
static void           *sink_user;

static pthread_mutex_t terminal_lock = PTHREAD_MUTEX_INITIALIZER; /* guards drawn, and writing while it is not "" */
static char            drawn[STATUS_MAX];                         /* the status line with its colour; "": none */

static const char *const level_names[] = { "off", "error", "warn", "info", "debug", "trace" };

const char *est_log_level_name(est_log_level level)
{
    return (int)level >= EST_LOG_OFF && (int)level <= EST_LOG_TRACE ? level_names[level] : "unknown";
}

/* The level of ESTOC_LOG; info when it is unset or invalid. */
static int limit_from_environment(void)
{
    const char *text  = getenv("ESTOC_LOG");
    size_t      size  = text != NULL ? strcspn(text, ",") : 0;
    est_strbuf  shown = { 0 };

    if (text == NULL || *text == '\0') return EST_LOG_INFO;
    if (text[size] == ',' && strcasecmp(text + size, ",json") != 0) size = strlen(text);
    for (int level = EST_LOG_OFF; level <= EST_LOG_TRACE; level++) {
        if (strlen(level_names[level]) == size && strncasecmp(text, level_names[level], size) == 0) return level;
    }
    est_strbuf_append_printable(&shown, text, strlen(text), "");
    fprintf(stderr, "ESTOC_LOG is \"%s\"; expected off, error, warn, info, debug or trace, and ,json for JSON lines\n",
            est_strbuf_text(&shown));
    est_strbuf_clear(&shown);
    return EST_LOG_INFO;
}

static bool json_from_environment(void)
{
    const char *text  = getenv("ESTOC_LOG");
    const char *comma = text != NULL ? strchr(text, ',') : NULL;

    return comma != NULL && strcasecmp(comma, ",json") == 0;
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
    time_t     secs = (time_t)(wall_ns / EST_NS_PER_SEC);
    char       stamp[32];
    struct tm  t;
    char       room[ESCAPED_MAX * LINE_MAX_BYTES]; /* no allocation: out of memory must also be loggable */
    est_strbuf shown = est_strbuf_in(room, sizeof room);

    localtime_r(&secs, &t);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &t);
    est_strbuf_append_printable(&shown, line, strlen(line), "\t"); /* names of files and peers may hold anything */
    pthread_mutex_lock(&terminal_lock);
    fprintf(stderr, "%s%s.%03d %s %s\n%s", drawn[0] != '\0' ? ERASE_LINE : "", stamp,
            (int)(wall_ns % EST_NS_PER_SEC / 1000000), est_log_level_name(level), est_strbuf_text(&shown), drawn);
    pthread_mutex_unlock(&terminal_lock);
}

void est_log_json_sink(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    time_t     secs = (time_t)(wall_ns / EST_NS_PER_SEC);
    char       stamp[32];
    struct tm  t;
    char       room[ESCAPED_MAX * LINE_MAX_BYTES + 128]; /* 128: for the rest of the object */
    est_strbuf text = est_strbuf_in(room, sizeof room);

    gmtime_r(&secs, &t);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &t);
    est_strbuf_printf(&text, "{\"time\": \"%s.%03dZ\", \"level\": \"%s\", \"message\": ", stamp,
                      (int)(wall_ns % EST_NS_PER_SEC / 1000000), est_log_level_name(level));
    if (line == NULL) line = "";
    est_strbuf_append_json(&text, line, strnlen(line, LINE_MAX_BYTES));
    est_strbuf_append(&text, "}\n");
    fputs(est_strbuf_text(&text), user != NULL ? user : stderr);
}

static bool is_text_on_stderr(void)
{
    bool own_sink;

    pthread_mutex_lock(&sink_lock);
    own_sink = sink != NULL;
    pthread_mutex_unlock(&sink_lock);
    return !own_sink && !json_from_environment();
}

bool est_log_plain(void)
{
    return is_text_on_stderr() && est_log_get_level() >= EST_LOG_INFO;
}

bool est_log_status_shown(void)
{
    const char *terminal = getenv("TERM");

    return is_text_on_stderr() && isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

/* A line that fills the last column would wrap, and then could not be erased. */
static int status_width(void)
{
    struct winsize size;
    int            width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;

    return width - 1 < STATUS_MAX - 16 ? width - 1 : STATUS_MAX - 16;
}

void est_log_status(const char *line)
{
    const char *no_color = getenv("NO_COLOR");
    bool        plain = no_color != NULL && *no_color != '\0', none = line == NULL || *line == '\0';

    if (!none && !est_log_status_shown()) return;
    pthread_mutex_lock(&terminal_lock);
    if (!none) {
        snprintf(drawn, sizeof drawn, "%s%.*s%s", plain ? "" : "\033[2m", status_width(), line, plain ? "" : "\033[0m");
        fprintf(stderr, ERASE_LINE "%s", drawn);
    } else if (drawn[0] != '\0') {
        drawn[0] = '\0';
        fputs(ERASE_LINE, stderr);
    }
    pthread_mutex_unlock(&terminal_lock);
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
    } else if (json_from_environment()) {
        est_log_json_sink(NULL, level, wall_ns, line);
    } else {
        stderr_sink(level, wall_ns, line);
    }
}
