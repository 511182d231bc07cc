/* SPDX-License-Identifier: Apache-2.0
 *
 * The area under the ROC curve from all rows at once: sorted by score, every positive row is ahead of the negative ones
 * seen before it. */
#include <math.h>
#include <stdlib.h>

#include "estoc/metrics.h"

static int by_score(const void *a, const void *b)
{
    float x = ((const est_scored *)a)->score, y = ((const est_scored *)b)->score;

    return (x > y) - (x < y);
}

double est_exact_auc(est_scored *rows, size_t n)
{
    double positives = 0, negatives = 0, pairs = 0;

    if (rows == NULL) return (double)NAN;
    qsort(rows, n, sizeof *rows, by_score);
    for (size_t i = 0, end; i < n; i = end) {
        double here[2] = { 0 }; /* weights of the negative and positive rows of this score */

        for (end = i; end < n && rows[end].score == rows[i].score; end++) {
            here[rows[end].positive] += (double)rows[end].weight;
        }
        if (end == i) return (double)NAN; /* a NaN score cannot be ordered */
        pairs += here[1] * (negatives + 0.5 * here[0]);
        negatives += here[0];
        positives += here[1];
    }
    return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : (double)NAN;
}
