/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of ragged rows (kernels/ragged.h). Splits are checked in one vector loop before a row is looked at. */
#include "kernels/ragged.h"

#include <inttypes.h>

est_status est_infer_ragged(const est_infer *c, int values, int splits, int64_t *rows)
{
    int64_t n;

    EST_TRY(est_infer_rank(c, values, 1));
    EST_TRY(est_infer_rank(c, splits, 1));
    n = est_infer_dim(&c->in[splits], 0);
    if (n == 0) return est_fail(EST_INVALID_ARGUMENT, "splits are [rows + 1]: there is at least one");
    *rows = n < 0 ? -1 : n - 1;
    return EST_OK;
}

est_status est_splits_wrong(int64_t row, int64_t from, int64_t to, int64_t n_values)
{
    switch (row) {
    case EST_SPLITS_START: return est_fail(EST_INVALID_ARGUMENT, "the rows start at %" PRId64 " instead of 0", from);
    case EST_SPLITS_END:
        return est_fail(EST_INVALID_ARGUMENT, "the rows end at %" PRId64 ", with %" PRId64 " values in all", from,
                        n_values);
    default:
        return est_fail(EST_INVALID_ARGUMENT,
                        "row %" PRId64 " goes from %" PRId64 " to %" PRId64 ", with %" PRId64 " values in all", row,
                        from, to, n_values);
    }
}

est_status est_splits_check(const est_view *splits, int64_t n_values)
{
    const int64_t *split = splits->data;
    int64_t        rows  = splits->count - 1;
    int            bad   = 0;

    if (rows < 0) return est_fail(EST_INVALID_ARGUMENT, "splits are [rows + 1]: there is at least one");
    for (int64_t r = 0; r < rows; r++) bad |= split[r + 1] < split[r];
    if (bad == 0 && split[0] == 0 && split[rows] == n_values) return EST_OK;
    if (split[0] != 0) return est_splits_wrong(EST_SPLITS_START, split[0], 0, n_values);
    for (int64_t r = 0; r < rows; r++) {
        if (split[r + 1] >= split[r] && split[r + 1] <= n_values) continue;
        return est_splits_wrong(r, split[r], split[r + 1], n_values);
    }
    return est_splits_wrong(EST_SPLITS_END, split[rows], 0, n_values);
}
