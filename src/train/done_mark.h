/* SPDX-License-Identifier: Apache-2.0
 *
 * The end mark of a training: the file `training_done` in its model directory. Its first line is the last step. While
 * the final evaluation is due, a second line says so and a third one has the max_steps of the training.
 * estimator/train.c documents which task writes and removes it. */
#ifndef EST_TRAIN_DONE_MARK_H
#define EST_TRAIN_DONE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "estoc/status.h"

#define EST_DONE_FILE "training_done"

typedef struct est_done_mark {
    bool    there;
    bool    due;       /* the final evaluation has not finished */
    int64_t step;      /* the last step */
    int64_t max_steps; /* of that training; 0: none, or the evaluation is not due */
} est_done_mark;

/* For a directory without the file, sets mark->there to false. */
EST_MUST_CHECK est_status est_done_mark_read(const char *model_dir, est_done_mark *out);

/* Writes the mark durably, or removes the file when mark->there is false. */
EST_MUST_CHECK est_status est_done_mark_write(const char *model_dir, const est_done_mark *mark);

/* Whether the mark is of a job with this max_steps, all of whose steps are saved, or was written after since_secs
 * (since 1970; 0: its time says nothing). */
bool est_done_mark_is_of(const char *model_dir, int64_t max_steps, double since_secs);

#endif
