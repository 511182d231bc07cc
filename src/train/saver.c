/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: a session's variables to a checkpoint, which is then the latest, and removing old ones.
 *
 * Whatever fails or is killed, and whenever, these hold:
 * S1 an index has its name only while all its data is on disk under its name (bundle.h, B1 and B2), and its `.meta`;
 * S2 the state file names only checkpoints whose index was on disk before;
 * S3 nothing is removed before the state file that does not name it any more is on disk;
 * S4 of a checkpoint that is removed the index goes first, so that what is left of it is never taken for whole;
 * S5 a save that failed leaves no file of its own, and the checkpoints and the state file of before;
 * S6 a step that is saved again stays restorable throughout: its index changes from the old data to the new in one step
 *    (B3);
 * S7 a restore takes all from one checkpoint or changes nothing (restore.c).
 * A saver removes only files of its own directory. Temporary files of a process that was killed are removed by the
 * first save of the next one.
 *
 * What is kept follows TensorFlow's Saver: the last keep_max, and of those that fall out of that list the first that was
 * made after each period of keep_every_n_hours, counted from when the saver was made. */
#include "train/saver.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "format/checkpoint_state.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "train/checkpoint.h"

#define KEEP_MAX_DEFAULT   5
#define KEEP_HOURS_DEFAULT 10000.0
#define SECS_PER_HOUR      3600.0
#define STATE_FILE         "checkpoint"

/* A checkpoint of the directory that retention counts. */
typedef struct kept {
    char  *path; /* prefix within the directory */
    double secs; /* when it was made, since 1970 */
} kept;

struct est_saver {
    char  *dir;
    char  *name;
    char  *state_path;
    int    keep_max;   /* EST_OFF: all */
    double keep_secs;  /* period; INFINITY: none stays for good */
    double keep_after; /* the next that was made after this moment stays */
    kept  *kept;       /* [n_kept], oldest first; empty when all are kept, since none is ever removed */
    int    n_kept, max_kept;
    bool   swept; /* temporary files of earlier processes are gone */
};

/* --- what is saved ---------------------------------------------------------------------------------------------- */

est_status est_saver_take_options(const char *macro, const void *given, void *out, size_t size)
{
    size_t given_size = 0;

    memset(out, 0, size);
    if (given == NULL) return EST_OK;
    memcpy(&given_size, given, sizeof given_size); /* struct_size is the first field of every options struct */
    if (given_size < sizeof given_size || given_size > size) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "options with struct_size %zu where at most %zu is known: make them with %s(...)", given_size,
                        size, macro);
    }
    memcpy(out, given, given_size);
    return EST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(est_var *const *)a)->name, (*(est_var *const *)b)->name);
}

/* Names of the variables that live only as long as the session. */
static est_status local_names(const est_graph *graph, est_map *out)
{
    est_nodes locals = est_graph_collection(graph, "local_variables");

    for (int i = 0; i < locals.n; i++) {
        const char *name = est_node_string(est_graph_node(graph, locals.data[i].id), "shared_name");

        EST_TRY(est_map_put(out, name, out));
    }
    return EST_OK;
}

est_status est_saved_variables(est_session *session, est_var ***out, int *n)
{
    est_map    locals = { 0 };
    est_store *store;
    est_var  **vars;
    est_status status;
    int        count = 0;

    EST_TRY(est_session_store(session, &store));
    vars = est_alloc(sizeof(est_var *) * ((size_t)est_store_size(store) + 1));
    if (vars == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to list %d variables", est_store_size(store));
    status = local_names(est_session_graph(session), &locals);
    if (status == EST_OK) {
        for (int i = 0; i < est_store_size(store); i++) {
            if (est_map_get(&locals, est_store_at(store, i)->name) == NULL) vars[count++] = est_store_at(store, i);
        }
        qsort(vars, (size_t)count, sizeof *vars, by_name);
        *out = vars;
        *n   = count;
    } else {
        est_free(vars);
    }
    est_map_clear(&locals);
    return status;
}

/* --- the saver -------------------------------------------------------------------------------------------------- */

const char *est_saver_dir(const est_saver *saver)
{
    return saver->dir;
}

const char *est_saver_name(const est_saver *saver)
{
    return saver->name;
}

static double wall_secs(void)
{
    return (double)est_wall_ns() / (double)EST_NS_PER_SEC;
}

static est_status no_memory(const est_saver *saver)
{
    return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the checkpoints of %s", saver->dir);
}

static est_status reserve_kept(est_saver *saver)
{
    int   max = 2 * saver->max_kept + 8;
    kept *more;

    if (saver->n_kept < saver->max_kept) return EST_OK;
    more = est_realloc(saver->kept, sizeof *more * (size_t)max);
    if (more == NULL) return no_memory(saver);
    saver->kept     = more;
    saver->max_kept = max;
    return EST_OK;
}

/* The name of a checkpoint within the saver's directory, however its path is written; NULL: it is elsewhere. */
static const char *own_name(const est_saver *saver, const char *path)
{
    const char *slash = strrchr(path, '/');
    char       *here, *there, *folder;
    bool        same;

    if (slash == NULL) return path;
    if (path[0] != '/') return NULL;
    folder = est_strdup(path);
    if (folder == NULL) return NULL;
    folder[slash == path ? 1 : slash - path] = '\0';
    here                                     = realpath(saver->dir, NULL);
    there                                    = realpath(folder, NULL);
    same                                     = here != NULL && there != NULL && strcmp(here, there) == 0;
    free(here);
    free(there);
    est_free(folder);
    return same ? slash + 1 : NULL;
}

/* Counts a checkpoint of the state file as kept if it is there. When it was made is when its index was written. */
static est_status seed_one(est_saver *saver, const char *path)
{
    const char *name = own_name(saver, path);
    struct stat info;
    char       *prefix = NULL, *index = NULL;
    est_status  status;

    if (name == NULL) return EST_OK;
    EST_TRY(reserve_kept(saver));
    EST_TRY(est_checkpoint_join(saver->dir, name, &prefix));
    status = est_bundle_index_path(prefix, &index);
    if (status == EST_OK && stat(index, &info) == 0) {
        saver->kept[saver->n_kept++] = (kept){ prefix, (double)info.st_mtim.tv_sec +
                                                           (double)info.st_mtim.tv_nsec / (double)EST_NS_PER_SEC };
        prefix                       = NULL;
    }
    est_free(prefix);
    est_free(index);
    return status;
}

/* A state file that cannot be read says nothing about what to keep; restoring warns of it. */
static est_status seed(est_saver *saver)
{
    est_checkpoint_state state  = { 0 };
    est_status           status = EST_OK;

    if (saver->keep_max != EST_OFF && est_file_exists(saver->state_path)) {
        status = est_checkpoint_state_read(&state, saver->state_path);
        for (int i = 0; status == EST_OK && i < state.n_paths; i++) status = seed_one(saver, state.paths[i]);
        if (status != EST_RESOURCE_EXHAUSTED) status = EST_OK;
    }
    est_checkpoint_state_clear(&state);
    return status;
}

static est_status check_options(const est_saver_options *options)
{
    if (options->keep_max < 0 && options->keep_max != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT, "keep_max is %d; it takes a number of checkpoints, 0 for %d, or EST_OFF",
                        options->keep_max, KEEP_MAX_DEFAULT);
    }
    if (!(options->keep_every_n_hours >= 0) && options->keep_every_n_hours != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT, "keep_every_n_hours is %g; it takes hours, 0 for %g, or EST_OFF",
                        options->keep_every_n_hours, KEEP_HOURS_DEFAULT);
    }
    if (options->name != NULL && (options->name[0] == '\0' || strchr(options->name, '/') != NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is no name for checkpoints: it must not be empty or have a /",
                        options->name);
    }
    return EST_OK;
}

static est_status set_up(est_saver *saver, const char *dir, const est_saver_options *options)
{
    double hours = options->keep_every_n_hours;

    saver->dir  = est_strdup(dir);
    saver->name = est_strdup(options->name != NULL ? options->name : "model.ckpt");
    if (saver->dir == NULL || saver->name == NULL) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a saver of %s", dir);
    }
    saver->keep_max   = options->keep_max == 0 ? KEEP_MAX_DEFAULT : options->keep_max;
    saver->keep_secs  = hours == EST_OFF ? (double)INFINITY : (hours == 0 ? KEEP_HOURS_DEFAULT : hours) * SECS_PER_HOUR;
    saver->keep_after = wall_secs() + saver->keep_secs;
    EST_TRY(est_checkpoint_join(dir, STATE_FILE, &saver->state_path));
    EST_TRY(est_dir_create(dir));
    return seed(saver);
}

est_status est_saver_create(const char *dir, const est_saver_options *options, est_saver **out)
{
    est_saver_options own;
    est_saver        *saver;
    est_status        status;

    if (dir == NULL) return est_fail(EST_INVALID_ARGUMENT, "a saver needs a directory, got NULL");
    EST_TRY(est_saver_take_options("EST_SAVER", options, &own, sizeof own));
    EST_TRY(check_options(&own));
    saver = est_zalloc(sizeof *saver);
    if (saver == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a saver of %s", dir);
    status = set_up(saver, dir, &own);
    if (status != EST_OK) {
        est_saver_free(saver);
        return status;
    }
    *out = saver;
    return EST_OK;
}

void est_saver_free(est_saver *saver)
{
    if (saver == NULL) return;
    for (int i = 0; i < saver->n_kept; i++) est_free(saver->kept[i].path);
    est_free(saver->kept);
    est_free(saver->dir);
    est_free(saver->name);
    est_free(saver->state_path);
    est_free(saver);
}

/* --- files of the directory ------------------------------------------------------------------------------------- */

/* Removes the files of the directory that `wanted` says; those that cannot be are logged. */
static void remove_files(const est_saver *saver, bool (*wanted)(const char *file, const char *of), const char *of)
{
    DIR           *handle = opendir(saver->dir);
    struct dirent *entry;

    if (handle == NULL) {
        est_log_warn("cannot list the directory %s: %s", saver->dir, strerror(errno));
        return;
    }
    (void)fsync(dirfd(handle)); /* what was removed before goes before these (S4) */
    while ((entry = readdir(handle)) != NULL) {
        if (!wanted(entry->d_name, of) || unlinkat(dirfd(handle), entry->d_name, 0) == 0 || errno == ENOENT) continue;
        est_log_warn("cannot remove %s/%s: %s", saver->dir, entry->d_name, strerror(errno));
    }
    closedir(handle);
}

static bool is_file_of(const char *file, const char *checkpoint)
{
    size_t n = strlen(checkpoint);

    return strncmp(file, checkpoint, n) == 0 && (strncmp(file + n, ".data-", 6) == 0 || strcmp(file + n, ".meta") == 0);
}

/* "<name>-12.data.tmp-77-3", "<name>-12.index.tmp-77-4", "checkpoint.tmp-77-5", ... */
static bool is_temporary(const char *file, const char *name)
{
    const char *tmp = strstr(file, ".tmp-");
    size_t      n   = strlen(name);

    if (tmp == NULL || tmp[5] == '\0' || tmp[5 + strspn(tmp + 5, "0123456789-")] != '\0') return false;
    if ((size_t)(tmp - file) == strlen(STATE_FILE) && strncmp(file, STATE_FILE, strlen(STATE_FILE)) == 0) return true;
    return strncmp(file, name, n) == 0 && file[n] == '-' && file[n + 1] >= '0' && file[n + 1] <= '9';
}

/* Keeps S4. What cannot be removed is logged: it is in the way of nothing. */
static void remove_checkpoint(const est_saver *saver, const char *prefix)
{
    char *index;

    if (est_bundle_index_path(prefix, &index) != EST_OK) return;
    if (est_file_remove(index) == EST_OK) {
        remove_files(saver, is_file_of, strrchr(prefix, '/') + 1);
    } else {
        est_log_warn("%s; the checkpoint stays", est_error_message());
    }
    est_free(index);
}

/* --- saving ----------------------------------------------------------------------------------------------------- */

/* A save under way. */
typedef struct saving {
    est_saver              *saver;
    const est_save_options *options;
    est_var               **vars;
    int                     n_vars;
    char                   *prefix; /* dir/name-step */
    char                   *meta_path;
    est_strbuf              state;     /* text of the state file when it is done */
    int                     n_dropped; /* of the oldest kept ones */
    bool                    replaces;  /* a checkpoint of that step exists */
} saving;

static est_status check_values(const saving *s)
{
    for (int i = 0; i < s->n_vars; i++) {
        if (s->vars[i]->initialized) continue;
        return est_fail(EST_FAILED_PRECONDITION,
                        "cannot save %s: variable '%s' has no value yet; call est_session_init first", s->prefix,
                        s->vars[i]->name);
    }
    return EST_OK;
}

/* The variable's memory as a tensor; nothing is copied. */
static est_status add_variable(est_bundle_writer *writer, const est_var *var)
{
    const est_view *value = &var->value;
    est_tensor     *tensor;
    est_status      status;

    EST_TRY(est_tensor_wrap(value->dtype, value->shape, value->data, NULL, NULL, &tensor));
    status = est_bundle_add(writer, var->name, tensor);
    est_tensor_free(tensor);
    return status;
}

static est_status add_extras(est_bundle_writer *writer, est_extras extras)
{
    for (int i = 0; i < extras.n; i++) {
        if (extras.data[i].name == NULL || extras.data[i].value == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "extra %d to save has no %s", i,
                            extras.data[i].name == NULL ? "name" : "value");
        }
        EST_TRY(est_bundle_add(writer, extras.data[i].name, extras.data[i].value));
    }
    return EST_OK;
}

/* Writes and commits the files of the checkpoint (S1). */
static est_status write_checkpoint(const saving *s)
{
    est_bundle_writer *writer;
    est_status         status = EST_OK;

    EST_TRY(est_bundle_writer_create(s->prefix, 0, &writer));
    for (int i = 0; i < s->n_vars && status == EST_OK; i++) status = add_variable(writer, s->vars[i]);
    if (status == EST_OK) status = add_extras(writer, s->options->extras);
    if (status == EST_OK && s->options->meta != NULL) {
        status = est_file_replace(s->meta_path, s->options->meta, s->options->meta_size);
    }
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_bundle_writer_free(writer);
    if (status != EST_OK && s->options->meta != NULL && !s->replaces) unlink(s->meta_path);
    return status;
}

/* Which checkpoints are kept once this one is, and the text of the state file. When all are kept it names only the
 * latest, as TensorFlow's does. */
static est_status plan_state(saving *s)
{
    est_saver           *saver = s->saver;
    est_checkpoint_state state = { 0 };
    const char          *name  = strrchr(s->prefix, '/') + 1;
    est_status           status;
    int                  n = 1; /* kept in the end */

    for (int i = 0; i < saver->n_kept; i++) n += strcmp(saver->kept[i].path, s->prefix) != 0;
    s->n_dropped = saver->keep_max != EST_OFF && n > saver->keep_max ? n - saver->keep_max : 0;
    status       = est_checkpoint_state_set_latest(&state, name);
    for (int i = 0, at = 0; i < saver->n_kept && status == EST_OK; i++) {
        if (strcmp(saver->kept[i].path, s->prefix) == 0 || at++ < s->n_dropped) continue;
        status = est_checkpoint_state_add_path(&state, strrchr(saver->kept[i].path, '/') + 1);
    }
    if (status == EST_OK) status = est_checkpoint_state_add_path(&state, name);
    if (status == EST_OK) est_checkpoint_state_print(&state, &s->state);
    est_checkpoint_state_clear(&state);
    return status == EST_OK ? est_strbuf_status(&s->state) : status;
}

/* Whether the state file says what it was to say, although writing it failed: only its directory was not synced then.
 * When that cannot be told, true, which removes nothing. */
static bool state_is_written(const saving *s)
{
    char  *bytes;
    size_t size;
    bool   same;

    if (!est_file_exists(s->saver->state_path)) return false;
    if (est_file_read(s->saver->state_path, &bytes, &size) != EST_OK) return true;
    same = size == s->state.size && memcmp(bytes, s->state.data, size) == 0;
    est_free(bytes);
    return same;
}

/* Puts the new one at the end of the list, in place of an old one of its step. There is room. */
static void enter_kept(saving *s)
{
    est_saver *saver = s->saver;
    int        n     = 0;

    if (saver->keep_max == EST_OFF) return;
    for (int i = 0; i < saver->n_kept; i++) {
        if (strcmp(saver->kept[i].path, s->prefix) == 0) {
            est_free(saver->kept[i].path);
        } else {
            saver->kept[n++] = saver->kept[i];
        }
    }
    saver->kept[n++] = (kept){ s->prefix, wall_secs() };
    saver->n_kept    = n;
    s->prefix        = NULL; /* the list's now */
}

/* Makes the new checkpoint the latest (S2); a failure takes it back, unless it replaced an old one (S5). */
static est_status make_latest(saving *s)
{
    est_status status = est_file_replace(s->saver->state_path, s->state.data, s->state.size);
    est_error  error;

    if (status == EST_OK) {
        enter_kept(s);
        return EST_OK;
    }
    est_error_take(status, &error);
    if (state_is_written(s)) {
        enter_kept(s);
    } else if (!s->replaces) {
        remove_checkpoint(s->saver, s->prefix);
    }
    return est_error_raise(&error);
}

/* The oldest leave the list and, but for one a period, the disk (S3). */
static void drop_oldest(est_saver *saver, int n)
{
    for (int i = 0; i < n; i++) {
        if (saver->kept[i].secs > saver->keep_after) {
            saver->keep_after += saver->keep_secs;
        } else {
            remove_checkpoint(saver, saver->kept[i].path);
        }
        est_free(saver->kept[i].path);
    }
    memmove(saver->kept, saver->kept + n, sizeof *saver->kept * (size_t)(saver->n_kept - n));
    saver->n_kept -= n;
}

static est_status name_files(saving *s, int64_t global_step)
{
    est_strbuf name = { 0 }, meta = { 0 };
    est_status status;

    est_strbuf_printf(&name, "%s-%" PRId64, s->saver->name, global_step);
    status = est_strbuf_status(&name);
    if (status == EST_OK) status = est_checkpoint_join(s->saver->dir, name.data, &s->prefix);
    est_strbuf_clear(&name);
    EST_TRY(status);
    est_strbuf_printf(&meta, "%s.meta", s->prefix);
    return est_strbuf_take(&meta, &s->meta_path);
}

static est_status save(saving *s, int64_t global_step, char path[EST_CHECKPOINT_PATH_MAX])
{
    est_saver *saver = s->saver;

    EST_TRY(name_files(s, global_step));
    EST_TRY(check_values(s));
    EST_TRY(reserve_kept(saver));
    EST_TRY(plan_state(s));
    EST_TRY(est_checkpoint_put_path(s->prefix, path)); /* before anything is written: it may be too long */
    EST_TRY(est_checkpoint_exists(s->prefix, &s->replaces));
    if (!saver->swept) remove_files(saver, is_temporary, saver->name);
    saver->swept = true;
    EST_TRY(write_checkpoint(s));
    EST_TRY(make_latest(s));
    drop_oldest(saver, s->n_dropped);
    return EST_OK;
}

est_status est_saver_save(est_saver *saver, est_session *session, int64_t global_step, const est_save_options *options,
                          char path[EST_CHECKPOINT_PATH_MAX])
{
    est_save_options own;
    saving           s = { .saver = saver, .options = &own };
    char             prefix[EST_CHECKPOINT_PATH_MAX];
    est_status       status;

    if (saver == NULL) return est_fail(EST_INVALID_ARGUMENT, "the saver is NULL: was it created?");
    if (global_step < 0) return est_fail(EST_INVALID_ARGUMENT, "the step to save is %" PRId64, global_step);
    EST_TRY(est_saver_take_options("EST_SAVE", options, &own, sizeof own));
    EST_TRY(est_saved_variables(session, &s.vars, &s.n_vars));
    status = save(&s, global_step, prefix);
    if (status == EST_OK && path != NULL) memcpy(path, prefix, strlen(prefix) + 1);
    est_free(s.vars);
    est_free(s.prefix);
    est_free(s.meta_path);
    est_strbuf_clear(&s.state);
    return status;
}
