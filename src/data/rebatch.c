/* SPDX-License-Identifier: Apache-2.0
 *
 * rebatch: the batches of all replicas become those of one. Where the global batch is known, the rows of all batches,
 * one after the other, are cut into batches of sizes that repeat (size_at); else every batch is cut for itself, evenly.
 *
 * A size may be 0, and its batch is then empty. So the last batch of the input is kept even when it is used up: it has
 * the shapes of an empty batch.
 *
 * The state: 1 the size or part that is next, 2 rows of a part, 3 the row that is next, 4 the batch that it is of. */
#include "data/rebatch.h"

#include <inttypes.h>

#include "data/batch_rows.h"
#include "data/encode.h"
#include "data/state.h"
#include "estoc/input.h"

#define PARTS_MAX (INT64_MAX / 2) /* two numbers of parts can be added */

enum { STATE_AT = 1, STATE_SIZE, STATE_ROW, STATE_BATCH };

typedef struct rebatch {
    est_dataset base;
    int64_t     n;      /* parts of a global batch */
    int64_t     global; /* the global batch; 0: not known */
    int64_t     offset; /* parts of a step that the workers before this one take */
} rebatch;

typedef struct rebatch_iter {
    est_iter         base;
    est_element_list pieces; /* of the batch that is being made */
    est_element     *batch;  /* of the input, perhaps used up */
    bool             has_batch;
    int64_t          n_rows, row; /* of it; the next one */
    int64_t          at;          /* the next size, or part */
    int64_t          size;        /* rows of a part, where the global batch is not known */
} rebatch_iter;

/* The sizes of a step over all workers are the larger ones, then those smaller by one. Every worker goes through the
 * same cycle, and begins where its own replicas are, so that the sizes of a step add up to the global batch. */
static int64_t size_at(const rebatch *own, int64_t at)
{
    return own->global / own->n + ((at + own->offset) % own->n < own->global % own->n);
}

static est_status rebatch_open(est_iter *it)
{
    rebatch_iter *iter = (rebatch_iter *)it;

    est_element_list_init(&iter->pieces, it->dataset->n_components);
    iter->batch = est_element_new(it->dataset->n_components);
    if (iter->batch == NULL) return est_no_memory();
    return est_iter_open_input(it, 0, it->turn);
}

static void rebatch_close(est_iter *it)
{
    rebatch_iter *iter = (rebatch_iter *)it;

    est_element_list_clear(&iter->pieces);
    est_element_free(iter->batch, it->dataset->n_components);
}

static void drop_batch(rebatch_iter *iter)
{
    est_element_clear(iter->batch->field, iter->base.dataset->n_components);
    iter->has_batch = false;
    iter->n_rows = iter->row = 0;
}

/* The next batch of the input in place of the one that is used up. That one stays at the end of the input. */
static est_status pull_batch(rebatch_iter *iter)
{
    est_element *room = est_element_list_room(&iter->pieces);

    if (room == NULL) return EST_RESOURCE_EXHAUSTED;
    EST_TRY(est_iter_next(iter->base.input[0], room));
    drop_batch(iter);
    est_element_move(iter->batch, room, iter->base.dataset->n_components);
    iter->has_batch = true;
    return est_batch_rows_count(&iter->base, iter->batch, &iter->n_rows);
}

/* Takes n rows of the batch as another piece. */
static est_status cut_piece(rebatch_iter *iter, int64_t n)
{
    est_element *room = est_element_list_room(&iter->pieces);

    if (room == NULL) return EST_RESOURCE_EXHAUSTED;
    EST_TRY(est_batch_rows_slice(iter->batch, iter->base.dataset->n_components, iter->row, n, room));
    est_element_list_push(&iter->pieces);
    iter->row += n;
    return EST_OK;
}

/* Collects `want` rows, fewer at the end of the input: nothing comes after those, no empty batch either. */
static est_status collect(rebatch_iter *iter, int64_t want)
{
    if (want == 0) {
        if (!iter->has_batch) EST_TRY(pull_batch(iter));
        return cut_piece(iter, 0);
    }
    while (want > 0) {
        int64_t    left = iter->n_rows - iter->row, n = left < want ? left : want;
        est_status status;

        if (n > 0) {
            EST_TRY(cut_piece(iter, n));
            want -= n;
            continue;
        }
        status = pull_batch(iter);
        if (status == EST_OUT_OF_RANGE && iter->pieces.n > 0) {
            drop_batch(iter);
            return EST_OK;
        }
        EST_TRY(status);
    }
    return EST_OK;
}

/* Collects the next part of a batch that is cut for itself. */
static est_status collect_part(rebatch_iter *iter, int64_t n)
{
    int64_t left;

    if (iter->at == 0) {
        EST_TRY(pull_batch(iter));
        iter->size = iter->n_rows / n + (iter->n_rows % n > 0);
    }
    left = iter->n_rows - iter->row;
    return cut_piece(iter, left < iter->size ? left : iter->size);
}

static est_status rebatch_next(est_iter *it, est_element *out)
{
    rebatch_iter  *iter = (rebatch_iter *)it;
    const rebatch *own  = (const rebatch *)it->dataset;
    est_status     status;

    status = own->global > 0 ? collect(iter, size_at(own, iter->at)) : collect_part(iter, own->n);
    if (status == EST_OK) status = est_batch_rows_join(it, &iter->pieces, out);
    est_element_list_reset(&iter->pieces);
    if (status == EST_OK) iter->at = iter->at + 1 == own->n ? 0 : iter->at + 1;
    return status;
}

static est_status rebatch_save(est_iter *it, est_wire_writer *w)
{
    const rebatch_iter *iter = (const rebatch_iter *)it;
    const rebatch      *own  = (const rebatch *)it->dataset;
    bool                more = iter->row < iter->n_rows;

    if (own->global == 0) more = iter->at != 0;                          /* the parts left may be empty, */
    if (own->global > 0 && own->global < own->n) more = iter->has_batch; /* and so may batches behind its rows */
    est_wire_put_i64(w, STATE_AT, iter->at);
    if (!more) return EST_OK;
    est_wire_put_i64(w, STATE_SIZE, iter->size);
    est_wire_put_i64(w, STATE_ROW, iter->row);
    est_element_put(w, STATE_BATCH, iter->batch, it->dataset->n_components);
    return EST_OK;
}

static est_status rebatch_restore(est_iter *it, est_str state)
{
    rebatch_iter   *iter  = (rebatch_iter *)it;
    const rebatch  *own   = (const rebatch *)it->dataset;
    est_str         batch = { 0 };
    int64_t         row   = 0;
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "position of rebatch", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == STATE_AT) iter->at = est_wire_i64(&r, &field);
        if (field.number == STATE_SIZE) iter->size = est_wire_i64(&r, &field);
        if (field.number == STATE_ROW) row = est_wire_i64(&r, &field);
        if (field.number == STATE_BATCH) batch = est_wire_bytes(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    if (iter->at < 0 || iter->at >= own->n) return est_state_fail(it, "part", iter->at);
    if (iter->size < 0) return est_state_fail(it, "rows of a part", iter->size);
    if (batch.data == NULL) return own->global == 0 && iter->at != 0 ? est_state_fail(it, "part", iter->at) : EST_OK;
    EST_TRY(est_element_parse(batch, it->pass, it->dataset->input[0], iter->batch));
    iter->has_batch = true;
    EST_TRY(est_batch_rows_count(it, iter->batch, &iter->n_rows));
    if (row < 0 || row > iter->n_rows) return est_state_fail(it, "row", row);
    iter->row = row;
    return EST_OK;
}

static est_status rebatch_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const rebatch *own = (const rebatch *)dataset;

    est_state_put(w, (const int64_t[]){ own->n, own->global, own->offset }, 3);
    return EST_OK;
}

static est_dataset *rebatch_decode(const est_encoded *from);

const est_stage est_stage_rebatch = {
    .name      = "rebatch",
    .n_inputs  = 1,
    .iter_size = sizeof(rebatch_iter),
    .open      = rebatch_open,
    .next      = rebatch_next,
    .close     = rebatch_close,
    .save      = rebatch_save,
    .restore   = rebatch_restore,
    .encode    = rebatch_encode,
    .decode    = rebatch_decode,
};

/* --- the global batch --------------------------------------------------------------------------------------------- */

/* The first dimension of all components; -1: it is not known, or they do not agree. */
static int64_t rows_of_shapes(const est_dataset *dataset)
{
    int64_t n = -1;

    for (int i = 0; i < dataset->n_components; i++) {
        const est_component *c = &dataset->components[i];

        if (c->ragged || c->shape.rank < 1 || c->shape.dim[0] < 0) return -1;
        if (i > 0 && c->shape.dim[0] != n) return -1;
        n = c->shape.dim[0];
    }
    return n;
}

/* As the stages say that batch elements; -1: some function may have changed it. */
static int64_t rows_of_stages(const est_dataset *dataset)
{
    int64_t n = -1;

    if (dataset->stage->batch_size != NULL) return dataset->stage->batch_size(dataset);
    if (!dataset->stage->passes) return -1;
    for (int i = 0; i < dataset->stage->n_inputs; i++) {
        int64_t of_input = rows_of_stages(dataset->input[i]);

        if (i > 0 && of_input != n) return -1;
        n = of_input;
    }
    return n;
}

/* --- making it ---------------------------------------------------------------------------------------------------- */

/* The components, with the rows that a part always has. */
static est_status set_components(rebatch *own, int64_t rows)
{
    for (int i = 0; i < own->base.n_components; i++) {
        est_component *c = &own->base.components[i];

        if (c->shape.rank < 0) {
            return est_fail(EST_INVALID_ARGUMENT, "component %s has an unknown rank; declare its shape", c->name);
        }
        if (c->shape.rank == 0) {
            return est_fail(
                EST_INVALID_ARGUMENT,
                "component %s is a scalar: there are no batches to divide; batch the dataset first, with the "
                "global batch",
                c->name);
        }
        c->shape.dim[0] = rows > 0 && rows % own->n == 0 ? rows / own->n : -1;
    }
    return EST_OK;
}

/* The rest of a constructor. */
static est_dataset *rebatch_finish(rebatch *own)
{
    const est_dataset *input  = own->base.input[0];
    est_dataset       *result = est_dataset_like(&own->base, input);
    est_status         status;

    if (!est_dataset_sound(result)) return result;
    status = set_components(own, rows_of_shapes(input));
    return status == EST_OK ? result : est_dataset_fail(result, status);
}

/* The global batch is that of the stages that were there when it was made: autoshard may have changed them since. */
static est_dataset *rebatch_decode(const est_encoded *from)
{
    rebatch *own = est_dataset_new(&est_stage_rebatch, sizeof *own, from->input[0], NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    own->n      = from->number[0];
    own->global = from->number[1];
    own->offset = from->number[2];
    if (own->n < 1 || own->n > PARTS_MAX || own->global < 0 || own->offset < 0 || own->offset >= own->n) {
        return est_dataset_fail(&own->base, est_fail(EST_DATA_LOSS,
                                                     "%" PRId64 " parts of %" PRId64 " rows, from part %" PRId64 " on",
                                                     own->n, own->global, own->offset));
    }
    return rebatch_finish(own);
}

int64_t est_rebatch_parts(const est_dataset *dataset)
{
    return dataset->stage == &est_stage_rebatch ? ((const rebatch *)dataset)->n : 0;
}

est_dataset *est_rebatch_evenly(est_dataset *dataset, int64_t n)
{
    rebatch *own = est_dataset_new(&est_stage_rebatch, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    own->n = n;
    return rebatch_finish(own);
}

static est_status set_workers(rebatch *own, int64_t n_workers, int64_t worker, int64_t replicas)
{
    if (n_workers < 1 || worker < 0 || worker >= n_workers) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "worker %" PRId64 " of %" PRId64 "; expected a number from 0 to below the number of workers",
                        worker, n_workers);
    }
    if (replicas < 1)
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " replicas; a worker has at least one", replicas);
    if (__builtin_mul_overflow(n_workers, replicas, &own->n) || own->n > PARTS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " workers of %" PRId64 " replicas are more than can be counted", n_workers,
                        replicas);
    }
    own->offset = worker * replicas;
    return EST_OK;
}

est_dataset *est_dataset_rebatch(est_dataset *dataset, int64_t n_workers, int64_t worker, int64_t replicas_per_worker)
{
    rebatch   *own = est_dataset_new(&est_stage_rebatch, sizeof *own, dataset, NULL);
    est_status status;
    int64_t    global;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = set_workers(own, n_workers, worker, replicas_per_worker);
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    global = rows_of_shapes(dataset);
    if (global < 1) global = rows_of_stages(dataset);
    own->global = global > 0 ? global : 0;
    return rebatch_finish(own);
}
