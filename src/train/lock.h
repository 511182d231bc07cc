/* SPDX-License-Identifier: Apache-2.0
 *
 * One process at a time in a role: the file `<role>.lock` in a directory is locked for as long as the process that has
 * the role lives, however it dies, and says which process that is. One that ends in good order removes the file. A
 * trainer locks its model directory, an evaluator the directory of its results.
 *
 * Threading: one thread at a time for each lock. */
#ifndef EST_TRAIN_LOCK_H
#define EST_TRAIN_LOCK_H

#include <stdbool.h>

#include "estoc/status.h"

typedef struct est_dir_lock est_dir_lock;

#define EST_LOCK_HOLDER_MAX 300 /* for est_dir_lock_holder */

/* Takes the lock of `dir`, which exists. EST_FAILED_PRECONDITION when another has it, with its host and process. */
EST_MUST_CHECK est_status est_dir_lock_take(const char *dir, est_dir_lock **out); /* as its trainer */
EST_MUST_CHECK est_status est_dir_lock_take_as(const char *role, const char *dir, est_dir_lock **out);
void                      est_dir_lock_release(est_dir_lock *lock); /* NULL is fine */

/* Whether the file of the lock was there when it was taken: its last holder did not end in good order. */
bool est_dir_lock_was_left(const est_dir_lock *lock);

/* The process that has the lock, as "host, process 123"; "" when there is none. */
EST_MUST_CHECK est_status est_dir_lock_holder(const char *dir, char *out, size_t size); /* of the trainer */
EST_MUST_CHECK est_status est_dir_lock_holder_as(const char *role, const char *dir, char *out, size_t size);

#endif
