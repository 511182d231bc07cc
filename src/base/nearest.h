/* SPDX-License-Identifier: Apache-2.0
 *
 * Spelling: which of the known names a misspelt one was probably meant to be.
 *
 * Threading: any thread. */
#ifndef EST_BASE_NEAREST_H
#define EST_BASE_NEAREST_H

#include <stddef.h>

#define EST_WORD_MAX 64 /* longer words are not compared: their distance is this */

/* How many letters must be inserted, deleted, replaced or swapped with their neighbour to turn a into b. */
size_t est_edit_distance(const char *a, const char *b);

/* The one of n names most similar to `word`, or beginning with it; NULL: none is similar. */
const char *est_nearest(const char *word, const char *const *names, size_t n);

#endif
