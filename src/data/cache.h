/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of the two kinds of cache. Both are stages called "cache", so a position saved with one is good for
 * the other.
 *
 * A cache opens its input itself, always for the same turn, and only when it is not filled yet. The input is hidden
 * from est_iter_save: a position is the number of elements handed out, which restoring reads again. */
#ifndef EST_DATA_CACHE_H
#define EST_DATA_CACHE_H

#include "data/stage.h"

#define EST_CACHE_TURN 0 /* of the input: every pass yields the elements of the first */

typedef struct est_cache_iter {
    est_iter  base;
    est_iter *input; /* NULL: the elements come from the cache */
    int64_t   at;    /* elements handed out */
} est_cache_iter;

/* est_stage.save and restore. */
est_status est_cache_save(est_iter *it, est_wire_writer *w);
est_status est_cache_restore(est_iter *it, est_str state);

/* est_stage.decode of both: a path is that of a file. */
est_dataset *est_cache_decode(const est_encoded *from);

/* Create the two stages over a valid input. */
est_dataset *est_cache_memory(est_dataset *dataset);
est_dataset *est_cache_file(est_dataset *dataset, const char *path);

#endif
