/* SPDX-License-Identifier: Apache-2.0
 *
 * One trainer at a time in a model directory: the file `trainer.lock` in it is locked for as long as the trainer lives,
 * however it dies, and says who it is. One that ends in good order removes it.
 *
 * Threading: one thread at a time for each lock. */
#ifndef EST_TRAIN_LOCK_H
#define EST_TRAIN_LOCK_H

#include "estoc/status.h"

/* The end mark in a model directory: the step at which training ended; estimator/train.c says who writes and removes it. */
#define EST_DONE_FILE "training_done"

typedef struct est_dir_lock est_dir_lock;

/* Takes the lock of `dir`, which exists. EST_FAILED_PRECONDITION when another has it, with its host and process. */
EST_MUST_CHECK est_status est_dir_lock_take(const char *dir, est_dir_lock **out);
void                      est_dir_lock_release(est_dir_lock *lock); /* NULL is fine */

/* Who holds the directory, as "host, process 123"; "" when nobody does. */
EST_MUST_CHECK est_status est_dir_lock_holder(const char *dir, char *out, size_t size);

#endif
