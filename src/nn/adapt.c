/* SPDX-License-Identifier: Apache-2.0
 *
 * See nn/adapt.h. */
#include "nn/adapt.h"

#include "base/alloc.h"
#include "base/strbuf.h"
#include "data/stage.h"

static est_status read_all(const est_dataset *dataset, int component, est_adapt_fn fn, void *user)
{
    int           n       = est_dataset_components(dataset);
    est_field    *element = est_zalloc((size_t)n * sizeof *element);
    est_iterator *rows;
    est_status    status, added = EST_OK;

    if (element == NULL) return est_no_memory();
    status = est_iterator_create(dataset, &rows);
    if (status != EST_OK) {
        est_free(element);
        return status;
    }
    while (added == EST_OK && (status = est_iterator_next(rows, element)) == EST_OK) {
        added = fn(element[component].values, user);
        est_element_clear(element, n);
    }
    est_iterator_free(rows);
    est_free(element);
    if (added != EST_OK) return added;
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

static est_status fail_missing(const est_dataset *dataset, const char *component)
{
    est_strbuf names = { 0 };
    est_status status;

    est_dataset_list(dataset, &names);
    status = est_fail(EST_INVALID_ARGUMENT, "the dataset has no component \"%s\"; it has: %s", component,
                      est_strbuf_text(&names));
    est_strbuf_clear(&names);
    return status;
}

est_status est_adapt_each(const est_dataset *dataset, const char *component, uint32_t dtypes, const char *what,
                          est_adapt_fn fn, void *user)
{
    int i = est_dataset_find(dataset, component);

    if (i < 0) return fail_missing(dataset, component);
    if ((dtypes >> est_dataset_component(dataset, i)->dtype & 1) == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "the component \"%s\" is of %s; %s", component,
                        est_dtype_name(est_dataset_component(dataset, i)->dtype), what);
    }
    if (est_dataset_endless(dataset)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the dataset is endless, and adapt reads all of it: use est_dataset_take");
    }
    return read_all(dataset, i, fn, user);
}
