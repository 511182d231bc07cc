/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch: the elements of its input, pulled ahead by a thread. */
#include <inttypes.h>

#include "data/ahead.h"
#include "data/encode.h"
#include "data/state.h"

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

static est_status prefetch_encode(const est_dataset *dataset, est_wire_writer *w)
{
    est_state_put(w, &((const prefetch *)dataset)->n, 1);
    return EST_OK;
}

static est_dataset *prefetch_decode(const est_encoded *from)
{
    return est_dataset_prefetch(from->input[0], from->number[0]);
}

const est_stage est_stage_prefetch = {
    .name      = "prefetch",
    .n_inputs  = 1,
    .iter_size = sizeof(est_ahead),
    .open      = prefetch_open,
    .close     = est_ahead_close,
    EST_AHEAD_FUNCTIONS,
    .passes   = true,
    .reorders = true,
    .encode   = prefetch_encode,
    .decode   = prefetch_decode,
};

est_dataset *est_dataset_prefetch(est_dataset *dataset, int64_t n)
{
    prefetch *own = est_dataset_new(&est_stage_prefetch, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (n < 1 || n > PREFETCH_MAX) {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT,
                                                     "%" PRId64 " elements ahead; expected 1 to %d", n, PREFETCH_MAX));
    }
    own->n = n;
    return est_dataset_like(&own->base, dataset);
}
