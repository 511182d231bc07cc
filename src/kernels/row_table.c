/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step of training does with its keys. */
#include "kernels/row_table.h"

#include "kernels/copy_on_write.h"

#define BATCH 32 /* keys looked up at a time: waits for memory overlap */

/* Rows that were not seen for too long leave; none is handed out yet, so they may move. */
static void drop_aged(const est_row_table *t, est_key_rows *set)
{
    while (t->max_age > 0 && set->n > 0 && *t->steps - set->seen[set->oldest] > t->max_age) {
        est_key_rows_remove(set, set->oldest);
    }
}

/* Whether a key without a row has now been seen often enough; if so it is no candidate any more. */
static bool is_due(est_row_table *t, int64_t key)
{
    est_key_rows *set = &t->candidates;
    int64_t       row;

    if (t->admit_after <= 1) return true;
    est_key_rows_find(set, &key, 1, &row);
    if (row >= 0) {
        est_key_rows_see(set, (int32_t)row, *t->steps);
    } else if (set->n < set->max) {
        row = est_key_rows_add(set, key, *t->steps);
    } else {
        row = set->oldest;
        est_key_rows_replace(set, (int32_t)row, key, *t->steps);
    }
    est_cow_keep_rows(t->candidates.vars[3], row, 1);
    if (++t->sightings[row] < t->admit_after) return false;
    est_key_rows_remove(set, (int32_t)row);
    return true;
}

static int64_t admit(est_key_rows *set, int64_t key, int64_t step)
{
    int32_t row = set->oldest;

    if (set->n < set->max) return est_key_rows_add(set, key, step);
    if (set->seen[row] == step) return -1; /* all are in use */
    est_key_rows_replace(set, row, key, step);
    return row;
}

/* The row of a key that was in `row`, or in none, a few keys ago. */
static int64_t see(est_row_table *t, int64_t key, int64_t row)
{
    est_key_rows *set = &t->rows;

    if (row < 0 || set->keys[row] != key) est_key_rows_find(set, &key, 1, &row);
    if (row < 0) return is_due(t, key) ? admit(set, key, *t->steps) : -1;
    est_key_rows_see(set, (int32_t)row, *t->steps);
    return row;
}

est_status est_row_table_train(est_row_table *table, const int64_t *keys, int64_t n, int64_t *rows)
{
    est_key_rows *set = &table->rows;

    EST_TRY(est_key_rows_reserve(set, n));
    if (table->admit_after > 1) EST_TRY(est_key_rows_reserve(&table->candidates, n));
    ++*table->steps;
    drop_aged(table, set);
    drop_aged(table, &table->candidates);
    for (int64_t i = 0; i < n; i += BATCH) {
        int64_t m = n - i < BATCH ? n - i : BATCH;

        est_key_rows_find(set, keys + i, m, rows + i);
        for (int64_t k = i; k < i + m; k++) rows[k] = see(table, keys[k], rows[k]);
    }
    return EST_OK;
}
