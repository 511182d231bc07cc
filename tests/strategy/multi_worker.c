/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions of inputs that the workers of multi_worker_mirrored keep for each other. What they do as processes is
 * in tests/cluster/multi_worker*.c. */
#include "strategy/multi_worker.h"

#include "support/estimator_test.h"

/* Steps that are skipped are counted from where the input began: with another number of workers, which had other
 * rows, it begins at the step of the view. */
TEST(positions_of_others)
{
    est_run          three = { .self = { .size = 3 } }, two = { .self = { .size = 2 } };
    est_multi_worker saved = { .run = &three, .at_step = 7 }, same = { .run = &three, .view = { .step = 40 } },
                     fewer = { .run = &two, .view = { .step = 40 } };
    est_tensor *positions  = NULL;

    assert_int_equal(est_positions_save(&saved, &positions), EST_OK);
    assert_int_equal(est_positions_restore(&same, positions), EST_OK);
    assert_int_equal(same.at_step, 7);
    assert_int_equal(est_positions_restore(&fewer, positions), EST_OK);
    assert_int_equal(fewer.at_step, 40);
    est_tensor_free(positions);
}
