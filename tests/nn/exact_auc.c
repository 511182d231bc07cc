/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact area under the ROC curve against all pairs, counted one by one. */
#include <math.h>

#include "estoc/metrics.h"
#include "support/test.h"

#define N 60

static double by_pairs(const est_scored *rows, size_t n)
{
    double right = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            double weight = (double)rows[i].weight * (double)rows[k].weight;

            if (!rows[i].positive || rows[k].positive) continue;
            all += weight;
            if (rows[i].score > rows[k].score) right += weight;
            if (rows[i].score == rows[k].score) right += weight / 2;
        }
    }
    return right / all;
}

TEST(pairs)
{
    est_scored rows[N], same[N];
    uint32_t   x = 7;

    for (int i = 0; i < N; i++) {
        x       = x * 1664525u + 1013904223u;
        rows[i] = (est_scored){ .score    = (float)(x >> 28),
                                .weight   = 1 + (float)(x >> 16 & 3),
                                .positive = x >> 24 & 1 };
        same[i] = rows[i];
    }
    assert_true(fabs(est_exact_auc(same, N) - by_pairs(rows, N)) < 1e-12);
}

TEST(ends)
{
    est_scored apart[] = { { 0.25f, 1, false }, { 0.75f, 2, true }, { 0.5f, 3, false } };
    est_scored equal[] = { { 0.5f, 1, false }, { 0.5f, 2, true } };
    est_scored odd[]   = { { 0.5f, 1, false }, { NAN, 2, true } };

    assert_true(est_exact_auc(apart, 3) == 1);
    for (int i = 0; i < 3; i++) apart[i].positive = !apart[i].positive;
    assert_true(est_exact_auc(apart, 3) == 0);
    assert_true(est_exact_auc(equal, 2) == 0.5);
    assert_true(isnan(est_exact_auc(equal, 0)));
    assert_true(isnan(est_exact_auc(apart, 1)));
    assert_true(isnan(est_exact_auc(odd, 2)));
}
