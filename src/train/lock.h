/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock on a directory for one role: at most one process holds it. A trainer locks its model directory, an evaluator
 * the directory of its results. The lock is a lock of the file `<role>.lock`, so the kernel releases it when the
 * process dies. The file names its holder; a process that ends normally removes it.
 *
 * Threading: one thread at a time for each lock. */
#ifndef EST_TRAIN_LOCK_H
#define EST_TRAIN_LOCK_H

#include <stdbool.h>

#include "estoc/status.h"

typedef struct est_dir_lock est_dir_lock;

#define EST_LOCK_HOLDER_MAX 300 /* for est_dir_lock_holder */

/* Takes the lock of `dir`, which exists. EST_FAILED_PRECONDITION: another process holds it; the error
 * names its host and process. */
EST_MUST_CHECK est_status est_dir_lock_take(const char *dir, est_dir_lock **out); /* as its trainer */
EST_MUST_CHECK est_status est_dir_lock_take_as(const char *role, const char *dir, est_dir_lock **out);
void                      est_dir_lock_release(est_dir_lock *lock); /* NULL is fine */

/* Whether the lock file existed when the lock was taken: its last holder did not end normally. */
bool est_dir_lock_was_left(const est_dir_lock *lock);

/* The holder of the lock, as "host, process 123"; "": none. */
EST_MUST_CHECK est_status est_dir_lock_holder(const char *dir, char *out, size_t size); /* of the trainer */
EST_MUST_CHECK est_status est_dir_lock_holder_as(const char *role, const char *dir, char *out, size_t size);

#endif
