/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a task: what an input_fn is told. */
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
} est_input_context;

/* Makes the dataset of batches for a mode; called once for every loop. */
typedef est_status (*est_input_fn)(const est_input_context *context, void *user, est_dataset **out);

#ifdef __cplusplus
}
#endif
#endif
