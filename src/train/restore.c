/* SPDX-License-Identifier: Apache-2.0
 *
 * Restoring: variables of a session from a checkpoint, all of them or none (S7).
 *
 * Values are read straight into the variables' memory, which plans point into and which therefore cannot be swapped for
 * memory read aside. To change nothing on failure,
 * - everything that the index can tell (names, dtypes, shapes) is checked before anything is read;
 * - variables without a value may be overwritten at once: they are marked as initialised only when all have been read,
 *   so a damaged file leaves them as they were, without a value. This is the usual case, a restore before
 *   est_session_init, and reads each byte once;
 * - when one of them has a value all are first read and summed without being stored, and then read again, mostly from
 *   the page cache: the CRC runs at several times the speed of a disk, and a second copy of the model in memory, the
 *   alternative, is what large models have least room for. Should the second reading fail after all (the file was
 *   changed in between), the variables are marked as having no value: an error later rather than a mixture.
 * A damaged checkpoint is so found before or while reading and the next one can be tried.
 *
 * Variables with rows for keys (kernels/key_rows.h) are read as they were saved, into their first rows, and the set of keys
 * is made of what was read at the end. Their values count as none while there are no keys. They are restored only together
 * with the keys; of a set whose keys are, a variable that the checkpoint lacks starts anew.
 *
 * A partitioned variable of TensorFlow is one tensor of a checkpoint, and read like any other. But its slots in canned
 * estimators of tf.compat.v1 are one for each part, "<variable>/part_0/Ftrl", "<variable>/part_1/Ftrl", all of the full shape
 * with only a slice there. Ours is called as the first and made of all of them. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "format/checkpoint.h"
#include "runtime/session.h"
#include "train/saver.h"

#define NAMED_MAX 3 /* variables of a kind that an error names */

/* A variable to restore. */
typedef struct target {
    est_var                       *var;
    const char                    *stored;    /* name to look for */
    bool                           optional;  /* starts anew where a checkpoint lacks it */
    const char                    *key;       /* of the checkpoint at hand; NULL: it has none */
    const est_checkpoint_variable *stored_as; /* there; NULL: it has none */
} target;

typedef struct restoring {
    est_saver                 *saver; /* may be NULL */
    est_session               *session;
    const est_restore_options *options;
    target                    *targets;
    int                        n, n_missing, n_misfit, n_filtered;
    est_tensor               **extras;                        /* read from the checkpoint at hand */
    char                       used[EST_CHECKPOINT_PATH_MAX]; /* prefix of the checkpoint that was */
} restoring;

/* --- what to restore -------------------------------------------------------------------------------------------- */

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
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is to be restored from \"%s\", but no such variable is restored",
                        options->renames.data[i].variable, options->renames.data[i].stored);
    }
    return EST_OK;
}

/* Whether a variable is one that older or other trainings had no use for. */
static bool is_optional(const est_graph *graph, const char *name)
{
    est_nodes list = est_graph_collection(graph, EST_OPTIONAL_VARIABLES);

    for (int i = 0; i < list.n; i++) {
        if (strcmp(est_node_string(est_graph_node(graph, list.data[i].id), "shared_name"), name) == 0) return true;
    }
    return false;
}

/* The targets of `vars`, and memory for what is read beside them. */
static est_status choose_targets(restoring *r, est_var *const *vars, int n)
{
    const est_restore_options *options = r->options;
    bool                      *used    = est_zalloc((size_t)options->renames.n + 1);
    est_status                 status;

    r->targets = est_zalloc(sizeof *r->targets * ((size_t)n + 1));
    r->extras  = est_zalloc(sizeof(est_tensor *) * ((size_t)options->extras.n + 1));
    if (used == NULL || r->targets == NULL || r->extras == NULL) {
        est_free(used);
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to restore %d variables", n);
    }
    for (int i = 0; i < n; i++) {
        const char *name = vars[i]->name;

        if (options->filter != NULL && !options->filter(options->user, name)) {
            r->n_filtered++;
        } else {
            r->targets[r->n++] = (target){ .var      = vars[i],
                                           .stored   = stored_name(options, name, used),
                                           .optional = is_optional(est_session_graph(r->session), name) };
        }
    }
    status = check_used(options, used);
    est_free(used);
    return status;
}

/* --- against a checkpoint --------------------------------------------------------------------------------------- */

static const est_checkpoint_variable *stored_as(const restoring *r, const est_var *var)
{
    for (int i = 0; i < r->n; i++) {
        if (r->targets[i].var == var) return r->targets[i].stored_as;
    }
    return NULL;
}

/* The keys that a variable has rows for, if they are restored with all that makes them a set; else NULL. */
static const est_checkpoint_variable *stored_keys(const restoring *r, const est_key_rows *rows)
{
    bool whole = stored_as(r, rows->vars[1]) != NULL && stored_as(r, rows->vars[2]) != NULL;

    return whole ? stored_as(r, rows->vars[0]) : NULL;
}

/* How many rows are stored may differ from how many there can be, but must be the same for all of a set. */
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

/* Tables that have a row for every entry grow with what they are for. */
static bool only_rows_differ(const est_view *value, const est_checkpoint_variable *stored)
{
    est_shape rows = stored->shape;

    if (rows.rank < 2 || rows.rank != value->shape.rank || stored->dtype != value->dtype) return false;
    rows.dim[0] = value->shape.dim[0];
    return est_shape_equal(&rows, &value->shape);
}

/* Whether a variable belongs to another one, as an optimizer's slots do: they go where that one goes. */
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
    return t->key == NULL && !t->optional;
}

static bool is_misfit(const restoring *r, const target *t)
{
    return t->stored_as != NULL && !fits(r, t, t->stored_as);
}

/* Picks up to NAMED_MAX of the targets that an error is about; slots only where there is nothing else. */
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

/* Variables that the checkpoint has with another dtype or shape, as text. */
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
        if (rows || !only_rows_differ(value, stored)) continue;
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

/* Variables that it does not have. */
static void list_missing(const restoring *r, const est_checkpoint *checkpoint, est_strbuf *out)
{
    const target *named[NAMED_MAX];
    int           n = choose_named(r, is_missing, named);

    est_strbuf_printf(out, "it lacks %d of %d variables: ", r->n_missing, r->n);
    for (int i = 0; i < n; i++) {
        const est_view *value = &named[i]->var->value;
        const char     *similar;

        similar = est_checkpoint_similar(checkpoint, named[i]->stored, value->dtype, &value->shape);
        est_strbuf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", named[i]->stored);
        if (similar != NULL) est_strbuf_printf(out, " (it has \"%s\")", similar);
    }
    put_more(out, r->n_missing - n);
    est_strbuf_append(out, EST_RESTORE_ADVICE);
}

/* Not EST_NOT_FOUND: that would mean that there is no checkpoint, and a training would begin anew over this one. */
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

/* Finds every target; a model that does not fit is no fault of the checkpoint. */
static est_status match(restoring *r, const est_checkpoint *checkpoint)
{
    int  n_optional = 0;
    bool missing;

    r->n_missing = r->n_misfit = 0;
    for (int i = 0; i < r->n; i++) {
        target *t = &r->targets[i];

        EST_TRY(est_checkpoint_look_up(checkpoint, t->stored, &t->stored_as));
        t->key = t->stored_as != NULL ? t->stored_as->name : NULL;
    }
    for (int i = 0; i < r->n; i++) {
        target *t = &r->targets[i];

        if (t->var->rows != NULL && stored_keys(r, t->var->rows) == NULL) t->key = NULL;
        r->n_missing += t->key == NULL;
        n_optional += t->key == NULL && t->optional;
        r->n_misfit += t->key != NULL && !fits(r, t, t->stored_as);
    }
    missing = r->n_missing > n_optional && !r->options->partial;
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

static bool any_has_value(const restoring *r)
{
    for (int i = 0; i < r->n; i++) {
        const est_var *var = r->targets[i].var;

        if (r->targets[i].key != NULL && (var->rows != NULL ? var->rows->n > 0 : var->initialized)) return true;
    }
    return false;
}

/* Part i of the slot that `key` is the first part of; NULL when there is none. */
static est_status find_part(const est_bundle *bundle, const char *key, int i, const est_bundle_entry **out)
{
    static const char *const first[] = { "/part_0/", "/t_0/" };
    est_strbuf               name    = { 0 };

    *out = NULL;
    for (size_t k = 0; k < sizeof first / sizeof first[0] && *out == NULL; k++) {
        const char *at = strstr(key, first[k]), *rest;

        if (at == NULL) continue;
        rest = at + strlen(first[k]);
        est_strbuf_printf(&name, "%.*s%d/%s", (int)(rest - 2 - key), key, i, rest);
        if (!name.failed) *out = est_bundle_find(bundle, est_strbuf_text(&name));
    }
    est_strbuf_clear(&name);
    return name.failed ? est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a name") : EST_OK;
}

/* Whether an entry is one slice of rows, and not all of them. */
static bool is_part(const est_bundle_entry *entry)
{
    if (entry == NULL || entry->n_slices != 1 || entry->slices[0].rank < 1) return false;
    for (int i = 1; i < entry->slices[0].rank; i++) {
        if (entry->slices[0].length[i] >= 0 && entry->slices[0].length[i] != entry->shape.dim[i]) return false;
    }
    return entry->slices[0].length[0] >= 0 && entry->slices[0].length[0] < entry->shape.dim[0];
}

/* Reads the rows of one part into those of the variable. */
static est_status read_part(const target *t, const est_bundle *bundle, const est_bundle_entry *part)
{
    const est_view *value = &t->var->value;
    est_shape       rows  = value->shape;
    size_t          bytes = est_dtype_size(value->dtype) * (size_t)(value->count / rows.dim[0]);
    est_tensor     *tensor;
    est_status      status;

    rows.dim[0] = part->slices[0].length[0];
    EST_TRY(est_tensor_wrap(value->dtype, rows, (char *)value->data + bytes * (size_t)part->slices[0].start[0], NULL,
                            NULL, &tensor));
    status = est_bundle_read_into(bundle, part->name, &part->slices[0], tensor);
    est_tensor_free(tensor);
    return status;
}

/* est_bundle_verify wants tensors to be whole. */
static est_status verify_part(const est_bundle *bundle, const est_bundle_entry *part)
{
    est_tensor *rows = NULL;

    EST_TRY(est_bundle_read(bundle, part->name, &part->slices[0], &rows));
    est_tensor_free(rows);
    return EST_OK;
}

/* Goes through the parts of a slot: read, or with `only_verify` verified. *n_rows: how many rows they have, 0 when it is not
 * stored in parts. */
static est_status read_parts(const target *t, const est_bundle *bundle, bool only_verify, int64_t *n_rows)
{
    const est_bundle_entry *part;

    *n_rows = 0;
    for (int i = 0;; i++) {
        EST_TRY(find_part(bundle, t->key, i, &part));
        if (!is_part(part) || !est_shape_equal(&part->shape, &t->stored_as->shape) ||
            part->dtype != t->stored_as->dtype) {
            return EST_OK;
        }
        EST_TRY(only_verify ? verify_part(bundle, part) : read_part(t, bundle, part));
        *n_rows += part->slices[0].length[0];
    }
}

static est_status verify(const restoring *r, const est_bundle *bundle)
{
    for (int i = 0; i < r->n; i++) {
        int64_t n_rows;

        if (r->targets[i].key == NULL) continue;
        EST_TRY(read_parts(&r->targets[i], bundle, true, &n_rows));
        if (n_rows == 0) EST_TRY(est_bundle_verify(bundle, r->targets[i].key));
    }
    return EST_OK;
}

static est_status read_variable(const target *t, const est_bundle *bundle)
{
    const est_view *value = &t->var->value;
    est_tensor     *tensor;
    est_status      status;
    int64_t         n_rows;

    EST_TRY(read_parts(t, bundle, false, &n_rows));
    if (n_rows > 0 && n_rows == value->shape.dim[0]) return EST_OK;
    EST_TRY(est_tensor_wrap(value->dtype, t->stored_as->shape, value->data, NULL, NULL, &tensor));
    status = est_bundle_read_into(bundle, t->key, NULL, tensor); /* says which slice is not there, if one is not */
    est_tensor_free(tensor);
    return status;
}

static bool is_read(const restoring *r, const est_var *var)
{
    for (int i = 0; i < r->n; i++) {
        if (r->targets[i].var == var) return r->targets[i].key != NULL;
    }
    return false;
}

/* Makes the sets of keys that were read; when reading failed, what is in their rows is of no use. */
static est_status restore_keys(const restoring *r, est_status status)
{
    est_store    *store;
    est_key_rows *rows;

    EST_TRY(est_session_store(r->session, &store));
    for (int i = 0; (rows = est_store_keys(store, i)) != NULL; i++) {
        if (!is_read(r, rows->vars[0])) continue;
        if (status == EST_OK) status = est_key_rows_restore(rows, stored_keys(r, rows)->shape.dim[0]);
        if (status != EST_OK) est_key_rows_drop(rows);
        for (int k = 3; k < rows->n_vars; k++) {
            if (!is_read(r, rows->vars[k])) est_key_rows_draw(rows, rows->vars[k], 0, rows->n);
        }
    }
    return status;
}

static est_status read_variables(restoring *r, const est_bundle *bundle)
{
    est_status status = EST_OK;

    for (int i = 0; i < r->n && status == EST_OK; i++) {
        if (r->targets[i].key != NULL) status = read_variable(&r->targets[i], bundle);
    }
    status = restore_keys(r, status);
    for (int i = 0; i < r->n; i++) {
        target *t = &r->targets[i];

        if (t->key == NULL || t->var->rows != NULL) continue;
        t->var->initialized = status == EST_OK;
        t->var->blank       = false;
    }
    return status;
}

static est_status read_checkpoint(restoring *r, const est_checkpoint *checkpoint)
{
    est_bundle *bundle = est_checkpoint_bundle(checkpoint);

    est_bundle_set_pool(bundle, est_session_pool(r->session));
    EST_TRY(read_extras(r, checkpoint));
    if (any_has_value(r)) EST_TRY(verify(r, bundle));
    return read_variables(r, bundle);
}

/* Restores from one checkpoint. Running out of memory is not its fault, nor is a model that does not fit. The saver
 * learns which are of no use, to remove them before good ones. */
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

/* --- where from ------------------------------------------------------------------------------------------------- */

/* The one that was asked for, and no other. That it lacks files is damage: EST_NOT_FOUND would say that there is nothing
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
    status = choose_targets(r, vars, n);
    est_free(vars);
    EST_TRY(status);
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

    EST_TRY(est_options_take("EST_RESTORE", options, &own, sizeof own));
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
