/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a SavedModel is: a directory, or the newest of the versions below it, as servers choose it. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "predict/saved_model.h"

/* Whether `dir` has a SavedModel. */
static est_status look_in(const char *dir, bool *found)
{
    est_strbuf path = { 0 };
    est_status status;

    est_strbuf_printf(&path, "%s/saved_model.pb", dir);
    status = est_strbuf_status(&path);
    *found = status == EST_OK && est_file_exists(est_strbuf_text(&path));
    est_strbuf_clear(&path);
    return status;
}

static const char *digits_of(const char *name)
{
    while (name[0] == '0' && name[1] != '\0') name++;
    return name;
}

/* Whether version a is a larger number than b. */
static bool is_newer(const char *a, const char *b)
{
    size_t n = strlen(a = digits_of(a)), m = strlen(b = digits_of(b));

    return n != m ? n > m : strcmp(a, b) > 0;
}

static int is_version(const struct dirent *entry)
{
    return entry->d_name[0] != '\0' && entry->d_name[strspn(entry->d_name, "0123456789")] == '\0';
}

/* Takes version `name` of `dir` for the newest if it is newer than *newest and has a model. */
static est_status consider(const char *dir, const char *name, const char **newest)
{
    est_strbuf path  = { 0 };
    bool       found = false;
    est_status status;

    if (*newest != NULL && !is_newer(name, *newest)) return EST_OK;
    est_strbuf_printf(&path, "%s/%s", dir, name);
    status = est_strbuf_status(&path);
    if (status == EST_OK) status = look_in(est_strbuf_text(&path), &found);
    est_strbuf_clear(&path);
    if (found) *newest = name;
    return status;
}

/* Appends the newest version below `dir` that has a model; nothing when there is none. */
static est_status append_newest(const char *dir, est_strbuf *out)
{
    struct dirent **entries = NULL;
    const char     *newest  = NULL;
    int             n       = scandir(dir, &entries, is_version, NULL);
    est_status      status  = EST_OK;

    if (n < 0) return errno == ENOMEM ? est_no_memory() : EST_OK;
    for (int i = 0; i < n && status == EST_OK; i++) status = consider(dir, entries[i]->d_name, &newest);
    if (newest != NULL) est_strbuf_printf(out, "%s/%s", dir, newest);
    for (int i = 0; i < n; i++) free(entries[i]); /* the C library's */
    free(entries);
    return status;
}

static est_status fail_none(const char *path)
{
    est_strbuf text = { 0 };
    est_status status;
    bool       written;

    est_strbuf_printf(&text, "%s/saved_model.pbtxt", path);
    status  = est_strbuf_status(&text);
    written = status == EST_OK && est_file_exists(est_strbuf_text(&text));
    est_strbuf_clear(&text);
    EST_TRY(status);
    return est_fail(EST_NOT_FOUND, "%s: %s", path,
                    written ? "has only saved_model.pbtxt, the message as text; save it as saved_model.pb"
                    : est_dir_exists(path) ? "no saved_model.pb there or in a numbered directory below"
                                           : "no such directory");
}

est_status est_saved_model_find_dir(const char *path, char **out)
{
    est_strbuf dir = { 0 };
    bool       found;
    est_status status = look_in(path, &found);

    if (status == EST_OK && found)
        est_strbuf_append(&dir, path);
    else if (status == EST_OK)
        status = append_newest(path, &dir);
    if (status == EST_OK) status = est_strbuf_status(&dir);
    if (status == EST_OK && dir.size == 0) status = fail_none(path);
    if (status == EST_OK) return est_strbuf_take(&dir, out);
    est_strbuf_clear(&dir);
    return status;
}
