/* SPDX-License-Identifier: Apache-2.0
 *
 * repeat: opens the input again for every pass, each with its own turn. */
#include <inttypes.h>

#include "data/encode.h"
#include "data/state.h"

typedef struct repeat {
    est_dataset base;
    int64_t     n; /* EST_FOREVER */
} repeat;

typedef struct repeat_iter {
    est_iter base;
    int64_t  pass;  /* the one that the input is in */
    bool     found; /* an element in this pass */
} repeat_iter;

static est_status repeat_open_pass(repeat_iter *iter, int64_t pass)
{
    EST_TRY(est_iter_open_input(&iter->base, 0, est_turn_mix(iter->base.turn, (uint64_t)pass)));
    iter->pass  = pass;
    iter->found = false;
    return EST_OK;
}

static est_status repeat_open(est_iter *it)
{
    return ((const repeat *)it->dataset)->n == 0 ? EST_OK : repeat_open_pass((repeat_iter *)it, 0);
}

static est_status repeat_next(est_iter *it, est_element *out)
{
    repeat_iter  *iter = (repeat_iter *)it;
    const repeat *own  = (const repeat *)it->dataset;

    if (own->n == 0) return EST_OUT_OF_RANGE;
    for (;;) {
        est_status status = est_iter_next(it->input[0], out);

        if (status == EST_OK) iter->found = true;
        if (status != EST_OUT_OF_RANGE) return status;
        if (!iter->found) return EST_OUT_OF_RANGE; /* nothing, however often: else it would look forever */
        if (iter->pass + 1 == own->n) return EST_OUT_OF_RANGE;
        EST_TRY(repeat_open_pass(iter, iter->pass + 1));
    }
}

static est_status repeat_save(est_iter *it, est_wire_writer *w)
{
    const repeat_iter *iter = (const repeat_iter *)it;

    est_state_put(w, (const int64_t[]){ iter->pass, iter->found }, 2);
    return EST_OK;
}

static est_status repeat_restore(est_iter *it, est_str state)
{
    repeat_iter  *iter = (repeat_iter *)it;
    const repeat *own  = (const repeat *)it->dataset;
    int64_t       counts[2];

    EST_TRY(est_state_parse(it, state, counts, 2));
    if (own->n != EST_FOREVER && counts[0] > 0 && counts[0] >= own->n) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "it was saved in pass %" PRId64 ", and the dataset repeats %" PRId64 " times", counts[0],
                        own->n);
    }
    if (counts[0] > 0) EST_TRY(repeat_open_pass(iter, counts[0]));
    iter->found = counts[1] != 0;
    return EST_OK;
}

static est_status repeat_encode(const est_dataset *dataset, est_wire_writer *w)
{
    est_state_put(w, &((const repeat *)dataset)->n, 1);
    return EST_OK;
}

static est_dataset *repeat_decode(const est_encoded *from)
{
    return est_dataset_repeat(from->input[0], from->number[0]);
}

const est_stage est_stage_repeat = {
    .name      = "repeat",
    .n_inputs  = 1,
    .iter_size = sizeof(repeat_iter),
    .open      = repeat_open,
    .next      = repeat_next,
    .save      = repeat_save,
    .restore   = repeat_restore,
    .passes    = true,
    .reorders  = true,
    .encode    = repeat_encode,
    .decode    = repeat_decode,
};

est_dataset *est_dataset_repeat(est_dataset *dataset, int64_t n)
{
    repeat *own = est_dataset_new(&est_stage_repeat, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (n < 0 && n != EST_FOREVER) {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT,
                                                     "%" PRId64 " times; the number is 0 or more, or EST_FOREVER", n));
    }
    own->n            = n;
    own->base.endless = n == EST_FOREVER || (n > 0 && dataset->endless);
    return est_dataset_like(&own->base, dataset);
}
