/* SPDX-License-Identifier: Apache-2.0
 *
 * A row table: the keys that have rows of a dynamic embedding, and the candidates for admission.
 *
 * A training step counts the occurrences of its keys. A key that was seen often enough is admitted: it gets a row. A
 * key without a row is a candidate; there are at most EST_CANDIDATES_MAX, and the least recently seen one is evicted.
 * Rows and candidates that were not seen for max_age steps are removed before the keys of a step are processed. When
 * all rows are in use, the least recently seen one is evicted, but none that the current step has used: then the new
 * key stays without a row.
 *
 * The result depends only on the keys and their order.
 *
 * A step is tentative until it is committed: what it changes is logged, and a rollback leaves the table, and the rows
 * of all its variables, as they were before. A step that fails, because a worker was lost or for any other reason, is
 * rolled back, and when it is made again it finds what it found the first time.
 *
 * Threading: as for sets of keys (kernels/key_rows.h). */
#ifndef EST_KERNELS_ROW_TABLE_H
#define EST_KERNELS_ROW_TABLE_H

#include "kernels/key_rows.h"

#define EST_CANDIDATES_MAX ((int64_t)1 << 20)

/* "<name of the embedding>/key_dtype" is a variable of no use but that its own dtype says what the keys were made of,
 * int64 or uint8 for strings: a checkpoint of other keys does not fit. Older ones lack it and fit. */
#define EST_KEY_DTYPE_PART "/key_dtype"

typedef struct est_row_table {
    est_key_rows rows;       /* with the embedding and its slots */
    est_key_rows candidates; /* with their sightings */
    int64_t     *sightings;  /* memory of a variable of the candidates */
    int64_t     *steps;      /* memory of a scalar: steps of training so far */
    int64_t      admit_after, max_age;
    est_key_log  log; /* changes of steps since the last commit */
} est_row_table;

static inline est_row_table *est_row_table_of(const est_var *embedding)
{
    return EST_CONTAINER_OF(embedding->rows, est_row_table, rows);
}

/* One step of training, tentatively: the rows of n keys in order, -1 for those without. Fails only for lack of memory,
 * and then nothing has changed. */
EST_MUST_CHECK est_status est_row_table_train(est_row_table *table, const int64_t *keys, int64_t n, int64_t *rows);

/* Ends the steps since the last commit: keeps their changes, or undoes them. A rollback restores the contents of
 * evicted or removed rows, even if an update has overwritten them; updates of rows whose key stayed are not undone, as
 * those of any other variable. Does nothing without a step. */
void est_row_table_commit(est_row_table *table);
void est_row_table_rollback(est_row_table *table);

/* Removes all keys and candidates: the table is as it was made. */
void est_row_table_clear(est_row_table *table);

#endif
