/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the end mark of a training (see done_mark.h). */
#include "estimator/done_mark.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"

#define DUE   "evaluation due"
#define LIMIT "max_steps "

static est_status mark_path(const est_estimator *estimator, est_strbuf *path)
{
    est_strbuf_printf(path, "%s/" EST_DONE_FILE, estimator->model_dir);
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

est_status est_done_mark_read(const est_estimator *estimator, est_done_mark *out)
{
    est_strbuf path = { 0 };
    est_status status;

    *out   = (est_done_mark){ 0 };
    status = mark_path(estimator, &path);
    if (status == EST_OK) status = read_mark(est_strbuf_text(&path), out);
    est_strbuf_clear(&path);
    return status == EST_NOT_FOUND ? EST_OK : status;
}

est_status est_done_mark_write(const est_estimator *estimator, const est_done_mark *mark)
{
    est_strbuf path = { 0 };
    char       text[96];
    est_status status = mark_path(estimator, &path);

    snprintf(text, sizeof text, mark->due ? "%" PRId64 "\n" DUE "\n" LIMIT "%" PRId64 "\n" : "%" PRId64 "\n",
             mark->step, mark->max_steps);
    if (status == EST_OK) {
        status = mark->there ? est_file_replace(est_strbuf_text(&path), text, strlen(text))
                             : est_file_remove(est_strbuf_text(&path));
    }
    est_strbuf_clear(&path);
    return status;
}
