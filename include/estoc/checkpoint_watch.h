/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching the checkpoints of a directory, as an evaluator beside a training does (tf.train.checkpoints_iterator,
 * tf.keras.utils.SidecarEvaluator). est_train_and_evaluate has such an evaluator; this is for training loops of your
 * own, with a coordinator or without:
 *
 *     the trainer                               the evaluator, another process
 *     est_saver_mark_begin(saver);              est_checkpoint_watch_create("runs/x", NULL, &watch);
 *     ... est_saver_save(saver, ...);           while ((status = est_checkpoint_watch_next(watch, path)) == EST_OK) {
 *     est_saver_mark_end(saver, step);              est_saver_restore(NULL, session, EST_RESTORE(.path = path), NULL);
 *                                                   ...
 *                                               }
 *                                               EST_OUT_OF_RANGE: training has ended, and its last checkpoint was given
 *
 * The mark of the end is the file `training_done`. est_train, est_train_and_evaluate, monitored sessions and
 * coordinators (est_coordinator_end) write and remove it themselves. While a training of the first two holds the
 * directory the mark does not count.
 *
 * The trainer may remove a checkpoint before it is restored: the restore then fails with EST_NOT_FOUND, and the next
 * call gives a newer one.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_CHECKPOINT_WATCH_H
#define ESTOC_CHECKPOINT_WATCH_H

#include "estoc/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_checkpoint_watch est_checkpoint_watch;

typedef struct est_checkpoint_watch_options {
    size_t struct_size;   /* filled by EST_CHECKPOINT_WATCH */
    double timeout_secs;  /* 0: none; how long to wait for a new checkpoint, or for the end */
    double throttle_secs; /* 0: none; the least time between two checkpoints, except for the last one */
    /* 0: 120; EST_OFF: none. A mark that is there when the watch is created may be of an earlier training whose
     * successor is about to start: it counts only after this time, unless a trainer has removed it before */
    double start_delay_secs;
} est_checkpoint_watch_options;

#define EST_CHECKPOINT_WATCH(...)                                                                                      \
    (&(const est_checkpoint_watch_options){ .struct_size = EST_STRUCT_SIZE(est_checkpoint_watch_options), __VA_ARGS__ })

/* A watch over `dir` (copied), which need not exist yet. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_checkpoint_watch_create(const char                         *dir,
                                                              const est_checkpoint_watch_options *options,
                                                              est_checkpoint_watch              **out);
EST_API void                      est_checkpoint_watch_free(est_checkpoint_watch *watch); /* NULL is fine */

/* Waits for a checkpoint that was not given before and puts its prefix into `path`: always the latest usable one, so
 * that those saved meanwhile are left out. One that a training which started over saves under the name of the last is
 * new. The directory is looked at every second, and a wait of 10 seconds or more is logged. EST_OUT_OF_RANGE: training
 * has ended, and there is no new checkpoint. EST_DEADLINE_EXCEEDED: none came within timeout_secs. Signals are the
 * program's: SIGTERM and SIGINT end the process unless it handles them; while a coordinator of this process catches
 * them, they end this call with EST_CANCELLED. */
EST_API EST_MUST_CHECK est_status est_checkpoint_watch_next(est_checkpoint_watch *watch,
                                                            char                  path[EST_CHECKPOINT_PATH_MAX]);

#ifdef __cplusplus
}
#endif
#endif
