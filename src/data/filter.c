/* SPDX-License-Identifier: Apache-2.0
 *
 * filter: keeps the elements for which the user's function sets *keep. */
#include "base/callback.h"
#include "data/stage.h"

typedef struct filter {
    est_dataset   base;
    est_filter_fn fn;
    void         *user;
} filter;

/* An end that the function reports is its failure: it must not pass for the end of the dataset. */
static est_status filter_ask(const filter *own, const est_element *element, bool *keep)
{
    est_status status = EST_CALLBACK(own->fn(own->user, element->field, keep), "the function of a filter");

    if (status == EST_OK) return EST_OK;
    if (status == EST_OUT_OF_RANGE) {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "the function of a filter returned OUT_OF_RANGE; it cannot end a dataset");
    }
    return est_origin_blame(&element->origin, status);
}

static est_status filter_next(est_iter *it, est_element *out)
{
    const filter *own = (const filter *)it->dataset;

    for (;;) {
        bool       keep = true;
        est_status status;

        EST_TRY(est_iter_next(it->input[0], out));
        status = filter_ask(own, out, &keep);
        if (status == EST_OK && keep) return EST_OK;
        est_element_clear(out->field, own->base.n_components);
        if (status != EST_OK) return status;
    }
}

static const est_stage filter_stage = {
    .name      = "filter",
    .n_inputs  = 1,
    .iter_size = sizeof(est_iter),
    .next      = filter_next,
    .instead   = "est_dataset_filter_graph",
    .passes    = true,
};

est_dataset *est_dataset_filter(est_dataset *dataset, est_filter_fn fn, void *user)
{
    filter *own = est_dataset_new(&filter_stage, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (fn == NULL)
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT, "a function is needed, not NULL"));
    own->fn   = fn;
    own->user = user;
    return est_dataset_like(&own->base, dataset);
}
