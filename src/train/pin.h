/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint that stays readable, whatever its saver removes: hard links to its files, in a directory of the reader's
 * own. That takes no copy of the values, and holds for a saver in another process or on another host. The links are the
 * checkpoint's files until they are dropped; what a process that was killed left is removed by the next one that opens
 * the directory.
 *
 * Where the file system has no hard links, or does not allow these, the checkpoint is read where it is, and may vanish.
 *
 * Threading: one thread at a time for each pin. */
#ifndef EST_TRAIN_PIN_H
#define EST_TRAIN_PIN_H

#include "estoc/checkpoint.h"

/* Zeroed: nothing is pinned, and checkpoints are read where they are. */
typedef struct est_pin {
    char *dir;                             /* for the links alone; NULL: none are made */
    char  of[EST_CHECKPOINT_PATH_MAX];     /* prefix of the checkpoint; "": none */
    char  prefix[EST_CHECKPOINT_PATH_MAX]; /* to read it with: of the links or, without them, its own */
    bool  unlinked;                        /* it was said that there are no links */
} est_pin;

/* Makes links in `dir` (copied) from now on: whatever is in it is removed, and it is made when it is needed. */
EST_MUST_CHECK est_status est_pin_open(est_pin *pin, const char *dir);

/* Pins a checkpoint in place of the one before. EST_NOT_FOUND: it has been removed, or saved anew, meanwhile. */
EST_MUST_CHECK est_status est_pin_take(est_pin *pin, const char *prefix);

/* The checkpoint in place of its links, which are gone when a log or an error is read: the name for what is read from `path`, and
 * in the error at hand; that returns `status`. pin NULL: nothing is pinned. */
const char *est_pin_name(const est_pin *pin, const char *path);
est_status  est_pin_blame(const est_pin *pin, est_status status);

/* Lets go of the checkpoint; and of the directory, too, as a zeroed pin has none. */
void est_pin_drop(est_pin *pin);
void est_pin_close(est_pin *pin);

#endif
