/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of workers that train together (tests/cluster/multi_worker*.c) share. */
#ifndef EST_TESTS_MULTI_WORKER_TEST_H
#define EST_TESTS_MULTI_WORKER_TEST_H

#include "estoc/hooks.h"
#include "support/cluster_job.h"

/* A cluster of workers, none of them started. `steps` is "steps=n", "count=n" or "enough=n"; `more` is another word, or
 * NULL. */
cluster multi_worker_make(int workers, const char *steps, const char *more);

cluster_task *multi_worker_worker(cluster *c, int i);

/* Runs one job undisturbed. */
cluster multi_worker_calm(int workers, const char *steps, const char *more);

/* Kills a task that is running, and waits until it is gone. */
void multi_worker_kill(cluster *c, cluster_task *task);

/* For a job with "enough=n" in place of "steps=n", which lasts until what a test does to it is done, however slow the machine is:
 * ends it, waits for all of its tasks, and asserts that one of so many workers that nobody disturbed has the same variables after as
 * many steps. */
void multi_worker_end_as_calm(cluster *c, int workers, const char *more);

/* Two directories end with the same variables: all that there are, but for where inputs are, which workers tell each other at
 * different times. */
void multi_worker_assert_same(const cluster *a, const cluster *b);

/* For a hook's end: says what the variables are that are trained. And whether the first worker and the task `first` say the same. */
est_status multi_worker_show(est_hook *hook, est_loop *loop);
void       multi_worker_check_shown(cluster *c, const char *first, long step, int variables);

/* The job ended at that step and left nothing. */
void multi_worker_end(cluster *c, long steps);

#endif
