/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints from the inside: which ones a directory has, and open ones. */
#ifndef EST_FORMAT_CHECKPOINT_H
#define EST_FORMAT_CHECKPOINT_H

#include "base/alloc.h"
#include "base/strbuf.h"
#include "estoc/checkpoint.h"
#include "format/bundle.h"
#include "format/object_graph.h"

/* The checkpoints of a model directory. A zeroed struct is an empty list; clear it also after a failure. */
typedef struct est_checkpoint_list {
    est_arena   *arena;
    const char **paths; /* [n] prefixes in the order to try them */
    int          n, max;
    bool         bad_state; /* there is a state file, but it is damaged */
} est_checkpoint_list;

/* Lists the checkpoints that the state file names, existing or not, the latest first; then the others of the directory,
 * `<name>-<step>.index` (any name when it is NULL), by falling step: first up to that of the state file's latest, then
 * the others, which training left behind before a rollback. A damaged state file is logged. A directory that does not
 * exist has none. */
EST_MUST_CHECK est_status est_checkpoint_list_make(est_checkpoint_list *list, const char *dir, const char *name);
void                      est_checkpoint_list_clear(est_checkpoint_list *list);

/* Whether a status that opening or reading a checkpoint gave says that the checkpoint is at fault: damaged, of a later
 * format, or without its files. Others may pass, such as a disk that cannot be read now. */
bool est_checkpoint_is_unusable(est_status status);

/* Calls attempt(user, prefix, &unusable) for the checkpoints of a directory, newest first, until one succeeds. A
 * failure with *unusable set is the checkpoint's: it is logged, and the next is tried; any other ends the search. If a
 * newer one was saved during the attempt, which may have removed the current one, the search starts again instead. */
typedef est_status (*est_checkpoint_attempt_fn)(void *user, const char *prefix, bool *unusable);
EST_MUST_CHECK est_status est_checkpoint_try_all(const char *dir, const char *name, est_checkpoint_attempt_fn attempt,
                                                 void *user);

/* How to interpret a path from the user. */
typedef enum est_checkpoint_kind {
    EST_CHECKPOINT_PREFIX,     /* itself */
    EST_CHECKPOINT_DIRECTORY,  /* a model directory */
    EST_CHECKPOINT_SAVED_MODEL /* a directory with variables/variables.index */
} est_checkpoint_kind;
EST_MUST_CHECK est_status est_checkpoint_path_kind(const char *path, est_checkpoint_kind *out);

#define EST_SAVED_MODEL_PREFIX "variables/variables" /* within a SavedModel */

/* "<dir>/<path>", or `path` when it is absolute; to be freed with est_free. */
EST_MUST_CHECK est_status est_checkpoint_join(const char *dir, const char *path, char **out);

/* Whether `<prefix>.index` exists. */
EST_MUST_CHECK est_status est_checkpoint_exists(const char *prefix, bool *out);

/* Copies a path for a caller that has room for EST_CHECKPOINT_PATH_MAX bytes. */
EST_MUST_CHECK est_status est_checkpoint_put_path(const char *path, char out[EST_CHECKPOINT_PATH_MAX]);

/* The checkpoint with exactly this prefix. */
EST_MUST_CHECK est_status est_checkpoint_open_prefix(const char *prefix, est_checkpoint **out);

/* Its tensors, for reading in other ways; borrowed until it is closed. */
est_bundle *est_checkpoint_bundle(const est_checkpoint *checkpoint);

/* What its tensors belong to; empty: it does not say. Borrowed until it is closed. */
const est_object_graph *est_checkpoint_objects(const est_checkpoint *checkpoint);

/* est_checkpoint_find that distinguishes an ambiguous name (an error) from an unknown one (NULL). */
EST_MUST_CHECK est_status est_checkpoint_look_up(const est_checkpoint *checkpoint, const char *name,
                                                 const est_checkpoint_variable **out);

/* The variable whose name is most like `name`, of that dtype and shape (EST_DTYPE_NONE: any); NULL: none is. */
const char *est_checkpoint_similar(const est_checkpoint *checkpoint, const char *name, est_dtype dtype,
                                   const est_shape *shape);

#endif
