/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers: this process as a worker of est_multi_worker_mirrored_strategy, for training loops of your own. est_train
 * and est_train_and_evaluate do all of this themselves.
 *
 *     est_multi_worker_mirrored_strategy(NULL, &strategy);         this task is in TF_CONFIG
 *     ... build the graph with est_strategy_run ...
 *     est_workers_create(strategy, NULL, &workers);
 *     est_session_create(graph, EST_SESSION(.communicator = est_workers_communicator(workers)), &session);
 *     est_session_init(session);
 *     est_workers_join(workers, session, &step);                   all have the variables of worker 0
 *     while (step < STEPS) {
 *         status = est_step_run(prepared, batch_of(step));
 *         if (status == EST_OK) step++;
 *         else if (status == EST_ABORTED) status = est_workers_join(workers, session, &step);
 *         if (status != EST_OK) break;
 *     }
 *     if (status == EST_OK) status = est_workers_end(workers, session, step);
 *
 * When a worker is lost, the step under way fails with EST_ABORTED on all others, and leaves their variables, including
 * the keys and rows of dynamic embeddings, as they were before it. Then all join again, and so does the lost worker
 * after a restart: the worker with the variables of the highest step sends them to all, and that is the step after the
 * call. Batches belong to steps, so a loop that reads the batch of its step neither repeats nor skips one.
 *
 * A step for which no worker has an example fails with EST_OUT_OF_RANGE on all of them, and changes nothing.
 *
 * Every step must reduce the same values on all workers: they run the same program, with graphs of the same seed, which
 * rows of dynamic embeddings are drawn with. With any other strategy, and without a cluster, there is one worker, and
 * nothing to wait for.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_WORKERS_H
#define ESTOC_WORKERS_H

#include "estoc/session.h"
#include "estoc/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_workers est_workers;

typedef struct est_workers_options {
    size_t      struct_size;  /* filled by EST_WORKERS */
    const char *transport;    /* NULL: ESTOC_PROTOCOL, else "tls"; or "tcp", "ucx" */
    double      connect_secs; /* 0: 7200; limit of the first join */
    double      silence_secs; /* 0: 10; a worker that is silent for longer is lost */
} est_workers_options;

#define EST_WORKERS(...)                                                                                               \
    (&(const est_workers_options){ .struct_size = EST_STRUCT_SIZE(est_workers_options), __VA_ARGS__ })

/* Begins to listen at this task's address. The strategy is borrowed until the workers are freed. options NULL: all
 * defaults. */
EST_API EST_MUST_CHECK est_status est_workers_create(const est_strategy *strategy, const est_workers_options *options,
                                                     est_workers **out);

/* Leaves; the others notice. After its sessions were freed. NULL is fine. */
EST_API void est_workers_free(est_workers *workers);

/* Their number, and the rank of this one; 1 and 0 without a cluster. */
EST_API int est_workers_count(const est_workers *workers);
EST_API int est_workers_rank(const est_workers *workers);

/* For est_session_options.communicator; NULL when there is one worker. Borrowed until the workers are freed. */
EST_API struct est_communicator *est_workers_communicator(const est_workers *workers);

/* Waits until all workers have joined, and gives them the same variables. Copies of a variable that is synchronized on
 * read belong to one worker: they stay as they are, without a step that only others completed, and a restarted worker
 * begins with their initial values. *step, before: the step of this session's variables; 0: initial values; -1: none.
 * After: the step that they are at now. Call it before the first step and after one that failed with EST_ABORTED, which
 * it returns itself after many failed attempts. EST_OUT_OF_RANGE: another worker has called est_workers_end.
 * EST_DEADLINE_EXCEEDED: a lost worker did not rejoin in time (est_multi_worker_mirrored_options). EST_CANCELLED: a
 * signal. */
EST_API EST_MUST_CHECK est_status est_workers_join(est_workers *workers, est_session *session, int64_t *step);

/* Ends the job; called on all workers, with their last step. Worker 0 (or the first that is left) calls it after
 * saving, informs the others and waits at most 30 s for that; the others return when informed. Until then they can
 * still send the variables to a worker that was lost in its last step. Errors as in est_workers_join. */
EST_API EST_MUST_CHECK est_status est_workers_end(est_workers *workers, est_session *session, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
