/* SPDX-License-Identifier: Apache-2.0
 *
 * A row table: which keys a dynamic embedding has rows for, and which are on their way to one.
 *
 * A step of training counts the sightings of its keys, one for each time a key occurs. A key that was seen often enough is
 * admitted: it gets a row. One without is a candidate; there are at most EST_CANDIDATES_MAX, and the one that was not seen
 * for longest makes room. Rows and candidates that were not seen for max_age steps leave before the keys of a step are
 * looked at. When all rows are taken the one that was not seen for longest is given away, but none that the step at hand
 * has used: then the new key stays without.
 *
 * All of it depends on nothing but the keys and their order.
 *
 * A step is tentative until it is committed: what it changes is logged, and a rollback leaves the table, and the rows of all
 * its variables, as they were before. A step that fails, because a worker was lost or for any other reason, is rolled back, and
 * when it is made again it finds what it found the first time.
 *
 * Threading: as for sets of keys (kernels/key_rows.h). */
#ifndef EST_KERNELS_ROW_TABLE_H
#define EST_KERNELS_ROW_TABLE_H

#include "kernels/key_rows.h"

#define EST_CANDIDATES_MAX ((int64_t)1 << 20)

/* "<name of the embedding>/key_dtype" is a variable of no use but that its own dtype says what the keys were made of, int64 or
 * uint8 for strings: a checkpoint of other keys does not fit. Older ones lack it and fit. */
#define EST_KEY_DTYPE_PART "/key_dtype"

typedef struct est_row_table {
    est_key_rows rows;       /* with the embedding and its slots */
    est_key_rows candidates; /* with their sightings */
    int64_t     *sightings;  /* memory of a variable of the candidates */
    int64_t     *steps;      /* memory of a scalar: steps of training so far */
    int64_t      admit_after, max_age;
    est_key_log  log; /* what steps have changed since the last commit */
} est_row_table;

static inline est_row_table *est_row_table_of(const est_var *embedding)
{
    return EST_CONTAINER_OF(embedding->rows, est_row_table, rows);
}

/* One step of training, tentatively: the rows of n keys in order, -1 for those without. Fails only for lack of memory, and then
 * nothing has changed. */
EST_MUST_CHECK est_status est_row_table_train(est_row_table *table, const int64_t *keys, int64_t n, int64_t *rows);

/* Ends the steps since the last commit: keeps what they have changed, or undoes it. A rollback restores the contents of rows that
 * were given away or removed, whatever an update has written there since; an update of a row that its key has kept stays, as that
 * of any other variable does. Nothing happens without a step. */
void est_row_table_commit(est_row_table *table);
void est_row_table_rollback(est_row_table *table);

#endif
