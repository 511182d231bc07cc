/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a trainer, as an evaluator sees it: its latest checkpoint, and whether training has ended.
 *
 * The end: a training that has ended leaves a mark (train/done_mark.h). It counts only while no trainer holds the
 * directory: one that has begun will remove it. A mark that is there when the evaluator starts may be of an earlier
 * training, with the trainer of this one about to start: it counts only when the start delay is over. */
#ifndef EST_TRAIN_CHECKPOINT_WATCH_H
#define EST_TRAIN_CHECKPOINT_WATCH_H

#include "estoc/checkpoint_watch.h"

#define EST_WATCH_SECS       1.0 /* between two looks at a directory */
#define EST_WATCH_DELAY_SECS 120 /* default of start_delay_secs */

typedef struct est_dir_watch {
    const char *dir;       /* borrowed */
    int64_t     counts_ns; /* est_now_ns() from which a mark counts; 0: at once */
} est_dir_watch;

est_dir_watch est_dir_watch_begin(const char *dir, double start_delay_secs);

/* Whether the training has ended. */
bool est_dir_watch_is_done(est_dir_watch *watch);

/* Whether nobody trains although the last training left no mark, as one that died. */
bool est_dir_watch_is_abandoned(const est_dir_watch *watch);

/* Waits until the next look, at most `left_secs` if that is above 0. EST_CANCELLED: a signal came. */
EST_MUST_CHECK est_status est_dir_watch_pause(double left_secs);

/* The prefix of the checkpoint that trainings go on from and evaluations restore. EST_NOT_FOUND: there is none. */
EST_MUST_CHECK est_status est_latest_usable_checkpoint(const char *dir, char out[EST_CHECKPOINT_PATH_MAX]);

#endif
