/* SPDX-License-Identifier: Apache-2.0
 *
 * slices: the rows of tensors in memory, as views. */
#include <inttypes.h>

#include "data/state.h"

typedef struct slices {
    est_dataset  base;
    est_tensor **tensors; /* [n components], references */
    int64_t      n_rows;
} slices;

typedef struct slices_iter {
    est_iter base;
    int64_t  row;
} slices_iter;

static est_status slices_next(est_iter *it, est_element *out)
{
    slices_iter  *iter = (slices_iter *)it;
    const slices *own  = (const slices *)it->dataset;

    if (iter->row == own->n_rows) return EST_OUT_OF_RANGE;
    for (int i = 0; i < own->base.n_components; i++) {
        est_status status = est_tensor_row(own->tensors[i], iter->row, &out->field[i].values);

        if (status != EST_OK) {
            est_element_clear(out->field, i);
            return status;
        }
    }
    out->origin = (est_origin){ 0 };
    iter->row++;
    return EST_OK;
}

static est_status slices_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((slices_iter *)it)->row, 1);
    return EST_OK;
}

static est_status slices_restore(est_iter *it, est_str state)
{
    const slices *own = (const slices *)it->dataset;
    int64_t       row;

    EST_TRY(est_state_parse(it, state, &row, 1));
    if (row > own->n_rows) {
        return est_fail(EST_INVALID_ARGUMENT, "row %" PRId64 " of tensors with %" PRId64 " rows", row, own->n_rows);
    }
    ((slices_iter *)it)->row = row;
    return EST_OK;
}

static void slices_free(est_dataset *dataset)
{
    slices *own = (slices *)dataset;

    for (int i = 0; own->tensors != NULL && i < own->base.n_components; i++) est_tensor_free(own->tensors[i]);
}

static const est_stage slices_stage = {
    .name      = "slices",
    .iter_size = sizeof(slices_iter),
    .next      = slices_next,
    .save      = slices_save,
    .restore   = slices_restore,
    .free      = slices_free,
};

static est_status check_tensors(est_named_tensors tensors)
{
    const est_shape *first = NULL;

    if (tensors.n < 1 || tensors.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "no tensors were given");
    for (int i = 0; i < tensors.n; i++) {
        const est_named_tensor *named = &tensors.data[i];
        const est_shape        *shape;

        if (named->tensor == NULL) return est_fail(EST_INVALID_ARGUMENT, "tensor %d is NULL", i);
        shape = est_tensor_shape(named->tensor);
        if (shape->rank < 1) return est_fail(EST_INVALID_ARGUMENT, "tensor %d is a scalar and has no rows", i);
        if (first == NULL) first = shape;
        if (shape->dim[0] != first->dim[0]) {
            return est_fail(EST_INVALID_ARGUMENT, "%s has %" PRId64 " rows, %s has %" PRId64, tensors.data[0].name,
                            first->dim[0], named->name, shape->dim[0]);
        }
    }
    return EST_OK;
}

/* The tensor's rows as a component. */
static est_component row_component(const est_named_tensor *named)
{
    const est_shape *shape     = est_tensor_shape(named->tensor);
    est_component    component = { .name  = named->name,
                                   .dtype = est_tensor_dtype(named->tensor),
                                   .shape = { .rank = shape->rank - 1 } };

    for (int i = 1; i < shape->rank; i++) component.shape.dim[i - 1] = shape->dim[i];
    return component;
}

est_dataset *est_dataset_slices(est_named_tensors tensors)
{
    slices        *own = est_dataset_new(&slices_stage, sizeof *own, NULL, NULL);
    est_component *components;
    est_dataset   *dataset;
    est_status     status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = check_tensors(tensors);
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    components = est_arena_alloc(own->base.arena, (size_t)tensors.n * sizeof *components);
    if (components == NULL) {
        return est_dataset_fail(&own->base, est_no_memory());
    }
    for (int i = 0; i < tensors.n; i++) components[i] = row_component(&tensors.data[i]);
    dataset = est_dataset_with(&own->base, components, tensors.n);
    if (!est_dataset_sound(dataset)) return dataset;
    own->n_rows  = est_tensor_shape(tensors.data[0].tensor)->dim[0];
    own->tensors = est_arena_alloc(own->base.arena, (size_t)tensors.n * sizeof(est_tensor *));
    if (own->tensors == NULL) {
        return est_dataset_fail(&own->base, est_no_memory());
    }
    for (int i = 0; i < tensors.n; i++) own->tensors[i] = est_tensor_ref(tensors.data[i].tensor);
    return dataset;
}
