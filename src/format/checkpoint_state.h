/* SPDX-License-Identifier: Apache-2.0
 *
 * The file `checkpoint` of a model directory: which checkpoint is the latest and which others are kept, as the text
 * form of TensorFlow's CheckpointState. Paths are kept as they are written; a relative one is meant relative to the
 * folder of the file, which is for the caller to do.
 *
 * Written exactly as TensorFlow does, with no field of our own: TensorFlow ignores a file with a field it does not
 * know. Read with whatever the text format allows; unknown fields are skipped.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_CHECKPOINT_STATE_H
#define EST_FORMAT_CHECKPOINT_STATE_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "estoc/tensor.h"

/* A zeroed struct is an empty state. */
typedef struct est_checkpoint_state {
    est_arena   *arena;                 /* the strings; NULL until the first */
    const char  *model_checkpoint_path; /* the latest; NULL: none */
    const char **paths;                 /* [n_paths], oldest first, the latest last */
    double      *timestamps;            /* [n_timestamps], seconds since 1970; as many as paths, or none */
    int          n_paths;
    int          n_timestamps;
    double       last_preserved_timestamp;
    bool         has_last_preserved;
} est_checkpoint_state;

/* Each adds to a list or sets the latest; strings are copied. */
EST_MUST_CHECK est_status est_checkpoint_state_set_latest(est_checkpoint_state *state, const char *path);
EST_MUST_CHECK est_status est_checkpoint_state_add_path(est_checkpoint_state *state, const char *path);
EST_MUST_CHECK est_status est_checkpoint_state_add_timestamp(est_checkpoint_state *state, double timestamp);

/* Appends the text of the file. */
void est_checkpoint_state_print(const est_checkpoint_state *state, est_strbuf *out);

/* Reads a text into an empty state; `path` names it in errors, with the line. Clear the state also after a failure. */
EST_MUST_CHECK est_status est_checkpoint_state_parse(est_checkpoint_state *state, const char *path, est_str text);

/* The same with files; writing replaces the file in one step, and it is on disk when the call returns. */
EST_MUST_CHECK est_status est_checkpoint_state_read(est_checkpoint_state *state, const char *path);
EST_MUST_CHECK est_status est_checkpoint_state_write(const est_checkpoint_state *state, const char *path);

void est_checkpoint_state_clear(est_checkpoint_state *state);

#endif
