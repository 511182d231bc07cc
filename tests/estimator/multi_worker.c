/* SPDX-License-Identifier: Apache-2.0
 *
 * What workers that train together know of each other's inputs. */
#include "estimator/multi_worker.h"

#include "support/estimator_test.h"

/* The steps that are read over are counted from where the input began: with another number of workers, which had other rows,
 * that is where they go on. */
TEST(positions_of_others)
{
    est_multi_worker saved = { .n = 3, .at_step = 7 }, same = { .n = 3, .view = { .step = 40 } },
                     fewer = { .n = 2, .view = { .step = 40 } };
    est_tensor *positions  = NULL;

    assert_int_equal(est_multi_worker_positions(&saved, &positions), EST_OK);
    assert_int_equal(est_multi_worker_set_positions(&same, positions), EST_OK);
    assert_int_equal(same.at_step, 7);
    assert_int_equal(est_multi_worker_set_positions(&fewer, positions), EST_OK);
    assert_int_equal(fewer.at_step, 40);
    est_tensor_free(positions);
}
