/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers: this process as one of those that train step by step with est_multi_worker_mirrored_strategy, for training loops of one's
 * own. est_train and est_train_and_evaluate do all of this by themselves.
 *
 *     est_multi_worker_mirrored_strategy(NULL, &strategy);         the task is that of TF_CONFIG
 *     ... build the graph with est_strategy_run ...
 *     est_workers_create(strategy, NULL, &workers);
 *     est_session_create(graph, EST_SESSION(.peers = est_workers_communicator(workers)), &session);
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
 * A worker that is lost ends the step that is under way on all others with EST_ABORTED, and leaves their variables as they were
 * before it, the keys and rows of dynamic embeddings included. Then
 * all meet again, the lost one, too, when it was started again: whoever has the variables of the highest step gives them
 * to all, and that is the step after the call. Batches belong to steps, so a loop that reads the batch of its step never trains
 * with one twice, and skips none.
 *
 * A step for which no worker has an example fails with EST_OUT_OF_RANGE on all of them, and changes nothing.
 *
 * Every step must bring the same values together on all workers: they run the same program, with graphs of the same seed, which rows of
 * dynamic embeddings are drawn with. With any other strategy, and without a cluster,
 * there is one worker, and nothing to wait for.
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
    double      connect_secs; /* 0: 7200; how long the first meeting waits for all */
    double      silence_secs; /* 0: 10; a worker from which nothing is heard for so long is lost */
} est_workers_options;

#define EST_WORKERS(...)                                                                                               \
    (&(const est_workers_options){ .struct_size = EST_STRUCT_SIZE(est_workers_options), __VA_ARGS__ })

/* Begins to listen at this task's address. The strategy is borrowed until the workers are freed. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_workers_create(const est_strategy *strategy, const est_workers_options *options,
                                                     est_workers **out);

/* Leaves; the others notice. After its sessions were freed. NULL is fine. */
EST_API void est_workers_free(est_workers *workers);

/* How many there are, and which of them this is; 1 and 0 without a cluster. */
EST_API int est_workers_count(const est_workers *workers);
EST_API int est_workers_rank(const est_workers *workers);

/* For est_session_options.peers; NULL when there is one worker. Borrowed until the workers are freed. */
EST_API struct est_communicator *est_workers_communicator(const est_workers *workers);

/* Brings all workers to the same variables, and waits until all are there. Copies of a variable that is synchronized on read are each
 * worker's own: they stay as they are, without a step that only others completed, and one that was started again begins with their
 * first values. *step, before: the step that those of this session are at, 0 when they have their first values; -1: they have none. After: the step that they are at now. To be
 * called before the first step and after one that failed with EST_ABORTED, which it may be itself when it still fails after many tries.
 * EST_OUT_OF_RANGE: another worker has called est_workers_end. EST_DEADLINE_EXCEEDED: one that was lost did not return in time
 * (est_multi_worker_mirrored_options). EST_CANCELLED: a signal. */
EST_API EST_MUST_CHECK est_status est_workers_join(est_workers *workers, est_session *session, int64_t *step);

/* All is done; to be called on all workers, with the step that they ended with. Worker 0 (or the first that is left) tells the others,
 * after it has saved what is to be saved, and waits until they have heard, for 30 s at most; the others return when it has. Until then they are there for one that was lost in its
 * last step: it gets the variables from them. Errors as in est_workers_join. */
EST_API EST_MUST_CHECK est_status est_workers_end(est_workers *workers, est_session *session, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
