/* SPDX-License-Identifier: Apache-2.0
 *
 * take: the first n elements; skip: all but them. Both count elements. */
#include <inttypes.h>

#include "data/encode.h"
#include "data/state.h"

typedef struct counted {
    est_dataset base;
    int64_t     n; /* INT64_MAX: all */
} counted;

typedef struct counted_iter {
    est_iter base;
    int64_t  seen; /* of the first n */
} counted_iter;

static est_status counted_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((counted_iter *)it)->seen, 1);
    return EST_OK;
}

static est_status counted_restore(est_iter *it, est_str state)
{
    return est_state_parse(it, state, &((counted_iter *)it)->seen, 1);
}

static est_status counted_encode(const est_dataset *dataset, est_wire_writer *w)
{
    est_state_put(w, &((const counted *)dataset)->n, 1);
    return EST_OK;
}

static est_dataset *counted_create(const est_stage *stage, est_dataset *dataset, int64_t n)
{
    counted *own = est_dataset_new(stage, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (n < 0) {
        return est_dataset_fail(&own->base,
                                est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " elements; expected 0 or more", n));
    }
    own->n = n;
    return est_dataset_like(&own->base, dataset);
}

/* --- take --------------------------------------------------------------------------------------------------------- */

static est_status take_next(est_iter *it, est_element *out)
{
    counted_iter  *iter = (counted_iter *)it;
    const counted *own  = (const counted *)it->dataset;

    if (iter->seen >= own->n) return EST_OUT_OF_RANGE;
    EST_TRY(est_iter_next(it->input[0], out));
    iter->seen++;
    return EST_OK;
}

static est_dataset *take_decode(const est_encoded *from)
{
    return est_dataset_take(from->input[0], from->number[0] == INT64_MAX ? EST_FOREVER : from->number[0]);
}

const est_stage est_stage_take = {
    .name      = "take",
    .n_inputs  = 1,
    .iter_size = sizeof(counted_iter),
    .next      = take_next,
    .save      = counted_save,
    .restore   = counted_restore,
    .passes    = true,
    .counts    = true,
    .encode    = counted_encode,
    .decode    = take_decode,
};

est_dataset *est_dataset_take(est_dataset *dataset, int64_t n)
{
    est_dataset *taken = counted_create(&est_stage_take, dataset, n == EST_FOREVER ? INT64_MAX : n);

    if (est_dataset_sound(taken) && n != EST_FOREVER) taken->endless = false;
    return taken;
}

/* --- skip --------------------------------------------------------------------------------------------------------- */

static est_status skip_next(est_iter *it, est_element *out)
{
    counted_iter  *iter = (counted_iter *)it;
    const counted *own  = (const counted *)it->dataset;

    while (iter->seen < own->n) {
        EST_TRY(est_iter_next(it->input[0], out));
        est_element_clear(out->field, own->base.n_components);
        iter->seen++;
    }
    return est_iter_next(it->input[0], out);
}

static est_dataset *skip_decode(const est_encoded *from)
{
    return est_dataset_skip(from->input[0], from->number[0]);
}

const est_stage est_stage_skip = {
    .name      = "skip",
    .n_inputs  = 1,
    .iter_size = sizeof(counted_iter),
    .next      = skip_next,
    .save      = counted_save,
    .restore   = counted_restore,
    .passes    = true,
    .counts    = true,
    .encode    = counted_encode,
    .decode    = skip_decode,
};

est_dataset *est_dataset_skip(est_dataset *dataset, int64_t n)
{
    return counted_create(&est_stage_skip, dataset, n);
}
