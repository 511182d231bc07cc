/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle: a random one of the elements held, `buffer` of them as long as the input lasts.
 *
 * Draw i of a pass is word pair i of the random stream (seed, turn), so that a position needs only the number of draws.
 * Two draws share a block of four words. */
#include <inttypes.h>

#include "base/random.h"
#include "data/element_list.h"
#include "data/encode.h"
#include "data/state.h"

enum { STATE_SEED = 1, STATE_DRAWS, STATE_ELEMENT };

typedef struct shuffle {
    est_dataset base;
    int64_t     buffer;
    uint64_t    seed;
    bool        once;  /* the same order in every turn */
    bool        drawn; /* the seed, by this library */
} shuffle;

typedef struct shuffle_iter {
    est_iter         base;
    est_element_list held;
    uint64_t         seed;
    uint64_t         stream;
    uint64_t         draws;
    uint32_t         block[4]; /* of the last draw */
} shuffle_iter;

static est_status shuffle_open(est_iter *it)
{
    shuffle_iter  *iter = (shuffle_iter *)it;
    const shuffle *own  = (const shuffle *)it->dataset;

    est_element_list_init(&iter->held, it->dataset->n_components);
    iter->seed   = own->seed;
    iter->stream = own->once ? 0 : it->turn;
    return est_iter_open_input(it, 0, it->turn);
}

static void shuffle_close(est_iter *it)
{
    est_element_list_clear(&((shuffle_iter *)it)->held);
}

/* A number below n. The upper half of a 64-bit number times n favours none by more than n / 2^64. */
static int64_t draw_below(shuffle_iter *iter, int64_t n)
{
    int      half = (int)(iter->draws & 1);
    uint64_t random;

    if (half == 0) est_random_block(iter->seed, iter->stream, iter->draws / 2, iter->block);
    iter->draws++;
    random = (uint64_t)iter->block[2 * half + 1] << 32 | iter->block[2 * half];
    return (int64_t)((unsigned __int128)random * (uint64_t)n >> 64);
}

static est_status shuffle_next(est_iter *it, est_element *out)
{
    shuffle_iter  *iter = (shuffle_iter *)it;
    const shuffle *own  = (const shuffle *)it->dataset;

    while (iter->held.n < own->buffer) {
        est_status status = est_element_list_pull(&iter->held, it->input[0]);

        if (status == EST_OUT_OF_RANGE) break;
        if (status != EST_OK) return status;
    }
    if (iter->held.n == 0) return EST_OUT_OF_RANGE;
    est_element_list_take(&iter->held, draw_below(iter, iter->held.n), out);
    return EST_OK;
}

static est_status shuffle_save(est_iter *it, est_wire_writer *w)
{
    const shuffle_iter *iter = (const shuffle_iter *)it;

    est_wire_put_fixed64(w, STATE_SEED, iter->seed);
    est_wire_put_u64(w, STATE_DRAWS, iter->draws);
    for (int64_t i = 0; i < iter->held.n; i++) {
        est_element_put(w, STATE_ELEMENT, est_element_list_at(&iter->held, i), it->dataset->n_components);
    }
    return EST_OK;
}

static est_status restore_element(shuffle_iter *iter, est_str bytes)
{
    est_element *element = est_element_list_room(&iter->held);

    if (element == NULL) return EST_RESOURCE_EXHAUSTED;
    EST_TRY(est_element_parse(bytes, iter->base.pass, iter->base.dataset, element));
    est_element_list_push(&iter->held);
    return EST_OK;
}

static est_status shuffle_restore(est_iter *it, est_str state)
{
    shuffle_iter   *iter = (shuffle_iter *)it;
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "position of shuffle", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case STATE_SEED: iter->seed = est_wire_fixed64(&r, &field); break;
        case STATE_DRAWS: iter->draws = est_wire_u64(&r, &field); break;
        case STATE_ELEMENT: {
            est_str bytes = est_wire_bytes(&r, &field);

            EST_TRY(est_wire_finish(&r));
            EST_TRY(restore_element(iter, bytes));
            break;
        }
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    est_random_block(iter->seed, iter->stream, iter->draws / 2, iter->block);
    return EST_OK;
}

static est_status shuffle_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const shuffle *own = (const shuffle *)dataset;

    est_state_put(w, (const int64_t[]){ own->buffer, (int64_t)own->seed, own->once, own->drawn }, 4);
    return EST_OK;
}

static est_dataset *shuffle_create(est_dataset *dataset, int64_t buffer, uint64_t seed, bool once);

/* All that decode the same bytes for the same reader have the same order: only readers vary. */
static est_dataset *shuffle_decode(const est_encoded *from)
{
    uint64_t     seed  = (uint64_t)from->number[1];
    bool         drawn = from->number[3] != 0, varies = drawn && from->reader != 0;
    est_dataset *dataset;

    if (seed == 0) return est_encoded_fail(from, est_fail(EST_DATA_LOSS, "a shuffle without a seed"));
    if (varies) seed = est_turn_mix(seed, from->reader);
    dataset = shuffle_create(from->input[0], from->number[0], seed, from->number[2] != 0);
    if (!est_dataset_sound(dataset)) return dataset;
    ((shuffle *)dataset)->drawn = drawn;
    dataset->varies             = varies;
    return dataset;
}

const est_stage est_stage_shuffle = {
    .name      = "shuffle",
    .n_inputs  = 1,
    .iter_size = sizeof(shuffle_iter),
    .open      = shuffle_open,
    .next      = shuffle_next,
    .close     = shuffle_close,
    .save      = shuffle_save,
    .restore   = shuffle_restore,
    .passes    = true,
    .reorders  = true,
    .encode    = shuffle_encode,
    .decode    = shuffle_decode,
};

static est_dataset *shuffle_create(est_dataset *dataset, int64_t buffer, uint64_t seed, bool once)
{
    shuffle *own = est_dataset_new(&est_stage_shuffle, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (buffer < 1) {
        return est_dataset_fail(
            &own->base,
            est_fail(EST_INVALID_ARGUMENT, "a buffer of %" PRId64 " elements; it holds at least one", buffer));
    }
    own->buffer = buffer;
    own->seed   = seed != 0 ? seed : est_seed_draw();
    own->once   = once;
    own->drawn = own->base.varies = seed == 0;
    return est_dataset_like(&own->base, dataset);
}

est_dataset *est_dataset_shuffle(est_dataset *dataset, int64_t buffer, uint64_t seed)
{
    return shuffle_create(dataset, buffer, seed, false);
}

est_dataset *est_dataset_shuffle_once(est_dataset *dataset, int64_t buffer, uint64_t seed)
{
    return shuffle_create(dataset, buffer, seed, true);
}
