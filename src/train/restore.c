/* SPDX-License-Identifier: Apache-2.0
 *
 * Restoring: variables of a session from a checkpoint, all of them or none (SV7).
 *
 * How variables are read is in runtime/store_files.h. To change nothing on failure,
 * - everything that the index can tell (names, dtypes, shapes) is checked before anything is read;
 * - variables without a value may be overwritten at once: they are marked as initialised only when all have been read,
 *   so a damaged file leaves them as they were, without a value. This is the usual case, a restore before
 *   est_session_init, and reads each byte once;
 * - when one of them has a value all are verified first, that is, read twice. Should the second reading fail after all
 *   (the file was changed in between), the variables are marked as having no value.
 * - with variables at other tasks all are verified first, here and there. If a task fails after that, its variables
 *   have no values, while others may already have theirs. Restoring again repairs that.
 * So a damaged checkpoint is found before or during reading, and the next one can be tried.
 *
 * The rows of a dynamic embedding have no values while it has no keys. An export has the keys and rows, but not the
 * history that training needs: when each key was last seen, and which keys wait for admission. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "format/checkpoint.h"
#include "kernels/row_table.h"
#include "nn/optimizer.h"
#include "runtime/session.h"
#include "runtime/store_files.h"
#include "train/saver.h"

#define NAMED_MAX 3 /* an error names at most so many variables of a kind */

/* A variable to restore. */
typedef struct target {
    est_var                       *var;
    const char                    *stored;    /* name to look for */
    bool                           optional;  /* initialized if the checkpoint lacks it */
    const char                    *key;       /* name in the current checkpoint; NULL: it lacks the variable */
    const est_checkpoint_variable *stored_as; /* entry of the current checkpoint; NULL: it lacks the variable */
    bool                           excused;   /* key history, which an export does not have */
} target;

typedef struct restoring {
    est_saver                 *saver; /* may be NULL */
    est_session               *session;
    const est_restore_options *options;
    target                    *targets;
    int                        n, n_missing, n_misfit, n_filtered;
    est_tensor               **extras;                        /* read from the current checkpoint */
    char                       used[EST_CHECKPOINT_PATH_MAX]; /* prefix of the restored checkpoint */
} restoring;

/* --- what to restore ---------------------------------------------------------------------------------------------- */

static const char *stored_name(const est_restore_options *options, const char *variable, bool *used)
{
    const char *stored = NULL;

    for (int i = 0; i < options->renames.n; i++) {
        if (strcmp(options->renames.data[i].variable, variable) != 0) continue;
        used[i] = true;
        return options->renames.data[i].stored;
    }
    if (options->rename != NULL) stored = options->rename(options->user, variable);
    return stored != NULL ? stored : variable;
}

static est_status check_renames(const est_restore_options *options)
{
    for (int i = 0; i < options->renames.n; i++) {
        const est_rename *rename = &options->renames.data[i];

        if (rename->variable != NULL && rename->stored != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "rename %d lacks a name: \"%s\" from \"%s\"", i,
                        rename->variable != NULL ? rename->variable : "NULL",
                        rename->stored != NULL ? rename->stored : "NULL");
    }
    for (int i = 0; i < options->extras.n; i++) {
        if (options->extras.data[i].name != NULL && options->extras.data[i].value != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "extra %d to restore lacks a name or a place for its value", i);
    }
    return EST_OK;
}

static est_status check_used(const est_restore_options *options, const bool *used)
{
    for (int i = 0; i < options->renames.n; i++) {
        if (used[i]) continue;
        return est_fail(
            EST_INVALID_ARGUMENT, "a rename restores \"%s\" from \"%s\", but no variable \"%s\" is restored",
            options->renames.data[i].variable, options->renames.data[i].stored, options->renames.data[i].variable);
    }
    return EST_OK;
}

static bool has_value(const est_var *var)
{
    return var->rows != NULL && !var->elsewhere ? var->rows->n > 0 : var->initialized;
}

static bool is_collected(const est_graph *graph, const char *collection, const char *name)
{
    est_nodes list = est_graph_collection(graph, collection);

    for (int i = 0; i < list.n; i++) {
        if (strcmp(est_node_string(est_graph_node(graph, list.data[i].id), "shared_name"), name) == 0) return true;
    }
    return false;
}

/* The targets of `vars`, and memory for the extras. */
static est_status choose_targets(restoring *r, est_var *const *vars, int n)
{
    const est_restore_options *options = r->options;
    bool                      *used    = est_zalloc((size_t)options->renames.n + 1);
    est_status                 status;

    r->targets = est_zalloc(sizeof *r->targets * ((size_t)n + 1));
    r->extras  = est_zalloc(sizeof(est_tensor *) * ((size_t)options->extras.n + 1));
    if (used == NULL || r->targets == NULL || r->extras == NULL) {
        est_free(used);
        return est_no_memory();
    }
    for (int i = 0; i < n; i++) {
        const char *name = vars[i]->name, *stored;

        if (options->filter != NULL && !options->filter(options->user, name)) {
            r->n_filtered++;
            continue;
        }
        stored = stored_name(options, name, used);
        if (!options->missing_only || !has_value(vars[i])) {
            r->targets[r->n++] = (target){ .var      = vars[i],
                                           .stored   = stored,
                                           .optional = is_collected(est_session_graph(r->session),
                                                                    EST_OPTIONAL_VARIABLES, name) };
        }
    }
    status = check_used(options, used);
    est_free(used);
    return status;
}

/* --- against a checkpoint ----------------------------------------------------------------------------------------- */

static const est_checkpoint_variable *stored_as(const restoring *r, const est_var *var)
{
    for (int i = 0; i < r->n; i++) {
        if (r->targets[i].var == var) return r->targets[i].stored_as;
    }
    return NULL;
}

/* The keys of the dynamic embedding that a variable belongs to, if they are restored with their complete history, or
 * without any as from an export; else NULL. */
static const est_checkpoint_variable *stored_keys(const restoring *r, const est_key_rows *rows)
{
    bool seen = stored_as(r, rows->vars[1]) != NULL, older = stored_as(r, rows->vars[2]) != NULL;

    return seen == older ? stored_as(r, rows->vars[0]) : NULL;
}

/* Whether there is nothing to read for a variable: it is the key history of a dynamic embedding that was exported
 * without it, or it belongs to one that was exported without any key. */
static bool is_excused(const restoring *r, const est_store *store, const est_var *var)
{
    const est_key_rows            *rows = var->rows != NULL ? est_store_table_rows(store, var) : NULL;
    const est_checkpoint_variable *keys, *embedding;

    if (rows == NULL || stored_as(r, rows->vars[1]) != NULL) return false;
    keys      = stored_as(r, rows->vars[0]);
    embedding = stored_as(r, rows->vars[3]);
    if (keys == NULL) return embedding != NULL && embedding->shape.rank > 0 && embedding->shape.dim[0] == 0;
    return var->rows != rows || var == rows->vars[1] || var == rows->vars[2] || var->value.shape.rank == 0;
}

/* The checkpoint may have fewer rows than the capacity, but the same number in all variables of a dynamic embedding. */
static bool fits(const restoring *r, const target *t, const est_checkpoint_variable *stored)
{
    const est_checkpoint_variable *keys = t->var->rows != NULL ? stored_keys(r, t->var->rows) : NULL;
    est_shape                      want = t->var->value.shape;

    if (keys != NULL && want.rank > 0 && stored->shape.rank > 0 && keys->shape.rank == 1) {
        if (stored->shape.dim[0] != keys->shape.dim[0] || stored->shape.dim[0] > want.dim[0]) return false;
        want.dim[0] = stored->shape.dim[0];
    }
    return stored->dtype == t->var->value.dtype && est_shape_equal(&stored->shape, &want);
}

/* Whether only the number of rows differs, as after a vocabulary or a number of buckets changed. */
static bool only_rows_differ(const est_view *value, const est_checkpoint_variable *stored)
{
    est_shape rows = stored->shape;

    if (rows.rank < 2 || rows.rank != value->shape.rank || stored->dtype != value->dtype) return false;
    rows.dim[0] = value->shape.dim[0];
    return est_shape_equal(&rows, &value->shape);
}

/* Whether a variable is a slot of another one: an error that names the variable covers its slots. */
static bool is_slot(const restoring *r, const target *t)
{
    for (int i = 0; i < r->n; i++) {
        const char *owner = r->targets[i].var->name;
        size_t      size  = strlen(owner);

        if (strncmp(t->var->name, owner, size) == 0 && t->var->name[size] == '/') return true;
    }
    return false;
}

static bool is_missing(const restoring *r, const target *t)
{
    (void)r;
    return t->key == NULL && !t->optional && !t->excused;
}

static bool is_misfit(const restoring *r, const target *t)
{
    return t->key != NULL && !fits(r, t, t->stored_as);
}

/* Picks up to NAMED_MAX of the targets that an error is about; slots only if there are no others. */
static int choose_named(const restoring *r, bool (*is)(const restoring *r, const target *t),
                        const target    *named[NAMED_MAX])
{
    int n = 0;

    for (int slots = 0; slots < 2 && n == 0; slots++) {
        for (int i = 0; i < r->n && n < NAMED_MAX; i++) {
            if (is(r, &r->targets[i]) && is_slot(r, &r->targets[i]) == (slots != 0)) named[n++] = &r->targets[i];
        }
    }
    return n;
}

static void put_more(est_strbuf *out, int n)
{
    if (n > 0) est_strbuf_printf(out, " and %d more", n);
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Appends the variables whose dtype or shape differs in the checkpoint. */
static void list_misfits(const restoring *r, est_strbuf *out)
{
    const target *named[NAMED_MAX];
    int           n    = choose_named(r, is_misfit, named);
    bool          rows = false;
    char          have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < n; i++) {
        const est_view                *value  = &named[i]->var->value;
        const est_checkpoint_variable *stored = named[i]->stored_as;

        est_strbuf_printf(out, "%svariable '%s' is %s %s, but \"%s\" there is %s %s", i > 0 ? "; " : "",
                          named[i]->var->name, est_dtype_name(value->dtype), est_shape_text(&value->shape, want),
                          stored->name, est_dtype_name(stored->dtype), est_shape_text(&stored->shape, have));
        if (ends_in(named[i]->var->name, EST_KEY_DTYPE_PART)) {
            est_strbuf_printf(out, " (the keys of this dynamic embedding are %s, and were %s in the checkpoint)",
                              value->dtype == EST_U8 ? "strings" : "integers",
                              stored->dtype == EST_U8 ? "strings" : "integers");
        }
        if (rows || !only_rows_differ(value, stored) || ends_in(named[i]->var->name, "kernel")) continue;
        rows = true; /* once is enough */
        if (named[i]->var->rows != NULL) {
            est_strbuf_printf(out,
                              " (%" PRId64 " keys have a row in the checkpoint, and max_rows is %" PRId64
                              "; it can be lowered, but not below the rows there are)",
                              stored->shape.dim[0], value->shape.dim[0]);
        } else {
            est_strbuf_append(out,
                              " (has a vocabulary or a number of buckets changed? A warm start moves the rows of a "
                              "vocabulary into a new model directory)");
        }
    }
    put_more(out, r->n_misfit - n);
}

/* Whether all variables that the checkpoint lacks are the optimizer's. */
static bool lacks_optimizer(const restoring *r)
{
    const est_graph *graph = est_session_graph(r->session);

    for (int i = 0; i < r->n; i++) {
        const target *t = &r->targets[i];

        if (is_missing(r, t) && !is_collected(graph, EST_OPTIMIZER_VARIABLES, t->var->name)) return false;
    }
    return true;
}

/* Appends the variables that the checkpoint lacks. */
static void list_missing(const restoring *r, const est_checkpoint *checkpoint, est_strbuf *out)
{
    const target *named[NAMED_MAX];
    int           n = choose_named(r, is_missing, named), lacking = 0;

    for (int i = 0; i < r->n; i++) lacking += is_missing(r, &r->targets[i]);
    est_strbuf_printf(out, "it lacks %d of %d variables: ", lacking, r->n);
    for (int i = 0; i < n; i++) {
        const est_view *value = &named[i]->var->value;
        const char     *similar;

        similar = est_checkpoint_similar(checkpoint, named[i]->stored, value->dtype, &value->shape);
        est_strbuf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", named[i]->stored);
        if (similar != NULL) est_strbuf_printf(out, " (it has \"%s\")", similar);
    }
    put_more(out, lacking - n);
    est_strbuf_append(out, r->n_misfit == 0 && lacks_optimizer(r) ? EST_OPTIMIZER_ADVICE : EST_RESTORE_ADVICE);
}

est_status est_restore_advise(est_status status, const char *advice)
{
    const char *text = est_error_message(), *end = strstr(text, EST_RESTORE_ADVICE);

    if (end == NULL) end = strstr(text, EST_OPTIMIZER_ADVICE);
    return end != NULL ? est_fail(status, "%.*s%s", (int)(end - text), text, advice) : status;
}

/* Not EST_NOT_FOUND: that means that no checkpoint exists, and training would start over and replace this one. */
static est_status fail_match(const restoring *r, const est_checkpoint *checkpoint, bool missing)
{
    est_strbuf text = { 0 };
    est_status status;

    est_strbuf_printf(&text, "the checkpoint %s does not fit: ", est_checkpoint_path(checkpoint));
    list_misfits(r, &text);
    if (missing) {
        if (r->n_misfit > 0) est_strbuf_append(&text, "; ");
        list_missing(r, checkpoint, &text);
    }
    status = est_fail(r->n_misfit > 0 ? EST_INVALID_ARGUMENT : EST_FAILED_PRECONDITION, "%s", est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return status;
}

/* Finds every target in the checkpoint. A model that does not fit does not make the checkpoint damaged. */
static est_status match(restoring *r, const est_checkpoint *checkpoint)
{
    int        n_lacking = 0;
    bool       missing;
    est_store *store;

    EST_TRY(est_session_store(r->session, &store));
    r->n_missing = r->n_misfit = 0;
    for (int i = 0; i < r->n; i++) {
        target *t = &r->targets[i];

        EST_TRY(est_checkpoint_look_up(checkpoint, t->stored, &t->stored_as));
        t->key = t->stored_as != NULL ? t->stored_as->name : NULL;
    }
    for (int i = 0; i < r->n; i++) {
        target *t = &r->targets[i];

        if (t->var->rows != NULL && stored_keys(r, t->var->rows) == NULL) t->key = NULL;
        t->excused = is_excused(r, store, t->var);
        r->n_missing += t->key == NULL;
        n_lacking += is_missing(r, t);
        r->n_misfit += is_misfit(r, t);
    }
    missing = n_lacking > 0 && !r->options->partial;
    return missing || r->n_misfit > 0 ? fail_match(r, checkpoint, missing) : EST_OK;
}

static void drop_extras(restoring *r)
{
    for (int i = 0; r->extras != NULL && i < r->options->extras.n; i++) {
        est_tensor_free(r->extras[i]);
        r->extras[i] = NULL;
    }
}

static est_status read_extras(restoring *r, const est_checkpoint *checkpoint)
{
    drop_extras(r);
    for (int i = 0; i < r->options->extras.n; i++) {
        const char *name = r->options->extras.data[i].name;

        if (est_bundle_find(est_checkpoint_bundle(checkpoint), name) == NULL) continue;
        EST_TRY(est_bundle_read(est_checkpoint_bundle(checkpoint), name, NULL, &r->extras[i]));
    }
    return EST_OK;
}

/* The variables to read, those of this process and those of other tasks. */
typedef struct reads {
    est_store_entry *here;
    int              n_here;
    est_remote_list  elsewhere;
    bool             verified; /* to verify before anything changes */
} reads;

/* With other tasks everything is verified first: a task that has read its variables cannot roll back when another
 * fails. */
static est_status list_reads(const restoring *r, const est_store *store, reads *out)
{
    out->elsewhere.missing_only = r->options->missing_only;
    out->here                   = est_zalloc(sizeof *out->here * ((size_t)r->n + 1));
    if (out->here == NULL) return est_no_memory();
    for (int i = 0; i < r->n; i++) {
        const target *t = &r->targets[i];

        if (t->key == NULL) continue;
        if (t->var->elsewhere) {
            EST_TRY(est_remote_list_add(&out->elsewhere, store, t->var, t->key));
        } else {
            out->here[out->n_here++] = est_store_entry_of(store, t->var, t->key);
        }
        out->verified = out->verified || t->var->elsewhere || has_value(t->var);
    }
    return EST_OK;
}

static est_status read_elsewhere(const restoring *r, const est_remote_list *list)
{
    est_remote      *remote = est_session_remote(r->session);
    est_remote_files files  = { .entries = list->data, .n = list->n };
    char            *prefix;
    est_status       status;

    EST_TRY(est_absolute_prefix(r->used, &prefix));
    files.prefix = prefix;
    status       = remote->ops->verify(remote, &files);
    if (status == EST_OK) status = remote->ops->restore(remote, &files);
    est_free(prefix);
    EST_TRY(status);
    for (int i = 0; i < r->n; i++) {
        if (r->targets[i].key != NULL && r->targets[i].var->elsewhere) r->targets[i].var->initialized = true;
    }
    return EST_OK;
}

static est_status read_variables(const restoring *r, const est_bundle *bundle)
{
    reads      found = { 0 };
    est_store *store;
    est_status status;

    EST_TRY(est_session_store(r->session, &store));
    status = list_reads(r, store, &found);
    if (status == EST_OK && found.verified) status = est_store_verify(bundle, found.here, found.n_here);
    if (status == EST_OK && found.elsewhere.n > 0) status = read_elsewhere(r, &found.elsewhere);
    if (status == EST_OK) status = est_store_restore(store, bundle, found.here, found.n_here);
    est_free(found.here);
    est_free(found.elsewhere.data);
    return status;
}

static est_status read_checkpoint(restoring *r, const est_checkpoint *checkpoint)
{
    est_bundle *bundle = est_checkpoint_bundle(checkpoint);

    est_bundle_set_pool(bundle, est_session_pool(r->session));
    EST_TRY(read_extras(r, checkpoint));
    return read_variables(r, bundle);
}

/* Restores from one checkpoint. The saver is told which checkpoints are damaged, so that it removes them before good
 * ones. Lack of memory and a model that does not fit are not damage. */
static est_status restore_prefix(void *user, const char *prefix, bool *unusable)
{
    restoring      *r = user;
    est_checkpoint *checkpoint;
    est_status      status;

    EST_TRY(est_checkpoint_put_path(prefix, r->used));
    status    = est_checkpoint_open_prefix(prefix, &checkpoint);
    *unusable = est_checkpoint_is_unusable(status);
    if (status == EST_OK) {
        status = match(r, checkpoint);
        if (status == EST_OK) {
            status    = read_checkpoint(r, checkpoint);
            *unusable = est_checkpoint_is_unusable(status);
        }
        est_checkpoint_close(checkpoint);
    }
    if (r->saver != NULL && *unusable) est_saver_mark_unusable(r->saver, prefix);
    return status;
}

/* --- where from --------------------------------------------------------------------------------------------------- */

/* Restores the given checkpoint and no other. Missing files are damage: EST_NOT_FOUND would mean that there is nothing
 * to restore. */
static est_status restore_one(restoring *r, const char *prefix)
{
    bool       unusable = false;
    est_status status   = restore_prefix(r, prefix, &unusable);
    est_error  error;

    if (status != EST_NOT_FOUND) return status;
    est_error_take(EST_DATA_LOSS, &error);
    return est_error_raise(&error);
}

static est_status restore_path(restoring *r, const char *path)
{
    est_checkpoint_kind kind;
    char               *prefix = NULL;
    est_status          status;

    EST_TRY(est_checkpoint_path_kind(path, &kind));
    switch (kind) {
    case EST_CHECKPOINT_PREFIX: return restore_one(r, path);
    case EST_CHECKPOINT_DIRECTORY: return est_checkpoint_try_all(path, NULL, restore_prefix, r);
    case EST_CHECKPOINT_SAVED_MODEL: break;
    }
    EST_TRY(est_checkpoint_join(path, EST_SAVED_MODEL_PREFIX, &prefix));
    status = restore_one(r, prefix);
    est_free(prefix);
    return status;
}

static est_status restore(restoring *r)
{
    est_var  **vars;
    est_status status;
    int        n;

    EST_TRY(check_renames(r->options));
    EST_TRY(est_saved_variables(r->session, &vars, &n));
    status = r->options->missing_only ? est_session_look(r->session) : EST_OK;
    if (status == EST_OK) status = choose_targets(r, vars, n);
    est_free(vars);
    EST_TRY(status);
    if (r->options->missing_only && r->n == 0) return EST_OK;
    if (r->options->path != NULL) return restore_path(r, r->options->path);
    return est_checkpoint_try_all(est_saver_dir(r->saver), est_saver_name(r->saver), restore_prefix, r);
}

static void hand_over(restoring *r, est_restored *out)
{
    for (int i = 0; i < r->options->extras.n; i++) {
        *r->options->extras.data[i].value = r->extras[i];
        r->extras[i]                      = NULL;
    }
    if (out == NULL) return;
    *out = (est_restored){ .n_restored = r->n - r->n_missing, .n_missing = r->n_missing, .n_filtered = r->n_filtered };
    memcpy(out->path, r->used, sizeof out->path);
}

est_status est_saver_restore(est_saver *saver, est_session *session, const est_restore_options *options,
                             est_restored *out)
{
    est_restore_options own;
    restoring           r = { .saver = saver, .session = session, .options = &own };
    est_status          status;

    EST_REQUIRE(session);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_restore_options), options, &own));
    if (saver == NULL && own.path == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "nothing to restore from: neither a saver nor a path was given");
    }
    status = restore(&r);
    if (status == EST_OK) hand_over(&r, out);
    drop_extras(&r);
    est_free(r.targets);
    est_free(r.extras);
    return status;
}
