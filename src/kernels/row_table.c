/* SPDX-License-Identifier: Apache-2.0
 *
 * The changes that a training step makes for its keys: aging, counting, admission, eviction. */
#include "kernels/row_table.h"

#include "kernels/copy_on_write.h"

#define BATCH 32 /* keys looked up at a time: waits for memory overlap */

static bool is_aged(const est_row_table *t, const est_key_rows *set, int32_t row, int64_t step)
{
    return t->max_age > 0 && step - set->seen[row] > t->max_age;
}

/* Removes rows that were not seen for too long; no row number is in use yet, so rows may move. */
static void drop_aged(const est_row_table *t, est_key_rows *set)
{
    while (set->n > 0 && is_aged(t, set, set->oldest, *t->steps)) est_key_rows_remove(set, set->oldest);
}

/* Whether a key without a row has been seen often enough; if so, removes it from the candidates. */
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
    est_key_log_append(&t->log, (est_key_undo){ .row = (int32_t)row, .change = EST_KEY_COUNTED });
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

/* The most that the keys of a step can change. */
typedef struct room {
    int64_t changes;
    size_t  bytes; /* of rows that are overwritten */
} room;

/* Adds the rows that age out, and those that n keys evict when there is no room for all of them. */
static void add_room(const est_row_table *t, const est_key_rows *set, int64_t n, room *r)
{
    int64_t aged = 0, taken = set->n + n - set->max;

    for (int32_t row = set->oldest; row >= 0 && is_aged(t, set, row, *t->steps + 1); row = set->newer[row]) aged++;
    taken = taken < 0 ? 0 : taken > n ? n : taken;
    r->changes += aged;
    r->bytes += (size_t)(aged + taken) * est_key_rows_row_bytes(set);
}

/* Each key is seen, added or given the row of another. As a candidate before that it is also counted, and may leave. */
static est_status reserve(est_row_table *t, int64_t n)
{
    int64_t candidates = t->admit_after > 1 ? n : 0;
    room    r          = { .changes = 1 + n + 3 * candidates,
                           .bytes   = (size_t)candidates * est_key_rows_row_bytes(&t->candidates) };

    EST_TRY(est_key_rows_reserve(&t->rows, n));
    EST_TRY(est_key_rows_reserve(&t->candidates, candidates));
    add_room(t, &t->rows, n, &r);
    add_room(t, &t->candidates, candidates, &r);
    return est_key_log_reserve(&t->log, r.changes, r.bytes);
}

static void log_changes(est_row_table *t, est_key_log *log)
{
    t->rows.log       = log;
    t->candidates.log = log;
}

est_status est_row_table_train(est_row_table *table, const int64_t *keys, int64_t n, int64_t *rows)
{
    est_key_rows *set = &table->rows;

    EST_TRY(reserve(table, n));
    log_changes(table, &table->log);
    est_key_log_append(&table->log, (est_key_undo){ .change = EST_KEY_STEP_STARTED });
    ++*table->steps;
    drop_aged(table, set);
    drop_aged(table, &table->candidates);
    for (int64_t i = 0; i < n; i += BATCH) {
        int64_t m = n - i < BATCH ? n - i : BATCH;

        est_key_rows_find(set, keys + i, m, rows + i);
        for (int64_t k = i; k < i + m; k++) rows[k] = see(table, keys[k], rows[k]);
    }
    log_changes(table, NULL);
    return EST_OK;
}

void est_row_table_commit(est_row_table *table)
{
    table->log.n     = 0;
    table->log.bytes = 0;
}

void est_row_table_rollback(est_row_table *table)
{
    while (table->log.n > 0) {
        const est_key_undo *last = &table->log.entries[table->log.n - 1];

        *table->steps -= last->change == EST_KEY_STEP_STARTED;
        if (last->change == EST_KEY_COUNTED) {
            est_cow_keep_rows(table->candidates.vars[3], last->row, 1);
            table->sightings[last->row]--;
        }
        est_key_log_undo(&table->log);
    }
}

void est_row_table_clear(est_row_table *table)
{
    est_row_table_rollback(table);
    est_key_rows_drop(&table->rows);
    est_key_rows_drop(&table->candidates);
    *table->steps = 0;
}
