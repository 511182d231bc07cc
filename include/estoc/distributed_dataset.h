/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributed datasets: the batches of the replicas of a strategy, for training loops of your own. est_train and
 * est_train_and_evaluate need none of this.
 *
 *     rows = est_dataset_batch(rows, GLOBAL_BATCH, NULL);
 *     est_strategy_distribute_dataset(strategy, rows, EST_AUTO_SHARD_AUTO, &data);
 *     inputs = est_distributed_placeholders(data, graph);
 *     ... est_strategy_run with a function that calls est_distributed_input(data, inputs, context->replica, "x") ...
 *     est_session_prepare(session, inputs, EST_NODES(loss), EST_NODES(train), &step);
 *
 *     est_distributed_iterator_create(data, NULL, &batches);
 *     while ((status = est_distributed_iterator_next(batches, &values)) == EST_OK) {
 *         status = est_step_run(step, values);
 *         if (status != EST_OK) break;
 *     }
 *     (EST_OUT_OF_RANGE is the end)
 *
 * Uneven data: where the input ends within a step, the replicas without a batch get an empty one, of 0 rows. A loss
 * that is a sum divided by the global batch, as that of est_compute_average_loss, then counts the examples that there
 * are; the mean of an empty batch is NaN.
 *
 * Several workers (estoc/workers.h): an iterator that was created with est_workers does not end. A worker without
 * further batches feeds empty ones, as long as others have batches, so that all workers make the same number of steps,
 * whatever their inputs have. When none has a batch, est_step_run fails with EST_OUT_OF_RANGE on all of them, and
 * changes nothing: the end. So every step must reduce something across workers, as est_minimize does. When a worker is
 * lost and joins again, all of them continue with the batches of their step:
 *
 *     for (int64_t n_read = 0; status == EST_OK;) {
 *         for (; n_read <= step && status == EST_OK; n_read++) {
 *             status = est_distributed_iterator_next(batches, &values);
 *         }
 *         if (status == EST_OK) status = est_step_run(prepared, values);
 *         if (status == EST_OK) step++;
 *         else if (status == EST_ABORTED) status = est_workers_join(workers, session, &step);
 *     }
 *
 * Threading: a distributed dataset is immutable, any thread; an iterator belongs to one thread at a time. */
#ifndef ESTOC_DISTRIBUTED_DATASET_H
#define ESTOC_DISTRIBUTED_DATASET_H

#include "estoc/input.h"
#include "estoc/ops.h"
#include "estoc/workers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_distributed_dataset  est_distributed_dataset;
typedef struct est_distributed_iterator est_distributed_iterator;

/* A dataset of global batches, divided among the replicas of all workers (experimental_distribute_dataset of
 * tf.distribute) as by est_dataset_distribute. The dataset, finished or not, is taken, also on failure. strategy NULL:
 * one replica. */
EST_API EST_MUST_CHECK est_status est_strategy_distribute_dataset(const est_strategy *strategy, est_dataset *dataset,
                                                                  est_auto_shard_policy     policy,
                                                                  est_distributed_dataset **out);

/* A dataset that a function makes for this worker (distribute_datasets_from_function of tf.distribute): batches of
 * replica 0, 1, ... of a step, then of the next step; its batch is that of a replica, as est_per_replica_batch_size
 * says. fn is called once, before the return. Its context has the pipelines and replicas of the strategy and mode
 * EST_TRAIN; job_seed is 1 and seed the number of the pipeline + 1: pass seeds of your own in `user`. strategy NULL:
 * one replica. */
EST_API EST_MUST_CHECK est_status est_strategy_datasets_from_function(const est_strategy *strategy, est_input_fn fn,
                                                                      void *user, est_distributed_dataset **out);

/* Iterators keep what they need. NULL is fine. */
EST_API void est_distributed_dataset_free(est_distributed_dataset *dataset);

/* The dataset of this worker, whose elements are the batches of its replicas in turn: for its components. Borrowed
 * until the distributed one is freed. */
EST_API const est_dataset *est_distributed_dataset_local(const est_distributed_dataset *dataset);

/* A builder: placeholders for what an iterator gives, in that order: all components of replica 0, then of replica 1,
 * ...; a ragged component has two, values and splits. In the graph's memory. */
EST_API est_nodes est_distributed_placeholders(const est_distributed_dataset *dataset, est_graph *graph);

/* That of one component for a replica of this worker, and the two of a ragged one. EST_NO_NODE: there is no such
 * component or replica, and the graph is poisoned. */
EST_API est_node est_distributed_input(const est_distributed_dataset *dataset, est_nodes placeholders, int replica,
                                       const char *name);
EST_API est_ragged_node est_distributed_ragged(const est_distributed_dataset *dataset, est_nodes placeholders,
                                               int replica, const char *name);

/* A new iterator before the first batch; a second one gives the same batches again. workers: see above; borrowed until
 * the iterator is freed. NULL: it ends with the input of this worker. */
EST_API EST_MUST_CHECK est_status est_distributed_iterator_create(const est_distributed_dataset *dataset,
                                                                  est_workers *workers, est_distributed_iterator **out);

/* The batches of the next step, for est_step_run; borrowed until the next call. EST_OUT_OF_RANGE, without a message, at
 * the end. After any other failure the iterator only repeats it. */
EST_API EST_MUST_CHECK est_status est_distributed_iterator_next(est_distributed_iterator *iterator,
                                                                const est_tensor *const **values);

/* The position of this worker as a uint8 vector, and back into a new iterator, as est_iterator_save and
 * est_iterator_restore. */
EST_API EST_MUST_CHECK est_status est_distributed_iterator_save(est_distributed_iterator *iterator, est_tensor **out);
EST_API EST_MUST_CHECK est_status est_distributed_iterator_restore(est_distributed_iterator *iterator,
                                                                   const est_tensor         *position);

/* NULL is fine. */
EST_API void est_distributed_iterator_free(est_distributed_iterator *iterator);

#ifdef __cplusplus
}
#endif
#endif
