/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the end mark of a training (see done_mark.h). */
#include "train/done_mark.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "train/saver.h"

#define DUE   "evaluation due"
#define LIMIT "max_steps "

static est_status mark_path(const char *model_dir, est_strbuf *path)
{
    est_strbuf_printf(path, "%s/" EST_DONE_FILE, model_dir);
    return est_strbuf_status(path);
}

static est_status read_mark(const char *path, est_done_mark *out)
{
    static const char due[] = "\n" DUE "\n" LIMIT;
    char             *text, *end;
    size_t            size;

    EST_TRY(est_file_read(path, &text, &size));
    *out     = (est_done_mark){ .there = true, .step = strtoll(text, &end, 10) };
    out->due = strncmp(end, due, sizeof due - 1) == 0;
    if (out->due) out->max_steps = strtoll(end + sizeof due - 1, NULL, 10);
    est_free(text);
    return EST_OK;
}

est_status est_done_mark_read(const char *model_dir, est_done_mark *out)
{
    est_strbuf path = { 0 };
    est_status status;

    *out   = (est_done_mark){ 0 };
    status = mark_path(model_dir, &path);
    if (status == EST_OK) status = read_mark(est_strbuf_text(&path), out);
    est_strbuf_clear(&path);
    return status == EST_NOT_FOUND ? EST_OK : status;
}

est_status est_done_mark_write(const char *model_dir, const est_done_mark *mark)
{
    est_strbuf path = { 0 };
    char       text[96];
    est_status status = mark_path(model_dir, &path);

    snprintf(text, sizeof text, mark->due ? "%" PRId64 "\n" DUE "\n" LIMIT "%" PRId64 "\n" : "%" PRId64 "\n",
             mark->step, mark->max_steps);
    if (status == EST_OK) {
        status = mark->there ? est_file_replace(est_strbuf_text(&path), text, strlen(text))
                             : est_file_remove(est_strbuf_text(&path));
    }
    est_strbuf_clear(&path);
    return status;
}

/* The mark alone may be of an earlier training; together with the last step it is of this one. */
static bool is_of_last_step(const char *path, const char *model_dir, int64_t max_steps)
{
    int64_t saved;

    return max_steps > 0 && est_file_exists(path) && est_saved_step(model_dir, &saved) == EST_OK && saved >= max_steps;
}

static bool is_newer(const char *path, double since_secs)
{
    struct stat info;

    return since_secs > 0 && stat(path, &info) == 0 &&
           (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec / (double)EST_NS_PER_SEC > since_secs;
}

bool est_done_mark_is_of(const char *model_dir, int64_t max_steps, double since_secs)
{
    est_strbuf path = { 0 };
    bool       over = mark_path(model_dir, &path) == EST_OK &&
                (is_of_last_step(est_strbuf_text(&path), model_dir, max_steps) ||
                 is_newer(est_strbuf_text(&path), since_secs));

    est_strbuf_clear(&path);
    return over;
}
