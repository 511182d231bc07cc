/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread pool: parallel loops over numbered tasks.
 *
 * One pool serves everything that a session does, so that there are never more runnable threads than cores. A loop is
 * split into tasks by the shape of the work, never by the number of threads; threads take tasks as they become free. A
 * task must write only what its own number owns, and partial results are combined in task order by the caller: so
 * results do not depend on how many threads there are.
 *
 * Waiting: waking a sleeping thread costs tens of microseconds, so an idle worker polls for a short while after its
 * last task before it sleeps, and stops polling when it notices that the machine is busy (it lost its core while
 * polling).
 *
 * est_pool_for may be called from one thread at a time per pool; called from inside a task it runs the loop inline. */
#ifndef EST_BASE_POOL_H
#define EST_BASE_POOL_H

#include "estoc/status.h"

typedef struct est_pool est_pool;

/* `thread` is 0 .. est_pool_threads()-1, for per-thread scratch only; it must not change a result. */
typedef void (*est_task_fn)(void *arg, int64_t task, int thread);

/* n_threads counts the calling thread; 0: ESTOC_NUM_THREADS from the environment, else the cores this process may
 * use. */
EST_MUST_CHECK est_status est_pool_create(int n_threads, est_pool **out);
void                      est_pool_free(est_pool *pool); /* joins its threads; NULL is fine */
int                       est_pool_threads(const est_pool *pool);

/* Runs fn(arg, 0..n_tasks-1, thread) and returns when all are done. A NULL pool runs inline. */
void est_pool_for(est_pool *pool, int64_t n_tasks, est_task_fn fn, void *arg);

#endif
