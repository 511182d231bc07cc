/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading checkpoints for users: a bundle, with the names that an object graph gives to its tensors. */
#include "format/checkpoint.h"

#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "format/checkpoint_state.h"
#include "format/object_graph.h"

struct est_checkpoint {
    char                    *path;
    est_bundle              *bundle;
    est_object_graph         objects; /* empty without an object graph */
    est_saved_objects        saved;   /* the same, in its arena */
    est_checkpoint_variable *variables;
    est_map                  by_key; /* to est_checkpoint_variable */
    int                      n;
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

static est_status load_objects(est_checkpoint *checkpoint)
{
    est_tensor *message = NULL;
    est_status  status;

    if (est_bundle_find(checkpoint->bundle, EST_OBJECT_GRAPH_KEY) == NULL) return EST_OK;
    EST_TRY(est_bundle_read(checkpoint->bundle, EST_OBJECT_GRAPH_KEY, NULL, &message));
    if (est_tensor_dtype(message) != EST_STRING || est_tensor_count(message) != 1) {
        status = est_fail(EST_DATA_LOSS, "%s: " EST_OBJECT_GRAPH_KEY " is not one string", checkpoint->path);
    } else {
        status = est_object_graph_parse(&checkpoint->objects, *(const est_str *)est_tensor_data(message));
        if (status == EST_OK) status = est_object_graph_list(&checkpoint->objects, &checkpoint->saved);
        if (status != EST_OK) {
            status = est_fail_context(status, "%s: " EST_OBJECT_GRAPH_KEY, checkpoint->path);
        }
    }
    est_tensor_free(message);
    return status;
}

/* At most INT64_MAX: a damaged index may say any size. */
static int64_t stored_bytes(const est_bundle *bundle, const est_bundle_entry *entry)
{
    int64_t bytes = entry->size;

    for (int i = 0; i < entry->n_slices; i++) {
        const est_bundle_entry *slice = est_bundle_find_slice(bundle, entry, i);

        if (slice == NULL) continue;
        bytes = slice->size < INT64_MAX - bytes ? bytes + slice->size : INT64_MAX;
    }
    return bytes;
}

static est_status list_variables(est_checkpoint *checkpoint)
{
    int n = est_bundle_count(checkpoint->bundle);

    checkpoint->variables = est_zalloc(((size_t)n + 1) * sizeof *checkpoint->variables);
    if (checkpoint->variables == NULL) {
        return est_no_memory();
    }
    for (int i = 0; i < n; i++) {
        const est_bundle_entry  *entry    = est_bundle_at(checkpoint->bundle, i);
        const est_object_tensor *object   = est_map_get(&checkpoint->objects.by_key, entry->name);
        est_checkpoint_variable *variable = &checkpoint->variables[checkpoint->n];

        if (strcmp(entry->name, EST_OBJECT_GRAPH_KEY) == 0) continue;
        *variable = (est_checkpoint_variable){
            .name      = entry->name,
            .full_name = object != NULL ? object->full_name : NULL,
            .dtype     = entry->dtype,
            .shape     = entry->shape,
            .n_slices  = entry->n_slices,
            .bytes     = stored_bytes(checkpoint->bundle, entry),
        };
        EST_TRY(est_map_put(&checkpoint->by_key, entry->name, variable));
        checkpoint->n++;
    }
    return EST_OK;
}

est_status est_checkpoint_open_prefix(const char *prefix, est_checkpoint **out)
{
    est_checkpoint *checkpoint = est_zalloc(sizeof *checkpoint);
    est_status      status;

    if (checkpoint != NULL) checkpoint->path = est_strdup(prefix);
    if (checkpoint == NULL || checkpoint->path == NULL) {
        status = est_no_memory();
    } else {
        status = est_bundle_open(prefix, &checkpoint->bundle);
        if (status == EST_OK) status = load_objects(checkpoint);
        if (status == EST_OK) status = list_variables(checkpoint);
    }
    if (status != EST_OK) {
        est_checkpoint_close(checkpoint);
        return status;
    }
    *out = checkpoint;
    return EST_OK;
}

void est_checkpoint_close(est_checkpoint *checkpoint)
{
    if (checkpoint == NULL) return;
    est_bundle_close(checkpoint->bundle);
    est_object_graph_clear(&checkpoint->objects);
    est_map_clear(&checkpoint->by_key);
    est_free(checkpoint->variables);
    est_free(checkpoint->path);
    est_free(checkpoint);
}

bool est_checkpoint_is_unusable(est_status status)
{
    return status == EST_DATA_LOSS || status == EST_NOT_FOUND || status == EST_UNIMPLEMENTED;
}

/* Not all bytes are read, so only missing and cut files make one unusable here. */
static est_status open_usable(void *user, const char *prefix, bool *unusable)
{
    est_checkpoint *checkpoint;
    est_status      status = est_checkpoint_open_prefix(prefix, &checkpoint);

    if (status == EST_OK) {
        status = est_bundle_check_files(checkpoint->bundle);
        if (status == EST_OK) {
            *(est_checkpoint **)user = checkpoint;
        } else {
            est_checkpoint_close(checkpoint);
        }
    }
    *unusable = est_checkpoint_is_unusable(status);
    return status;
}

static est_status open_saved_model(const char *dir, est_checkpoint **out)
{
    char      *prefix = NULL;
    est_status status;

    EST_TRY(est_checkpoint_join(dir, EST_SAVED_MODEL_PREFIX, &prefix));
    status = est_checkpoint_open_prefix(prefix, out);
    est_free(prefix);
    return status;
}

est_status est_checkpoint_open(const char *path, est_checkpoint **out)
{
    est_checkpoint_kind kind;

    EST_REQUIRE(out);
    if (path == NULL) return est_fail(EST_INVALID_ARGUMENT, "the path of a checkpoint is NULL");
    EST_TRY(est_checkpoint_path_kind(path, &kind));
    switch (kind) {
    case EST_CHECKPOINT_PREFIX: return est_checkpoint_open_prefix(path, out);
    case EST_CHECKPOINT_SAVED_MODEL: return open_saved_model(path, out);
    case EST_CHECKPOINT_DIRECTORY: break;
    }
    return est_checkpoint_try_all(path, NULL, open_usable, out);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

const char *est_checkpoint_path(const est_checkpoint *checkpoint)
{
    return checkpoint != NULL ? checkpoint->path : NULL;
}

est_bundle *est_checkpoint_bundle(const est_checkpoint *checkpoint)
{
    return checkpoint->bundle;
}

const est_object_graph *est_checkpoint_objects(const est_checkpoint *checkpoint)
{
    return &checkpoint->objects;
}

est_saved_objects est_checkpoint_saved_objects(const est_checkpoint *checkpoint)
{
    return checkpoint != NULL ? checkpoint->saved : (est_saved_objects){ 0 };
}

int est_checkpoint_count(const est_checkpoint *checkpoint)
{
    return checkpoint != NULL ? checkpoint->n : 0;
}

const est_checkpoint_variable *est_checkpoint_at(const est_checkpoint *checkpoint, int i)
{
    return i >= 0 && i < est_checkpoint_count(checkpoint) ? &checkpoint->variables[i] : NULL;
}

est_status est_checkpoint_look_up(const est_checkpoint *checkpoint, const char *name,
                                  const est_checkpoint_variable **out)
{
    const est_checkpoint_variable *variable = est_map_get(&checkpoint->by_key, name);
    const est_object_tensor       *object   = est_map_get(&checkpoint->objects.by_name, name);

    if (variable == NULL && object != NULL) {
        if (object->n_same_name > 1) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "%s: %d variables are called \"%s\"; use their keys, one of which is \"%s\"",
                            checkpoint->path, object->n_same_name, name, object->checkpoint_key);
        }
        variable = est_map_get(&checkpoint->by_key, object->checkpoint_key);
    }
    *out = variable;
    return EST_OK;
}

const est_checkpoint_variable *est_checkpoint_find(const est_checkpoint *checkpoint, const char *name)
{
    const est_checkpoint_variable *variable;

    if (checkpoint == NULL) return NULL;
    return name != NULL && est_checkpoint_look_up(checkpoint, name, &variable) == EST_OK ? variable : NULL;
}

/* Bytes that two names share at their fronts and at their ends: finds changed scopes and changed words alike. */
static size_t likeness(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b), n = n_a < n_b ? n_a : n_b, front = 0, back = 0;

    while (front < n && a[front] == b[front]) front++;
    while (back < n - front && a[n_a - 1 - back] == b[n_b - 1 - back]) back++;
    return front + back;
}

const char *est_checkpoint_similar(const est_checkpoint *checkpoint, const char *name, est_dtype dtype,
                                   const est_shape *shape)
{
    size_t      best  = name[0] != '\0' ? (strlen(name) - 1) / 2 : 0; /* half of it at least */
    const char *found = NULL;

    for (int i = 0; i < checkpoint->n; i++) {
        const est_checkpoint_variable *variable = &checkpoint->variables[i];
        const char                    *other    = variable->full_name != NULL ? variable->full_name : variable->name;

        if (dtype != EST_DTYPE_NONE && (variable->dtype != dtype || !est_shape_equal(&variable->shape, shape)))
            continue;
        if (likeness(name, other) <= best) continue;
        best  = likeness(name, other);
        found = other;
    }
    return found;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

est_status est_checkpoint_read(const est_checkpoint *checkpoint, const char *name, est_tensor **out)
{
    const est_checkpoint_variable *variable;
    const char                    *similar;

    EST_REQUIRE(checkpoint);
    EST_REQUIRE(out);
    if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s: the variable's name is NULL", checkpoint->path);
    EST_TRY(est_checkpoint_look_up(checkpoint, name, &variable));
    if (variable != NULL) return est_bundle_read(checkpoint->bundle, variable->name, NULL, out);
    similar = est_checkpoint_similar(checkpoint, name, EST_DTYPE_NONE, NULL);
    if (similar == NULL) return est_fail(EST_NOT_FOUND, "%s has no variable \"%s\"", checkpoint->path, name);
    return est_fail(EST_NOT_FOUND, "%s has no variable \"%s\"; it has \"%s\"", checkpoint->path, name, similar);
}

est_status est_checkpoint_verify(const est_checkpoint *checkpoint)
{
    EST_REQUIRE(checkpoint);
    for (int i = 0; i < est_bundle_count(checkpoint->bundle); i++) {
        EST_TRY(est_bundle_verify(checkpoint->bundle, est_bundle_at(checkpoint->bundle, i)->name));
    }
    return EST_OK;
}

/* --- the latest --------------------------------------------------------------------------------------------------- */

static est_status check_latest(const char *dir, const char *prefix, char out[EST_CHECKPOINT_PATH_MAX])
{
    bool found;

    EST_TRY(est_checkpoint_exists(prefix, &found));
    if (found) return est_checkpoint_put_path(prefix, out);
    return est_fail(EST_NOT_FOUND, "%s/checkpoint names %s, but there is no %s.index", dir, prefix, prefix);
}

est_status est_checkpoint_latest(const char *dir, char out[EST_CHECKPOINT_PATH_MAX])
{
    est_checkpoint_state state = { 0 };
    char                *path = NULL, *prefix = NULL;
    est_status           status;

    EST_REQUIRE(out);
    if (dir == NULL) return est_fail(EST_INVALID_ARGUMENT, "the model directory is NULL");
    EST_TRY(est_checkpoint_join(dir, "checkpoint", &path));
    status = est_checkpoint_state_read(&state, path);
    if (status == EST_NOT_FOUND) {
        status = est_fail(EST_NOT_FOUND, "there is no checkpoint in %s: it has no file checkpoint", dir);
    }
    if (status == EST_OK) status = est_checkpoint_join(dir, state.model_checkpoint_path, &prefix);
    if (status == EST_OK) status = check_latest(dir, prefix, out);
    est_checkpoint_state_clear(&state);
    est_free(path);
    est_free(prefix);
    return status;
}
