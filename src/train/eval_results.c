/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of evaluations: merges the scalars of event files by step and name (see eval_results.h). */
#include "train/eval_results.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "estoc/events.h"

#define FILE_PREFIX "events.out.tfevents."

/* Room for one more element of `size` bytes in an array of the arena; NULL: out of memory. */
static void *grow(est_arena *arena, void *data, int n, int *max, size_t size)
{
    void *larger;

    if (n < *max) return data;
    *max   = *max > 0 ? 2 * *max : 8;
    larger = est_arena_alloc(arena, (size_t)*max * size);
    if (larger != NULL && n > 0) memcpy(larger, data, (size_t)n * size);
    return larger;
}

/* The result of a step, created if it does not exist. Steps mostly rise, so the search starts at the end. */
static est_eval_result *result_of(est_eval_results *results, int64_t step)
{
    int              at = results->n;
    est_eval_result *data;

    while (at > 0 && results->data[at - 1].step > step) at--;
    if (at > 0 && results->data[at - 1].step == step) return &results->data[at - 1];
    data = grow(results->arena, results->data, results->n, &results->max, sizeof *data);
    if (data == NULL) return NULL;
    memmove(data + at + 1, data + at, (size_t)(results->n - at) * sizeof *data);
    data[at]      = (est_eval_result){ .step = step };
    results->data = data;
    results->n++;
    return &data[at];
}

static est_status put_metric(est_eval_results *results, est_eval_result *result, est_str tag, double value)
{
    est_eval_metric *metrics;

    for (int i = 0; i < result->n; i++) {
        if (strlen(result->metrics[i].name) != tag.size || memcmp(result->metrics[i].name, tag.data, tag.size) != 0)
            continue;
        result->metrics[i].value = value;
        return EST_OK;
    }
    metrics = grow(results->arena, result->metrics, result->n, &result->max, sizeof *metrics);
    if (metrics == NULL) return est_no_memory();
    result->metrics         = metrics;
    metrics[result->n].name = est_arena_printf(results->arena, "%.*s", (int)tag.size, tag.data);
    if (metrics[result->n].name == NULL) return est_no_memory();
    metrics[result->n++].value = value;
    return EST_OK;
}

static est_status take_entry(est_eval_results *results, const est_event_entry *entry)
{
    est_eval_result *result;

    if (entry->kind != EST_ENTRY_SCALAR) return EST_OK;
    result = result_of(results, entry->step);
    if (result == NULL) return est_no_memory();
    return put_metric(results, result, entry->tag, entry->number);
}

static est_status read_file(est_eval_results *results, const char *path)
{
    est_events     *events;
    est_event_entry entry;
    est_status      status;

    EST_TRY(est_events_open(path, &events));
    while ((status = est_events_next(events, &entry)) == EST_OK) {
        status = take_entry(results, &entry);
        if (status != EST_OK) break;
    }
    est_events_close(events);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

static est_status read_named(est_eval_results *results, const char *dir, const char *name)
{
    est_strbuf path = { 0 };
    est_status status;

    est_strbuf_printf(&path, "%s/%s", dir, name);
    status = est_strbuf_status(&path);
    if (status == EST_OK) status = read_file(results, est_strbuf_text(&path));
    est_strbuf_clear(&path);
    if (status == EST_OK || status == EST_RESOURCE_EXHAUSTED) return status;
    est_log_warn("skipping the rest of a damaged event file: %s", est_error_message());
    return EST_OK;
}

static int is_event_file(const struct dirent *entry)
{
    return strncmp(entry->d_name, FILE_PREFIX, sizeof FILE_PREFIX - 1) == 0;
}

est_status est_eval_results_read(est_eval_results *results, const char *dir)
{
    struct dirent **entries = NULL;
    int             n       = scandir(dir, &entries, is_event_file, alphasort);
    est_status      status  = EST_OK;

    if (n < 0 && errno == ENOENT) return EST_OK;
    if (n < 0) return est_fail(est_status_from_errno(errno), "%s: cannot be listed: %s", dir, strerror(errno));
    results->arena = est_arena_create();
    if (results->arena == NULL) status = est_no_memory();
    for (int i = 0; i < n; i++) {
        if (status == EST_OK) status = read_named(results, dir, entries[i]->d_name);
        free(entries[i]); /* the C library's */
    }
    free(entries);
    return status;
}

static est_status list(const char *dir, const char *pattern, glob_t *found)
{
    est_strbuf whole = { 0 };
    est_status status;
    int        error;

    for (; *dir != '\0'; dir++) est_strbuf_printf(&whole, "%s%c", strchr("*?[\\", *dir) != NULL ? "\\" : "", *dir);
    est_strbuf_printf(&whole, "/%s", pattern);
    status = est_strbuf_status(&whole);
    /* names contain the time, so this is the order of creation */
    error = status == EST_OK ? glob(est_strbuf_text(&whole), 0, NULL, found) : 0;
    if (error == GLOB_NOSPACE) status = est_no_memory();
    if (error != 0 && error != GLOB_NOSPACE && error != GLOB_NOMATCH) {
        status = est_fail(EST_UNKNOWN, "%s: the files cannot be listed", est_strbuf_text(&whole));
    }
    est_strbuf_clear(&whole);
    return status;
}

est_status est_eval_results_glob(est_eval_results *results, const char *dir, const char *pattern)
{
    glob_t     found  = { 0 };
    est_status status = list(dir, pattern, &found);

    EST_TRY(status);
    if (results->arena == NULL) results->arena = est_arena_create();
    if (results->arena == NULL) status = est_no_memory();
    for (size_t i = 0; i < found.gl_pathc && status == EST_OK; i++) {
        status = read_file(results, found.gl_pathv[i]);
        if (status == EST_OK || status == EST_RESOURCE_EXHAUSTED) continue;
        est_log_warn("skipping the rest of a damaged event file: %s", est_error_message());
        status = EST_OK;
    }
    globfree(&found);
    return status;
}

void est_eval_results_clear(est_eval_results *results)
{
    est_arena_free(results->arena);
    memset(results, 0, sizeof *results);
}

const est_eval_metric *est_eval_result_find(const est_eval_result *result, const char *name)
{
    for (int i = 0; i < result->n; i++) {
        if (strcmp(result->metrics[i].name, name) == 0) return &result->metrics[i];
    }
    return NULL;
}
