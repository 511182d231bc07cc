/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: the system's goes forward, the manual one only when told. */
#include <float.h>
#include <math.h>

#include <time.h>

#include "base/clock.h"
#include "support/test.h"

TEST(system_clock)
{
    int64_t before = est_now_ns(), wall = est_wall_ns();

    for (int i = 0; i < 1000; i++) {
        int64_t now = est_now_ns();

        assert_true(now >= before);
        before = now;
    }
    assert_true(wall / EST_NS_PER_SEC - (int64_t)time(NULL) <= 1);
    assert_true((int64_t)time(NULL) - wall / EST_NS_PER_SEC <= 60);
    est_sleep_ns(2000000);
    assert_true(est_now_ns() - before >= 2000000);
    est_sleep_ns(0);
    est_sleep_ns(-5);
}

TEST(manual_clock)
{
    est_manual_clock manual;

    est_manual_clock_init(&manual, 100, 5000);
    est_clock_set(&manual.clock);
    assert_int_equal(est_now_ns(), 100);
    assert_int_equal(est_wall_ns(), 5000);
    est_manual_clock_advance(&manual, 50);
    assert_int_equal(est_now_ns(), 150);
    est_sleep_ns(3600 * EST_NS_PER_SEC); /* returns at once, an hour later */
    assert_int_equal(est_now_ns(), 150 + 3600 * EST_NS_PER_SEC);
    assert_int_equal(est_wall_ns(), 5050 + 3600 * EST_NS_PER_SEC);
    est_sleep_ns(-1);
    assert_int_equal(est_now_ns(), 150 + 3600 * EST_NS_PER_SEC);
    est_clock_set(NULL);
    assert_true(est_wall_ns() > 1600000000 * EST_NS_PER_SEC);
}

TEST(secs_to_ns)
{
    static const double far[]  = { 1e10, 1e300, INFINITY, DBL_MAX };
    static const double none[] = { 0, -0.0, -1, -INFINITY, NAN };

    assert_true(est_secs_to_ns(1.5) == 1500000000);
    assert_true(est_secs_to_ns(1e-9) == 1);
    assert_true(est_secs_to_ns(4e9) == 4000000000 * EST_NS_PER_SEC);
    for (int i = 0; i < 4; i++) {
        assert_true(est_secs_to_ns(far[i]) > 4000000000 * EST_NS_PER_SEC);
        assert_true(est_secs_to_ns(far[i]) < INT64_MAX - est_now_ns());
    }
    for (int i = 0; i < 5; i++) assert_true(est_secs_to_ns(none[i]) == 0);
}
