/* SPDX-License-Identifier: Apache-2.0
 *
 * Spelling: distances, and which name is suggested for a misspelt one. */
#include "base/nearest.h"
#include "support/test.h"

#include <string.h>

TEST(distance)
{
    char longer[EST_WORD_MAX + 2];

    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(est_edit_distance("auc", "auc"), 0);
    assert_int_equal(est_edit_distance("aucc", "auc"), 1);
    assert_int_equal(est_edit_distance("acu", "auc"), 1); /* swapped */
    assert_int_equal(est_edit_distance("", "auc"), 3);
    assert_int_equal(est_edit_distance("loss", "auc"), 4);
    assert_int_equal(est_edit_distance(longer, longer), EST_WORD_MAX); /* not compared */
}

TEST(nearest)
{
    static const char *const names[] = { "accuracy", "auc", "auc_precision_recall", "loss" };

    assert_string_equal(est_nearest("aucc", names, 4), "auc");
    assert_string_equal(est_nearest("acuracy", names, 4), "accuracy");
    assert_string_equal(est_nearest("auc_prec", names, 4), "auc_precision_recall"); /* begins so */
    assert_null(est_nearest("perplexity", names, 4));
    assert_null(est_nearest("auc", names, 0));
}
