/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts in saved positions. */
#include "data/state.h"

#include <inttypes.h>

void est_state_put(est_wire_writer *w, const int64_t *counts, int n)
{
    for (int i = 0; i < n; i++) est_wire_put_i64(w, (uint32_t)i + 1, counts[i]);
}

est_status est_state_fail(const est_iter *it, const char *what, int64_t count)
{
    return est_fail(EST_DATA_LOSS, "the saved position of stage %s has %s %" PRId64 ", which cannot be",
                    it->stage->name, what, count);
}

est_status est_state_parse(const est_iter *it, est_str state, int64_t *counts, int n)
{
    est_wire_reader r;
    est_wire_field  field;

    for (int i = 0; i < n; i++) counts[i] = -1;
    est_wire_reader_init(&r, "position of a dataset stage", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        if (field.number >= 1 && field.number <= (uint32_t)n) counts[field.number - 1] = est_wire_i64(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    for (int i = 0; i < n; i++) {
        if (counts[i] < 0) return est_state_fail(it, "a count of", counts[i]);
    }
    return EST_OK;
}
