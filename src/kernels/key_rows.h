/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of keys that can be inserted and removed; each key has a row of one or more variables.
 *
 * The rows of n keys are always 0 to n - 1: when one in the middle is removed, the last takes its place. So only the
 * first n rows of the variables are in use, and memory behind them that was never touched is not allocated
 * (base/alloc.h, est_reserve). Three of the variables are the set's own: the keys, the step each was last seen in, and
 * for each the row that was seen before it, -1 for the first: a list in the order in which keys were last seen, whose
 * oldest leaves first. All of the state is in variables, so a checkpoint of them is a checkpoint of the set.
 *
 * The index is open addressing with linear probing, as in kernels/lookup_table.h; it grows with the keys.
 *
 * A change can be undone while it is in an undo log: each function that changes the set appends to the log, if it has
 * one, what the change overwrites. Undone last to first, the set is as it was, row by row and bit by bit; only the
 * index may have grown.
 *
 * Threading: looking up, any thread; all else, one thread at a time. */
#ifndef EST_KERNELS_KEY_ROWS_H
#define EST_KERNELS_KEY_ROWS_H

#include "graph/variable.h"

#define EST_KEY_ROWS_MAX INT32_MAX

/* One change of a set. */
typedef enum est_key_change {
    EST_KEY_SEEN,
    EST_KEY_ADDED,
    EST_KEY_REPLACED,
    EST_KEY_REMOVED,
    EST_KEY_COUNTED,     /* entries of row tables (kernels/row_table.h): a sighting of a candidate, */
    EST_KEY_STEP_STARTED /* and a step */
} est_key_change;

typedef struct est_key_undo {
    est_key_rows  *set;
    int64_t        seen; /* SEEN: the step before */
    int32_t        row, older;
    est_key_change change;
} est_key_undo;

/* Changes in order, and the contents of the rows that they overwrote, one after the other. */
typedef struct est_key_log {
    est_key_undo *entries;
    int64_t       n, max;
    char         *contents;
    size_t        bytes, max_bytes;
} est_key_log;

struct est_key_rows {
    int64_t   n, max;
    est_var **vars; /* [n_vars], the first three its own */
    int       n_vars;
    int64_t  *keys, *seen;    /* memory of vars[0] and vars[1] */
    int32_t  *older, *newer;  /* memory of vars[2], and the list in the other direction; -1: none */
    int32_t   oldest, newest; /* -1: there is no key */
    uint64_t *slots;          /* 0: free; else the upper half of the hash above 1 + row */
    uint64_t  mask;           /* slots are mask + 1, a power of two; NULL slots: none yet */

    est_key_log *log; /* with room for the changes to come; NULL: changes cannot be undone */
};

/* Takes the variables that are its own: int64, int64 and int32 of `max` rows. What it allocates is freed by
 * est_key_rows_clear, the variables are not. */
EST_MUST_CHECK est_status est_key_rows_init(est_key_rows *set, est_var *keys, est_var *seen, est_var *older);
void                      est_key_rows_clear(est_key_rows *set);

/* Gives the keys a row of one more variable, borrowed; the rows there are get their first values. */
EST_MUST_CHECK est_status est_key_rows_add_variable(est_key_rows *set, est_var *var);

/* Makes room in the index for `more` keys. */
EST_MUST_CHECK est_status est_key_rows_reserve(est_key_rows *set, int64_t more);

/* The rows of n keys, -1 for keys without a row. */
void est_key_rows_find(const est_key_rows *set, const int64_t *keys, int64_t n, int64_t *rows);

/* Adds a new key; there must be room, and fewer keys than max. Its rows of all variables get their initial values. */
int32_t est_key_rows_add(est_key_rows *set, int64_t key, int64_t step);

/* Gives the row of a key to another one that is not there, with first values. */
void est_key_rows_replace(est_key_rows *set, int32_t row, int64_t key, int64_t step);

/* Notes that a key was seen. */
void est_key_rows_see(est_key_rows *set, int32_t row, int64_t step);

/* Removes a key. The last row becomes the row `row`. */
void est_key_rows_remove(est_key_rows *set, int32_t row);

/* Bytes of a row in all variables. */
size_t est_key_rows_row_bytes(const est_key_rows *set);

/* Makes room for changes that overwrite `bytes` of rows. */
EST_MUST_CHECK est_status est_key_log_reserve(est_key_log *log, int64_t changes, size_t bytes);
void                      est_key_log_clear(est_key_log *log);

/* Appends an entry; there must be room. */
static inline void est_key_log_append(est_key_log *log, est_key_undo entry)
{
    log->entries[log->n++] = entry;
}

/* Undoes the last change of the log, one of a set, and takes it off. */
void est_key_log_undo(est_key_log *log);

/* Rebuilds the set from the first n rows of its variables after they were restored. EST_DATA_LOSS: they are
 * inconsistent; then, as when out of memory, the set has no keys. */
EST_MUST_CHECK est_status est_key_rows_restore(est_key_rows *set, int64_t n);

/* For keys that were read without when they were seen: as if all were seen in `step`, in the order of the rows. */
void est_key_rows_see_all(est_key_rows *set, int64_t n, int64_t step);

/* Removes all keys. */
void est_key_rows_drop(est_key_rows *set);

/* First values for rows [begin, end) of one variable of the set. */
void est_key_rows_draw(const est_key_rows *set, est_var *var, int64_t begin, int64_t end);

/* A variable as it is saved and read: without rows that no key has. */
static inline est_view est_var_stored(const est_var *var)
{
    est_view view = var->value;

    if (var->rows == NULL || view.shape.rank == 0) return view;
    view.count        = view.shape.dim[0] > 0 ? view.count / view.shape.dim[0] * var->rows->n : 0;
    view.shape.dim[0] = var->rows->n;
    return view;
}

#endif
