/* SPDX-License-Identifier: Apache-2.0
 *
 * Spelling: the edit distance of Damerau and Levenshtein, and the nearest name by it. */
#include "base/nearest.h"

#include <string.h>

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

size_t est_edit_distance(const char *a, const char *b)
{
    size_t  rows[3][EST_WORD_MAX + 1], n = strlen(a), m = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2];

    if (n > EST_WORD_MAX || m > EST_WORD_MAX) return EST_WORD_MAX;
    for (size_t j = 0; j <= m; j++) last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *oldest = before;

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        before = last;
        last   = row;
        row    = oldest;
    }
    return last[m];
}

const char *est_nearest(const char *word, const char *const *names, size_t n)
{
    const char *nearest = NULL;
    size_t      size = strlen(word), bound = size / 3 + 1;

    for (size_t i = 0; i < n; i++) {
        size_t d = size >= 2 && strncmp(names[i], word, size) == 0 ? 0 : est_edit_distance(word, names[i]);

        if (d < bound || (d == bound && nearest == NULL && d < size)) {
            nearest = names[i];
            bound   = d;
        }
    }
    return nearest;
}
