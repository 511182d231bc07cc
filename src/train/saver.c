/* SPDX-License-Identifier: Apache-2.0
 *
 * The saver: writes a session's variables to a checkpoint, makes it the latest, and removes old checkpoints.
 *
 * These invariants hold at every moment, whatever fails or is killed:
 *   SV1  an index has its name only while all its data is on disk under its name (bundle.h, B1 and B2), and a `.meta`
 *        beside it is its own: that of the step's old index goes aside before the index changes, the new one comes
 *        after;
 *   SV2  the state file names only checkpoints whose index and `.meta` were on disk before;
 *   SV3  a checkpoint is removed only after the state file that no longer names it is on disk;
 *   SV4  the index of a checkpoint is removed first, so that the rest is never taken for a complete checkpoint;
 *   SV5  a failed save leaves no file of its own, and leaves the previous checkpoints and state file unchanged;
 *   SV6  a step that is saved again stays restorable all the time: its index changes from the old data to the new in
 *        one step (B3);
 *   SV7  a restore takes all values from one checkpoint or changes nothing (restore.c).
 *
 * Each task of a session with remote variables writes its part of the checkpoint (runtime/remote.h) under a temporary
 * name, the variables of this process are one more part, and the parts are merged (format/bundle.h). SV1 to SV7 apply
 * to the merged checkpoint as to any other.
 *
 * A saver removes only files of its own directory. The first save of a process removes temporary files and data without
 * an index that a killed process left; the next save removes those of a failed save.
 *
 * What is kept follows TensorFlow's Saver: the last keep_max, and of those that fall out of that list the first that
 * was made after each period of keep_every_n_hours, counted from when the saver was made. Unlike there, checkpoints
 * that a restore found unusable fall out before good ones do: the one that training goes on from may be older. */
#include "train/saver.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/options.h"
#include "format/checkpoint.h"
#include "format/checkpoint_state.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "runtime/store_files.h"
#include "train/done_mark.h"
#include "train/graph_files.h"

#define KEEP_MAX_DEFAULT   5
#define KEEP_HOURS_DEFAULT 10000.0
#define SECS_PER_HOUR      3600.0
#define STATE_FILE         "checkpoint"

/* A checkpoint of the directory that retention counts. */
typedef struct kept {
    char  *path;     /* prefix within the directory */
    double secs;     /* when it was made, since 1970 */
    bool   unusable; /* a restore found it damaged */
    bool   leaves;   /* leaves the list with the current save */
} kept;

struct est_saver {
    char  *dir;
    char  *name;
    char  *state_path;
    int    keep_max;   /* EST_OFF: all */
    double keep_secs;  /* period; INFINITY: none is kept permanently */
    double keep_after; /* the next checkpoint made after this time is kept permanently */
    kept  *kept;       /* [n_kept], oldest first; empty when all are kept, since none is ever removed */
    int    n_kept, max_kept;
    bool   swept;       /* files that earlier processes left are removed */
    bool   meta_warned; /* the log already has the warning that a `.meta` was not written */
};

/* --- the saver ---------------------------------------------------------------------------------------------------- */

const char *est_saver_dir(const est_saver *saver)
{
    return saver->dir;
}

const char *est_saver_name(const est_saver *saver)
{
    return saver->name;
}

/* The folder of a path, freed with est_free; NULL: out of memory. */
static char *folder_of(const char *path)
{
    const char *slash  = strrchr(path, '/');
    char       *folder = est_strdup(slash != NULL ? path : ".");

    if (folder != NULL && slash != NULL) folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

est_status est_absolute_prefix(const char *prefix, char **out)
{
    char      *folder = folder_of(prefix), *real = folder != NULL ? realpath(folder, NULL) : NULL;
    est_status status = EST_OK;

    if (folder == NULL) {
        status = est_no_memory();
    } else if (real == NULL) {
        status = est_status_from_errno(errno);
        status = est_fail(status, "cannot find the working directory, which the path %s is relative to: %s", folder,
                          strerror(errno));
    } else {
        status = est_checkpoint_join(real, base_name(prefix), out);
    }
    free(real);
    est_free(folder);
    return status;
}

static est_status reserve_kept(est_saver *saver)
{
    int   max = 2 * saver->max_kept + 8;
    kept *more;

    if (saver->n_kept < saver->max_kept) return EST_OK;
    more = est_realloc(saver->kept, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    saver->kept     = more;
    saver->max_kept = max;
    return EST_OK;
}

/* Whether the path lies in the saver's directory; the two may be spelled differently. */
static bool is_own(const est_saver *saver, const char *path)
{
    char *folder = folder_of(path), *here = realpath(saver->dir, NULL);
    char *there = folder != NULL ? realpath(folder, NULL) : NULL;
    bool  same  = here != NULL && there != NULL && strcmp(here, there) == 0;

    free(here);
    free(there);
    est_free(folder);
    return same;
}

/* Whether the path's folder does not exist: the directory was moved. */
static bool is_folder_gone(const char *path)
{
    char       *folder = folder_of(path);
    struct stat info;
    bool        gone = folder != NULL && stat(folder, &info) != 0 && errno == ENOENT;

    est_free(folder);
    return gone;
}

static int find_kept(const est_saver *saver, const char *name)
{
    for (int i = 0; i < saver->n_kept; i++) {
        if (strcmp(base_name(saver->kept[i].path), name) == 0) return i;
    }
    return -1;
}

void est_saver_mark_unusable(est_saver *saver, const char *prefix)
{
    int i = find_kept(saver, base_name(prefix));

    if (i >= 0 && is_own(saver, prefix)) saver->kept[i].unusable = true;
}

/* Removes an entry from the list. */
static void forget(est_saver *saver, int i)
{
    est_free(saver->kept[i].path);
    saver->n_kept--;
    memmove(saver->kept + i, saver->kept + i + 1, sizeof *saver->kept * (size_t)(saver->n_kept - i));
}

/* Appends an entry to the list and removes one of the same name; `prefix` is taken. The list has room. */
static void enter(est_saver *saver, char *prefix, double secs)
{
    int old = find_kept(saver, base_name(prefix));

    if (old >= 0) forget(saver, old);
    saver->kept[saver->n_kept++] = (kept){ .path = prefix, .secs = secs };
}

/* Adds a checkpoint of the state file to the list if it exists. Its time is that of its index file. */
static est_status seed_one(est_saver *saver, const char *path)
{
    bool        absolute = path[0] == '/';
    struct stat info;
    char       *prefix = NULL, *index = NULL;
    est_status  status;

    if (absolute ? !is_own(saver, path) && !is_folder_gone(path) : strchr(path, '/') != NULL) return EST_OK;
    EST_TRY(reserve_kept(saver));
    EST_TRY(est_checkpoint_join(saver->dir, base_name(path), &prefix));
    status = est_bundle_index_path(prefix, &index);
    if (status == EST_OK && stat(index, &info) == 0) {
        enter(saver, prefix, (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec / (double)EST_NS_PER_SEC);
        prefix = NULL;
    }
    est_free(prefix);
    est_free(index);
    return status;
}

/* An unreadable state file lists no checkpoints; a restore warns about it. */
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
        return est_fail(EST_INVALID_ARGUMENT,
                        "keep_max is %d; expected a number of checkpoints, 0 for %d, or EST_OFF "
                        "for all",
                        options->keep_max, KEEP_MAX_DEFAULT);
    }
    if (!(options->keep_every_n_hours >= 0) && options->keep_every_n_hours != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "keep_every_n_hours is %g; expected a number of hours, 0 for %g, or "
                        "EST_OFF",
                        options->keep_every_n_hours, KEEP_HOURS_DEFAULT);
    }
    if (options->name != NULL && (options->name[0] == '\0' || strchr(options->name, '/') != NULL)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "\"%s\" is not a valid name for checkpoints: it must not be empty or "
                        "contain a /",
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
        return est_no_memory();
    }
    saver->keep_max   = options->keep_max == 0 ? KEEP_MAX_DEFAULT : options->keep_max;
    saver->keep_secs  = hours == EST_OFF ? (double)INFINITY : (hours == 0 ? KEEP_HOURS_DEFAULT : hours) * SECS_PER_HOUR;
    saver->keep_after = est_wall_secs() + saver->keep_secs;
    EST_TRY(est_checkpoint_join(dir, STATE_FILE, &saver->state_path));
    EST_TRY(est_dir_create(dir));
    return seed(saver);
}

est_status est_saver_create(const char *dir, const est_saver_options *options, est_saver **out)
{
    est_saver_options own;
    est_saver        *saver;
    est_status        status;

    EST_REQUIRE(out);
    if (dir == NULL) return est_fail(EST_INVALID_ARGUMENT, "a saver needs a directory, got NULL");
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_saver_options), options, &own));
    EST_TRY(check_options(&own));
    saver = est_zalloc(sizeof *saver);
    if (saver == NULL) return est_no_memory();
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

/* --- files of the directory --------------------------------------------------------------------------------------- */

/* Removes the unwanted files of the directory; failures are logged. */
static void remove_files(const est_saver *saver, bool (*unwanted)(int dir, const char *file, const char *of),
                         const char      *of)
{
    DIR           *handle = opendir(saver->dir);
    struct dirent *entry;

    if (handle == NULL) {
        est_log_warn("cannot list the directory %s: %s", saver->dir, strerror(errno));
        return;
    }
    (void)fsync(dirfd(handle)); /* earlier removals reach the disk before these (SV4) */
    while ((entry = readdir(handle)) != NULL) {
        if (!unwanted(dirfd(handle), entry->d_name, of)) continue;
        if (unlinkat(dirfd(handle), entry->d_name, 0) == 0 || errno == ENOENT) continue;
        est_log_warn("cannot remove %s/%s: %s", saver->dir, entry->d_name, strerror(errno));
    }
    closedir(handle);
}

static bool is_data_or_meta(const char *suffix)
{
    return strncmp(suffix, ".data-", 6) == 0 || strcmp(suffix, ".meta") == 0;
}

static bool is_file_of(int dir, const char *file, const char *checkpoint)
{
    size_t n = strlen(checkpoint);

    (void)dir;
    return strncmp(file, checkpoint, n) == 0 && is_data_or_meta(file + n);
}

/* The end of "<name>-<step>" in a file name; NULL: the name does not start with it. */
static const char *after_step(const char *file, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(file, name, n) != 0 || file[n] != '-' || file[n + 1] < '0' || file[n + 1] > '9') return NULL;
    return file + n + 1 + strspn(file + n + 1, "0123456789");
}

static bool is_missing(int dir, const char *file)
{
    struct stat info;

    return fstatat(dir, file, &info, 0) != 0 && errno == ENOENT;
}

static bool is_part_of(int dir, const char *file, const char *prefix)
{
    size_t n = strlen(prefix);

    (void)dir;
    return strncmp(file, prefix, n) == 0 && strncmp(file + n, ".part", 5) == 0;
}

/* Other files that a trainer writes under a temporary name. Only one trainer works in a directory (train/lock.h), so
 * that files of another process belong to a dead one, wherever it ran. */
static bool is_named_file(const char *file, size_t size)
{
    static const char *const names[] = { STATE_FILE, EST_GRAPH_FILE, EST_DONE_FILE };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == size && strncmp(file, names[i], size) == 0) return true;
    }
    return false;
}

/* "<name>-12.data.tmp-77-3", "<name>-12.index.tmp-77-4", "checkpoint.tmp-77-5", ...; "<name>-12.tmp-77-6.part0.index"
 * and other files of parts; and temporary files of TensorFlow: "<name>-12.index.tempstate1234". */
static bool is_temporary(const char *file, const char *name)
{
    const char *tmp = strstr(file, ".tmp-"), *other = strstr(file, ".tempstate"), *end;

    if (other != NULL && other[10] != '\0' && other[10 + strspn(other + 10, "0123456789")] == '\0') {
        return after_step(file, name) != NULL;
    }
    if (tmp == NULL || tmp[5] == '\0') return false;
    end = tmp + 5 + strspn(tmp + 5, "0123456789-");
    if (end[0] != '\0' && strncmp(end, ".part", 5) != 0) return false;
    return is_named_file(file, (size_t)(tmp - file)) || after_step(file, name) != NULL;
}

/* Data and `.meta` without an index: a process was killed before it wrote the index, or after it removed it. Not those
 * of TensorFlow's first format, whose data has no suffix. */
static bool is_orphan(int dir, const char *file, const char *name)
{
    const char *end  = after_step(file, name);
    est_strbuf  path = { 0 };
    bool        orphan;

    if (end == NULL || !is_data_or_meta(end)) return false;
    est_strbuf_append_bytes(&path, file, (size_t)(end - file));
    orphan = !path.failed && is_missing(dir, path.data);
    est_strbuf_append(&path, ".index");
    orphan = orphan && !path.failed && is_missing(dir, path.data);
    est_strbuf_clear(&path);
    return orphan;
}

static bool is_leftover(int dir, const char *file, const char *name)
{
    return is_temporary(file, name) || is_orphan(dir, file, name);
}

/* Keeps SV4. A failure is only logged: leftover files do no harm. */
static void remove_checkpoint(const est_saver *saver, const char *prefix)
{
    char *index;

    if (est_bundle_index_path(prefix, &index) != EST_OK) return;
    if (est_file_remove(index) == EST_OK) {
        remove_files(saver, is_file_of, strrchr(prefix, '/') + 1);
    } else {
        est_log_warn("cannot remove an old checkpoint: %s", est_error_message());
    }
    est_free(index);
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

/* The state of one save. */
typedef struct saving {
    est_saver              *saver;
    est_session            *session;
    const est_save_options *options;
    est_var               **vars;
    int                     n_vars;
    char                   *prefix; /* dir/name-step */
    char                   *index_path;
    char                   *meta_path;
    char                   *new_meta;  /* temporary name until the index is written; NULL: no `.meta` */
    char                   *old_meta;  /* where the old one of the step is put aside; NULL: the step has none */
    ino_t                   old_index; /* 0: no checkpoint of this step exists */
    est_strbuf              state;     /* text of the state file when it is done */
    bool                    latest;    /* the state file names the new checkpoint */
} saving;

/* A dynamic embedding that no task has created yet is saved without keys. */
static est_status check_values(const saving *s)
{
    EST_TRY(est_session_look(s->session));
    for (int i = 0; i < s->n_vars; i++) {
        if (s->vars[i]->initialized || s->vars[i]->rows != NULL) continue;
        return est_fail(EST_FAILED_PRECONDITION,
                        "cannot save %s: variable '%s' has no value yet; call est_session_init first", s->prefix,
                        s->vars[i]->name);
    }
    return EST_OK;
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

/* Which file the step's index is; 0: none. */
static ino_t index_now(const saving *s)
{
    struct stat info;

    return stat(s->index_path, &info) == 0 ? info.st_ino : 0;
}

/* Writes the new `.meta` under a temporary name. It only describes the graph, so failing to write it is no error. */
static est_status write_meta(saving *s)
{
    EST_TRY(est_file_temp_name(s->meta_path, &s->new_meta));
    if (est_file_create(s->new_meta, s->options->meta.data, s->options->meta.size) == EST_OK) return EST_OK;
    if (!s->saver->meta_warned) {
        est_log_warn("%s.meta could not be written (%s); checkpoints are complete without it", s->prefix,
                     est_error_message());
    }
    s->saver->meta_warned = true;
    est_free(s->new_meta);
    s->new_meta = NULL;
    return EST_OK;
}

/* Writes the new one and puts the old one aside. */
static est_status begin_meta(saving *s)
{
    if (s->options->meta.data != NULL) EST_TRY(write_meta(s));
    if (!est_file_exists(s->meta_path)) return EST_OK;
    EST_TRY(est_file_temp_name(s->meta_path, &s->old_meta));
    return est_file_rename(s->meta_path, s->old_meta);
}

/* Keeps the `.meta` that belongs to the index (SV1), and removes the other. */
static void end_meta(const saving *s)
{
    if (s->new_meta != NULL) unlink(s->new_meta);
    if (s->old_meta == NULL) return;
    if (index_now(s) == s->old_index) {
        (void)rename(s->old_meta, s->meta_path);
    } else {
        unlink(s->old_meta);
    }
}

/* Adds the variables of this process. */
static est_status add_all(const saving *s, est_bundle_writer *writer)
{
    for (int i = 0; i < s->n_vars; i++) {
        if (s->vars[i]->elsewhere) continue;
        EST_TRY(est_store_write_variable(writer, s->vars[i], est_session_pool(s->session)));
    }
    return add_extras(writer, s->options->extras);
}

/* `meta`: true for a whole checkpoint, false for a part. */
static est_status write_bundle(saving *s, const char *prefix, bool meta)
{
    est_bundle_writer *writer;
    est_status         status;

    EST_TRY(est_bundle_writer_create(prefix, 0, &writer));
    status = add_all(s, writer);
    if (status == EST_OK && meta) status = begin_meta(s);
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_bundle_writer_free(writer);
    return status;
}

/* The parts of the tasks, then the part of this process, which may have no tensors. */
static est_status merge_parts(saving *s, const char *prefix, const bool *wrote, char **parts)
{
    int n_tasks = est_session_remote(s->session)->n_tasks, n = 0;

    for (int i = 0; i <= n_tasks; i++) {
        if (i < n_tasks && !wrote[i]) continue;
        EST_TRY(est_part_prefix(prefix, i, &parts[n++]));
    }
    EST_TRY(write_bundle(s, parts[n - 1], false));
    EST_TRY(begin_meta(s));
    return est_bundle_merge((const char *const *)parts, n, s->prefix);
}

static est_status write_parts(saving *s, const est_remote_list *list, const char *prefix)
{
    est_remote      *remote = est_session_remote(s->session);
    size_t           n      = (size_t)remote->n_tasks + 1;
    bool            *wrote  = est_zalloc(n);
    char           **parts  = est_zalloc(n * sizeof *parts);
    est_remote_files files  = { .prefix = prefix, .entries = list->data, .n = list->n };
    est_status       status = wrote != NULL && parts != NULL ? EST_OK : est_no_memory();

    if (status == EST_OK) {
        status = remote->ops->save(remote, &files, wrote);
        if (status != EST_OK) status = est_fail_context(status, "checkpoint %s", s->prefix);
    }
    if (status == EST_OK) status = merge_parts(s, prefix, wrote, parts);
    for (size_t i = 0; parts != NULL && i < n; i++) est_free(parts[i]);
    est_free(parts);
    est_free(wrote);
    /* after a failure all parts, else those that the merge could not remove */
    remove_files(s->saver, is_part_of, base_name(prefix));
    return status;
}

/* The names of parts are unique to this save: a task may still be writing for a process that was killed. */
static est_status write_remote_parts(saving *s, const est_remote_list *list)
{
    char      *absolute, *prefix = NULL;
    est_status status;

    EST_TRY(est_absolute_prefix(s->prefix, &absolute));
    status = est_file_temp_name(absolute, &prefix);
    if (status == EST_OK) status = write_parts(s, list, prefix);
    est_free(absolute);
    est_free(prefix);
    return status;
}

/* Writes and commits the files of the checkpoint (SV1). */
static est_status write_checkpoint(saving *s)
{
    est_remote_list list   = { 0 };
    est_status      status = est_remote_list_fill(&list, s->session, s->vars, s->n_vars);

    if (status == EST_OK) status = list.n > 0 ? write_remote_parts(s, &list) : write_bundle(s, s->prefix, true);
    est_free(list.data);
    return status;
}

/* Decides which checkpoints to remove after this save: damaged ones first, then the oldest. */
static void plan_leaving(const saving *s)
{
    est_saver *saver = s->saver;
    int        same  = find_kept(saver, base_name(s->prefix)); /* is replaced */
    int        over  = saver->keep_max != EST_OFF ? saver->n_kept + (same < 0) - saver->keep_max : 0;

    for (int i = 0; i < saver->n_kept; i++) saver->kept[i].leaves = false;
    for (int good = 0; good < 2; good++) {
        for (int i = 0; i < saver->n_kept && over > 0; i++) {
            if (i == same || saver->kept[i].unusable == good) continue;
            saver->kept[i].leaves = true;
            over--;
        }
    }
}

/* Decides which checkpoints stay after this save, and formats the state file. When all are kept it names only the
 * latest, as TensorFlow's does. */
static est_status plan_state(saving *s)
{
    est_saver           *saver = s->saver;
    est_checkpoint_state state = { 0 };
    const char          *name  = base_name(s->prefix);
    est_status           status;

    plan_leaving(s);
    status = est_checkpoint_state_set_latest(&state, name);
    for (int i = 0; i < saver->n_kept && status == EST_OK; i++) {
        const char *other = base_name(saver->kept[i].path);

        if (saver->kept[i].leaves || strcmp(other, name) == 0) continue;
        status = est_checkpoint_state_add_path(&state, other);
    }
    if (status == EST_OK) status = est_checkpoint_state_add_path(&state, name);
    if (status == EST_OK) est_checkpoint_state_print(&state, &s->state);
    est_checkpoint_state_clear(&state);
    return status == EST_OK ? est_strbuf_status(&s->state) : status;
}

/* Whether the state file has the new text although writing it failed: then only syncing its directory failed. True when
 * the file cannot be read, since true removes nothing. */
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

/* Makes the new checkpoint the latest (SV2). A failure removes it, unless it replaced an old one (SV5). */
static est_status make_latest(saving *s)
{
    est_status status = s->new_meta != NULL ? est_file_rename(s->new_meta, s->meta_path) : EST_OK;
    est_error  error;

    if (status == EST_OK) status = est_file_replace(s->saver->state_path, s->state.data, s->state.size);
    if (status == EST_OK) {
        s->latest = true;
        return EST_OK;
    }
    est_error_take(status, &error);
    s->latest = state_is_written(s);
    if (!s->latest && s->old_index == 0) remove_checkpoint(s->saver, s->prefix);
    return est_error_raise(&error);
}

/* Removes the files of checkpoints that leave the list (SV3), except one per period. */
static void drop_leaving(est_saver *saver)
{
    for (int i = 0; i < saver->n_kept;) {
        const kept *k = &saver->kept[i];

        if (!k->leaves) {
            i++;
            continue;
        }
        if (!k->unusable && k->secs > saver->keep_after) {
            saver->keep_after += saver->keep_secs;
        } else {
            remove_checkpoint(saver, k->path);
        }
        forget(saver, i);
    }
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
    EST_TRY(est_bundle_index_path(s->prefix, &s->index_path));
    est_strbuf_printf(&meta, "%s.meta", s->prefix);
    return est_strbuf_take(&meta, &s->meta_path);
}

static est_status save(saving *s, int64_t global_step, char path[EST_CHECKPOINT_PATH_MAX])
{
    est_saver *saver = s->saver;
    est_status status;

    EST_TRY(name_files(s, global_step));
    EST_TRY(check_values(s));
    EST_TRY(reserve_kept(saver));
    EST_TRY(plan_state(s));
    /* fails for a name that is too long, before anything is written */
    EST_TRY(est_checkpoint_put_path(s->prefix, path));
    s->old_index = index_now(s);
    if (!saver->swept) remove_files(saver, is_leftover, saver->name);
    status       = write_checkpoint(s);
    saver->swept = status == EST_OK; /* else a task that timed out may still be writing its part */
    if (status == EST_OK) status = make_latest(s);
    end_meta(s);
    if (s->latest && saver->keep_max != EST_OFF) {
        enter(saver, s->prefix, est_wall_secs());
        s->prefix = NULL; /* owned by the list */
    }
    if (status == EST_OK) drop_leaving(saver);
    return status;
}

est_status est_saver_save(est_saver *saver, est_session *session, int64_t global_step, const est_save_options *options,
                          char path[EST_CHECKPOINT_PATH_MAX])
{
    est_save_options own;
    saving           s = { .saver = saver, .session = session, .options = &own };
    char             prefix[EST_CHECKPOINT_PATH_MAX];
    est_status       status;

    EST_REQUIRE(session);
    if (saver == NULL) return est_fail(EST_INVALID_ARGUMENT, "the saver is NULL; create it with est_saver_create");
    if (global_step < 0) return est_fail(EST_INVALID_ARGUMENT, "the step to save is %" PRId64, global_step);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_save_options), options, &own));
    EST_TRY(est_saved_variables(session, &s.vars, &s.n_vars));
    status = save(&s, global_step, prefix);
    if (status == EST_OK && path != NULL) memcpy(path, prefix, strlen(prefix) + 1);
    est_free(s.vars);
    est_free(s.prefix);
    est_free(s.index_path);
    est_free(s.meta_path);
    est_free(s.new_meta);
    est_free(s.old_meta);
    est_strbuf_clear(&s.state);
    return status;
}
