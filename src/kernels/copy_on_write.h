/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy-on-write snapshots of variables: one thread reads the values of one moment while others continue to change them;
 * memory is needed only for lines that change before they are read.
 *
 * A snapshot begins without copying anything but variables on other devices, which are copied whole. Its reader goes
 * through the variables once, from the first byte of the first to the last of the last. A writer announces a change
 * first with one of the est_cow_keep functions: lines of EST_COW_LINE bytes that the reader has not passed, and that
 * are not kept yet, are copied to a buffer, where the reader finds them. The buffer is a tenth of the variables,
 * EST_COW_BUFFER at least. When it is full, a writer waits until the reader has passed its line or freed another; the
 * reader never waits, so the wait ends.
 *
 * est_plan_run announces variables that an op changes as a whole; ops that are by_rows (graph/op.h) announce their
 * rows, and so does whatever changes a variable without a plan. Rows that wait (kernels/lazy_rows.h) may be drawn at
 * any time: that is no change.
 *
 * Threading: beginning, keeping and est_cow_leave belong to the thread that the variables belong to, or to those that
 * it has lent them to, one at a time for each variable; reading, one thread at a time; the rest, any thread. */
#ifndef EST_KERNELS_COPY_ON_WRITE_H
#define EST_KERNELS_COPY_ON_WRITE_H

#include "graph/variable.h"

#define EST_COW_LINE   64                 /* bytes that are kept together */
#define EST_COW_CHUNK  ((size_t)64 << 10) /* bytes read under the lock, while writers wait */
#define EST_COW_BUFFER ((size_t)16 << 20) /* bytes of the smallest buffer */

typedef struct est_cow est_cow;

/* Begins a snapshot of the current values of n initialized variables (est_var_stored). */
EST_MUST_CHECK est_status est_cow_begin(est_var *const *vars, int n, est_cow **out);

/* Bytes [first, first + n) of variable i as they were. `first` is a multiple of EST_COW_CHUNK, n is that or what is
 * left of the variable. i and first rise from call to call. EST_ABORTED: the snapshot has ended. */
EST_MUST_CHECK est_status est_cow_read(est_cow *cow, int i, size_t first, size_t n, void *out);

/* Ends a snapshot at any time: it cannot be read any more, and no writer waits for it. */
void est_cow_end(est_cow *cow);

void est_cow_free(est_cow *cow); /* also ends it; NULL is fine */

/* For how long changes have waited for the reader, and for how many bytes of changed lines there is room. */
int64_t est_cow_paused_ns(est_cow *cow);
size_t  est_cow_buffer_bytes(const est_cow *cow);

/* The variable is about to be freed: ends the snapshots that include it. */
void est_cow_leave(est_var *var);

/* --- before a change ---------------------------------------------------------------------------------------------- */

void est_cow_keep_bytes(est_var *var, size_t from, size_t to);
void est_cow_keep_named(est_var *var, const est_view *indices);

/* All of it is about to change, or rows [first, first + n), or those that are named: int32 or int64, below 0: none. */
static inline void est_cow_keep_all(est_var *var)
{
    if (var->cow != NULL) est_cow_keep_bytes(var, 0, SIZE_MAX);
}

static inline void est_cow_keep_rows(est_var *var, int64_t first, int64_t n)
{
    size_t row;

    if (var->cow == NULL || var->value.shape.rank == 0 || var->value.shape.dim[0] == 0) return;
    row = (size_t)(var->value.count / var->value.shape.dim[0]) * est_dtype_size(var->value.dtype);
    est_cow_keep_bytes(var, (size_t)first * row, (size_t)(first + n) * row);
}

static inline void est_cow_keep_indices(est_var *var, const est_view *indices)
{
    if (var->cow != NULL) est_cow_keep_named(var, indices);
}

#endif
