/* SPDX-License-Identifier: Apache-2.0
 *
 * concatenate: the elements of one dataset, then those of another. Only one of them is open at a time. */
#include <string.h>

#include "data/encode.h"
#include "data/state.h"

typedef struct concatenate_iter {
    est_iter base;
    int64_t  at; /* 0 or 1: the input that is open */
} concatenate_iter;

static est_status concatenate_switch(est_iter *it, int to)
{
    est_iter_close(it->input[1 - to]);
    it->input[1 - to] = NULL;
    EST_TRY(est_iter_open_input(it, to, it->turn));
    ((concatenate_iter *)it)->at = to;
    return EST_OK;
}

static est_status concatenate_open(est_iter *it)
{
    return concatenate_switch(it, 0);
}

static est_status concatenate_next(est_iter *it, est_element *out)
{
    int64_t    at     = ((concatenate_iter *)it)->at;
    est_status status = est_iter_next(it->input[at], out);

    if (status != EST_OUT_OF_RANGE || at == 1) return status;
    EST_TRY(concatenate_switch(it, 1));
    return est_iter_next(it->input[1], out);
}

static est_status concatenate_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((concatenate_iter *)it)->at, 1);
    return EST_OK;
}

static est_status concatenate_restore(est_iter *it, est_str state)
{
    int64_t at;

    EST_TRY(est_state_parse(it, state, &at, 1));
    if (at > 1) return est_state_fail(it, "input", at);
    return at == 1 ? concatenate_switch(it, 1) : EST_OK;
}

static est_dataset *concatenate_decode(const est_encoded *from)
{
    return est_dataset_concatenate(from->input[0], from->input[1]);
}

const est_stage est_stage_concatenate = {
    .name      = "concatenate",
    .n_inputs  = 2,
    .iter_size = sizeof(concatenate_iter),
    .open      = concatenate_open,
    .next      = concatenate_next,
    .save      = concatenate_save,
    .restore   = concatenate_restore,
    .passes    = true,
    .decode    = concatenate_decode,
};

/* What is known of tensors of either shape. */
static est_shape shape_of_both(const est_shape *a, const est_shape *b)
{
    est_shape both = *a;

    if (a->rank != b->rank) return EST_SHAPE_UNKNOWN;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) both.dim[i] = -1;
    }
    return both;
}

static est_status merge(est_component *a, const est_component *b)
{
    char left[EST_SHAPE_TEXT_MAX], right[EST_SHAPE_TEXT_MAX];

    if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->ragged != b->ragged) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s %s%s %s of the first dataset is %s %s%s %s in the second",
                        a->name, a->ragged ? "ragged " : "", est_dtype_name(a->dtype), est_shape_text(&a->shape, left),
                        b->name, b->ragged ? "ragged " : "", est_dtype_name(b->dtype),
                        est_shape_text(&b->shape, right));
    }
    a->shape = shape_of_both(&a->shape, &b->shape);
    return EST_OK;
}

est_dataset *est_dataset_concatenate(est_dataset *first, est_dataset *second)
{
    est_dataset *dataset = est_dataset_new(&est_stage_concatenate, sizeof *dataset, first, second);

    if (!est_dataset_sound(dataset)) return dataset;
    if (first->n_components != second->n_components) {
        return est_dataset_fail(dataset,
                                est_fail(EST_INVALID_ARGUMENT, "the first dataset has %d components, the second %d",
                                         first->n_components, second->n_components));
    }
    dataset = est_dataset_like(dataset, first);
    if (!est_dataset_sound(dataset)) return dataset;
    for (int i = 0; i < dataset->n_components; i++) {
        est_status status = merge(&dataset->components[i], &second->components[i]);

        if (status != EST_OK) return est_dataset_fail(dataset, status);
    }
    return dataset;
}
