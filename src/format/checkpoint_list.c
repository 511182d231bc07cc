/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints a model directory has, newest first, and trying them one after the other. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "format/checkpoint.h"
#include "format/checkpoint_state.h"

#define INDEX_SUFFIX ".index"

/* --- paths -------------------------------------------------------------------------------------------------------- */

est_status est_checkpoint_join(const char *dir, const char *path, char **out)
{
    est_strbuf  text  = { 0 };
    size_t      size  = strlen(dir);
    const char *slash = size > 0 && dir[size - 1] != '/' ? "/" : "";

    if (path[0] == '/') {
        est_strbuf_append(&text, path);
    } else {
        est_strbuf_printf(&text, "%s%s%s", dir, slash, path);
    }
    return est_strbuf_take(&text, out);
}

est_status est_checkpoint_exists(const char *prefix, bool *out)
{
    char *path;

    EST_TRY(est_bundle_index_path(prefix, &path));
    *out = est_file_exists(path) && !est_dir_exists(path);
    est_free(path);
    return EST_OK;
}

est_status est_checkpoint_put_path(const char *path, char out[EST_CHECKPOINT_PATH_MAX])
{
    size_t size = strlen(path) + 1;

    if (size > EST_CHECKPOINT_PATH_MAX) {
        return est_fail(EST_OUT_OF_RANGE, "the path of a checkpoint has %zu bytes, there is room for %d: %s", size,
                        EST_CHECKPOINT_PATH_MAX, path);
    }
    memcpy(out, path, size);
    return EST_OK;
}

est_status est_checkpoint_path_kind(const char *path, est_checkpoint_kind *out)
{
    est_strbuf  inner = { 0 };
    struct stat info;
    bool        found = false;
    est_status  status;

    EST_TRY(est_checkpoint_exists(path, &found));
    if (found) {
        *out = EST_CHECKPOINT_PREFIX;
        return EST_OK;
    }
    if (est_dir_exists(path)) {
        est_strbuf_printf(&inner, "%s/%s", path, EST_SAVED_MODEL_PREFIX);
        status = est_strbuf_status(&inner);
        if (status == EST_OK) status = est_checkpoint_exists(inner.data, &found);
        est_strbuf_clear(&inner);
        *out = found ? EST_CHECKPOINT_SAVED_MODEL : EST_CHECKPOINT_DIRECTORY;
        return status;
    }
    if (est_file_exists(path)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s is a file; a checkpoint is named by the common prefix of its files, "
                        "without .index and .data-00000-of-00001",
                        path);
    }
    if (stat(path, &info) != 0 && errno != ENOENT && errno != ENOTDIR) {
        status = est_status_from_errno(errno);
        return est_fail(status, "cannot look at %s: %s", path, strerror(errno));
    }
    return est_fail(EST_NOT_FOUND, "no checkpoint %s: there is no %s.index and no such directory", path, path);
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

/* Adds dir/path unless it is listed. */
static est_status add(est_checkpoint_list *list, const char *dir, const char *path)
{
    char       *full = NULL;
    const char *copy;

    EST_TRY(est_checkpoint_join(dir, path, &full));
    for (int i = 0; i < list->n; i++) {
        if (strcmp(list->paths[i], full) != 0) continue;
        est_free(full);
        return EST_OK;
    }
    copy = est_arena_strdup(list->arena, full);
    est_free(full);
    if (list->n == list->max) {
        int          max  = 2 * list->max + 8;
        const char **more = est_realloc(list->paths, sizeof *more * (size_t)max);

        if (more == NULL) return est_no_memory();
        list->paths = more;
        list->max   = max;
    }
    if (copy == NULL) return est_no_memory();
    list->paths[list->n++] = copy;
    return EST_OK;
}

static est_status add_state(est_checkpoint_list *list, const char *dir, const est_checkpoint_state *state)
{
    EST_TRY(add(list, dir, state->model_checkpoint_path));
    for (int i = state->n_paths - 1; i >= 0; i--) EST_TRY(add(list, dir, state->paths[i]));
    return EST_OK;
}

/* The step of "<name>-<step>"; -1: it is not called like that. *end is where it ends. */
static int64_t parse_step(const char *name, const char **end)
{
    const char *dash = strrchr(name, '-');
    char       *stop;
    long long   step;

    if (dash == NULL || dash == name || dash[1] < '0' || dash[1] > '9') return -1;
    errno = 0;
    step  = strtoll(dash + 1, &stop, 10);
    *end  = stop;
    return errno == 0 ? step : -1;
}

/* INT64_MAX: it has none. */
static int64_t step_of_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *end = NULL;
    int64_t     step = parse_step(slash != NULL ? slash + 1 : path, &end);

    return step >= 0 && *end == '\0' ? step : INT64_MAX;
}

/* *latest: the step of the one that the file names as the latest. */
static est_status add_from_state_file(est_checkpoint_list *list, const char *dir, int64_t *latest)
{
    est_checkpoint_state state = { 0 };
    char                *path  = NULL;
    est_status           status;

    EST_TRY(est_checkpoint_join(dir, "checkpoint", &path));
    status = est_checkpoint_state_read(&state, path);
    if (status == EST_OK) {
        status  = add_state(list, dir, &state);
        *latest = step_of_path(state.model_checkpoint_path);
    } else if (status == EST_DATA_LOSS) {
        est_log_warn("%s; looking for checkpoints in the directory", est_error_message());
        list->bad_state = true;
        status          = EST_OK;
    } else if (status == EST_NOT_FOUND) {
        status = EST_OK;
    }
    est_checkpoint_state_clear(&state);
    est_free(path);
    return status;
}

typedef struct found {
    char   *prefix; /* without the directory */
    int64_t step;
} found;

static int by_falling_step(const void *a, const void *b)
{
    const found *x = a, *y = b;

    if (x->step != y->step) return x->step < y->step ? 1 : -1;
    return strcmp(x->prefix, y->prefix);
}

/* The step of `<name>-<step>.index`; -1: it is not called like that. *size becomes that of the prefix. */
static int64_t step_of_file(const char *file, const char *name, size_t *size)
{
    const char *end  = NULL;
    int64_t     step = parse_step(file, &end);

    if (step < 0 || strcmp(end, INDEX_SUFFIX) != 0) return -1;
    *size = (size_t)(end - file);
    if (name == NULL) return step;
    return strlen(name) == (size_t)(strrchr(file, '-') - file) && strncmp(file, name, strlen(name)) == 0 ? step : -1;
}

/* Adds the entry to what was found, if it is an index. */
static est_status take_file(const char *file, const char *name, found **all, int *n)
{
    size_t  size = 0;
    int64_t step = step_of_file(file, name, &size);
    found  *more;

    if (step < 0) return EST_OK;
    more = est_realloc(*all, sizeof *more * (size_t)(*n + 1));
    if (more == NULL) return est_no_memory();
    *all     = more;
    more[*n] = (found){ est_strdup(file), step };
    if (more[*n].prefix == NULL) return est_no_memory();
    more[(*n)++].prefix[size] = '\0';
    return EST_OK;
}

static est_status scan(const char *dir, const char *name, found **all, int *n)
{
    DIR           *handle = opendir(dir);
    struct dirent *entry;
    est_status     status = EST_OK;

    if (handle == NULL && errno == ENOENT) return EST_OK;
    if (handle == NULL) {
        status = est_status_from_errno(errno);
        return est_fail(status, "cannot list the directory %s: %s", dir, strerror(errno));
    }
    while (status == EST_OK && (entry = readdir(handle)) != NULL) status = take_file(entry->d_name, name, all, n);
    closedir(handle);
    return status;
}

est_status est_checkpoint_list_make(est_checkpoint_list *list, const char *dir, const char *name)
{
    found     *all    = NULL;
    int        n      = 0;
    int64_t    latest = INT64_MAX;
    est_status status;

    list->arena = est_arena_create();
    if (list->arena == NULL) return est_no_memory();
    status = add_from_state_file(list, dir, &latest);
    if (status == EST_OK) status = scan(dir, name, &all, &n);
    if (n > 0) qsort(all, (size_t)n, sizeof *all, by_falling_step);
    for (int later = 0; later < 2; later++) {
        for (int i = 0; i < n && status == EST_OK; i++) {
            if ((all[i].step > latest) == later) status = add(list, dir, all[i].prefix);
        }
    }
    for (int i = 0; i < n; i++) est_free(all[i].prefix);
    est_free(all);
    return status;
}

void est_checkpoint_list_clear(est_checkpoint_list *list)
{
    est_arena_free(list->arena);
    est_free(list->paths);
    memset(list, 0, sizeof *list);
}

/* --- trying ------------------------------------------------------------------------------------------------------- */

#define ROUNDS_MAX 8 /* a directory that changes under every attempt is taken as it is then */

/* Which files the newest checkpoint was when the directory was listed. */
typedef struct newest {
    char       *index; /* path; NULL: there was none */
    struct stat info;  /* zero when the file is missing */
} newest;

static est_status look_at_newest(const est_checkpoint_list *list, newest *out)
{
    memset(out, 0, sizeof *out);
    if (list->n == 0) return EST_OK;
    EST_TRY(est_bundle_index_path(list->paths[0], &out->index));
    if (stat(out->index, &out->info) != 0) memset(&out->info, 0, sizeof out->info);
    return EST_OK;
}

/* Whether another process has saved since: it may remove or replace the files that are being read here. */
static bool has_newer(const char *dir, const char *name, const newest *before)
{
    est_checkpoint_list list = { 0 };
    newest              now  = { 0 };
    bool                same = true;

    if (est_checkpoint_list_make(&list, dir, name) == EST_OK && look_at_newest(&list, &now) == EST_OK) {
        same = now.index != NULL && before->index != NULL && strcmp(now.index, before->index) == 0 &&
               now.info.st_ino == before->info.st_ino && now.info.st_size == before->info.st_size &&
               now.info.st_mtim.tv_sec == before->info.st_mtim.tv_sec &&
               now.info.st_mtim.tv_nsec == before->info.st_mtim.tv_nsec;
    }
    est_checkpoint_list_clear(&list);
    est_free(now.index);
    return !same;
}

/* The state of a search. */
typedef struct search {
    const char               *dir, *name;
    est_checkpoint_attempt_fn attempt;
    void                     *user;
    int                       rounds; /* left */
} search;

/* With a state file there was a checkpoint once, and it may still be there under a name that only the file knew. */
static est_status fail_empty(const char *dir, const est_checkpoint_list *list)
{
    if (!list->bad_state) return est_fail(EST_NOT_FOUND, "there is no checkpoint in %s", dir);
    return est_fail(
        EST_DATA_LOSS,
        "%s/checkpoint is damaged, and no `<name>-<step>.index` lies beside it; name the checkpoint to use, "
        "or remove the file to start from the beginning",
        dir);
}

/* One round over the list; *again: the directory has changed, list it again. */
static est_status try_listed(const search *s, const est_checkpoint_list *list, const newest *first, bool *again)
{
    est_strbuf reasons = { 0 };
    est_status status  = EST_OK;
    est_error  error;

    if (list->n == 0) return fail_empty(s->dir, list);
    for (int i = 0; i < list->n; i++) {
        bool unusable = false;

        status = s->attempt(s->user, list->paths[i], &unusable);
        if (status == EST_OK || !unusable) break;
        est_error_take(status, &error);
        *again = s->rounds > 0 && has_newer(s->dir, s->name, first);
        if (*again) break;
        est_log_warn("checkpoint %s is not usable: %s%s", list->paths[i], error.message,
                     i + 1 < list->n ? "; trying the one before it" : "");
        est_strbuf_printf(&reasons, "%s%s", i > 0 ? "; " : "", error.message);
        status = EST_DATA_LOSS;
        if (i + 1 < list->n) continue;
        status = est_fail(status, "%s has checkpoints, but none is usable; remove them to start from the beginning. %s",
                          s->dir, est_strbuf_text(&reasons));
    }
    est_strbuf_clear(&reasons);
    return status;
}

static est_status try_round(const search *s, bool *again)
{
    est_checkpoint_list list   = { 0 };
    newest              first  = { 0 };
    est_status          status = est_checkpoint_list_make(&list, s->dir, s->name);

    if (status == EST_OK) status = look_at_newest(&list, &first);
    if (status == EST_OK) status = try_listed(s, &list, &first, again);
    est_checkpoint_list_clear(&list);
    est_free(first.index);
    return status;
}

est_status est_checkpoint_try_all(const char *dir, const char *name, est_checkpoint_attempt_fn attempt, void *user)
{
    search     s      = { dir, name, attempt, user, ROUNDS_MAX };
    est_status status = EST_OK;
    bool       again  = true;

    while (again) {
        again  = false;
        status = try_round(&s, &again);
        s.rounds--;
    }
    return status;
}
