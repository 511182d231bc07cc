/* SPDX-License-Identifier: Apache-2.0
 *
 * files: the paths that match a pattern. The list is made when an iterator opens.
 *
 * The state: 1 the number of the next path, 2 that path (missing at the end), so that a list that has changed since is
 * noticed. */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/encode.h"
#include "data/stage.h"

enum { STATE_NEXT = 1, STATE_PATH, STATE_LAST };

typedef struct files {
    est_dataset base;
    const char *pattern;
} files;

typedef struct files_iter {
    est_iter     base;
    glob_t       matches;
    const char **paths; /* [n], of the matches */
    int64_t      n, next;
} files_iter;

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A directory that is not there matches nothing; one that cannot be read may hide files, and ends the search. */
static int on_error(const char *path, int error)
{
    (void)path;
    return error != ENOENT;
}

static est_status fail_no_match(const char *pattern)
{
    char        directory[512];
    struct stat info;

    if (stat(pattern, &info) == 0 && S_ISDIR(info.st_mode)) {
        return est_fail(EST_NOT_FOUND, "%s is a directory; write which of its files, as in %s/*", pattern, pattern);
    }
    if (pattern[0] == '/' || getcwd(directory, sizeof directory) == NULL) {
        return est_fail(EST_NOT_FOUND, "no file matches %s", pattern);
    }
    return est_fail(EST_NOT_FOUND, "no file matches %s in %s", pattern, directory);
}

static est_status find_matches(const char *pattern, glob_t *out)
{
    int code = glob(pattern, GLOB_BRACE | GLOB_MARK | GLOB_NOSORT, on_error, out);

    switch (code) {
    case 0:
    case GLOB_NOMATCH: return EST_OK;
    case GLOB_NOSPACE: return est_no_memory();
    default: {
        int error = errno;

        return est_fail(est_status_from_errno(error), "cannot list the files that match %s: %s", pattern,
                        strerror(error));
    }
    }
}

static bool is_directory(const char *path) /* of a match, which is marked */
{
    return path[strlen(path) - 1] == '/';
}

static est_status files_check(const est_dataset *dataset)
{
    const char *pattern = ((const files *)dataset)->pattern;
    glob_t      matches = { 0 };
    size_t      n       = 0;
    est_status  status  = find_matches(pattern, &matches);

    for (size_t i = 0; status == EST_OK && i < matches.gl_pathc; i++) n += !is_directory(matches.gl_pathv[i]);
    globfree(&matches);
    if (status == EST_OK && n == 0) return fail_no_match(pattern);
    return status;
}

static est_status files_open(est_iter *it)
{
    files_iter *own     = (files_iter *)it;
    const char *pattern = ((const files *)it->dataset)->pattern;
    size_t      n       = 0;

    EST_TRY(find_matches(pattern, &own->matches));
    if (own->matches.gl_pathc == 0) return fail_no_match(pattern);
    own->paths = est_alloc(own->matches.gl_pathc * sizeof *own->paths);
    if (own->paths == NULL) return est_no_memory();
    for (size_t i = 0; i < own->matches.gl_pathc; i++) {
        const char *path = own->matches.gl_pathv[i];

        if (!is_directory(path)) own->paths[n++] = path;
    }
    if (n == 0) return fail_no_match(pattern);
    qsort(own->paths, n, sizeof *own->paths, compare_paths);
    for (size_t i = 0; i < n; i++) { /* {a,a*} finds some twice */
        if (own->n == 0 || strcmp(own->paths[i], own->paths[own->n - 1]) != 0) own->paths[own->n++] = own->paths[i];
    }
    return EST_OK;
}

static est_status files_next(est_iter *it, est_element *out)
{
    files_iter *own = (files_iter *)it;
    const char *path;

    if (own->next == own->n) return EST_OUT_OF_RANGE;
    path = own->paths[own->next];
    EST_TRY(est_tensor_string(path, strlen(path), &out->field[0].values));
    out->origin = (est_origin){ 0 };
    own->next++;
    return EST_OK;
}

static void files_close(est_iter *it)
{
    files_iter *own = (files_iter *)it;

    est_free(own->paths);
    globfree(&own->matches);
}

static est_status files_save(est_iter *it, est_wire_writer *w)
{
    files_iter *own = (files_iter *)it;

    est_wire_put_i64(w, STATE_NEXT, own->next);
    if (own->next < own->n) est_wire_put_string(w, STATE_PATH, own->paths[own->next]);
    if (own->next > 0) est_wire_put_string(w, STATE_LAST, own->paths[own->next - 1]);
    return EST_OK;
}

/* Whether file i is the one that it was; past the ends there is none, which `was` must say too. */
static est_status check_file(const files_iter *own, int64_t i, est_str was)
{
    const char *is   = i >= 0 && i < own->n ? own->paths[i] : "";
    size_t      size = strlen(is);

    if (was.size == size && (size == 0 || memcmp(was.data, is, size) == 0)) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION,
                    "of the files that match %s, number %" PRId64
                    " was \"%.*s\" and is \"%s\" now: files were added or "
                    "removed since the position was saved",
                    ((const files *)own->base.dataset)->pattern, i, (int)was.size, was.size > 0 ? was.data : "", is);
}

static est_status files_restore(est_iter *it, est_str state)
{
    files_iter     *own  = (files_iter *)it;
    est_str         path = { 0 }, last = { 0 };
    est_wire_reader r;
    est_wire_field  field;
    int64_t         next = 0;

    est_wire_reader_init(&r, "position of files", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == STATE_NEXT) next = est_wire_i64(&r, &field);
        if (field.number == STATE_PATH) path = est_wire_bytes(&r, &field);
        if (field.number == STATE_LAST) last = est_wire_bytes(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    if (next < 0 || next > own->n) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%" PRId64 " files were read, and only %" PRId64
                        " match %s now: files were added or removed since "
                        "the position was saved",
                        next, own->n, ((const files *)it->dataset)->pattern);
    }
    EST_TRY(check_file(own, next - 1, last)); /* which may still be open */
    EST_TRY(check_file(own, next, path));
    own->next = next;
    return EST_OK;
}

static est_status files_encode(const est_dataset *dataset, est_wire_writer *w)
{
    est_wire_put_string(w, EST_ENCODED_OWN, ((const files *)dataset)->pattern);
    return EST_OK;
}

static est_dataset *files_decode(const est_encoded *from)
{
    const char *pattern = NULL;
    est_status  status  = est_encoded_text_field(from, EST_ENCODED_OWN, &pattern);

    return status == EST_OK ? est_dataset_files(pattern) : est_encoded_fail(from, status);
}

const est_stage est_stage_files = {
    .name        = "files",
    .iter_size   = sizeof(files_iter),
    .open        = files_open,
    .next        = files_next,
    .close       = files_close,
    .save        = files_save,
    .restore     = files_restore,
    .check       = files_check,
    .lists_files = true,
    .encode      = files_encode,
    .decode      = files_decode,
};

est_dataset *est_dataset_files(const char *pattern)
{
    files *own = est_dataset_new(&est_stage_files, sizeof *own, NULL, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (pattern == NULL || pattern[0] == '\0') {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT, "a pattern is needed, as \"train-*.csv\""));
    }
    own->pattern = est_arena_strdup(own->base.arena, pattern);
    if (own->pattern == NULL) {
        return est_dataset_fail(&own->base, est_no_memory());
    }
    return est_dataset_with(&own->base, &(est_component){ .name = "path", .dtype = EST_STRING }, 1);
}
