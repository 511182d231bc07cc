/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch: the elements of its input, pulled ahead by a thread. */
#include <inttypes.h>

#include "data/ahead.h"

#define PREFETCH_MAX 100000 /* room for so many is made at once; more would be a mistake */

typedef struct prefetch {
    est_dataset base;
    int64_t     n;
} prefetch;

static est_status prefetch_pull(est_ahead *it, est_ahead_job *job)
{
    EST_TRY(est_iter_next(it->base.input[0], job->out));
    job->filled = true;
    return EST_OK;
}

static est_status prefetch_open(est_iter *it)
{
    const prefetch      *own  = (const prefetch *)it->dataset;
    const est_ahead_spec spec = {
        .name = "prefetch", .workers = 1, .capacity = own->n, .job_size = sizeof(est_ahead_job), .pull = prefetch_pull
    };

    return est_ahead_open((est_ahead *)it, &spec);
}

static const est_stage prefetch_stage = {
    .name      = "prefetch",
    .n_inputs  = 1,
    .iter_size = sizeof(est_ahead),
    .open      = prefetch_open,
    .close     = est_ahead_close,
    EST_AHEAD_FUNCTIONS,
    .passes   = true,
    .reorders = true,
};

est_dataset *est_dataset_prefetch(est_dataset *dataset, int64_t n)
{
    prefetch *own = est_dataset_new(&prefetch_stage, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (n < 1 || n > PREFETCH_MAX) {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT,
                                                     "%" PRId64 " elements ahead; expected 1 to %d", n, PREFETCH_MAX));
    }
    own->n = n;
    return est_dataset_like(&own->base, dataset);
}
