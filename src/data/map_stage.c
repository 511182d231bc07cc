/* SPDX-License-Identifier: Apache-2.0
 *
 * map: applies the user's function to every element, in several threads at once. */
#include <inttypes.h>
#include <string.h>

#include "base/callback.h"
#include "base/options.h"
#include "data/ahead.h"

typedef struct map {
    est_dataset     base;
    est_map_fn      fn;
    est_map_options options; /* but the components */
} map;

typedef struct map_job {
    est_ahead_job base;
    est_element   in; /* its fields follow */
} map_job;

static est_status map_pull(est_ahead *it, est_ahead_job *job)
{
    return est_iter_next(it->base.input[0], &((map_job *)job)->in);
}

/* An end that the function reports is its failure: it must not pass for the end of the dataset. */
static est_status map_call(const map *own, const est_element *in, est_element *out)
{
    est_status status = EST_CALLBACK(own->fn(own->options.user, in->field, out->field), "the function of a map");

    if (status != EST_OUT_OF_RANGE) return status;
    return est_fail(EST_FAILED_PRECONDITION, "the function of a map returned OUT_OF_RANGE; it cannot end a dataset");
}

static void map_clear(est_ahead *it, est_ahead_job *job)
{
    est_element *in = &((map_job *)job)->in;

    est_element_clear(in->field, it->base.dataset->input[0]->n_components);
    in->origin = (est_origin){ 0 };
}

static est_status map_work(est_ahead *it, int worker, est_ahead_job *job)
{
    const map   *own    = (const map *)it->base.dataset;
    est_element *in     = &((map_job *)job)->in;
    est_status   status = map_call(own, in, job->out);

    (void)worker;
    if (status == EST_OK) {
        job->out->origin = in->origin;
        status           = est_element_check(job->out, &own->base);
        if (status == EST_OK) job->filled = true;
        if (status != EST_OK) {
            est_fail_context(status, "the function of a map does not keep to its components");
            status = est_origin_blame(&in->origin, status);
        }
    } else {
        est_element_clear(job->out->field, own->base.n_components);
        status = est_ahead_leave_out(it, job, est_origin_blame(&in->origin, status));
    }
    map_clear(it, job); /* not needed while the result waits */
    return status;
}

static est_status map_open(est_iter *it)
{
    const map           *own  = (const map *)it->dataset;
    const size_t         in   = (size_t)own->base.input[0]->n_components * sizeof(est_field);
    const est_ahead_spec spec = { .name         = "map",
                                  .workers      = own->options.workers,
                                  .unordered    = own->options.unordered,
                                  .bad_rows_max = own->options.bad_rows_max,
                                  .job_size     = sizeof(map_job) + in,
                                  .pull         = map_pull,
                                  .work         = map_work,
                                  .clear        = map_clear };

    return est_ahead_open((est_ahead *)it, &spec);
}

static const est_stage map_stage = {
    .name      = "map",
    .n_inputs  = 1,
    .iter_size = sizeof(est_ahead),
    .open      = map_open,
    .close     = est_ahead_close,
    EST_AHEAD_FUNCTIONS,
    .instead = "est_dataset_map_graph",
};

static est_status options_copy(const est_map_options *options, est_map_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_map_options), options, out));
    EST_TRY(est_parallel_check_workers(out->workers));
    if (out->bad_rows_max < 0 && out->bad_rows_max != EST_FOREVER) {
        return est_fail(EST_INVALID_ARGUMENT, "bad_rows_max is %" PRId64 "; expected 0 or more, or EST_FOREVER",
                        out->bad_rows_max);
    }
    return EST_OK;
}

est_dataset *est_dataset_map(est_dataset *dataset, est_map_fn fn, const est_map_options *options)
{
    map       *own = est_dataset_new(&map_stage, sizeof *own, dataset, NULL);
    est_status status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = options_copy(options, &own->options);
    if (status == EST_OK && fn == NULL) status = est_fail(EST_INVALID_ARGUMENT, "a function is needed, not NULL");
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    own->fn          = fn;
    own->base.varies = own->options.unordered && own->options.workers != 0;
    if (own->options.components.data == NULL) return est_dataset_like(&own->base, dataset);
    return est_dataset_with(&own->base, own->options.components.data, own->options.components.n);
}
