/* SPDX-License-Identifier: Apache-2.0
 *
 * unbatch: the rows of every element as elements of their own. They are views of the element's memory. */
#include <inttypes.h>

#include "data/batch_rows.h"
#include "data/encode.h"

enum { STATE_ROW = 1, STATE_ELEMENT };

typedef struct unbatch_iter {
    est_iter     base;
    est_element *batch; /* whose rows are handed out */
    int64_t      row;   /* the next of them */
    int64_t      n_rows;
} unbatch_iter;

static est_status unbatch_open(est_iter *it)
{
    unbatch_iter *iter = (unbatch_iter *)it;

    iter->batch = est_element_new(it->dataset->n_components);
    if (iter->batch == NULL) return est_no_memory();
    return est_iter_open_input(it, 0, it->turn);
}

static void unbatch_close(est_iter *it)
{
    est_element_free(((unbatch_iter *)it)->batch, it->dataset->n_components);
}

/* Begins with the rows of iter->batch. */
static est_status unbatch_begin(unbatch_iter *iter)
{
    EST_TRY(est_batch_rows_count(&iter->base, iter->batch, &iter->n_rows));
    iter->row = 0;
    return EST_OK;
}

static est_status unbatch_next(est_iter *it, est_element *out)
{
    unbatch_iter *iter = (unbatch_iter *)it;
    int           n    = it->dataset->n_components;

    while (iter->row == iter->n_rows) {
        est_element_clear(iter->batch->field, n);
        EST_TRY(est_iter_next(it->input[0], iter->batch));
        EST_TRY(unbatch_begin(iter));
    }
    EST_TRY(est_batch_rows_row(iter->batch, n, iter->row, out));
    iter->row++;
    return EST_OK;
}

static est_status unbatch_save(est_iter *it, est_wire_writer *w)
{
    const unbatch_iter *iter = (const unbatch_iter *)it;

    if (iter->row == iter->n_rows) return EST_OK;
    est_wire_put_i64(w, STATE_ROW, iter->row);
    est_element_put(w, STATE_ELEMENT, iter->batch, it->dataset->n_components);
    return EST_OK;
}

static est_status unbatch_restore(est_iter *it, est_str state)
{
    unbatch_iter   *iter  = (unbatch_iter *)it;
    est_str         batch = { 0 };
    int64_t         row   = 0;
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "position of unbatch", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == STATE_ROW) row = est_wire_i64(&r, &field);
        if (field.number == STATE_ELEMENT) batch = est_wire_bytes(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    if (batch.data == NULL) return EST_OK;
    EST_TRY(est_element_parse(batch, it->pass, it->dataset->input[0], iter->batch));
    EST_TRY(unbatch_begin(iter));
    if (row < 0 || row > iter->n_rows) {
        return est_fail(EST_DATA_LOSS, "the saved position of stage unbatch is row %" PRId64 " of %" PRId64, row,
                        iter->n_rows);
    }
    iter->row = row;
    return EST_OK;
}

static est_dataset *unbatch_decode(const est_encoded *from)
{
    return est_dataset_unbatch(from->input[0]);
}

const est_stage est_stage_unbatch = {
    .name      = "unbatch",
    .n_inputs  = 1,
    .iter_size = sizeof(unbatch_iter),
    .open      = unbatch_open,
    .next      = unbatch_next,
    .close     = unbatch_close,
    .save      = unbatch_save,
    .restore   = unbatch_restore,
    .decode    = unbatch_decode,
};

/* Makes the component of a batch that of its rows. */
static est_status row_component(est_component *c)
{
    if (c->ragged) { /* a row is as many values as it has */
        c->ragged = false;
        if (c->shape.rank > 0) c->shape.dim[0] = -1;
        return EST_OK;
    }
    if (c->shape.rank < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s %s", c->name,
                        c->shape.rank == 0 ? "is a scalar and has no rows" : "has an unknown rank; declare its shape");
    }
    c->shape.rank--;
    for (int i = 0; i < c->shape.rank; i++) c->shape.dim[i] = c->shape.dim[i + 1];
    c->shape.dim[c->shape.rank] = 0;
    return EST_OK;
}

est_dataset *est_dataset_unbatch(est_dataset *dataset)
{
    est_dataset *own = est_dataset_new(&est_stage_unbatch, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(own)) return own;
    own = est_dataset_like(own, dataset);
    if (!est_dataset_sound(own)) return own;
    for (int i = 0; i < own->n_components; i++) {
        est_status status = row_component(&own->components[i]);

        if (status != EST_OK) return est_dataset_fail(own, status);
    }
    return own;
}
