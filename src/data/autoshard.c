/* SPDX-License-Identifier: Apache-2.0
 *
 * autoshard: rebuilds the chain of a dataset so that it yields the part of one of several workers. The stages from the
 * end down to the point of division are copied over the new input; the stages before it are shared.
 *
 * The parts are consistent only when every worker divides the same elements in the same order, so a stage before the
 * point of division must have the same order in every process. Stages after it need not. */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "data/rebatch.h"
#include "data/shard_stage.h"
#include "estoc/input.h"

typedef struct part {
    int64_t n, index;
    char    suffix[64]; /* of files that a stage after the division writes */
} part;

/* est_dataset_shard, or that of files. */
typedef est_dataset *(*deal_fn)(est_dataset *dataset, int64_t n, int64_t index);

const est_dataset *est_dataset_varying(const est_dataset *dataset)
{
    if (dataset->varies) return dataset;
    for (int i = 0; i < dataset->stage->n_inputs; i++) {
        const est_dataset *found = est_dataset_varying(dataset->input[i]);

        if (found != NULL) return found;
    }
    return NULL;
}

/* The part of the elements of `dataset`. */
static est_status deal(const part *p, const est_dataset *dataset, deal_fn fn, est_dataset **out)
{
    const est_dataset *varying = p->n > 1 ? est_dataset_varying(dataset) : NULL;

    if (varying != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "stage %s has a different order on every worker, so that the parts would overlap: give "
                        "a shuffle a seed, the same on all workers, and leave out .unordered",
                        varying->stage->name);
    }
    return est_dataset_finish(fn(est_dataset_ref(dataset), p->n, p->index), out);
}

/* A copy of a stage over an input that is taken. */
static est_status copy_over(const part *p, const est_dataset *dataset, est_dataset *input, est_dataset **out)
{
    return est_dataset_finish(est_dataset_copy(dataset, input, NULL, p->suffix), out);
}

/* Divides before the stages at the end that only change the order: each worker then orders its own part, with any
 * seed. */
static est_status deal_before_order(const part *p, const est_dataset *dataset, deal_fn fn, est_dataset **out)
{
    est_dataset *input;

    if (!dataset->stage->reorders) return deal(p, dataset, fn, out);
    EST_TRY(deal_before_order(p, dataset->input[0], fn, &input));
    return copy_over(p, dataset, input, out);
}

/* Divides before the first shuffle without a seed, from which on every worker has an order of its own: the parts are
 * disjoint, but the n-th batches of all workers are not consecutive rows. */
static est_status deal_before_shuffles(const part *p, const est_dataset *dataset, est_dataset **out)
{
    const est_dataset *varying = p->n > 1 ? est_dataset_varying(dataset) : NULL;
    est_dataset       *input;

    if (varying == NULL || !varying->stage->reorders || dataset->stage->n_inputs != 1 || dataset->stage->counts) {
        return deal(p, dataset, est_dataset_shard, out);
    }
    EST_TRY(deal_before_shuffles(p, dataset->input[0], &input));
    return copy_over(p, dataset, input, out);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Deals the files of the nearest stages that read or list some. EST_NOT_FOUND when the rows do not come from files, or
 * when rows of some of the files would not be a part of all. */
static est_status shard_files(const part *p, const est_dataset *dataset, est_dataset **out)
{
    const est_stage *stage                       = dataset->stage;
    est_dataset     *input[EST_STAGE_INPUTS_MAX] = { NULL };

    if (stage->lists_files) return deal(p, dataset, est_dataset_shard_files, out);
    if (stage->reads_files) {
        EST_TRY(deal_before_order(p, dataset->input[0], est_dataset_shard_files, &input[0]));
        return copy_over(p, dataset, input[0], out);
    }
    if (stage->n_inputs == 0) {
        return est_fail(EST_NOT_FOUND, "its rows are those of stage %s and not of files; use EST_AUTO_SHARD_DATA",
                        stage->name);
    }
    if (stage->counts) {
        return est_fail(EST_NOT_FOUND,
                        "stage %s counts elements, so that with some of the files it would not yield a part of what "
                        "it yields "
                        "with all; use EST_AUTO_SHARD_DATA",
                        stage->name);
    }
    for (int i = 0; i < stage->n_inputs; i++) {
        est_status status = shard_files(p, dataset->input[i], &input[i]);

        if (status == EST_OK) continue;
        for (int j = 0; j < i; j++) est_dataset_free(input[j]);
        return status;
    }
    return est_dataset_finish(est_dataset_copy(dataset, input[0], input[1], p->suffix), out);
}

/* --- elements ----------------------------------------------------------------------------------------------------- */

/* Each batch in a part for every replica of all workers, and of the parts those of one worker: so the workers see the
 * rows of the same batch at the same step. */
static est_status shard_parts(const part *p, const est_dataset *dataset, est_dataset **out)
{
    int64_t      n = est_rebatch_parts(dataset);
    est_dataset *even;
    est_status   status;

    if (n % p->n != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " workers, and est_dataset_rebatch has made %" PRId64
                        " parts of a batch: every worker has the same number of them",
                        p->n, n);
    }
    if (p->n > 1 && est_dataset_varying(dataset->input[0]) != NULL) { /* each worker takes all parts of its batches */
        EST_TRY(deal_before_shuffles(p, dataset->input[0], &even));
        return est_dataset_finish(est_rebatch_evenly(even, n), out);
    }
    EST_TRY(est_dataset_finish(est_rebatch_evenly(est_dataset_ref(dataset->input[0]), n), &even));
    status = deal(p, even, est_dataset_shard, out);
    est_dataset_free(even);
    return status;
}

/* Divides before the last stage that makes batches, or divides the parts of batches. EST_NOT_FOUND when there is no
 * point where this gives a consistent part. */
static est_status shard_batches(const part *p, const est_dataset *dataset, est_dataset **out)
{
    const est_stage *stage = dataset->stage;
    est_dataset     *input;

    if (est_rebatch_parts(dataset) > 0) return shard_parts(p, dataset, out);
    if (stage->n_inputs != 1 || stage->counts) return EST_NOT_FOUND;
    if (stage->batch_size != NULL) {
        EST_TRY(deal_before_shuffles(p, dataset->input[0], &input));
    } else {
        EST_TRY(shard_batches(p, dataset->input[0], &input));
    }
    return copy_over(p, dataset, input, out);
}

static est_status shard_data(const part *p, const est_dataset *dataset, est_dataset **out)
{
    est_status status = shard_batches(p, dataset, out);

    return status == EST_NOT_FOUND ? deal_before_order(p, dataset, est_dataset_shard, out) : status;
}

/* --- the function ------------------------------------------------------------------------------------------------- */

static est_status autoshard(const est_dataset *dataset, const part *p, est_auto_shard_policy policy, est_dataset **out)
{
    est_status status;

    if (p->n < 1 || p->index < 0 || p->index >= p->n) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "worker %" PRId64 " of %" PRId64 "; expected a number from 0 to below the number of workers",
                        p->index, p->n);
    }
    switch (policy) {
    case EST_AUTO_SHARD_OFF: *out = est_dataset_ref(dataset); return EST_OK;
    case EST_AUTO_SHARD_FILE: return shard_files(p, dataset, out);
    case EST_AUTO_SHARD_DATA: return shard_data(p, dataset, out);
    case EST_AUTO_SHARD_AUTO: break;
    default: return est_fail(EST_INVALID_ARGUMENT, "%d is not an est_auto_shard_policy", (int)policy);
    }
    status = shard_files(p, dataset, out);
    if (status != EST_NOT_FOUND) return status;
    est_log_info("every worker reads all rows and keeps its part, because files cannot be dealt: %s",
                 est_error_message());
    return shard_data(p, dataset, out);
}

/* Never part of a chain: it takes the dataset, and the error if there is one. */
static const est_stage autoshard_stage = { .name = "autoshard", .n_inputs = 1 };

est_dataset *est_dataset_autoshard(est_dataset *dataset, int64_t n_workers, int64_t worker,
                                   est_auto_shard_policy policy)
{
    est_dataset *own = est_dataset_new(&autoshard_stage, sizeof *own, dataset, NULL), *result;
    part         p   = { .n = n_workers, .index = worker };
    est_status   status;

    if (!est_dataset_sound(own)) return own;
    if (n_workers > 1) snprintf(p.suffix, sizeof p.suffix, "-%05" PRId64 "-of-%05" PRId64, worker, n_workers);
    status = autoshard(dataset, &p, policy, &result);
    if (status != EST_OK) return est_dataset_fail(own, status);
    est_dataset_free(own);
    return result;
}
