/* SPDX-License-Identifier: Apache-2.0
 *
 * zip: the elements of two datasets side by side. */
#include <string.h>

#include "data/encode.h"
#include "data/stage.h"

typedef struct zip_iter {
    est_iter     base;
    est_element *right; /* scratch */
} zip_iter;

static est_status zip_open(est_iter *it)
{
    zip_iter *iter = (zip_iter *)it;

    iter->right = est_element_new(it->dataset->input[1]->n_components);
    if (iter->right == NULL) return est_no_memory();
    for (int i = 0; i < 2; i++) EST_TRY(est_iter_open_input(it, i, it->turn));
    return EST_OK;
}

static void zip_close(est_iter *it)
{
    est_element_free(((zip_iter *)it)->right, it->dataset->input[1]->n_components);
}

static est_status zip_next(est_iter *it, est_element *out)
{
    est_element *right   = ((zip_iter *)it)->right;
    int          n_left  = it->dataset->input[0]->n_components;
    int          n_right = it->dataset->input[1]->n_components;
    est_status   status;

    EST_TRY(est_iter_next(it->input[0], out));
    status = est_iter_next(it->input[1], right);
    if (status != EST_OK) {
        est_element_clear(out->field, n_left);
        return status;
    }
    if (out->origin.path == NULL) out->origin = right->origin;
    memcpy(out->field + n_left, right->field, (size_t)n_right * sizeof(est_field));
    memset(right->field, 0, (size_t)n_right * sizeof(est_field));
    return EST_OK;
}

static est_dataset *zip_decode(const est_encoded *from)
{
    return est_dataset_zip(from->input[0], from->input[1]);
}

const est_stage est_stage_zip = {
    .name      = "zip",
    .n_inputs  = 2,
    .iter_size = sizeof(zip_iter),
    .open      = zip_open,
    .next      = zip_next,
    .close     = zip_close,
    .passes    = true,
    .counts    = true,
    .decode    = zip_decode,
};

est_dataset *est_dataset_zip(est_dataset *left, est_dataset *right)
{
    est_dataset   *dataset = est_dataset_new(&est_stage_zip, sizeof *dataset, left, right);
    est_component *components;
    int            n;

    if (!est_dataset_sound(dataset)) return dataset;
    dataset->endless = left->endless && right->endless; /* the shorter one ends it */
    n                = left->n_components + right->n_components;
    components       = est_arena_alloc(dataset->arena, (size_t)n * sizeof *components);
    if (components == NULL) {
        return est_dataset_fail(dataset, est_no_memory());
    }
    for (int i = 0; i < n; i++) {
        components[i] = i < left->n_components ? left->components[i] : right->components[i - left->n_components];
    }
    return est_dataset_with(dataset, components, n);
}
