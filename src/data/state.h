/* SPDX-License-Identifier: Apache-2.0
 *
 * Common parts of saved positions: a few counts, as fields 1 to n of the message, and the errors of skipped rows that
 * are not counted yet. */
#ifndef EST_DATA_STATE_H
#define EST_DATA_STATE_H

#include "data/stage.h"

void est_state_put(est_wire_writer *w, const int64_t *counts, int n);

/* Reads the counts of est_state_put; a missing or negative count is an error. */
EST_MUST_CHECK est_status est_state_parse(const est_iter *it, est_str state, int64_t *counts, int n);

/* An error for a count that cannot be: "the saved position of <stage> has <what> <count>". */
est_status est_state_fail(const est_iter *it, const char *what, int64_t count);

/* Reads a number of bad rows. One that cannot be, of a damaged position, is 0: it must not overflow when others are
 * added. */
int64_t est_state_bad_rows(est_wire_reader *r, const est_wire_field *field);

/* An error as field `number` of a message; reads the bytes of such a field back. A status that no failure has is an
 * error. */
void                      est_state_put_error(est_wire_writer *w, uint32_t number, const est_error *error);
EST_MUST_CHECK est_status est_state_parse_error(est_str bytes, est_error *out);

#endif
