/* SPDX-License-Identifier: Apache-2.0
 *
 * Fault points: counting, firing once, and the loop a fault test is made of. */
#undef EST_FAULT_POINTS
#define EST_FAULT_POINTS 1 /* this file tests the points as a fault build has them */
#include <pthread.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "support/test.h"

/* Three points and an allocation; 0 when all went well, else which step failed. */
static int body(void)
{
    void *p;

    if (EST_FAULT_POINT("test.open")) return 1;
    p = est_alloc(16);
    if (p == NULL) return 4;
    est_free(p);
    if (EST_FAULT_POINT("test.write")) return 2;
    if (EST_FAULT_POINT("test.rename")) return 3;
    return 0;
}

TEST(points_are_counted)
{
    est_fault_arm(0);
    assert_int_equal(body(), 0);
    assert_int_equal(est_fault_hits(), 3);
    assert_false(est_fault_fired());
    assert_string_equal(est_fault_name(), "");
}

TEST(nth_point_fails_once)
{
    est_fault_arm(2);
    assert_int_equal(body(), 2);
    assert_true(est_fault_fired());
    assert_string_equal(est_fault_name(), "test.write");
    assert_int_equal(est_fault_hits(), 2);
    assert_int_equal(body(), 0);
}

TEST(the_loop_ends)
{
    int failures = 0;

    for (int n = 1;; n++) {
        int result;

        est_fault_arm(n);
        result = body();
        if (!est_fault_fired()) {
            assert_int_equal(result, 0);
            break;
        }
        assert_int_equal(result, n);
        failures++;
    }
    assert_int_equal(failures, 3);
    est_fault_arm(0);
}

TEST(allocations)
{
    est_fault_arm_alloc(1);
    assert_int_equal(body(), 4);
    assert_true(est_fault_fired());
    est_fault_arm_alloc(2);
    assert_int_equal(body(), 0);
    assert_false(est_fault_fired());
    est_fault_arm_alloc(0);
}

#define HITS_PER_THREAD 10000

static void *hit_many(void *arg)
{
    int *failed = arg;

    for (int i = 0; i < HITS_PER_THREAD; i++) *failed += EST_FAULT_POINT("test.many");
    return NULL;
}

TEST(exactly_one_thread_fails)
{
    pthread_t threads[4];
    int       failed[4] = { 0 }, total = 0;

    est_fault_arm(2 * HITS_PER_THREAD);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, hit_many, &failed[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        total += failed[i];
    }
    assert_int_equal(total, 1);
    assert_int_equal(est_fault_hits(), 4 * HITS_PER_THREAD);
    assert_string_equal(est_fault_name(), "test.many");
    est_fault_arm(0);
}
