/* SPDX-License-Identifier: Apache-2.0
 *
 * slices: the rows of tensors in memory, as views. tensors: the tensors as a single element. */
#include <inttypes.h>

#include "data/encode.h"
#include "data/state.h"

typedef struct slices {
    est_dataset  base;
    est_tensor **tensors; /* [n components], references */
    int64_t      n_rows;  /* or elements */
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

static est_status tensors_next(est_iter *it, est_element *out)
{
    slices_iter  *iter = (slices_iter *)it;
    const slices *own  = (const slices *)it->dataset;

    if (iter->row == own->n_rows) return EST_OUT_OF_RANGE;
    for (int i = 0; i < own->base.n_components; i++) out->field[i].values = est_tensor_ref(own->tensors[i]);
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

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

enum { OWN_TENSOR = EST_ENCODED_OWN };
enum { TENSOR_NAME = 1, TENSOR_VALUE };

static est_status slices_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const slices *own = (const slices *)dataset;

    for (int i = 0; i < dataset->n_components; i++) {
        size_t mark = est_wire_begin(w, OWN_TENSOR);

        est_wire_put_string(w, TENSOR_NAME, dataset->components[i].name);
        est_encode_tensor(w, TENSOR_VALUE, own->tensors[i]);
        est_wire_end(w, mark);
    }
    return EST_OK;
}

static est_status read_tensor(const est_encoded *from, est_wire_reader *r, est_named_tensor *out)
{
    est_wire_field field;
    est_str        value = { "", 0 };

    while (est_wire_next(r, &field)) {
        if (field.number == TENSOR_NAME) EST_TRY(est_encoded_text(from, est_wire_bytes(r, &field), &out->name));
        if (field.number == TENSOR_VALUE) value = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    return est_encoded_tensor(value, &out->tensor);
}

static est_status read_tensors(const est_encoded *from, est_named_tensor *tensors)
{
    est_wire_reader r, inner;
    est_wire_field  field;

    est_wire_reader_init(&r, from->stage->name, from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != OWN_TENSOR) continue;
        est_wire_message(&r, &field, "tensor of a dataset", &inner);
        EST_TRY(est_wire_finish(&r));
        EST_TRY(read_tensor(from, &inner, tensors++));
    }
    return est_wire_finish(&r);
}

static est_dataset *decode_tensors(const est_encoded *from, est_dataset *(*make)(est_named_tensors tensors))
{
    int               n       = est_encoded_count(from, OWN_TENSOR);
    est_named_tensor *tensors = est_arena_alloc(from->arena, (size_t)n * sizeof *tensors);
    est_status        status  = tensors != NULL ? read_tensors(from, tensors) : est_no_memory();
    est_dataset      *dataset;

    dataset = status == EST_OK ? make((est_named_tensors){ tensors, n }) : est_encoded_fail(from, status);
    for (int i = 0; i < n && tensors != NULL; i++) est_tensor_free(tensors[i].tensor);
    return dataset;
}

static est_dataset *slices_decode(const est_encoded *from)
{
    return decode_tensors(from, est_dataset_slices);
}

static est_dataset *tensors_decode(const est_encoded *from)
{
    return decode_tensors(from, est_dataset_tensors);
}

/* --- the stages --------------------------------------------------------------------------------------------------- */

const est_stage est_stage_slices = {
    .name      = "slices",
    .iter_size = sizeof(slices_iter),
    .next      = slices_next,
    .save      = slices_save,
    .restore   = slices_restore,
    .free      = slices_free,
    .encode    = slices_encode,
    .decode    = slices_decode,
};

const est_stage est_stage_tensors = {
    .name      = "tensors",
    .iter_size = sizeof(slices_iter),
    .next      = tensors_next,
    .save      = slices_save,
    .restore   = slices_restore,
    .free      = slices_free,
    .encode    = slices_encode,
    .decode    = tensors_decode,
};

static est_status check_tensors(est_named_tensors tensors)
{
    if (tensors.n < 1 || tensors.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "no tensors were given");
    for (int i = 0; i < tensors.n; i++) {
        if (tensors.data[i].tensor == NULL) return est_fail(EST_INVALID_ARGUMENT, "tensor %d is NULL", i);
    }
    return EST_OK;
}

/* All have rows, and as many as the first. */
static est_status check_rows(est_named_tensors tensors)
{
    const est_named_tensor *first = &tensors.data[0];

    for (int i = 0; i < tensors.n; i++) {
        const est_named_tensor *named = &tensors.data[i];
        const est_shape        *shape = est_tensor_shape(named->tensor);
        int64_t                 n;

        if (shape->rank < 1) return est_fail(EST_INVALID_ARGUMENT, "tensor %d is a scalar and has no rows", i);
        n = est_tensor_shape(first->tensor)->dim[0];
        if (shape->dim[0] != n) {
            return est_fail(EST_INVALID_ARGUMENT, "%s has %" PRId64 " rows, %s has %" PRId64, first->name, n,
                            named->name, shape->dim[0]);
        }
    }
    return EST_OK;
}

/* The tensor, or its rows, as a component. */
static est_component component_of(const est_named_tensor *named, bool rows)
{
    const est_shape *shape     = est_tensor_shape(named->tensor);
    est_component    component = { .name  = named->name,
                                   .dtype = est_tensor_dtype(named->tensor),
                                   .shape = { .rank = shape->rank - rows } };

    for (int i = 0; i < component.shape.rank; i++) component.shape.dim[i] = shape->dim[i + rows];
    return component;
}

/* The end of both constructors, for tensors that were checked. */
static est_dataset *keep_tensors(slices *own, est_named_tensors tensors, bool rows)
{
    est_component *components = est_arena_alloc(own->base.arena, (size_t)tensors.n * sizeof *components);
    est_tensor   **kept       = est_arena_alloc(own->base.arena, (size_t)tensors.n * sizeof(est_tensor *));
    est_dataset   *dataset;

    if (components == NULL || kept == NULL) return est_dataset_fail(&own->base, est_no_memory());
    for (int i = 0; i < tensors.n; i++) components[i] = component_of(&tensors.data[i], rows);
    dataset = est_dataset_with(&own->base, components, tensors.n);
    if (!est_dataset_sound(dataset)) return dataset;
    for (int i = 0; i < tensors.n; i++) kept[i] = est_tensor_ref(tensors.data[i].tensor);
    own->tensors = kept;
    own->n_rows  = rows ? est_tensor_shape(kept[0])->dim[0] : 1;
    return dataset;
}

est_dataset *est_dataset_slices(est_named_tensors tensors)
{
    slices    *own = est_dataset_new(&est_stage_slices, sizeof *own, NULL, NULL);
    est_status status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = check_tensors(tensors);
    if (status == EST_OK) status = check_rows(tensors);
    return status == EST_OK ? keep_tensors(own, tensors, true) : est_dataset_fail(&own->base, status);
}

est_dataset *est_dataset_tensors(est_named_tensors tensors)
{
    slices    *own = est_dataset_new(&est_stage_tensors, sizeof *own, NULL, NULL);
    est_status status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = check_tensors(tensors);
    return status == EST_OK ? keep_tensors(own, tensors, false) : est_dataset_fail(&own->base, status);
}
