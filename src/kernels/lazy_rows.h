/* SPDX-License-Identifier: Apache-2.0
 *
 * Lazy initialization: initial values are drawn when their rows are first touched.
 *
 * Filling a large table when it is initialised costs memory and time for all of its rows, of which a run may use few.
 * But the value that an initializer draws for an element depends only on the element (base/random.h): so a large
 * variable starts with only a description of its initializer and a mark for each block of rows that was drawn. Values
 * are bit-identical regardless of who draws them and when.
 *
 * Code that touches rows calls est_lazy_draw for them first; code that touches a whole variable calls
 * est_lazy_draw_all, which plans do for every op that is not by_rows (graph/op.h). Code that overwrites a whole
 * variable calls est_lazy_overwritten. est_lazy_copy copies values without changing the variable.
 *
 * Any number of threads may draw rows of a variable at once: a block is drawn under a lock, then marked. */
#ifndef EST_KERNELS_LAZY_ROWS_H
#define EST_KERNELS_LAZY_ROWS_H

#include "base/pool.h"
#include "base/random.h"
#include "graph/variable.h"

/* Smaller variables are filled: they cost little. */
#define EST_LAZY_BYTES ((size_t)1 << 20)

/* The first value of an element: factor * x + term, rounded twice, with x drawn; a constant is the term alone. */
typedef struct est_first_values {
    int        distribution; /* as that of est_row_draw */
    est_random stream;
    int64_t    first; /* which element of the stream the variable's first is: the one of a shard is not 0 */
    double     factor, term;
} est_first_values;

/* Whether first values of a variable may wait. */
static inline bool est_lazy_may_wait(est_dtype dtype, const est_shape *shape)
{
    int64_t count = est_shape_count(shape);

    return (dtype == EST_F32 || dtype == EST_F64) && shape->rank > 0 &&
           count >= (int64_t)(EST_LAZY_BYTES / est_dtype_size(dtype));
}

/* Lets first values of the variable wait, which has memory. Nothing waits yet. */
EST_MUST_CHECK est_status est_lazy_rows_create(est_var *var);
void                      est_lazy_rows_free(est_lazy_rows *rows); /* NULL is fine */

/* Gives the variable its initial values: lazily, if that is allowed and its memory is untouched, or now. */
void est_lazy_begin(est_var *var, est_pool *pool, const est_first_values *values);

/* Draws the rows that are named and have not been drawn. Indices: int32 or int64, in the variable; below 0: none. */
void est_lazy_draw(est_var *var, est_pool *pool, const est_view *indices);

/* Draws all that have not been drawn. */
void est_lazy_draw_all(est_var *var, est_pool *pool);

/* All rows are about to be overwritten: none is drawn any more. */
void est_lazy_overwritten(est_var *var);

/* Whether rows are still to be drawn. */
bool est_lazy_wait(const est_var *var);

/* Elements [first, first + n) of the variable as they are, or would be if they were touched; nothing is touched. Other
 * threads may draw rows at the same time. */
void est_lazy_copy(const est_var *var, est_pool *pool, int64_t first, int64_t n, void *out);

#endif
