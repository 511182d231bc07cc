/* SPDX-License-Identifier: Apache-2.0
 *
 * One process at a time in a role: a process locks the file `<role>.lock` of a directory for as long as it lives, and
 * writes its host and process id into it. The lock ends with the process, however it dies; a normal end also removes
 * the file. A trainer locks its model directory, an evaluator the directory of its results.
 *
 * Threading: one thread at a time for each lock. */
#ifndef EST_TRAIN_LOCK_H
#define EST_TRAIN_LOCK_H

#include <stdbool.h>

#include "estoc/status.h"

/* The end mark in a model directory: the step at which training ended; estimator/train.c writes and removes it. */
#define EST_DONE_FILE "training_done"

typedef struct est_dir_lock est_dir_lock;

#define EST_LOCK_HOLDER_MAX 300 /* for est_dir_lock_holder */

/* Takes the lock of `dir`, which exists. EST_FAILED_PRECONDITION, naming host and process, when another process has
 * it. */
EST_MUST_CHECK est_status est_dir_lock_take(const char *dir, est_dir_lock **out); /* as its trainer */
EST_MUST_CHECK est_status est_dir_lock_take_as(const char *role, const char *dir, est_dir_lock **out);
void                      est_dir_lock_release(est_dir_lock *lock); /* NULL is fine */

/* Whether the lock file existed when the lock was taken: then the last holder crashed or was killed. */
bool est_dir_lock_was_left(const est_dir_lock *lock);

/* The process that has the lock, as "host, process 123"; "" when the lock is free. */
EST_MUST_CHECK est_status est_dir_lock_holder(const char *dir, char *out, size_t size); /* of the trainer */
EST_MUST_CHECK est_status est_dir_lock_holder_as(const char *role, const char *dir, char *out, size_t size);

#endif
