/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that are done ahead of the consumer: the common part of prefetch, parallel map, and decoding of batches.
 *
 * A job is a struct of the stage's own. Each goes through three steps: `pull` fills it (from the input of the stage,
 * one call at a time and in order), `work` does what takes time (by several threads at once), and the consumer takes
 * the finished jobs, in the order they were pulled unless `unordered`. At most `capacity` jobs are between pull and the
 * consumer. Without workers everything happens in the consumer's call.
 *
 * Threads sleep and are woken rarely: a worker pulls on as long as there is room, the others help it only when jobs
 * take long enough to be worth a wake-up, a full ring is filled again when half of it is empty, and a waiting consumer
 * may have to wait for some short jobs instead of one. A job is finished before its worker pulls the next, so a pull
 * that blocks holds nothing back.
 *
 * An error of pull or work comes out in the place of its job, and again at every further call; an end (EST_OUT_OF_RANGE
 * of pull) after all jobs pulled before it. After either nothing more is pulled.
 *
 * Threading: one consumer. The threads are named "est-<name>". */
#ifndef EST_DATA_PARALLEL_JOBS_H
#define EST_DATA_PARALLEL_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"

typedef struct est_parallel est_parallel;

typedef struct est_parallel_spec {
    const char *name;      /* of the threads, at most 11 characters; borrowed */
    void       *user;      /* the first argument of the functions below */
    int         workers;   /* 0: none; EST_AUTO: one for each core this process may use */
    int64_t     capacity;  /* jobs; 0: twice the workers, and up to 64 a worker while jobs are short */
    bool        unordered; /* finished jobs in the order they are finished */
    size_t      job_size;  /* bytes; zeroed when made, then reused; aligned to 16 */

    est_status (*pull)(void *user, void *job);
    est_status (*work)(void *user, int worker, void *job); /* worker: 0 .. max(workers, 1) - 1; NULL: nothing to do */

    /* Frees the contents of the job and prepares it for the next pull; called by any thread, also on an empty job. */
    void (*clear)(void *user, void *job);
} est_parallel_spec;

#define EST_PARALLEL_WORKERS_MAX 1024

/* Fails unless `workers` is EST_AUTO or a number that can be: for the constructors of stages. */
EST_MUST_CHECK est_status est_parallel_check_workers(int workers);

/* The struct is copied. Threads start with the first est_parallel_next. */
EST_MUST_CHECK est_status est_parallel_create(const est_parallel_spec *spec, est_parallel **out);

/* Stops and joins the threads, then clears every job. NULL is fine. */
void est_parallel_free(est_parallel *parallel);

/* The next finished job, the consumer's until it is given back; EST_OUT_OF_RANGE at the end. The consumer holds fewer
 * jobs than the capacity when it asks. */
EST_MUST_CHECK est_status est_parallel_next(est_parallel *parallel, void **job);

/* Gives the job back; the consumer has taken its results, and `clear` frees the rest. */
void est_parallel_done(est_parallel *parallel, void *job);

/* Returns when every job pulled is finished and no thread is in pull or work; none starts again until resume. */
void est_parallel_pause(est_parallel *parallel);
void est_parallel_resume(est_parallel *parallel);

/* While paused: calls fn for every finished job that was not handed out yet, in the order they would be, and for an
 * error or end that waits behind them with its status (job NULL). Stops at the first failure and returns it. */
typedef est_status (*est_parallel_visit)(void *arg, void *job, est_status status);
EST_MUST_CHECK est_status est_parallel_each(est_parallel *parallel, est_parallel_visit fn, void *arg);

/* Before the first est_parallel_next: a job that counts as pulled and finished, to be handed out before all others; in
 * restoring. The job is zeroed; the caller fills it. Any number of them: the capacity grows for them. */
EST_MUST_CHECK est_status est_parallel_add_finished(est_parallel *parallel, void **job);

int est_parallel_workers(const est_parallel *parallel); /* at least 1: how many values `worker` takes */

#endif
