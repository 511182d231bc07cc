/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of one worker in multi-worker training, from a dataset of global batches. */
#include <inttypes.h>

#include "base/argument.h"
#include "data/stage.h"
#include "estoc/input.h"

est_status est_per_replica_batch_size(const est_input_context *context, int64_t global, int64_t *out)
{
    int replicas;

    EST_REQUIRE(context);
    EST_REQUIRE(out);
    replicas = context->num_replicas_in_sync;
    if (replicas < 1) return est_fail(EST_INVALID_ARGUMENT, "%d replicas; there is at least one", replicas);
    if (global < 1 || global % replicas != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a global batch of %" PRId64 " cannot be divided among %d replicas; make it a multiple of them",
                        global, replicas);
    }
    *out = global / replicas;
    return EST_OK;
}

/* Never part of a chain: it takes the dataset, and the error. */
static const est_stage distribute_stage = { .name = "distribute", .n_inputs = 1 };

static est_dataset *fail_replicas(est_dataset *dataset, const est_input_context *context)
{
    est_dataset *own = est_dataset_new(&distribute_stage, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(own)) return own;
    return est_dataset_fail(own, est_fail(EST_INVALID_ARGUMENT,
                                          "%d replicas in sync on %d workers; every worker has the same number of them",
                                          context->num_replicas_in_sync, context->n_pipelines));
}

est_dataset *est_dataset_distribute(est_dataset *dataset, const est_input_context *context,
                                    est_auto_shard_policy policy)
{
    int workers, replicas;

    if (context == NULL) {
        return est_dataset_fail(dataset, est_fail(EST_INVALID_ARGUMENT, "est_dataset_distribute: context is NULL"));
    }
    workers = context->n_pipelines;
    if (context->num_replicas_in_sync <= 1) return est_dataset_autoshard(dataset, workers, context->pipeline, policy);
    if (workers < 1 || context->num_replicas_in_sync % workers != 0) return fail_replicas(dataset, context);
    replicas = context->num_replicas_in_sync / workers;
    dataset  = est_dataset_rebatch(dataset, workers, context->pipeline, replicas);
    dataset  = est_dataset_autoshard(dataset, workers, context->pipeline, policy);
    return est_dataset_prefetch(dataset, replicas);
}
