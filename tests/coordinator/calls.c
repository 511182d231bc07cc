/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of functions by workers of a cluster in this process: schedule, join, done, values, and their misuse. */
#include "base/clock.h"
#include "base/thread.h"
#include "estoc/initializers.h"
#include "support/coordinator_test.h"

/* Fetch 0 of a value, which must be float32; its first element. */
static double fetch(est_remote_value *value)
{
    est_tensor *result = NULL;
    double      first;

    assert_ok(est_remote_value_fetch(value, 0, &result));
    first = nn_element(result, 0);
    est_tensor_free(result);
    return first;
}

TEST(schedule_join_fetch)
{
    coordinated           t = coordinated_open(2, 2);
    est_remote_value     *values[20];
    est_coordinator_stats stats;
    bool                  done;

    assert_ok(est_coordinator_join(t.coordinator)); /* of nothing */
    for (int i = 0; i < 20; i++) assert_ok(coordinated_schedule(&t, i, &values[i]));
    assert_true(fetch(values[19]) == 38);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_done(t.coordinator, &done));
    assert_true(done);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(est_remote_value_status(values[i]), EST_VALUE_READY);
        assert_true(fetch(values[i]) == 2 * i);
        assert_true(fetch(values[i]) == 2 * i); /* again */
    }
    for (int ps = 0; ps < 2; ps++) {
        assert_true(coordinated_calls(&t, ps) == 20);
        assert_true(coordinated_total(&t, ps) == 190);
    }
    stats = est_coordinator_get_stats(t.coordinator);
    assert_int_equal(stats.completed, 20);
    assert_int_equal(stats.queued + stats.under_way + stats.retried + stats.workers_lost, 0);
    assert_int_equal(stats.workers, 2);
    for (int i = 0; i < 19; i++) est_remote_value_free(values[i]);
    coordinated_end(&t);
    assert_true(fetch(values[19]) == 38); /* it outlives the coordinator */
    est_remote_value_free(values[19]);
    est_remote_value_free(NULL);
}

TEST(many_calls)
{
    coordinated t = coordinated_open(1, 2);

    for (int i = 0; i < 5000; i++) assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 5000);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).completed, 5000);
    coordinated_end(&t);
}
