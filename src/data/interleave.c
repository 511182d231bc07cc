/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots of an interleave, read by the caller or ahead by threads, and est_dataset_interleave.
 *
 * The state: 1 (repeated, one for each slot) {1 number of the input element, 2 that element, 3 position of the dataset
 * made of it, 4 (repeated) an item read ahead}, 2 the slot that is visited, 3 elements taken at this visit, 4 input
 * elements so far, 5 bad rows, 6 rows that the input left out and that are not counted yet. */
#include "data/interleave.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/thread.h"
#include "data/interleave_items.h"
#include "data/state.h"

#define CYCLE_MAX 65536 /* room for so many is made at once */

/* Read ahead at a time, so that threads need not wait for one another at every element; fewer when that takes long. */
#define BLOCK_ELEMENTS 32
#define BLOCK_NS       200000

enum { STATE_SLOT = 1, STATE_CURRENT, STATE_TAKEN, STATE_INPUTS, STATE_BAD_ROWS, STATE_BELOW };
enum { SLOT_NUMBER = 1, SLOT_INPUT, SLOT_POSITION, SLOT_AHEAD };

struct est_interleave_slot {
    est_interleaved *owner;
    bool             open; /* there is something to take, perhaps */
    bool             busy; /* unordered: a thread reads it */
    /* the input element of the dataset; NULL: the dataset has ended, only elements read ahead are left */
    est_element               *input;
    uint64_t                   number;
    est_iter                  *it;     /* of the dataset */
    int64_t                    below;  /* rows that it left out, not yet in an est_interleave_item */
    bool                       failed; /* stop reading: the error is in an est_interleave_item */
    est_interleave_item_block *held;   /* items of a restored position, to be taken before all others; NULL: none */
    est_parallel              *ahead;  /* its thread; NULL: none */
    est_interleave_item_block *block;  /* of the thread, being handed out */
};

static const est_interleave *own_of(const est_interleaved *it)
{
    return (const est_interleave *)it->base.dataset;
}

static int n_fields(const est_interleaved *it)
{
    return it->base.dataset->n_components;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

/* Counts skipped rows, and takes the element if there is one: *got. */
static est_status item_take(est_interleaved *it, est_interleave_item *from, est_element *out, bool *got)
{
    est_status status = EST_OK;

    *it->base.bad_rows += from->n_below;
    *got = from->filled;
    if (from->filled) est_element_move(out, &from->element, n_fields(it));
    if (from->error != NULL) {
        status = est_error_raise(from->error);
        if (!from->fatal) {
            status = est_iter_bad_row(&it->base, &it->bad_rows, own_of(it)->options.bad_rows_max, status);
        }
    }
    est_interleave_item_clear(n_fields(it), from);
    return status;
}

static void slot_drop_held(est_interleave_slot *slot)
{
    if (slot->held == NULL) return;
    est_interleave_item_block_clear(n_fields(slot->owner), slot->held);
    est_free(slot->held);
    slot->held = NULL;
}

/* Whether reading continues after this error. */
static bool may_leave_out(const est_interleaved *it, est_status status)
{
    return own_of(it)->goes_on && own_of(it)->options.bad_rows_max != 0 &&
           (status == EST_INVALID_ARGUMENT || status == EST_DATA_LOSS);
}

/* Reads the next item of an open slot, its thread aside; EST_OUT_OF_RANGE when there is none. */
static est_status item_read(est_interleave_slot *slot, est_interleave_item *to)
{
    est_interleaved *it = slot->owner;
    est_status       status;

    if (slot->held != NULL) {
        est_interleave_item *from = est_interleave_item_at(n_fields(it), slot->held, slot->held->at++);

        est_interleave_item_move(n_fields(it), to, from);
        if (slot->held->at == slot->held->n) slot_drop_held(slot);
        return EST_OK;
    }
    if (slot->it == NULL || slot->failed) return EST_OUT_OF_RANGE;
    status      = est_iter_next(slot->it, &to->element);
    to->filled  = status == EST_OK;
    to->n_below = slot->below;
    slot->below = 0;
    if (status == EST_OUT_OF_RANGE && to->n_below > 0) return EST_OK; /* rows left out behind the last element */
    if (status == EST_OK || status == EST_OUT_OF_RANGE) return status;
    slot->failed = !may_leave_out(it, status);
    return est_interleave_item_fail(to, status, slot->failed);
}

/* Fills an empty block. EST_OUT_OF_RANGE when there is no further item. */
static est_status block_read(est_interleave_slot *slot, est_interleave_item_block *block)
{
    const est_interleaved *it    = slot->owner;
    int64_t                start = est_now_ns();

    while (block->n < BLOCK_ELEMENTS) {
        est_status status = item_read(slot, est_interleave_item_at(n_fields(it), block, block->n));

        if (status == EST_OUT_OF_RANGE && block->n > 0) break;
        EST_TRY(status);
        block->n++;
        if ((block->n & (block->n - 1)) == 0 && est_now_ns() - start > BLOCK_NS) break; /* asked 6 times at most */
    }
    return EST_OK;
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static est_status slot_pull(void *user, void *job)
{
    est_interleave_slot       *slot  = user;
    est_interleave_item_block *block = job;

    block->slot = (int)(slot - slot->owner->slots);
    return block_read(slot, block);
}

static void slot_clear_job(void *user, void *job)
{
    est_interleave_item_block_clear(n_fields(((est_interleave_slot *)user)->owner), job);
}

static est_status slot_start_thread(est_interleave_slot *slot)
{
    const est_parallel_spec spec = { .name     = "interleave",
                                     .user     = slot,
                                     .workers  = 1,
                                     .job_size = est_interleave_item_block_bytes(n_fields(slot->owner), BLOCK_ELEMENTS),
                                     .pull     = slot_pull,
                                     .clear    = slot_clear_job };

    return est_parallel_create(&spec, &slot->ahead);
}

/* Whether the dataset has the components that were promised. Their names do not matter. */
static est_status check_components(const est_dataset *dataset, const est_dataset *own)
{
    if (dataset->n_components != own->n_components) {
        return est_fail(EST_INVALID_ARGUMENT, "it has %d components, %d were declared", dataset->n_components,
                        own->n_components);
    }
    for (int i = 0; i < own->n_components; i++) {
        const est_component *is = &dataset->components[i], *want = &own->components[i];
        char                 is_text[EST_SHAPE_TEXT_MAX], want_text[EST_SHAPE_TEXT_MAX];
        bool                 fits = is->dtype == want->dtype && is->ragged == want->ragged;

        if (want->shape.rank >= 0) fits = fits && is->shape.rank == want->shape.rank;
        for (int j = 0; fits && j < want->shape.rank; j++) {
            fits = want->shape.dim[j] < 0 || is->shape.dim[j] == want->shape.dim[j];
        }
        if (fits) continue;
        return est_fail(EST_INVALID_ARGUMENT, "component %s is %s%s %s, %s%s %s was declared", want->name,
                        is->ragged ? "ragged " : "", est_dtype_name(is->dtype), est_shape_text(&is->shape, is_text),
                        want->ragged ? "ragged " : "", est_dtype_name(want->dtype),
                        est_shape_text(&want->shape, want_text));
    }
    return EST_OK;
}

/* Opens the dataset that is made of the slot's input element. */
static est_status slot_start(est_interleave_slot *slot)
{
    est_interleaved *it = slot->owner;
    est_dataset     *dataset;
    est_status       status;

    status = est_dataset_finish(own_of(it)->make(it, slot->input), &dataset);
    if (status == EST_OK) {
        status = check_components(dataset, it->base.dataset);
        if (status == EST_OK) {
            uint64_t turn = est_turn_mix(it->base.turn, slot->number);

            status = est_iter_open(dataset, it->base.pass, &slot->below, turn, &slot->it);
        }
        est_dataset_free(dataset);
    }
    return status;
}

/* Takes the next element of the input into an empty slot; EST_OUT_OF_RANGE when there is none. */
static est_status slot_take_input(est_interleave_slot *slot)
{
    est_interleaved *it       = slot->owner;
    int              n_fields = it->base.dataset->input[0]->n_components;
    est_element     *input;
    est_status       status;

    if (it->inputs_ended) return EST_OUT_OF_RANGE;
    input = est_element_new(n_fields);
    if (input == NULL) return est_no_memory();
    status = est_iter_next(it->base.input[0], input);
    if (status != EST_OK) {
        est_element_free(input, n_fields);
        it->inputs_ended = true; /* also after a failure: the input is not read again */
        return status;
    }
    slot->input  = input;
    slot->number = it->n_inputs++;
    slot->open   = true;
    it->n_open++;
    return EST_OK;
}

/* Empties the slot, its thread first. */
static void slot_clear(est_interleave_slot *slot)
{
    if (slot->open) slot->owner->n_open--;
    if (slot->block != NULL) est_parallel_done(slot->ahead, slot->block);
    est_parallel_free(slot->ahead);
    est_iter_close(slot->it);
    slot_drop_held(slot);
    est_element_free(slot->input, slot->owner->base.dataset->input[0]->n_components);
    *slot = (est_interleave_slot){ .owner = slot->owner };
}

/* The next element of a slot that has no thread. */
static est_status slot_next_here(est_interleave_slot *slot, est_element *out, bool *got)
{
    est_interleaved *it     = slot->owner;
    est_status       status = slot->it != NULL ? est_iter_next(slot->it, out) : EST_OUT_OF_RANGE;

    *it->base.bad_rows += slot->below;
    slot->below = 0;
    *got        = status == EST_OK;
    if (!may_leave_out(it, status)) return status;
    return est_iter_bad_row(&it->base, &it->bad_rows, own_of(it)->options.bad_rows_max, status);
}

/* The next element of an open slot; without one (*got) when there was a row to leave out instead. */
static est_status slot_next(est_interleave_slot *slot, est_element *out, bool *got)
{
    est_status status;

    if (slot->held != NULL) {
        status = item_take(slot->owner, est_interleave_item_at(n_fields(slot->owner), slot->held, slot->held->at++),
                           out, got);
        if (slot->held->at == slot->held->n) slot_drop_held(slot);
        return status;
    }
    if (slot->ahead == NULL) return slot_next_here(slot, out, got);
    if (slot->block == NULL) {
        void *job;

        EST_TRY(est_parallel_next(slot->ahead, &job));
        slot->block = job;
    }
    status = item_take(slot->owner, est_interleave_item_at(n_fields(slot->owner), slot->block, slot->block->at++), out,
                       got);
    if (slot->block->at == slot->block->n) {
        est_parallel_done(slot->ahead, slot->block);
        slot->block = NULL;
    }
    return status;
}

/* --- in order ----------------------------------------------------------------------------------------------------- */

static void visit_next(est_interleaved *it)
{
    it->current = (it->current + 1) % own_of(it)->options.cycle;
    it->taken   = 0;
}

/* Fills the slot that is visited; EST_OUT_OF_RANGE when the input has ended. */
static est_status fill_current(est_interleaved *it)
{
    est_interleave_slot *slot = &it->slots[it->current];

    EST_TRY(slot_take_input(slot));
    EST_TRY(slot_start(slot));
    return own_of(it)->options.workers != 0 ? slot_start_thread(slot) : EST_OK;
}

static est_status next_in_order(est_interleaved *it, est_element *out)
{
    for (;;) {
        est_interleave_slot *slot = &it->slots[it->current];
        est_status           status;
        bool                 got;

        if (!slot->open) {
            status = fill_current(it);
            if (status == EST_OK) continue;
            if (status != EST_OUT_OF_RANGE || it->n_open == 0) return status;
            visit_next(it);
            continue;
        }
        status = slot_next(slot, out, &got);
        if (status == EST_OK && !got) continue;
        if (status == EST_OK) {
            if (++it->taken >= own_of(it)->options.block) visit_next(it);
            return EST_OK;
        }
        if (status != EST_OUT_OF_RANGE) return status;
        slot_clear(slot);
        visit_next(it);
    }
}

/* --- whichever is ready ------------------------------------------------------------------------------------------- */

/* Claims a slot that no thread is reading, and fills it if it was empty; waits for one if necessary. EST_OUT_OF_RANGE
 * when nothing is left. The lock is held. */
static est_status claim_slot(est_interleaved *it, est_interleave_slot **out)
{
    int cycle = own_of(it)->options.cycle;

    for (;;) {
        int n_busy = 0;

        for (int i = 0; i < cycle; i++) {
            int                  at   = (it->current + i) % cycle;
            est_interleave_slot *slot = &it->slots[at];

            n_busy += slot->busy;
            if (slot->busy) continue;
            if (!slot->open) {
                est_status status = slot_take_input(slot);

                if (status == EST_OUT_OF_RANGE) continue;
                EST_TRY(status);
                slot->below = it->below;
                it->below   = 0;
            }
            it->current = (at + 1) % cycle;
            slot->busy  = true;
            *out        = slot;
            return EST_OK;
        }
        if (n_busy == 0) return EST_OUT_OF_RANGE;
        pthread_cond_wait(&it->freed, &it->lock); /* a thread that reads a slot does not wait here, so this ends */
    }
}

static est_status unordered_pull(void *user, void *job)
{
    est_interleaved *it = user;
    bool             ended;

    (void)job; /* which slot is decided by the thread that reads it */
    pthread_mutex_lock(&it->lock);
    ended = it->inputs_ended && it->n_open == 0;
    pthread_mutex_unlock(&it->lock);
    return ended ? EST_OUT_OF_RANGE : EST_OK;
}

/* Has an empty block hold the thread's last error. */
static est_status block_fail(const est_interleaved *it, est_interleave_item_block *block, est_status status)
{
    EST_TRY(est_interleave_item_fail(est_interleave_item_at(n_fields(it), block, 0), status, true));
    block->n = 1;
    return EST_OK;
}

/* Reads some elements of one slot into its block. */
static est_status unordered_read(est_interleave_slot *slot, est_interleave_item_block *block)
{
    est_status status = EST_OK;

    block->slot = (int)(slot - slot->owner->slots);
    if (slot->input != NULL && slot->it == NULL && !slot->failed) status = slot_start(slot);
    if (status == EST_OK) return block_read(slot, block);
    slot->failed = true;
    return block_fail(slot->owner, block, status);
}

/* Reads some elements. The block stays empty when nothing is left, or nothing in that slot. */
static est_status unordered_work(void *user, int worker, void *job)
{
    est_interleaved           *it    = user;
    est_interleave_item_block *block = job;
    est_interleave_slot       *slot;
    est_status                 status;

    (void)worker;
    pthread_mutex_lock(&it->lock);
    status = claim_slot(it, &slot);
    pthread_mutex_unlock(&it->lock);
    if (status == EST_OUT_OF_RANGE) return EST_OK;
    if (status != EST_OK) {
        block->slot = 0; /* the input failed: one slot is as good as another */
        return block_fail(it, block, status);
    }
    status = unordered_read(slot, block);
    pthread_mutex_lock(&it->lock);
    slot->busy = false;
    if (status == EST_OUT_OF_RANGE) {
        slot_clear(slot);
        status = EST_OK;
    }
    pthread_cond_broadcast(&it->freed);
    pthread_mutex_unlock(&it->lock);
    return status;
}

static void unordered_clear_job(void *user, void *job)
{
    est_interleave_item_block_clear(n_fields(user), job);
}

static est_status unordered_start(est_interleaved *it)
{
    const est_parallel_spec spec = { .name      = "interleave",
                                     .user      = it,
                                     .workers   = own_of(it)->options.cycle,
                                     .unordered = true,
                                     .job_size  = est_interleave_item_block_bytes(n_fields(it), BLOCK_ELEMENTS),
                                     .pull      = unordered_pull,
                                     .work      = unordered_work,
                                     .clear     = unordered_clear_job };

    EST_TRY(est_lock_init(&it->lock));
    it->has_lock = true;
    EST_TRY(est_cond_init(&it->freed));
    it->has_cond = true;
    return est_parallel_create(&spec, &it->ahead);
}

/* The end: counts the rows that the input skipped after its last element. */
static void count_rest(est_interleaved *it)
{
    pthread_mutex_lock(&it->lock);
    *it->base.bad_rows += it->below;
    it->below = 0;
    pthread_mutex_unlock(&it->lock);
}

static est_status next_ready(est_interleaved *it, est_element *out)
{
    for (;;) {
        est_status status;
        void      *job;

        while (it->block != NULL && it->block->at < it->block->n) {
            bool got;

            EST_TRY(item_take(it, est_interleave_item_at(n_fields(it), it->block, it->block->at++), out, &got));
            if (got) return EST_OK;
        }
        if (it->block != NULL) est_parallel_done(it->ahead, it->block);
        it->block = NULL;
        status    = est_parallel_next(it->ahead, &job);
        if (status == EST_OUT_OF_RANGE) count_rest(it);
        if (status != EST_OK) return status;
        it->block = job;
    }
}

/* --- the iterator ------------------------------------------------------------------------------------------------- */

est_status est_interleaved_open(est_iter *it)
{
    est_interleaved              *own     = (est_interleaved *)it;
    const est_interleave_options *options = &own_of(own)->options;

    own->slots = est_zalloc((size_t)options->cycle * sizeof *own->slots);
    if (own->slots == NULL) return est_no_memory();
    for (int i = 0; i < options->cycle; i++) own->slots[i].owner = own;
    if (options->workers != 0 && options->unordered) {
        it->input_bad_rows = &own->below;
        EST_TRY(unordered_start(own));
    }
    return est_iter_open_input(it, 0, it->turn);
}

est_status est_interleaved_next(est_iter *it, est_element *out)
{
    est_interleaved *own = (est_interleaved *)it;

    return own->ahead != NULL ? next_ready(own, out) : next_in_order(own, out);
}

void est_interleaved_close(est_iter *it)
{
    est_interleaved *own = (est_interleaved *)it;

    if (own->block != NULL) est_parallel_done(own->ahead, own->block);
    est_parallel_free(own->ahead);
    for (int i = 0; own->slots != NULL && i < own_of(own)->options.cycle; i++) slot_clear(&own->slots[i]);
    est_free(own->slots);
    if (own->has_cond) pthread_cond_destroy(&own->freed);
    if (own->has_lock) pthread_mutex_destroy(&own->lock);
}

/* Unordered, the slots are the threads' own unless they are paused. */
static void for_all_threads(est_interleaved *it, void (*fn)(est_parallel *parallel))
{
    if (it->ahead != NULL) {
        fn(it->ahead);
        return;
    }
    for (int i = 0; i < own_of(it)->options.cycle; i++) {
        if (it->slots[i].ahead != NULL) fn(it->slots[i].ahead);
    }
}

void est_interleaved_pause(est_iter *it)
{
    for_all_threads((est_interleaved *)it, est_parallel_pause);
}

void est_interleaved_resume(est_iter *it)
{
    for_all_threads((est_interleaved *)it, est_parallel_resume);
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

typedef struct saving {
    est_interleaved *it;
    int              slot;
    est_wire_writer *w;
} saving;

static est_status save_block(const saving *to, est_interleave_item_block *block)
{
    if (block == NULL || block->slot != to->slot) return EST_OK;
    for (int i = block->at; i < block->n; i++) {
        EST_TRY(est_interleave_item_put(to->w, SLOT_AHEAD, est_interleave_item_at(n_fields(to->it), block, i),
                                        n_fields(to->it)));
    }
    return EST_OK;
}

static est_status save_job(void *arg, void *job, est_status status)
{
    if (status != EST_OK && status != EST_OUT_OF_RANGE) return status;
    return save_block(arg, job);
}

static est_status save_slot(saving *to)
{
    est_interleaved     *it   = to->it;
    est_interleave_slot *slot = &it->slots[to->slot];

    if (slot->input != NULL && slot->it != NULL && !slot->failed) {
        est_wire_put_u64(to->w, SLOT_NUMBER, slot->number);
        est_element_put(to->w, SLOT_INPUT, slot->input, it->base.dataset->input[0]->n_components);
        EST_TRY(est_iter_save(slot->it, to->w, SLOT_POSITION));
    }
    EST_TRY(save_block(to, it->block));
    if (it->ahead != NULL) EST_TRY(est_parallel_each(it->ahead, save_job, to));
    EST_TRY(save_block(to, slot->block));
    if (slot->ahead != NULL) EST_TRY(est_parallel_each(slot->ahead, save_job, to));
    return save_block(to, slot->held);
}

est_status est_interleaved_save(est_iter *it, est_wire_writer *w)
{
    est_interleaved *own = (est_interleaved *)it;
    saving           to  = { .it = own, .w = w };

    for (; to.slot < own_of(own)->options.cycle; to.slot++) {
        size_t     mark   = est_wire_begin(w, STATE_SLOT);
        est_status status = save_slot(&to);

        est_wire_end(w, mark);
        EST_TRY(status);
    }
    est_wire_put_i64(w, STATE_CURRENT, own->current);
    est_wire_put_i64(w, STATE_TAKEN, own->taken);
    est_wire_put_u64(w, STATE_INPUTS, own->n_inputs);
    est_wire_put_i64(w, STATE_BAD_ROWS, own->bad_rows);
    est_wire_put_i64(w, STATE_BELOW, own->below);
    return EST_OK;
}

/* The fields of a slot's message. */
typedef struct saved_slot {
    uint64_t number;
    est_str  input, position; /* data NULL: none */
    int      n_ahead;
} saved_slot;

static est_status parse_slot(est_str bytes, saved_slot *out)
{
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "position of a slot", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case SLOT_NUMBER: out->number = est_wire_u64(&r, &field); break;
        case SLOT_INPUT: out->input = est_wire_bytes(&r, &field); break;
        case SLOT_POSITION: out->position = est_wire_bytes(&r, &field); break;
        case SLOT_AHEAD: out->n_ahead++; break;
        default: break;
        }
    }
    return est_wire_finish(&r);
}

/* What was read ahead. */
static est_status restore_held(est_interleave_slot *slot, est_str bytes, int n)
{
    est_interleaved *it = slot->owner;
    est_wire_reader  r, inner;
    est_wire_field   field;

    slot->held = est_zalloc(est_interleave_item_block_bytes(n_fields(it), n));
    if (slot->held == NULL) return est_no_memory();
    slot->held->slot = (int)(slot - it->slots);
    est_wire_reader_init(&r, "position of a slot", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != SLOT_AHEAD) continue;
        est_wire_message(&r, &field, "what was read ahead", &inner);
        EST_TRY(est_interleave_item_parse(&inner, it->base.pass, it->base.dataset,
                                          est_interleave_item_at(n_fields(it), slot->held, slot->held->n++)));
    }
    return est_wire_finish(&r);
}

static est_status restore_slot(est_interleave_slot *slot, est_str bytes)
{
    est_interleaved   *it    = slot->owner;
    const est_dataset *input = it->base.dataset->input[0];
    saved_slot         saved = { 0 };

    EST_TRY(parse_slot(bytes, &saved));
    if (saved.input.data == NULL && saved.n_ahead == 0) return EST_OK;
    slot->open   = true;
    slot->number = saved.number;
    it->n_open++;
    if (saved.n_ahead > 0) EST_TRY(restore_held(slot, bytes, saved.n_ahead));
    if (saved.input.data == NULL) return EST_OK;
    slot->input = est_element_new(input->n_components);
    if (slot->input == NULL) return est_no_memory();
    EST_TRY(est_element_parse(saved.input, it->base.pass, input, slot->input));
    EST_TRY(slot_start(slot));
    EST_TRY(est_iter_restore(slot->it, saved.position));
    return own_of(it)->options.workers != 0 && it->ahead == NULL ? slot_start_thread(slot) : EST_OK;
}

est_status est_interleaved_restore(est_iter *it, est_str state)
{
    est_interleaved *own   = (est_interleaved *)it;
    int              cycle = own_of(own)->options.cycle, n_slots = 0;
    int64_t          current = 0, taken = 0;
    est_wire_reader  r;
    est_wire_field   field;

    est_wire_reader_init(&r, "position of an interleave", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        est_str slot;

        switch (field.number) {
        case STATE_SLOT:
            slot = est_wire_bytes(&r, &field);
            EST_TRY(est_wire_finish(&r));
            if (n_slots < cycle) EST_TRY(restore_slot(&own->slots[n_slots], slot));
            n_slots++;
            break;
        case STATE_CURRENT: current = est_wire_i64(&r, &field); break;
        case STATE_TAKEN: taken = est_wire_i64(&r, &field); break;
        case STATE_INPUTS: own->n_inputs = est_wire_u64(&r, &field); break;
        case STATE_BAD_ROWS: own->bad_rows = est_state_bad_rows(&r, &field); break;
        case STATE_BELOW: own->below = est_state_bad_rows(&r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    if (n_slots != cycle) {
        return est_fail(EST_INVALID_ARGUMENT, "the position was saved with a cycle of %d, this dataset has %d", n_slots,
                        cycle);
    }
    if (current < 0 || current >= cycle || taken < 0 || taken > INT_MAX - 1) {
        return est_fail(EST_DATA_LOSS, "saved position: slot %" PRId64 ", %" PRId64 " elements taken", current, taken);
    }
    own->current = (int)current;
    own->taken   = (int)taken;
    return EST_OK;
}

/* --- the dataset -------------------------------------------------------------------------------------------------- */

static est_status check_options(const est_interleave_options *options, est_interleave_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_interleave_options), options, out));
    if (out->cycle < 0) return est_fail(EST_INVALID_ARGUMENT, "cycle %d: it is at least 1; 0: 1", out->cycle);
    if (out->block < 0) return est_fail(EST_INVALID_ARGUMENT, "block %d: it is at least 1; 0: 1", out->block);
    if (out->workers < 0 && out->workers != EST_AUTO) {
        return est_fail(EST_INVALID_ARGUMENT, "workers %d: 0 for none, or any other number", out->workers);
    }
    if (out->cycle > CYCLE_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "cycle %d: it is at most %d", out->cycle, CYCLE_MAX);
    }
    if (out->workers != 0 && out->cycle > EST_PARALLEL_WORKERS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "cycle is %d; with workers, which use a thread each, it can be at most "
                        "%d",
                        out->cycle, EST_PARALLEL_WORKERS_MAX);
    }
    if (out->bad_rows_max < 0 && out->bad_rows_max != EST_FOREVER) {
        return est_fail(EST_INVALID_ARGUMENT, "bad_rows_max %" PRId64 ": it is at least 0, or EST_FOREVER",
                        out->bad_rows_max);
    }
    if (out->cycle == 0) out->cycle = 1;
    if (out->block == 0) out->block = 1;
    return EST_OK;
}

void *est_interleave_new(const est_stage *stage, size_t size, est_dataset *input, const est_interleave_options *options,
                         est_interleave_make make)
{
    est_interleave *own = est_dataset_new(stage, size, input, NULL);
    est_status      status;

    if (!est_dataset_sound(&own->base)) return own;
    own->make = make;
    status    = check_options(options, &own->options);

    own->base.varies = status == EST_OK && own->options.unordered && own->options.workers != 0;
    return status == EST_OK ? &own->base : est_dataset_fail(&own->base, status);
}

typedef struct interleave {
    est_interleave    base;
    est_interleave_fn fn;
} interleave;

static est_dataset *interleave_make(est_interleaved *it, const est_element *element)
{
    const interleave *own = (const interleave *)it->base.dataset;

    est_error_clear();
    return own->fn(own->base.options.user, element->field);
}

static const est_stage interleave_stage = { .name = "interleave", EST_INTERLEAVE_FUNCTIONS };

est_dataset *est_dataset_interleave(est_dataset *dataset, est_interleave_fn fn, const est_interleave_options *options)
{
    interleave *own = est_interleave_new(&interleave_stage, sizeof *own, dataset, options, interleave_make);

    if (!est_dataset_sound(&own->base.base)) return &own->base.base;
    own->fn = fn;
    if (fn == NULL) return est_dataset_fail(&own->base.base, est_fail(EST_INVALID_ARGUMENT, "it has no function"));
    if (own->base.options.components.data == NULL) {
        return est_dataset_fail(
            &own->base.base,
            est_fail(EST_INVALID_ARGUMENT, "it cannot know the components of its datasets: set .components"));
    }
    return est_dataset_with(&own->base.base, own->base.options.components.data, own->base.options.components.n);
}
