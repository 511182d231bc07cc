/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a task: the context of an input_fn, and how one dataset is divided among multi-worker trainers.
 *
 *     est_dataset *d = est_dataset_tfrecords(est_dataset_files("train-*.tfrecord"), NULL);
 *
 *     d = est_dataset_repeat(est_dataset_shuffle(d, 10000, context->job_seed), EST_FOREVER);
 *     d = est_dataset_parse_examples(d, specs, 512, NULL);           (512: of all replicas together)
 *     d = est_dataset_distribute(d, context, EST_AUTO_SHARD_FILE);
 *     return est_dataset_finish(d, out);
 *
 * The alternative is to divide by hand: est_dataset_shard(d, context->n_pipelines, context->pipeline) early in the
 * chain, and batches of est_per_replica_batch_size.
 *
 * All workers must build the same chain over the same files, and the elements to divide must have the same order on all
 * workers. A shuffle after the point of division may have any seed; a shuffle before it needs the same seed on all
 * workers: context->job_seed, not context->seed. A seed of 0 and .unordered are errors there; elements from functions
 * (est_dataset_generator, est_dataset_interleave) are assumed to be the same on all workers.
 *
 * Positions, statistics and threading are as in estoc/dataset.h. A position is valid only for the same worker and the
 * same number of workers. */
#ifndef ESTOC_INPUT_H
#define ESTOC_INPUT_H

#include "estoc/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum est_mode { EST_TRAIN = 0, EST_EVAL, EST_PREDICT } est_mode;

struct est_run_config;

typedef struct est_input_context {
    est_mode    mode;
    const void *params; /* of the estimator */
    uint64_t    seed;   /* of the run; not 0, and different for each of several trainers */
    int n_pipelines;    /* tasks that read the same files, each its part: est_dataset_shard(d, n_pipelines, pipeline) */
    int pipeline;
    int num_replicas_in_sync;
    const struct est_run_config *config; /* of the estimator, as all here borrowed until the call returns */
    uint64_t job_seed;                   /* as seed, but the same for all trainers: for a shuffle before the division */
    uint64_t reserved[4];                /* zeros: room for members to come */
} est_input_context;

/* Creates the dataset of batches for a mode; called once for every loop. */
typedef est_status (*est_input_fn)(const est_input_context *context, void *user, est_dataset **out);

/* A global batch divided by the number of replicas; EST_INVALID_ARGUMENT unless it is a multiple of it. */
EST_API EST_MUST_CHECK est_status est_per_replica_batch_size(const est_input_context *context, int64_t global,
                                                             int64_t *out);

/* How a dataset is divided among workers. */
typedef enum est_auto_shard_policy {
    EST_AUTO_SHARD_OFF  = -1, /* not divided: every worker reads everything */
    EST_AUTO_SHARD_AUTO = 0,  /* by files if possible, else by elements; too few files are still an error */
    EST_AUTO_SHARD_FILE = 1,  /* every worker reads every n-th file */
    EST_AUTO_SHARD_DATA = 2,  /* every worker reads everything and keeps every n-th element */
} est_auto_shard_policy;

/* The part of worker `worker` of n_workers. The parts are disjoint and together are the whole dataset.
 *
 * FILE: divides the list of files of the nearest est_dataset_tfrecords, est_dataset_lines or est_dataset_files, before
 * shuffles of the list. Fewer files than workers are an error when an iterator is created. EST_NOT_FOUND when the rows
 * do not come from files, or a later stage counts elements (take, skip, shard, enumerate, zip), whose result cannot be
 * divided by files.
 *
 * DATA: divides elements before the last stage that makes batches, so that the n-th batches of all workers together are
 * consecutive rows of the dataset; before a shuffle without a seed, whose order is different on every worker: the
 * batches are then of each worker's own rows. Without batches it divides at the end, before shuffles, repeats, caches
 * and prefetches there. After est_dataset_rebatch it divides parts of batches: see est_dataset_distribute.
 *
 * A cache file after the point of division gets a suffix such as "-00001-of-00004". */
EST_API EST_MUST_CHECK est_dataset *est_dataset_autoshard(est_dataset *dataset, int64_t n_workers, int64_t worker,
                                                          est_auto_shard_policy policy);

/* The batches of a worker's replicas, one replica after the other, from a dataset of global batches. Over all workers
 * the sizes add up to the global batch at every step and differ by at most one: a global batch of 7 for two workers
 * with two replicas each is 2 2 | 2 1 | ... on the first and 2 1 | 2 2 | ... on the second. Each worker batches its own
 * rows in sequence; the last batch may be smaller, and a batch of size 0 is empty.
 *
 * The global batch size is that of the shapes or of the batching stage. If a function may have changed it (map,
 * interleave, generator), every batch is split by itself into equal parts for all replicas of all workers; the last
 * parts are smaller or empty. Elements without rows are an error. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_rebatch(est_dataset *dataset, int64_t n_workers, int64_t worker,
                                                        int64_t replicas_per_worker);

/* The batches of this worker's replicas from a dataset of global batches: those of replica 0, 1, ... of a step, then of
 * the next step, with that many prefetched. It is est_dataset_rebatch, then est_dataset_autoshard.
 *
 * FILE: batches of the sizes of est_dataset_rebatch from rows of the worker's own files. A worker whose files have
 * fewer rows ends earlier: repeat the dataset. DATA: every batch is split into equal parts for all replicas, the last
 * ones smaller or empty, which are assigned to the workers in turn: at every step all replicas together see exactly the
 * dataset's batch, and all workers have the same number of steps. Where a shuffle without a seed comes before the
 * batches, rows are dealt before it instead, and each worker makes batches of the given size of its own rows: their
 * numbers may differ by one, and drop_remainder drops rows on each worker; a seed avoids both.
 *
 * The number of replicas is a multiple of the number of workers. With at most one replica (no multi-worker training)
 * batches stay as they are, and only the parts are divided. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_distribute(est_dataset *dataset, const est_input_context *context,
                                                           est_auto_shard_policy policy);

#ifdef __cplusplus
}
#endif
#endif
