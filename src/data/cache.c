/* SPDX-License-Identifier: Apache-2.0
 *
 * cache: the common part of the caches in memory and in a file. */
#include "data/cache.h"

#include <inttypes.h>

#include "data/encode.h"
#include "data/state.h"

est_status est_cache_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((est_cache_iter *)it)->at, 1);
    return EST_OK;
}

est_status est_cache_restore(est_iter *it, est_str state)
{
    est_cache_iter *iter     = (est_cache_iter *)it;
    int             n        = it->dataset->n_components;
    est_status      status   = EST_OK;
    int64_t         bad_rows = *it->bad_rows; /* the position has those that come again */
    est_element    *element;
    int64_t         at;

    EST_TRY(est_state_parse(it, state, &at, 1));
    element = est_element_new(n);
    if (element == NULL) return est_no_memory();
    while (iter->at < at && status == EST_OK) {
        status = it->stage->next(it, element);
        est_element_clear(element->field, n);
    }
    est_element_free(element, n);
    *it->bad_rows = bad_rows;
    if (status != EST_OUT_OF_RANGE) return status;
    return est_fail(EST_INVALID_ARGUMENT,
                    "the position is %" PRId64 " elements after the start of stage cache, which has only %" PRId64, at,
                    iter->at);
}

est_dataset *est_cache_decode(const est_encoded *from)
{
    const char *path   = NULL;
    est_status  status = est_encoded_text_field(from, EST_ENCODED_OWN, &path);

    return status == EST_OK ? est_dataset_cache(from->input[0], path) : est_encoded_fail(from, status);
}

est_dataset *est_dataset_cache(est_dataset *dataset, const char *path)
{
    return path == NULL ? est_cache_memory(dataset) : est_cache_file(dataset, path);
}
