/* SPDX-License-Identifier: Apache-2.0
 *
 * Pinned checkpoints: hard links to the files of a checkpoint, in a directory of the reader, keep it readable after its
 * saver removes it. This copies no values and works for a saver in another process or on another host. Links that a
 * killed process left behind are removed by the next process that opens the directory.
 *
 * Where the file system does not support or allow hard links, the checkpoint is read in place and may vanish.
 *
 * Threading: one thread at a time for each pin. */
#ifndef EST_TRAIN_PIN_H
#define EST_TRAIN_PIN_H

#include "estoc/checkpoint.h"

/* Zeroed: nothing is pinned, and checkpoints are read where they are. */
typedef struct est_pin {
    char *dir;                             /* holds only the links; NULL: no links are made */
    char  of[EST_CHECKPOINT_PATH_MAX];     /* prefix of the pinned checkpoint; "": none */
    char  prefix[EST_CHECKPOINT_PATH_MAX]; /* prefix to read from: of the links or, without links, of the checkpoint */
    bool  unlinked;                        /* the log already has the warning that links are not possible */
} est_pin;

/* Makes links in `dir` (copied) from now on. Removes everything in it; the first link creates the directory. */
EST_MUST_CHECK est_status est_pin_open(est_pin *pin, const char *dir);

/* Pins a checkpoint in place of the previous one. EST_NOT_FOUND: it was removed or saved again before that. */
EST_MUST_CHECK est_status est_pin_take(est_pin *pin, const char *prefix);

/* Logs and errors name the checkpoint instead of its links, which no longer exist when the user reads them.
 * est_pin_name gives the name for a `path` below the links; est_pin_blame replaces it in the current error and
 * returns `status`. pin NULL: nothing is pinned. */
const char *est_pin_name(const est_pin *pin, const char *path);
est_status  est_pin_blame(const est_pin *pin, est_status status);

/* est_pin_drop removes the links; est_pin_close also forgets the directory and leaves a zeroed pin. */
void est_pin_drop(est_pin *pin);
void est_pin_close(est_pin *pin);

#endif
