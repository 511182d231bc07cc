/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint of named tensors, and nothing else: no variables, no retention. Files are committed by the bundle's
 * writer (B1 to
 * B3 of bundle.h); the state file, if it is wanted, comes after the index. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "format/checkpoint.h"
#include "format/checkpoint_state.h"
#include "format/object_graph.h"

#define STATE_FILE "checkpoint"

/* A prefix in its parts. */
typedef struct place {
    est_arena  *arena;
    const char *dir, *name; /* "." where the prefix has no directory */
    const char *meta;       /* "<prefix>.meta" */
} place;

static est_status find_place(const char *prefix, place *out)
{
    const char *slash = prefix != NULL ? strrchr(prefix, '/') : NULL;

    if (prefix == NULL || prefix[0] == '\0' || (slash != NULL && slash[1] == '\0')) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "\"%s\" is not a valid checkpoint prefix; write one like "
                        "runs/x/model.ckpt-0",
                        prefix != NULL ? prefix : "");
    }
    out->arena = est_arena_create();
    if (out->arena != NULL) {
        out->name = slash != NULL ? slash + 1 : prefix;
        out->dir  = slash == NULL     ? "."
                    : slash == prefix ? "/"
                                      : est_arena_printf(out->arena, "%.*s", (int)(slash - prefix), prefix);
        out->meta = est_arena_printf(out->arena, "%s.meta", prefix);
    }
    if (out->arena == NULL || out->dir == NULL || out->meta == NULL) {
        return est_no_memory();
    }
    return EST_OK;
}

static est_status add_all(est_bundle_writer *writer, est_named_tensors tensors)
{
    for (int i = 0; i < tensors.n; i++) {
        const est_named_tensor *t = &tensors.data[i];

        if (t->name == NULL || t->tensor == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "tensor %d to write has no %s", i,
                            t->name == NULL ? "name" : "value");
        }
        EST_TRY(est_bundle_add(writer, t->name, t->tensor));
    }
    return EST_OK;
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

static bool is_written(est_named_tensors tensors, const char *key)
{
    for (int i = 0; i < tensors.n; i++) {
        if (tensors.data[i].name != NULL && strcmp(tensors.data[i].name, key) == 0) return true;
    }
    return false;
}

static est_status check_keys(est_saved_objects objects, est_named_tensors tensors)
{
    for (int i = 0; i < objects.n; i++) {
        const est_saved_object *object = &objects.data[i];

        if ((object->n_children > 0 && object->children == NULL) || (object->n_slots > 0 && object->slots == NULL)) {
            return est_fail(EST_INVALID_ARGUMENT, "object %d to write: a list of it is NULL", i);
        }
        if (object->key == NULL || is_written(tensors, object->key)) continue;
        return est_fail(EST_INVALID_ARGUMENT, "object %d to write has the value \"%s\", which is none of %d tensors", i,
                        object->key, tensors.n);
    }
    return EST_OK;
}

static est_status make_message(est_saved_objects objects, est_tensor **out)
{
    est_object_graph graph  = { 0 };
    est_wire_writer  writer = { 0 };
    est_status       status = est_object_graph_make(&graph, objects);

    if (status == EST_OK) est_object_graph_put(&graph, &writer);
    if (status == EST_OK) status = est_wire_writer_status(&writer);
    if (status == EST_OK) status = est_tensor_string(writer.data, writer.size, out);
    est_wire_writer_clear(&writer);
    est_object_graph_clear(&graph);
    return status;
}

static est_status add_objects(est_bundle_writer *writer, est_saved_objects objects, est_named_tensors tensors)
{
    est_tensor *message = NULL;
    est_status  status;

    if (objects.n == 0) return EST_OK;
    EST_TRY(check_keys(objects, tensors));
    EST_TRY(make_message(objects, &message));
    status = est_bundle_add(writer, EST_OBJECT_GRAPH_KEY, message);
    est_tensor_free(message);
    return status;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* The graph of a checkpoint that is replaced is not that of the new one: it goes aside before the index changes. */
static est_status commit(est_bundle_writer *writer, const place *p)
{
    char      *aside = NULL;
    est_status status;
    est_error  error;

    if (!est_file_exists(p->meta)) return est_bundle_finish(writer);
    EST_TRY(est_file_temp_name(p->meta, &aside));
    status = est_file_rename(p->meta, aside);
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_error_take(status, &error);
    (void)(status == EST_OK ? unlink(aside) : rename(aside, p->meta));
    est_free(aside);
    return status == EST_OK ? EST_OK : est_error_raise(&error);
}

static est_status write_files(const char *prefix, const place *p, est_named_tensors tensors, est_saved_objects objects)
{
    est_bundle_writer *writer;
    est_status         status;

    EST_TRY(est_dir_create(p->dir));
    EST_TRY(est_bundle_writer_create(prefix, 0, &writer));
    status = add_all(writer, tensors);
    if (status == EST_OK) status = add_objects(writer, objects, tensors);
    if (status == EST_OK) status = commit(writer, p);
    est_bundle_writer_free(writer);
    return status;
}

/* Appends the name to those of the state file. */
static est_status add_to_state(const est_checkpoint_state *old, const char *name, est_checkpoint_state *state)
{
    EST_TRY(est_checkpoint_state_set_latest(state, name));
    for (int i = 0; i < old->n_paths; i++) {
        if (strcmp(old->paths[i], name) != 0) EST_TRY(est_checkpoint_state_add_path(state, old->paths[i]));
    }
    return est_checkpoint_state_add_path(state, name);
}

static est_status make_latest(const place *p)
{
    const char          *path = est_arena_printf(p->arena, "%s/" STATE_FILE, p->dir);
    est_checkpoint_state old = { 0 }, state = { 0 };
    est_status           status;

    if (path == NULL) return est_no_memory();
    status = est_checkpoint_state_read(&old, path);
    if (status == EST_DATA_LOSS) est_log_warn("%s; it is replaced", est_error_message());
    if (status == EST_DATA_LOSS || status == EST_NOT_FOUND) {
        est_checkpoint_state_clear(&old);
        status = EST_OK;
    }
    if (status == EST_OK) status = add_to_state(&old, p->name, &state);
    if (status == EST_OK) status = est_checkpoint_state_write(&state, path);
    est_checkpoint_state_clear(&old);
    est_checkpoint_state_clear(&state);
    return status;
}

est_status est_checkpoint_write(const char *prefix, est_named_tensors tensors,
                                const est_checkpoint_write_options *options)
{
    est_checkpoint_write_options o;
    char                         room[EST_CHECKPOINT_PATH_MAX];
    place                        p = { 0 };
    est_status                   status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_checkpoint_write_options), options, &o));
    EST_REQUIRE(prefix);
    if (!EST_LIST_OK(tensors)) {
        return est_fail(EST_INVALID_ARGUMENT, "est_checkpoint_write: %d tensors, and their list is NULL", tensors.n);
    }
    EST_REQUIRE_LIST("objects", o.objects);
    if (tensors.n < 1 && o.objects.n < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "a checkpoint needs at least one tensor or object, got none");
    }
    status = find_place(prefix, &p);
    if (status == EST_OK) status = est_checkpoint_put_path(prefix, room); /* readers have no more */
    if (status == EST_OK) status = write_files(prefix, &p, tensors, o.objects);
    if (status == EST_OK && o.latest) status = make_latest(&p);
    est_arena_free(p.arena);
    return status;
}

static est_status fill_state(est_checkpoint_state *state, est_strings paths, est_f64s times, double preserved)
{
    for (int i = 0; i < paths.n; i++) {
        if (paths.data[i] == NULL || paths.data[i][0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "checkpoint %d to mark has no path", i);
        }
        EST_TRY(est_checkpoint_state_add_path(state, paths.data[i]));
    }
    for (int i = 0; i < times.n; i++) EST_TRY(est_checkpoint_state_add_timestamp(state, times.data[i]));
    state->last_preserved_timestamp = preserved;
    state->has_last_preserved       = preserved != 0;
    return est_checkpoint_state_set_latest(state, paths.data[paths.n - 1]);
}

est_status est_checkpoint_mark(const char *dir, est_strings paths, est_f64s times, double preserved)
{
    est_checkpoint_state state = { 0 };
    char                *path  = NULL;
    est_status           status;

    EST_REQUIRE(dir);
    EST_REQUIRE_LIST("paths", paths);
    EST_REQUIRE_LIST("times", times);
    if (paths.n < 1 || (times.n != 0 && times.n != paths.n)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_checkpoint_mark: %d paths and %d times; give one path at least, and no times or one for "
                        "each",
                        (int)paths.n, (int)times.n);
    }
    status = fill_state(&state, paths, times, preserved);
    if (status == EST_OK) status = est_dir_create(dir);
    if (status == EST_OK) status = est_checkpoint_join(dir, STATE_FILE, &path);
    if (status == EST_OK) status = est_checkpoint_state_write(&state, path);
    est_checkpoint_state_clear(&state);
    est_free(path);
    return status;
}
