/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts and errors in saved positions. */
#include "data/state.h"

#include <inttypes.h>
#include <stdio.h>

#define BAD_ROWS_MAX ((int64_t)1 << 40)

enum { ERROR_STATUS = 1, ERROR_MESSAGE };

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

int64_t est_state_bad_rows(est_wire_reader *r, const est_wire_field *field)
{
    int64_t n = est_wire_i64(r, field);

    return n >= 0 && n <= BAD_ROWS_MAX ? n : 0;
}

void est_state_put_error(est_wire_writer *w, uint32_t number, const est_error *error)
{
    size_t mark = est_wire_begin(w, number);

    est_wire_put_i64(w, ERROR_STATUS, error->status);
    est_wire_put_string(w, ERROR_MESSAGE, error->message);
    est_wire_end(w, mark);
}

est_status est_state_parse_error(est_str bytes, est_error *out)
{
    est_wire_reader r;
    est_wire_field  field;
    int64_t         status = 0;
    est_str         text   = { "", 0 };

    est_wire_reader_init(&r, "error in a position", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == ERROR_STATUS) status = est_wire_i64(&r, &field);
        if (field.number == ERROR_MESSAGE) text = est_wire_bytes(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    if (status < EST_CANCELLED || status > EST_UNAUTHENTICATED || status == EST_OUT_OF_RANGE) {
        return est_fail(EST_DATA_LOSS, "saved position: an error with the status %" PRId64, status);
    }
    *out = (est_error){ .status = (est_status)status };
    snprintf(out->message, sizeof out->message, "%.*s",
             (int)(text.size < sizeof out->message ? text.size : sizeof out->message), text.data);
    return EST_OK;
}
