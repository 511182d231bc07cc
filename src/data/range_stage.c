/* SPDX-License-Identifier: Apache-2.0
 *
 * range: equally spaced int64 numbers. */
#include <inttypes.h>

#include "data/encode.h"
#include "data/state.h"

typedef struct range {
    est_dataset base;
    int64_t     start, stop, step, count;
} range;

typedef struct range_iter {
    est_iter base;
    int64_t  i;
} range_iter;

static est_status range_next(est_iter *it, est_element *out)
{
    const range *own  = (const range *)it->dataset;
    range_iter  *iter = (range_iter *)it;
    int64_t      value;

    if (iter->i == own->count) return EST_OUT_OF_RANGE;
    value = own->start + iter->i * own->step;
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &value, &out->field[0].values));
    out->origin = (est_origin){ 0 };
    iter->i++;
    return EST_OK;
}

static est_status range_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((range_iter *)it)->i, 1);
    return EST_OK;
}

static est_status range_restore(est_iter *it, est_str state)
{
    const range *own = (const range *)it->dataset;
    int64_t      i;

    EST_TRY(est_state_parse(it, state, &i, 1));
    if (i > own->count) {
        return est_fail(EST_INVALID_ARGUMENT, "element %" PRId64 " of a range of %" PRId64, i, own->count);
    }
    ((range_iter *)it)->i = i;
    return EST_OK;
}

static est_status range_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const range *own = (const range *)dataset;

    est_state_put(w, (const int64_t[]){ own->start, own->stop, own->step }, 3);
    return EST_OK;
}

static est_dataset *range_decode(const est_encoded *from)
{
    return est_dataset_range(from->number[0], from->number[1], from->number[2]);
}

const est_stage est_stage_range = {
    .name      = "range",
    .iter_size = sizeof(range_iter),
    .next      = range_next,
    .save      = range_save,
    .restore   = range_restore,
    .encode    = range_encode,
    .decode    = range_decode,
};

/* How many numbers there are; false: more than an int64 counts, or no step. */
static bool range_count(const range *own, int64_t *out)
{
    int64_t span;

    if (own->step == 0 || own->step == INT64_MIN) return false;
    if (__builtin_sub_overflow(own->stop, own->start, &span) || span == INT64_MIN) return false;
    if ((span > 0) != (own->step > 0) || span == 0) {
        *out = 0;
    } else {
        *out = (span > 0 ? (span - 1) / own->step : (-span - 1) / -own->step) + 1;
    }
    return true;
}

est_dataset *est_dataset_range(int64_t start, int64_t stop, int64_t step)
{
    range *own = est_dataset_new(&est_stage_range, sizeof *own, NULL, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    own->start = start;
    own->stop  = stop;
    own->step  = step;
    if (!range_count(own, &own->count)) {
        return est_dataset_fail(&own->base,
                                est_fail(EST_INVALID_ARGUMENT,
                                         "from %" PRId64 " to %" PRId64 " in steps of %" PRId64 " is not a range",
                                         start, stop, step));
    }
    return est_dataset_with(&own->base, &(est_component){ .name = "value", .dtype = EST_I64 }, 1);
}
