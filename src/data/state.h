/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a stage that is a few counts: fields 1 to n of the message in its saved position. */
#ifndef EST_DATA_STATE_H
#define EST_DATA_STATE_H

#include "data/stage.h"

void est_state_put(est_wire_writer *w, const int64_t *counts, int n);

/* Reads what est_state_put wrote; a count that is missing or negative is an error. */
EST_MUST_CHECK est_status est_state_parse(const est_iter *it, est_str state, int64_t *counts, int n);

/* An error for a count that cannot be: "the saved position of <stage> has <what> <count>". */
est_status est_state_fail(const est_iter *it, const char *what, int64_t count);

#endif
