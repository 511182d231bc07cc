/* SPDX-License-Identifier: Apache-2.0
 *
 * The end mark of a training: the file `training_done` in its model directory. Its first line is the last step. While
 * the final evaluation is due, a second line says so and a third one has the max_steps of the training. train.c
 * documents which task writes and removes it. */
#ifndef EST_ESTIMATOR_DONE_MARK_H
#define EST_ESTIMATOR_DONE_MARK_H

#include "estimator/estimator.h"

typedef struct est_done_mark {
    bool    there;
    bool    due;       /* the final evaluation has not finished */
    int64_t step;      /* the last step */
    int64_t max_steps; /* of that training; 0: none, or the evaluation is not due */
} est_done_mark;

/* For a directory without the file, sets mark->there to false. */
EST_MUST_CHECK est_status est_done_mark_read(const est_estimator *estimator, est_done_mark *out);

/* Writes the mark durably, or removes the file when mark->there is false. */
EST_MUST_CHECK est_status est_done_mark_write(const est_estimator *estimator, const est_done_mark *mark);

#endif
