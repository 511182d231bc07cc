/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterators: opening and closing a chain of them, its position as bytes, what they share (est_pass), and the public
 * est_iterator.
 *
 * A position is a message for each iterator: 1 name of the stage, 2 what the stage wrote, 3 (repeated) {1 which input,
 * 2 its message} for the inputs that are open, 4 whether it has ended. Around it, in the public tensor: 1 a version, 2
 * the last iterator's message, 3 the elements handed out, 4 bad rows. */
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "data/state.h"

#define POSITION_VERSION 2 /* 1 did not know a file again that was rewritten */

enum { STAGE_NAME = 1, STAGE_STATE, STAGE_INPUT, STAGE_ENDED };
enum { INPUT_NUMBER = 1, INPUT_POSITION };
enum { ROOT_VERSION = 1, ROOT_POSITION, ROOT_ELEMENTS, ROOT_BAD_ROWS };

/* --- what a pass shares ------------------------------------------------------------------------------------------- */

est_status est_pass_create(est_pass **out)
{
    est_pass  *pass = est_zalloc(sizeof *pass);
    est_status status;

    if (pass != NULL) {
        pass->arena = est_arena_create();
        pass->paths = est_zalloc(sizeof *pass->paths);
    }
    status = pass == NULL || pass->arena == NULL || pass->paths == NULL ? est_no_memory() : est_lock_init(&pass->lock);
    if (status == EST_OK) {
        *out = pass;
        return EST_OK;
    }
    if (pass != NULL) {
        est_arena_free(pass->arena);
        est_free(pass->paths);
    }
    est_free(pass);
    return status;
}

void est_pass_free(est_pass *pass)
{
    if (pass == NULL) return;
    pthread_mutex_destroy(&pass->lock);
    est_map_clear(pass->paths);
    est_free(pass->paths);
    est_arena_free(pass->arena);
    est_free(pass);
}

const char *est_pass_intern(est_pass *pass, const char *path, size_t size)
{
    char *copy;

    pthread_mutex_lock(&pass->lock);
    copy = est_map_get_bytes(pass->paths, path, size);
    if (copy == NULL) {
        copy = est_arena_alloc(pass->arena, size + 1);
        if (copy != NULL) {
            memcpy(copy, path, size);
            if (est_map_put_bytes(pass->paths, path, size, copy) != EST_OK) copy = NULL;
        }
    }
    pthread_mutex_unlock(&pass->lock);
    return copy;
}

est_status est_iter_bad_row(est_iter *it, int64_t *seen, int64_t max, est_status status)
{
    if (status != EST_INVALID_ARGUMENT && status != EST_DATA_LOSS) return status;
    if (max == 0) return status;
    if (max != EST_FOREVER && *seen >= max) {
        return est_fail_context(
            status, "more than %" PRId64 " bad rows in one pass (bad_rows_max, data.bad_rows of a job file)", max);
    }
    ++*seen;
    ++*it->bad_rows;
    est_log_warn("skipped a bad row: %s", est_error_message());
    return EST_OK;
}

uint64_t est_turn_mix(uint64_t turn, uint64_t i)
{
    uint64_t mixed = turn * UINT64_C(0x9e3779b97f4a7c15) + i;

    if (mixed == 0) return 0;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

uint64_t est_seed_draw(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint64_t)est_wall_ns();
    return seed != 0 ? seed : 1;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static est_status open_all_inputs(est_iter *it)
{
    for (int i = 0; i < EST_STAGE_INPUTS_MAX && it->dataset->input[i] != NULL; i++) {
        EST_TRY(est_iter_open_input(it, i, it->turn));
    }
    return EST_OK;
}

est_status est_iter_open(const est_dataset *dataset, est_pass *pass, int64_t *bad_rows, uint64_t turn, est_iter **out)
{
    est_iter  *it = est_zalloc(dataset->stage->iter_size);
    est_status status;

    if (it == NULL) return est_no_memory();
    it->stage    = dataset->stage;
    it->dataset  = est_dataset_ref(dataset);
    it->pass     = pass;
    it->bad_rows = it->input_bad_rows = bad_rows;
    it->turn                          = turn;
    status                            = it->stage->open != NULL ? it->stage->open(it) : open_all_inputs(it);
    if (status != EST_OK) {
        est_iter_close(it);
        return status;
    }
    *out = it;
    return EST_OK;
}

void est_iter_close(est_iter *it)
{
    if (it == NULL) return;
    if (it->stage->close != NULL) it->stage->close(it);
    for (int i = 0; i < EST_STAGE_INPUTS_MAX; i++) est_iter_close(it->input[i]);
    est_dataset_free((est_dataset *)(uintptr_t)it->dataset);
    est_free(it);
}

est_status est_iter_open_input(est_iter *it, int i, uint64_t turn)
{
    est_iter_close(it->input[i]);
    it->input[i] = NULL;
    return est_iter_open(it->dataset->input[i], it->pass, it->input_bad_rows, turn, &it->input[i]);
}

est_status est_iter_next(est_iter *it, est_element *out)
{
    est_status status;

    if (it == NULL) return est_fail(EST_DATA_LOSS, "the saved position lacks an input that its stage needs");
    if (it->ended) return EST_OUT_OF_RANGE;
    status = it->stage->next(it, out);
    if (status == EST_OUT_OF_RANGE) it->ended = true;
    return status;
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

static est_status save_parts(est_iter *it, est_wire_writer *w)
{
    est_wire_put_string(w, STAGE_NAME, it->stage->name);
    est_wire_put_bool(w, STAGE_ENDED, it->ended);
    if (it->stage->save != NULL) {
        size_t     mark   = est_wire_begin(w, STAGE_STATE);
        est_status status = it->stage->save(it, w);

        est_wire_end(w, mark);
        EST_TRY(status);
    }
    for (int i = 0; i < EST_STAGE_INPUTS_MAX; i++) {
        est_status status;
        size_t     mark;

        if (it->input[i] == NULL) continue;
        mark = est_wire_begin(w, STAGE_INPUT);
        est_wire_put_u64(w, INPUT_NUMBER, (uint64_t)i);
        status = est_iter_save(it->input[i], w, INPUT_POSITION);
        est_wire_end(w, mark);
        EST_TRY(status);
    }
    return EST_OK;
}

est_status est_iter_save(est_iter *it, est_wire_writer *w, uint32_t number)
{
    size_t     mark = est_wire_begin(w, number);
    est_status status;

    if (it->stage->pause != NULL) it->stage->pause(it);
    status = save_parts(it, w);
    if (it->stage->resume != NULL) it->stage->resume(it);
    est_wire_end(w, mark);
    return status;
}

typedef struct saved_iter {
    est_str name;
    est_str state;
    est_str input[EST_STAGE_INPUTS_MAX]; /* data NULL: was not open */
    bool    ended;
} saved_iter;

static est_status parse_input(est_wire_reader *r, saved_iter *out)
{
    est_wire_field field;
    uint64_t       number   = 0;
    est_str        position = { "", 0 };

    while (est_wire_next(r, &field)) {
        if (field.number == INPUT_NUMBER) number = est_wire_u64(r, &field);
        if (field.number == INPUT_POSITION) position = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    if (number >= EST_STAGE_INPUTS_MAX) {
        return est_fail(EST_DATA_LOSS, "saved position: a stage with input %" PRIu64, number);
    }
    out->input[number] = position;
    return EST_OK;
}

static est_status parse_iter(est_str bytes, saved_iter *out)
{
    est_wire_reader r, inner;
    est_wire_field  field;

    *out = (saved_iter){ 0 };
    est_wire_reader_init(&r, "position of a dataset stage", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case STAGE_NAME: out->name = est_wire_bytes(&r, &field); break;
        case STAGE_STATE: out->state = est_wire_bytes(&r, &field); break;
        case STAGE_ENDED: out->ended = est_wire_bool(&r, &field); break;
        case STAGE_INPUT:
            est_wire_message(&r, &field, "position of an input", &inner);
            EST_TRY(parse_input(&inner, out));
            break;
        default: break;
        }
    }
    return est_wire_finish(&r);
}

est_status est_iter_restore(est_iter *it, est_str bytes)
{
    saved_iter saved;

    EST_TRY(parse_iter(bytes, &saved));
    if (saved.name.size != strlen(it->stage->name) || memcmp(saved.name.data, it->stage->name, saved.name.size) != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the position was saved by a dataset with a stage %.*s where this one has %s",
                        (int)saved.name.size, saved.name.data, it->stage->name);
    }
    if (it->stage->restore != NULL) EST_TRY(it->stage->restore(it, saved.state));
    for (int i = 0; i < EST_STAGE_INPUTS_MAX; i++) {
        if (saved.input[i].data == NULL) {
            est_iter_close(it->input[i]);
            it->input[i] = NULL;
            continue;
        }
        if (it->dataset->input[i] == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "the position was saved by a dataset whose stage %s has more inputs",
                            it->stage->name);
        }
        if (it->input[i] == NULL) EST_TRY(est_iter_open_input(it, i, it->turn));
        EST_TRY(est_iter_restore(it->input[i], saved.input[i]));
    }
    it->ended = saved.ended;
    return EST_OK;
}

/* --- the public iterator ------------------------------------------------------------------------------------------ */

struct est_iterator {
    est_pass    *pass;
    est_iter    *last;    /* of the chain */
    est_element *element; /* scratch: what next() hands out */
    est_error    error;   /* the failure that ended it; EST_OK: none */
    bool         started; /* next was called or a position restored */
    int64_t      elements;
    int64_t      bad_rows;
    int64_t      wait_ns;
};

est_status est_iterator_open_turn(const est_dataset *dataset, uint64_t turn, est_iterator **out)
{
    est_iterator *iterator;
    est_status    status;

    iterator = est_zalloc(sizeof *iterator);
    if (iterator == NULL) return est_no_memory();
    iterator->element = est_element_new(dataset->n_components);
    if (iterator->element == NULL) {
        status = est_no_memory();
        goto free_iterator;
    }
    status = est_pass_create(&iterator->pass);
    if (status != EST_OK) goto free_iterator;
    status = est_iter_open(dataset, iterator->pass, &iterator->bad_rows, turn, &iterator->last);
    if (status != EST_OK) goto free_iterator;
    *out = iterator;
    return EST_OK;

free_iterator:
    est_iterator_free(iterator);
    return status;
}

est_status est_iterator_create(const est_dataset *dataset, est_iterator **out)
{
    EST_REQUIRE(dataset);
    EST_REQUIRE(out);
    return est_iterator_open_turn(dataset, 0, out);
}

void est_iterator_free(est_iterator *iterator)
{
    int n;

    if (iterator == NULL) return;
    n = iterator->last != NULL ? iterator->last->dataset->n_components : 0;
    est_element_free(iterator->element, n);
    est_iter_close(iterator->last);
    est_pass_free(iterator->pass);
    est_free(iterator);
}

est_status est_iterator_next(est_iterator *iterator, est_field *element)
{
    int64_t    start = est_now_ns();
    est_status status;

    EST_REQUIRE(iterator);
    EST_REQUIRE(element);
    if (iterator->error.status != EST_OK) return est_error_raise(&iterator->error);
    iterator->started = true;
    status            = est_iter_next(iterator->last, iterator->element);
    iterator->wait_ns += est_now_ns() - start;
    if (status == EST_OK) {
        size_t bytes = (size_t)iterator->last->dataset->n_components * sizeof(est_field);

        memcpy(element, iterator->element->field, bytes);
        memset(iterator->element->field, 0, bytes);
        iterator->elements++;
    } else if (status != EST_OUT_OF_RANGE) {
        est_error_take(status, &iterator->error);
    }
    return status;
}

est_iterator_stats est_iterator_get_stats(const est_iterator *iterator)
{
    return iterator != NULL ? (est_iterator_stats){ .elements  = iterator->elements,
                                                    .bad_rows  = iterator->bad_rows,
                                                    .wait_secs = (double)iterator->wait_ns / EST_NS_PER_SEC }
                            : (est_iterator_stats){ 0 };
}

est_status est_iterator_save(est_iterator *iterator, est_tensor **out)
{
    est_wire_writer w = { 0 };
    est_status      status;

    EST_REQUIRE(iterator);
    EST_REQUIRE(out);
    if (iterator->error.status != EST_OK) return est_error_raise(&iterator->error);
    est_wire_put_u64(&w, ROOT_VERSION, POSITION_VERSION);
    status = est_iter_save(iterator->last, &w, ROOT_POSITION);
    est_wire_put_i64(&w, ROOT_ELEMENTS, iterator->elements);
    est_wire_put_i64(&w, ROOT_BAD_ROWS, iterator->bad_rows);
    if (status == EST_OK) status = est_wire_writer_status(&w);
    if (status == EST_OK) status = est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)w.size), w.data, out);
    est_wire_writer_clear(&w);
    if (status != EST_OK) return est_fail_context(status, "saving the position of a dataset");
    return EST_OK;
}

static est_status restore(est_iterator *iterator, const est_tensor *position)
{
    est_wire_reader r;
    est_wire_field  field;
    est_str         last    = { "", 0 };
    uint64_t        version = 0;

    if (est_tensor_dtype(position) != EST_U8 || est_tensor_shape(position)->rank != 1) {
        return est_fail(EST_INVALID_ARGUMENT, "it is a vector of uint8, not %s",
                        est_dtype_name(est_tensor_dtype(position)));
    }
    est_wire_reader_init(&r, "position", est_tensor_data(position), (size_t)est_tensor_count(position));
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case ROOT_VERSION: version = est_wire_u64(&r, &field); break;
        case ROOT_POSITION: last = est_wire_bytes(&r, &field); break;
        case ROOT_ELEMENTS: iterator->elements = est_wire_i64(&r, &field); break;
        case ROOT_BAD_ROWS: iterator->bad_rows = est_state_bad_rows(&r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    if (version != POSITION_VERSION) {
        return est_fail(EST_INVALID_ARGUMENT, "version %" PRIu64 " of the format, this library reads version %d",
                        version, POSITION_VERSION);
    }
    return est_iter_restore(iterator->last, last);
}

est_status est_iterator_restore(est_iterator *iterator, const est_tensor *position)
{
    est_status status;

    EST_REQUIRE(iterator);
    EST_REQUIRE(position);
    if (iterator->started || iterator->error.status != EST_OK) {
        return est_fail(EST_FAILED_PRECONDITION, "only a new iterator can be put at a saved position");
    }
    iterator->started = true;
    status            = restore(iterator, position);
    if (status == EST_OK) return EST_OK;
    status = est_fail_context(status, "restoring the position of a dataset");
    est_error_take(status, &iterator->error);
    return status;
}
