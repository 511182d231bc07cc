/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a task: what an input_fn is told, and one dataset divided among workers that train in step.
 *
 *     est_dataset *d = est_dataset_tfrecords(est_dataset_files("train-*.tfrecord"), NULL);
 *
 *     d = est_dataset_repeat(est_dataset_shuffle(d, 10000, context->job_seed), EST_FOREVER);
 *     d = est_dataset_parse_examples(d, specs, 512, NULL);           (512: of all replicas together)
 *     d = est_dataset_distribute(d, context, EST_AUTO_SHARD_FILE);
 *     return est_dataset_finish(d, out);
 *
 * The alternative is to divide by hand: est_dataset_shard(d, context->n_pipelines, context->pipeline) early in the chain,
 * and batches of est_per_replica_batch_size.
 *
 * All workers must build the same chain over the same files, and what is dealt must be in the same order everywhere. A
 * shuffle behind the place where the parts are dealt may have any seed; one before it needs a seed that is the same on all
 * workers: context->job_seed, and not context->seed. A seed of 0 is refused there, as is .unordered; what a function makes
 * (est_dataset_generator, est_dataset_interleave) is taken to be the same everywhere.
 *
 * Positions, statistics and threading are as in estoc/dataset.h. A position belongs to one worker of so many. */
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
    uint64_t    seed;   /* of the run; not 0, and another one for each of several trainers */
    int n_pipelines; /* how many tasks read the same files, each its part: est_dataset_shard(d, n_pipelines, pipeline) */
    int                          pipeline;
    int                          num_replicas_in_sync;
    const struct est_run_config *config; /* of the estimator, as all here borrowed until the call returns */
    uint64_t job_seed;    /* as seed, but the same for all of several trainers: for a shuffle before parts are dealt */
    uint64_t reserved[4]; /* zeros: room for members to come */
} est_input_context;

/* Makes the dataset of batches for a mode; called once for every loop. */
typedef est_status (*est_input_fn)(const est_input_context *context, void *user, est_dataset **out);

/* A global batch divided by the number of replicas; EST_INVALID_ARGUMENT unless it is a multiple of it. */
EST_API EST_MUST_CHECK est_status est_per_replica_batch_size(const est_input_context *context, int64_t global,
                                                             int64_t *out);

/* How a dataset is divided among workers. */
typedef enum est_auto_shard_policy {
    EST_AUTO_SHARD_OFF  = -1, /* it is not: every worker reads everything */
    EST_AUTO_SHARD_AUTO = 0,  /* by files if it can be, else by elements; too few files are still an error */
    EST_AUTO_SHARD_FILE = 1,  /* every worker reads every n-th file */
    EST_AUTO_SHARD_DATA = 2,  /* every worker reads everything and keeps every n-th element */
} est_auto_shard_policy;

/* The part of worker `worker` of n_workers; the parts of all are the whole, and no element is in two.
 *
 * FILE: of the list of the nearest est_dataset_tfrecords, est_dataset_lines or est_dataset_files; before shuffles of the
 * list. Fewer files than workers are an error when an iterator is made. EST_NOT_FOUND when the rows do not come from files,
 * or a stage behind them counts (take, skip, shard, enumerate, zip): parts of the files would not make parts of that.
 *
 * DATA: elements are dealt before the last stage that makes batches, so that the batches of the same number on all workers
 * are together that many rows in a row of the dataset. Without batches they are dealt at the end, before shuffles, repeats,
 * caches and prefetches there. Behind est_dataset_rebatch parts of batches are dealt: see est_dataset_distribute.
 *
 * A cache file behind the dealing gets "-00001-of-00004" and the like behind its name. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_autoshard(est_dataset *dataset, int64_t n_workers, int64_t worker,
                                                          est_auto_shard_policy policy);

/* The batches of one replica after the other, for a worker, of a dataset of global batches, whose sizes add up to the
 * global batch at every step over all workers and differ by at most one: a global batch of 7 for two workers with two
 * replicas each is 2 2 | 2 1 | ... on the first and 2 1 | 2 2 | ... on the second. Each worker cuts its own rows, one batch
 * after the other; the last batch may be smaller, and one of a size of 0 is empty.
 *
 * The global batch is that of the shapes or of the stage that makes batches. Where a function may have changed it (map,
 * interleave, generator) every batch is cut for itself, into parts of equal size for all replicas of all workers; the last
 * of them are smaller, or empty. Elements without rows are an error. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_rebatch(est_dataset *dataset, int64_t n_workers, int64_t worker,
                                                        int64_t replicas_per_worker);

/* What this worker's replicas are fed with, of a dataset of global batches: batches of replica 0, 1, ... of a step, then of
 * the next step, made as many ahead. It is est_dataset_rebatch, then est_dataset_autoshard.
 *
 * FILE: the sizes of est_dataset_rebatch, of rows of the worker's own files. A worker whose files have fewer rows ends
 * earlier: repeat the dataset. DATA: every batch is cut into equal parts for all replicas, the last of them smaller or empty,
 * which go round the workers: all replicas together see the very batch that the dataset has at that step, and all workers
 * have the same number of steps.
 *
 * The number of replicas is a multiple of the number of workers. With one replica or none (training not in step) batches
 * stay as they are, and only the parts are dealt. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_distribute(est_dataset *dataset, const est_input_context *context,
                                                           est_auto_shard_policy policy);

#ifdef __cplusplus
}
#endif
#endif
