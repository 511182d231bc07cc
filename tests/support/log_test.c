/* SPDX-License-Identifier: Apache-2.0
 *
 * The log as tests look at it. Memory comes from malloc: the allocations of the library may be failing. */
#include "support/log_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

typedef struct kept_line {
    est_log_level level;
    char         *text;
} kept_line;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the lines */
static kept_line      *lines;
static int             n_lines;
static est_log_level   level_before;
static bool            keeps;

static void keep_line(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    const char *name = est_log_level_name(level);
    size_t      size = strlen(name) + strlen(line) + 2;
    char       *text = malloc(size);

    (void)user;
    (void)wall_ns;
    if (text == NULL) abort();
    snprintf(text, size, "%s %s", name, line);
    pthread_mutex_lock(&lock);
    lines = realloc(lines, (size_t)(n_lines + 1) * sizeof *lines); /* NOLINT: without memory the test ends */
    if (lines == NULL) abort();
    lines[n_lines++] = (kept_line){ level, text };
    pthread_mutex_unlock(&lock);
}

void log_keep(est_log_level level)
{
    log_clear();
    if (!keeps) level_before = est_log_get_level();
    keeps = true;
    est_log_set_level(level);
    est_log_set_sink(keep_line, NULL);
}

void log_release(void)
{
    est_log_set_sink(NULL, NULL);
    if (keeps) est_log_set_level(level_before);
    keeps = false;
}

void log_clear(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_lines; i++) free(lines[i].text);
    n_lines = 0;
    pthread_mutex_unlock(&lock);
}

static bool is_match(const char *line, const char *text)
{
    for (size_t n; (n = strcspn(text, "*")), text[n] != '\0'; text += n + 1) {
        line = memmem(line, strlen(line), text, n);
        if (line == NULL) return false;
        line += n;
    }
    return strstr(line, text) != NULL;
}

int log_count(est_log_level level, const char *text)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_lines; i++) {
        n += (level == EST_LOG_OFF || lines[i].level == level) && is_match(lines[i].text, text);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

bool log_has(const char *text)
{
    return log_count(EST_LOG_OFF, text) > 0;
}

void log_expect(const char *text)
{
    if (!log_has(text)) fail_msg("\"%s\" is not in the log:\n%s", text, log_text());
}

const char *log_line(int i)
{
    const char *text = "";

    pthread_mutex_lock(&lock);
    if (i < 0) i += n_lines;
    if (i >= 0 && i < n_lines) text = lines[i].text;
    pthread_mutex_unlock(&lock);
    return text;
}

const char *log_text(void)
{
    static char *text;
    size_t       size = 0;
    FILE        *out;

    free(text);
    out = open_memstream(&text, &size);
    if (out == NULL) abort();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_lines; i++) fprintf(out, "%s\n", lines[i].text);
    pthread_mutex_unlock(&lock);
    fclose(out);
    return text;
}
