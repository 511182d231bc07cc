/* SPDX-License-Identifier: Apache-2.0
 *
 * est_export_saved_model: writes a trained model as a SavedModel directory for serving.
 *
 *   X1  An export is written below <base>/temp-<seconds>-estoc, checked there, and then renamed atomically.
 *   X2  A failure leaves earlier exports unchanged and, unless the process dies, no temporary directory.
 *   X3  The temporary directory is locked while it is written, and the kernel releases the lock of a dead process. The
 *       next export removes every temporary directory that it can lock. */
#include "estimator/export.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "estimator/preflight.h"
#include "format/bundle.h"
#include "format/graph_text.h"
#include "runtime/store.h"
#include "train/saver.h"

#define ATTEMPTS_MAX 10 /* attempts to find a second without an export */
#define TEMP_PREFIX  "temp-"
#define TEMP_SUFFIX  "-estoc" /* marks Estoc's own: those of other programs are not removed */
#define MODES        3

typedef struct job {
    est_estimator            *estimator; /* NULL: the graphs were made by another */
    const est_export_options *options;
    const est_sample_rows    *rows;               /* to check with */
    const char               *extra_name, *extra; /* one more file of EST_EXPORT_EXTRA and its text; NULL: none */
    est_export_model graphs[MODES]; /* [n_graphs]: the requested ones of train, eval and predict, in this order */
    int              n_graphs;
    est_arena       *arena;
    char            *temp, *final;
    int              lock;   /* the directory `temp`, open and locked */
    bool             checks; /* dry run: only checks whether the export would succeed */
} job;

/* --- the directory ------------------------------------------------------------------------------------------------ */

#define LOCK_TAKEN   (-1) /* by another process, or the directory was removed */
#define LOCK_MISSING (-2) /* the file system cannot lock directories (NFS): nothing is removed there */

/* Opens a directory and locks it. Returns the descriptor, or one of the negative values above. */
static int lock_directory(const char *path)
{
    struct stat opened, named;
    int         fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), why = LOCK_TAKEN;

    if (fd < 0) return LOCK_TAKEN;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) why = LOCK_MISSING;
    } else if (fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
               opened.st_dev == named.st_dev) {
        return fd; /* the directory still has its name: it was not removed after it was opened */
    }
    close(fd);
    return why;
}

static int is_temp(const struct dirent *entry)
{
    const char *name   = entry->d_name;
    size_t      prefix = strlen(TEMP_PREFIX), digits;

    if (strncmp(name, TEMP_PREFIX, prefix) != 0) return 0;
    digits = strspn(name + prefix, "0123456789");
    return digits > 0 && strcmp(name + prefix + digits, TEMP_SUFFIX) == 0;
}

/* Keeps X3. A directory that cannot be removed is only logged. */
static est_status remove_stale(const job *x, const char *base)
{
    struct dirent **entries = NULL;
    int             n       = scandir(base, &entries, is_temp, alphasort);
    est_status      status  = EST_OK;

    for (int i = 0; i < n; i++) {
        const char *path = est_arena_printf(x->arena, "%s/%s", base, entries[i]->d_name);
        int         lock = path != NULL ? lock_directory(path) : LOCK_TAKEN;

        free(entries[i]); /* the C library's */
        if (path == NULL) status = est_no_memory();
        if (lock < 0) continue;
        est_log_info("removing %s, left by an unfinished export", path);
        if (est_dir_remove(path) != EST_OK) est_log_warn("cannot remove an unfinished export: %s", est_error_message());
        close(lock);
    }
    free(entries);
    return status;
}

/* Creates and locks x->temp; *made says whether the name was free. */
static est_status make_temp(job *x, bool *made)
{
    bool broken = EST_FAULT_POINT("export.mkdir");

    if (broken) errno = ENOSPC;
    if (!broken && mkdir(x->temp, 0777) == 0) {
        x->lock = lock_directory(x->temp);
        *made   = x->lock != LOCK_TAKEN; /* else another export took it for a leftover and removes it */
        return EST_OK;
    }
    *made = false;
    if (errno == EEXIST) return EST_OK;
    return est_fail(est_status_from_errno(errno), "cannot create directory %s: %s", x->temp, strerror(errno));
}

/* Creates temp-<now>-estoc. An export without a name gets that of a second without an export; one with a name need not
 * wait for such a second, and takes the nanosecond. */
static est_status choose_directory(job *x, const char *base, const char *name)
{
    EST_TRY(est_dir_create(base));
    EST_TRY(remove_stale(x, base));
    for (int attempt = 1;; attempt++) {
        int64_t now  = name != NULL ? est_wall_ns() : est_wall_ns() / EST_NS_PER_SEC;
        bool    made = false;

        x->final = name != NULL ? est_arena_strdup(x->arena, name)
                                : est_arena_printf(x->arena, "%s/%" PRId64, base, now);
        x->temp  = est_arena_printf(x->arena, "%s/" TEMP_PREFIX "%" PRId64 TEMP_SUFFIX, base, now);
        if (x->final == NULL || x->temp == NULL) return est_no_memory();
        if (name != NULL || !est_file_exists(x->final)) {
            est_status status = make_temp(x, &made);

            if (!made) x->temp = NULL; /* this export created nothing that must be removed */
            EST_TRY(status);
        } else {
            x->temp = NULL;
        }
        if (made) return EST_OK;
        if (attempt == ATTEMPTS_MAX) {
            return est_fail(EST_ALREADY_EXISTS, "%s: found no name for an export in %d seconds, the last was %s", base,
                            attempt, x->final);
        }
        if (name != NULL) continue;
        est_log_info("Directory %s already exists; retrying (attempt %d/%d)", x->final, attempt, ATTEMPTS_MAX);
        if (est_signals_wait(1)) return est_signals_check("export");
    }
}

/* Keeps X1. If the rename cannot be made durable, the export is removed again: a failed export must not be visible. */
static est_status publish_new(const job *x)
{
    est_status status = est_file_commit(x->temp, x->final);

    if (status != EST_OK && !est_file_exists(x->temp)) (void)rename(x->final, x->temp);
    return status;
}

/* Puts the export in place of the one that has its name, which is a temporary directory meanwhile (X3). */
static est_status publish(const job *x)
{
    char *old = est_arena_printf(x->arena, "%.*s0" TEMP_SUFFIX, (int)(strlen(x->temp) - strlen(TEMP_SUFFIX)), x->temp);
    est_status status;

    if (old == NULL) return est_no_memory();
    if (rename(x->final, old) != 0) return publish_new(x);
    status = publish_new(x);
    if (status != EST_OK) {
        (void)rename(old, x->final);
    } else if (est_dir_remove(old) != EST_OK) {
        est_log_warn("cannot remove a replaced export: %s", est_error_message());
    }
    return status;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static const char *within(const job *x, const char *name)
{
    return est_arena_printf(x->arena, "%s/%s", x->temp, name);
}

static est_status write_variables(const job *x, const est_def_names *names)
{
    const char        *dir = within(x, "variables"), *prefix = within(x, "variables/variables");
    est_bundle_writer *writer = NULL;
    est_status         status;

    if (dir == NULL || prefix == NULL) return est_no_memory();
    EST_TRY(est_dir_create(dir)); /* exists even without variables, as in TensorFlow */
    if (names->n == 0) return EST_OK;
    EST_TRY(est_bundle_writer_create(prefix, EST_BUNDLE_ALIGNMENT, &writer));
    status = EST_OK;
    for (int i = 0; i < names->n && status == EST_OK; i++) {
        est_tensor *value = NULL;

        status = est_session_read(x->graphs[0].session, names->items[i], &value);
        if (status == EST_OK) status = est_bundle_add(writer, names->items[i], value);
        est_tensor_free(value);
    }
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_bundle_writer_free(writer);
    return status;
}

static est_status write_message(const job *x, const est_wire_writer *w)
{
    const char *path = within(x, "saved_model.pb");

    return path == NULL ? est_no_memory() : est_file_replace(path, w->data, w->size);
}

/* Replaces the binary message, which the check has read. */
static est_status write_text(const job *x, const est_wire_writer *w)
{
    const char *path = within(x, "saved_model.pbtxt"), *message = within(x, "saved_model.pb");
    est_strbuf  text = { 0 };
    est_status  status;

    if (path == NULL || message == NULL) return est_no_memory();
    status = est_saved_model_text((est_str){ (const char *)w->data, w->size }, &text);
    if (status == EST_OK) status = est_strbuf_status(&text);
    if (status == EST_OK) status = est_file_replace(path, est_strbuf_text(&text), text.size);
    if (status == EST_OK) status = est_file_remove(message);
    est_strbuf_clear(&text);
    return status;
}

/* A name below assets.extra/ must stay below it. */
static bool is_inside(const char *name)
{
    if (name == NULL || name[0] == '\0' || name[0] == '/') return false;
    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) return false;
    }
    return true;
}

static est_status write_extra(const job *x, const char *name, const char *bytes, size_t size)
{
    char *to = est_arena_printf(x->arena, "%s/" EST_EXPORT_EXTRA "/%s", x->temp, name), *slash;

    if (to == NULL) return est_no_memory();
    slash  = strrchr(to, '/');
    *slash = '\0';
    EST_TRY(est_dir_create(to));
    *slash = '/';
    return est_file_replace(to, bytes, size);
}

static est_status copy_extra(const job *x, const char *name, const char *from)
{
    char      *bytes;
    size_t     size;
    est_status status;

    EST_TRY(est_file_read(from, &bytes, &size));
    status = write_extra(x, name, bytes, size);
    est_free(bytes);
    return status;
}

static est_status write_extras(const job *x)
{
    const est_export_options *o = x->options;

    for (int i = 0; i < o->assets_extra.n; i++) {
        EST_TRY(copy_extra(x, o->assets_extra.data[i].name, o->assets_extra.data[i].path));
    }
    return x->extra != NULL ? write_extra(x, x->extra_name, x->extra, strlen(x->extra)) : EST_OK;
}

static est_status check_extras(const est_export_options *o)
{
    for (int i = 0; i < o->assets_extra.n; i++) {
        const char *name = o->assets_extra.data[i].name, *from = o->assets_extra.data[i].path;

        if (!is_inside(name) || from == NULL) {
            return est_fail(
                EST_INVALID_ARGUMENT,
                "assets_extra %d: \"%s\" is not a relative path below assets.extra/; expected a name and the path of a "
                "file",
                i, name != NULL ? name : "");
        }
        if (!est_file_exists(from))
            return est_fail(EST_NOT_FOUND, "assets_extra %d: the file %s does not exist", i, from);
    }
    return EST_OK;
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static est_status make_model(const job *x, est_mode mode, const est_serving_input *input, est_export_model *e)
{
    const est_estimator *estimator = x->estimator;

    EST_TRY(est_model_create(mode, &estimator->config, estimator->self.task, NULL, estimator->config.seed, &e->model));
    est_graph_keep_float32(e->model->graph);
    EST_TRY(est_receiver_build(input, e->model, &e->receiver));
    if (!x->checks) est_log_info("Calling model_fn.");
    EST_TRY(est_model_build(e->model, estimator->model_fn, estimator->params));
    if (!x->checks) est_log_info("Done calling model_fn.");
    EST_TRY(est_receiver_name(&e->receiver, e->model));
    EST_TRY(est_export_signatures(e));
    if (!x->checks) est_export_log_signatures(e);
    if (estimator->known != NULL && (mode != EST_TRAIN || estimator->known->mode == EST_TRAIN)) {
        EST_TRY(est_preflight_variables(e->model, estimator->known)); /* a model that does not train has no slots */
    }
    return est_export_tables(e);
}

static est_status make_models(job *x)
{
    const est_serving_input *inputs[MODES] = { &x->options->train_input, &x->options->eval_input, &x->options->input };
    static const est_mode    modes[MODES]  = { EST_TRAIN, EST_EVAL, EST_PREDICT };

    for (int i = 0; i < MODES; i++) {
        est_status status;

        if (!est_receiver_given(inputs[i])) continue;
        status = make_model(x, modes[i], inputs[i], &x->graphs[x->n_graphs++]);
        if (status != EST_OK) return est_fail_context(status, "the graph to %s", est_export_tag(modes[i]));
    }
    if (x->n_graphs > 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "there is no serving input; set .input to describe the features of requests");
}

static est_status restore_first(job *x, est_export_model *e)
{
    char        path[EST_CHECKPOINT_PATH_MAX];
    const char *name;

    EST_TRY(est_estimator_restore(x->estimator, e->model, e->session, x->options->checkpoint_path, path));
    EST_TRY(est_saved_nan(e->session, &name));
    if (name != NULL) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "the variable '%s' of %s is NaN: the model diverged; export an earlier checkpoint", name,
                        path[0] != '\0' ? path : "the warm start");
    }
    if (path[0] != '\0' || x->estimator->warm_start != NULL) return EST_OK;
    return est_fail(EST_NOT_FOUND, "Could not find trained model at %s; train it first, or name a checkpoint",
                    x->estimator->model_dir);
}

static est_status restore_models(job *x)
{
    for (int i = 0; i < x->n_graphs; i++) {
        est_export_model *e = &x->graphs[i];
        est_status        status;

        /* Nothing random is drawn, but without a seed the session would draw and log one. */
        EST_TRY(est_session_create(
            e->model->graph,
            EST_SESSION(.threads = x->estimator->config.threads, .seed = 1, .devices = EST_STRINGS("/cpu:0")),
            &e->session));
        status = i == 0 ? restore_first(x, e) : est_estimator_copy_variables(x->graphs[0].session, e->session, false);
        if (status == EST_OK) status = est_session_init(e->session); /* the state of metrics, which no checkpoint has */
        if (status != EST_OK) return est_fail_context(status, "the graph to %s", est_export_tag(e->model->mode));
    }
    return EST_OK;
}

static est_status check_all(const job *x)
{
    for (int i = 0; i < x->n_graphs; i++) {
        est_status status = est_export_check(&x->graphs[i], x->rows, x->temp);

        if (status != EST_OK) return est_fail_context(status, "tag %s", est_export_tag(x->graphs[i].model->mode));
    }
    return EST_OK;
}

/* `dir` not NULL: the export gets this name in place of a number. */
static est_status write_all(job *x, const char *base, const char *dir)
{
    est_saved_model_def saved;
    est_def_names       variables[MODES] = { 0 };
    est_wire_writer     w                = { 0 };
    est_status          status           = EST_OK;

    est_saved_model_def_init(&saved, x->arena);
    for (int i = 0; i < x->n_graphs; i++) EST_TRY(est_export_meta_graph(&x->graphs[i], &saved, &variables[i]));
    status = est_saved_model_def_put(&w, &saved);
    if (status == EST_OK) status = est_wire_writer_status(&w);
    if (status == EST_OK) status = choose_directory(x, base, dir);
    if (status == EST_OK) status = write_variables(x, &variables[0]);
    if (status == EST_OK) status = est_export_copy_assets(&saved, x->temp);
    if (status == EST_OK) status = write_message(x, &w);
    if (status == EST_OK) status = check_all(x);
    if (status == EST_OK) status = write_extras(x);
    if (status == EST_OK && x->options->as_text) status = write_text(x, &w);
    if (status == EST_OK) status = est_signals_check("export"); /* a published export stays */
    est_wire_writer_clear(&w);
    return status == EST_OK ? publish(x) : status;
}

/* Keeps X2, and the error of the failure. */
static void drop_temp(const job *x, est_status status)
{
    est_error error;

    est_error_take(status, &error);
    if (est_dir_remove(x->temp) != EST_OK) est_log_warn("cannot remove an unfinished export: %s", est_error_message());
    (void)est_error_raise(&error);
}

static est_status check_options(const est_export_options *options)
{
    if (!EST_LIST_OK(options->assets_extra)) {
        return est_fail(EST_INVALID_ARGUMENT, "assets_extra.n is %d and assets_extra %s", options->assets_extra.n,
                        options->assets_extra.data != NULL ? "is set" : "NULL");
    }
    return EST_OK;
}

static void free_models(job *x)
{
    for (int i = 0; i < x->n_graphs; i++) {
        est_session_free(x->graphs[i].session);
        est_model_free(x->graphs[i].model);
    }
}

est_status est_export_check_model(est_estimator *estimator, const est_export_options *options)
{
    est_export_options own;
    job                x = { .estimator = estimator, .options = &own, .lock = LOCK_MISSING, .checks = true };
    est_status         status;

    EST_REQUIRE(estimator);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_export_options), options, &own));
    EST_TRY(check_options(&own));
    status = check_extras(&own);
    if (status == EST_OK) status = make_models(&x);
    free_models(&x);
    return status == EST_OK ? EST_OK : est_fail_context(status, "export");
}

est_status est_export_saved_model(est_estimator *estimator, const char *base, const est_export_options *options,
                                  char path[EST_CHECKPOINT_PATH_MAX])
{
    EST_REQUIRE(estimator);
    return est_export_with(estimator, base, options, NULL, NULL, path);
}

est_status est_export_with(est_estimator *estimator, const char *base, const est_export_options *options,
                           const char *name, const char *text, char path[EST_CHECKPOINT_PATH_MAX])
{
    est_export_options own;
    job        x = { .estimator = estimator, .options = &own, .extra_name = name, .extra = text, .lock = LOCK_MISSING };
    est_status status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_export_options), options, &own));
    EST_TRY(check_options(&own));
    if (base == NULL || base[0] == '\0' || strlen(base) + 32 > EST_CHECKPOINT_PATH_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "export: the directory to export to has %s",
                        base == NULL || base[0] == '\0' ? "no name" : "too long a name");
    }
    if (!estimator->config.no_signals) est_signals_catch();
    x.arena = est_arena_create();
    status  = x.arena == NULL ? est_no_memory() : est_dir_check(base);
    if (status == EST_OK) status = check_extras(&own);
    if (status == EST_OK) status = make_models(&x);
    if (status == EST_OK) status = restore_models(&x);
    if (status == EST_OK) status = est_signals_check("export"); /* the check below runs the model */
    x.rows = &estimator->rows;
    if (status == EST_OK) status = write_all(&x, base, NULL);
    if (status == EST_OK) {
        est_log_info("SavedModel written to: %s", x.final);
        if (path != NULL) snprintf(path, EST_CHECKPOINT_PATH_MAX, "%s", x.final);
    } else if (x.temp != NULL) {
        drop_temp(&x, status);
    }
    if (x.lock >= 0) close(x.lock);
    free_models(&x);
    est_arena_free(x.arena);
    if (!estimator->config.no_signals) est_signals_release(status);
    return status == EST_OK ? EST_OK : est_fail_context(status, "export");
}

static bool is_part_of_model(const char *name)
{
    static const char *const parts[] = { ".",         "..",     "saved_model.pb", "fingerprint.pb",
                                         "variables", "assets", "assets.extra",   "keras_metadata.pb" };

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(name, parts[i]) == 0) return true;
    }
    return false;
}

/* Fails if the directory of a SavedModel has anything else, which would go with it. */
static est_status check_alone(const char *dir)
{
    DIR                 *entries = opendir(dir);
    const struct dirent *entry;
    est_status           status = EST_OK;

    if (entries == NULL) {
        return est_fail(est_status_from_errno(errno), "cannot read directory %s: %s", dir, strerror(errno));
    }
    while (status == EST_OK && (entry = readdir(entries)) != NULL) {
        if (is_part_of_model(entry->d_name)) continue;
        status = est_fail(EST_ALREADY_EXISTS,
                          "%s has %s beside its SavedModel, which would be removed with that; name another directory",
                          dir, entry->d_name);
    }
    closedir(entries);
    return status;
}

/* A SavedModel, an empty directory and nothing may be replaced. */
static est_status check_replaced(const job *x, const char *dir)
{
    const char *message = est_arena_printf(x->arena, "%s/saved_model.pb", dir);

    if (message == NULL) return est_no_memory();
    if (est_file_exists(message)) return check_alone(dir);
    if (!est_file_exists(dir) || rmdir(dir) == 0) return EST_OK;
    return est_fail(EST_ALREADY_EXISTS, "%s exists and is no SavedModel; name another directory", dir);
}

static est_status write_one(job *x, const char *dir)
{
    char *final = est_arena_strdup(x->arena, dir), *slash;

    if (final == NULL) return est_no_memory();
    for (size_t n = strlen(final); n > 1 && final[n - 1] == '/';) final[--n] = '\0';
    if (final[0] == '\0' || strcmp(final, "/") == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is no name of a directory to write", dir);
    }
    EST_TRY(check_replaced(x, final));
    dir   = est_arena_strdup(x->arena, final);
    slash = strrchr(final, '/');
    if (dir == NULL) return est_no_memory();
    if (slash != NULL) slash[slash == final] = '\0';
    return write_all(x, slash != NULL ? final : ".", dir);
}

est_status est_export_one(const est_export_model *e, const char *dir)
{
    const est_export_options options = { 0 };
    const est_sample_rows    rows    = { 0 };
    job        x = { .options = &options, .rows = &rows, .graphs = { *e }, .n_graphs = 1, .lock = LOCK_MISSING };
    est_status status;

    x.arena = est_arena_create();
    status  = x.arena != NULL ? write_one(&x, dir) : est_no_memory();
    if (status == EST_OK) {
        est_log_info("SavedModel written to: %s", x.final);
    } else if (x.temp != NULL) {
        drop_temp(&x, status);
    }
    if (x.lock >= 0) close(x.lock);
    est_arena_free(x.arena);
    return status;
}
