/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers: by steps, by seconds of a clock that stands still until told. */
#include "train/timer.h"
#include "base/clock.h"
#include "support/test.h"

TEST(steps)
{
    est_timer timer = { .every_steps = 10 };
    int64_t   steps = -1;
    double    secs  = -1;

    assert_true(est_timer_due(&timer, 0)); /* never marked */
    assert_true(est_timer_due(&timer, 7));
    assert_false(est_timer_mark(&timer, 7, &secs, &steps));
    assert_true(secs == -1 && steps == -1);
    assert_false(est_timer_due(&timer, 7));
    assert_false(est_timer_due(&timer, 16));
    assert_true(est_timer_due(&timer, 17));
    assert_true(est_timer_due(&timer, 40));
    assert_false(est_timer_due(&timer, 3)); /* gone back to a checkpoint */
    assert_true(est_timer_mark(&timer, 40, &secs, &steps));
    assert_int_equal(steps, 33);
    assert_false(est_timer_due(&timer, 49));
    assert_true(est_timer_mark(&timer, 50, NULL, NULL));
}

TEST(secs)
{
    est_timer        timer = { .every_secs = 1.5 };
    est_manual_clock clock;
    int64_t          steps;
    double           secs;

    est_manual_clock_init(&clock, 5, 0);
    est_clock_set(&clock.clock);
    assert_true(est_timer_due(&timer, 3));
    assert_false(est_timer_mark(&timer, 3, NULL, NULL));
    est_manual_clock_advance(&clock, 3 * EST_NS_PER_SEC / 2 - 1);
    assert_false(est_timer_due(&timer, 4));
    est_manual_clock_advance(&clock, 1);
    assert_true(est_timer_due(&timer, 4));
    assert_false(est_timer_due(&timer, 3)); /* the same step is not told twice */
    assert_true(est_timer_mark(&timer, 9, &secs, &steps));
    assert_true(secs == 1.5);
    assert_int_equal(steps, 6);
    assert_false(est_timer_due(&timer, 10));
    est_clock_set(NULL);
}
