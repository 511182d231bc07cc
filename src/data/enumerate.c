/* SPDX-License-Identifier: Apache-2.0
 *
 * enumerate: a number for every element, as its first component. */
#include <string.h>

#include "data/encode.h"
#include "data/state.h"

typedef struct enumerate {
    est_dataset base;
    int64_t     start;
} enumerate;

typedef struct enumerate_iter {
    est_iter     base;
    est_element *element; /* scratch: one of the input */
    int64_t      seen;
} enumerate_iter;

static est_status enumerate_open(est_iter *it)
{
    enumerate_iter *iter = (enumerate_iter *)it;

    iter->element = est_element_new(it->dataset->input[0]->n_components);
    if (iter->element == NULL) return est_no_memory();
    return est_iter_open_input(it, 0, it->turn);
}

static void enumerate_close(est_iter *it)
{
    est_element_free(((enumerate_iter *)it)->element, it->dataset->input[0]->n_components);
}

static est_status enumerate_next(est_iter *it, est_element *out)
{
    enumerate_iter  *iter = (enumerate_iter *)it;
    const enumerate *own  = (const enumerate *)it->dataset;
    int              n    = it->dataset->input[0]->n_components;
    int64_t          index;
    est_status       status;

    EST_TRY(est_iter_next(it->input[0], iter->element));
    if (__builtin_add_overflow(own->start, iter->seen, &index)) {
        status = est_fail(EST_INVALID_ARGUMENT, "enumerate: the index is larger than an int64 holds");
    } else {
        status = est_tensor_i64(EST_SHAPE_SCALAR, &index, &out->field[0].values);
    }
    if (status != EST_OK) {
        est_element_clear(iter->element->field, n);
        return status;
    }
    out->origin = iter->element->origin;
    memcpy(out->field + 1, iter->element->field, (size_t)n * sizeof(est_field));
    memset(iter->element->field, 0, (size_t)n * sizeof(est_field));
    iter->seen++;
    return EST_OK;
}

static est_status enumerate_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((enumerate_iter *)it)->seen, 1);
    return EST_OK;
}

static est_status enumerate_restore(est_iter *it, est_str state)
{
    return est_state_parse(it, state, &((enumerate_iter *)it)->seen, 1);
}

static est_status enumerate_encode(const est_dataset *dataset, est_wire_writer *w)
{
    est_state_put(w, &((const enumerate *)dataset)->start, 1);
    return EST_OK;
}

static est_dataset *enumerate_decode(const est_encoded *from)
{
    return est_dataset_enumerate(from->input[0], from->number[0]);
}

const est_stage est_stage_enumerate = {
    .name      = "enumerate",
    .n_inputs  = 1,
    .iter_size = sizeof(enumerate_iter),
    .open      = enumerate_open,
    .next      = enumerate_next,
    .close     = enumerate_close,
    .save      = enumerate_save,
    .restore   = enumerate_restore,
    .counts    = true,
    .encode    = enumerate_encode,
    .decode    = enumerate_decode,
};

est_dataset *est_dataset_enumerate(est_dataset *dataset, int64_t start)
{
    enumerate     *own = est_dataset_new(&est_stage_enumerate, sizeof *own, dataset, NULL);
    est_component *components;
    int            n;

    if (!est_dataset_sound(&own->base)) return &own->base;
    n          = dataset->n_components + 1;
    components = est_arena_alloc(own->base.arena, (size_t)n * sizeof *components);
    if (components == NULL) {
        return est_dataset_fail(&own->base, est_no_memory());
    }
    components[0] = (est_component){ .name = "index", .dtype = EST_I64 };
    memcpy(components + 1, dataset->components, (size_t)dataset->n_components * sizeof *components);
    own->start = start;
    return est_dataset_with(&own->base, components, n);
}
