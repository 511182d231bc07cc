/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: n elements become one. The elements are collected first, because only then the number of rows and the largest
 * of them are known, and copied once. Between two calls nothing is held, so a position needs nothing of this stage. */
#include "data/batch.h"

#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "data/encode.h"
#include "data/state.h"
#include "format/tensor_proto.h"
#include "tensor/tensor.h"

typedef struct batch {
    est_dataset       base;
    int64_t           n;
    est_batch_options options; /* the shapes in the arena */
    est_batch_column *columns; /* [n components] */
} batch;

typedef struct batch_iter {
    est_iter         base;
    est_element_list rows;
} batch_iter;

/* --- joining rows ------------------------------------------------------------------------------------------------- */

void est_batch_copy(est_tensor *to, int64_t to_first, const est_tensor *from, int64_t from_first, int64_t n)
{
    size_t size = est_dtype_size(est_tensor_dtype(from));

    if (n == 0) return;
    memcpy((char *)est_tensor_mutable_data(to) + (size_t)to_first * size,
           (const char *)est_tensor_data(from) + (size_t)from_first * size, (size_t)n * size);
}

est_status est_batch_own(est_tensor *tensor, est_tensor **out)
{
    est_status status = est_tensor_dtype(tensor) == EST_STRING ? est_tensor_own_strings(tensor) : EST_OK;

    if (status != EST_OK) {
        est_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return EST_OK;
}

est_status est_batch_mismatch(const est_batch_column *column, const est_element_list *rows, int64_t row,
                              const char *why)
{
    const est_tensor *first = est_batch_value(column, rows, 0), *other = est_batch_value(column, rows, row);
    char              first_text[EST_SHAPE_TEXT_MAX], other_text[EST_SHAPE_TEXT_MAX];

    return est_origin_blame(&est_element_list_at(rows, row)->origin,
                            est_fail(EST_INVALID_ARGUMENT,
                                     "batch: component %s of element %" PRId64
                                     " of the batch has shape %s, and of the first %s; %s",
                                     column->component->name, row, est_shape_text(est_tensor_shape(other), other_text),
                                     est_shape_text(est_tensor_shape(first), first_text), why));
}

est_status est_batch_stack(const est_batch_column *column, const est_element_list *rows, est_field *out)
{
    est_tensor      *first = est_batch_value(column, rows, 0), *tensor;
    const est_shape *row   = est_tensor_shape(first);
    est_shape        shape = { .rank = row->rank + 1, .dim = { rows->n } };

    if (row->rank == EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "batch: component %s has %d dimensions, the maximum; it cannot be "
                        "batched",
                        column->component->name, row->rank);
    }
    for (int i = 0; i < row->rank; i++) shape.dim[i + 1] = row->dim[i];
    EST_TRY(est_tensor_create(est_tensor_dtype(first), shape, &tensor));
    for (int64_t i = 0; i < rows->n; i++) {
        const est_tensor *value = est_batch_value(column, rows, i);

        if (!est_shape_equal(est_tensor_shape(value), row)) {
            est_tensor_free(tensor);
            return est_batch_mismatch(column, rows, i,
                                      "make them equal, or set .rows to EST_ROWS_PADDED or EST_ROWS_RAGGED");
        }
        est_batch_copy(tensor, i * est_tensor_count(first), value, 0, est_tensor_count(first));
    }
    return est_batch_own(tensor, &out->values);
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

static est_status batch_open(est_iter *it)
{
    est_element_list_init(&((batch_iter *)it)->rows, it->dataset->n_components);
    return est_iter_open_input(it, 0, it->turn);
}

static void batch_close(est_iter *it)
{
    est_element_list_clear(&((batch_iter *)it)->rows);
}

static est_status batch_collect(batch_iter *iter, const batch *own)
{
    while (iter->rows.n < own->n) {
        est_status status = est_element_list_pull(&iter->rows, iter->base.input[0]);

        if (status == EST_OUT_OF_RANGE && iter->rows.n > 0 && !own->options.drop_remainder) return EST_OK;
        if (status != EST_OK) return status;
    }
    return EST_OK;
}

static est_status batch_next(est_iter *it, est_element *out)
{
    batch_iter  *iter   = (batch_iter *)it;
    const batch *own    = (const batch *)it->dataset;
    est_status   status = batch_collect(iter, own);

    for (int i = 0; i < own->base.n_components && status == EST_OK; i++) {
        status = own->columns[i].join(&own->columns[i], &iter->rows, &out->field[i]);
    }
    est_element_list_reset(&iter->rows);
    out->origin = (est_origin){ 0 }; /* no row stands for all */
    if (status != EST_OK) est_element_clear(out->field, own->base.n_components);
    return status;
}

static int64_t batch_size(const est_dataset *dataset)
{
    return ((const batch *)dataset)->n;
}

static est_status   batch_encode(const est_dataset *dataset, est_wire_writer *w);
static est_dataset *batch_decode(const est_encoded *from);

const est_stage est_stage_batch = {
    .name       = "batch",
    .n_inputs   = 1,
    .iter_size  = sizeof(batch_iter),
    .open       = batch_open,
    .next       = batch_next,
    .close      = batch_close,
    .encode     = batch_encode,
    .decode     = batch_decode,
    .batch_size = batch_size,
};

/* --- making it ---------------------------------------------------------------------------------------------------- */

static est_status read_options(const est_batch_options *given, est_batch_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_batch_options), given, out));
    if ((unsigned)out->rows > EST_ROWS_RAGGED) {
        return est_fail(EST_INVALID_ARGUMENT, ".rows is %d, which is not an est_feature_rows", (int)out->rows);
    }
    if (out->rows != EST_ROWS_PADDED && (out->padded_shapes.data != NULL || out->pad_number != 0)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s needs .rows = EST_ROWS_PADDED",
                        out->padded_shapes.data != NULL ? ".padded_shapes" : ".pad_number");
    }
    return EST_OK;
}

/* Puts a first dimension in front of the shape of an element. */
static est_status add_dimension(est_component *c, const est_shape *element, int64_t n)
{
    if (element->rank == EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s has %d dimensions, the maximum; it cannot be batched",
                        c->name, element->rank);
    }
    if (element->rank < 0) {
        c->shape = EST_SHAPE_UNKNOWN;
        return EST_OK;
    }
    c->shape = (est_shape){ .rank = element->rank + 1, .dim = { n } };
    for (int i = 0; i < element->rank; i++) c->shape.dim[i + 1] = element->dim[i];
    return EST_OK;
}

/* Chooses how component i is joined, and makes `c`, a copy of it, that of the batches. */
static est_status make_column(const batch *own, int i, est_component *c)
{
    const est_batch_options *options = &own->options;
    est_batch_column        *column  = &own->columns[i];
    est_shape                element = c->shape;
    int64_t                  n       = options->drop_remainder ? own->n : -1;

    column->component = &own->base.input[0]->components[i];
    column->i         = i;
    if (c->ragged) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s is ragged, its elements are batches already; unbatch first",
                        c->name);
    }
    if (options->rows == EST_ROWS_PADDED) {
        const est_shape *padded = options->padded_shapes.n > 0 ? &options->padded_shapes.data[i] : NULL;

        column->join = est_batch_pad;
        EST_TRY(est_batch_pad_init(column, padded, options->pad_number, &element));
        return add_dimension(c, &element, n);
    }
    if (options->rows == EST_ROWS_RAGGED && element.rank < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s has an unknown rank; declare its shape to batch it ragged",
                        c->name);
    }
    if (options->rows == EST_ROWS_RAGGED && element.rank > 0 && element.dim[0] < 0) {
        column->join = est_batch_ragged;
        c->ragged    = true;
        return EST_OK;
    }
    column->join = est_batch_stack;
    return add_dimension(c, &element, n);
}

static est_status copy_shapes(est_arena *arena, est_shapes *shapes)
{
    est_shape *copy = est_arena_alloc(arena, (size_t)shapes->n * sizeof *copy);

    if (copy == NULL) return est_no_memory();
    if (shapes->n > 0) memcpy(copy, shapes->data, (size_t)shapes->n * sizeof *copy);
    shapes->data = copy;
    return EST_OK;
}

static est_status batch_init(batch *own, int64_t n, const est_batch_options *given)
{
    est_batch_options *options = &own->options;

    EST_TRY(read_options(given, options));
    if (n < 1) return est_fail(EST_INVALID_ARGUMENT, "batches of %" PRId64 " elements; a batch has at least one", n);
    EST_REQUIRE_LIST(".padded_shapes", options->padded_shapes);
    if (options->padded_shapes.n > 0 && options->padded_shapes.n != own->base.n_components) {
        return est_fail(EST_INVALID_ARGUMENT, ".padded_shapes has %d shapes for %d components; give one a component",
                        options->padded_shapes.n, own->base.n_components);
    }
    EST_TRY(copy_shapes(own->base.arena, &options->padded_shapes));
    own->n       = n;
    own->columns = est_arena_alloc(own->base.arena, (size_t)own->base.n_components * sizeof *own->columns);
    if (own->columns == NULL) return est_no_memory();
    for (int i = 0; i < own->base.n_components; i++) EST_TRY(make_column(own, i, &own->base.components[i]));
    return EST_OK;
}

est_dataset *est_dataset_batch(est_dataset *dataset, int64_t n, const est_batch_options *options)
{
    batch       *own = est_dataset_new(&est_stage_batch, sizeof *own, dataset, NULL);
    est_dataset *result;
    est_status   status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    result = est_dataset_like(&own->base, dataset);
    if (!est_dataset_sound(result)) return result;
    status = batch_init(own, n, options);
    return status == EST_OK ? result : est_dataset_fail(result, status);
}

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

enum { OWN_SHAPE = EST_ENCODED_OWN, OWN_PAD_NUMBER };

static est_status batch_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const batch             *own = (const batch *)dataset;
    const est_batch_options *o   = &own->options;

    est_state_put(w, (const int64_t[]){ own->n, o->drop_remainder, o->rows }, 3);
    for (int i = 0; i < o->padded_shapes.n; i++) est_encode_shape(w, OWN_SHAPE, &o->padded_shapes.data[i]);
    est_wire_put_f64(w, OWN_PAD_NUMBER, o->pad_number);
    return EST_OK;
}

/* The shapes in the arena of `from`. */
static est_status read_padding(const est_encoded *from, est_batch_options *options)
{
    int             n     = est_encoded_count(from, OWN_SHAPE);
    est_shape      *shape = est_arena_alloc(from->arena, (size_t)n * sizeof *shape);
    est_wire_reader r, inner;
    est_wire_field  field;

    if (shape == NULL) return est_no_memory();
    options->padded_shapes = (est_shapes){ n > 0 ? shape : NULL, n };
    est_wire_reader_init(&r, "batch", from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == OWN_PAD_NUMBER) options->pad_number = est_wire_f64(&r, &field);
        if (field.number == OWN_SHAPE) {
            est_wire_message(&r, &field, "shape of a component", &inner);
            EST_TRY(est_shape_proto_parse(&inner, shape++));
        }
    }
    return est_wire_finish(&r);
}

static est_dataset *batch_decode(const est_encoded *from)
{
    est_batch_options options = { .struct_size    = EST_STRUCT_SIZE(est_batch_options),
                                  .drop_remainder = from->number[1] != 0,
                                  .rows           = (est_feature_rows)est_encoded_int(from, 2) };
    est_status        status  = read_padding(from, &options);

    return status == EST_OK ? est_dataset_batch(from->input[0], from->number[0], &options)
                            : est_encoded_fail(from, status);
}
