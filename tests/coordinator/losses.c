/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers and ps tasks that are lost while calls are scheduled: every call is applied once. */
#include "base/clock.h"
#include "cluster/call_records.h"
#include "coordinator/coordinator.h"
#include "support/coordinator_test.h"
#include "support/dir_test.h"
#include "support/log_test.h"

#define OPTIONS(...)                                                                                                   \
    EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS,                                \
                    .lonely_secs = COORDINATOR_SECS, __VA_ARGS__)

static void schedule(coordinated *t, int n)
{
    for (int i = 0; i < n; i++) assert_ok(coordinated_schedule(t, 1, NULL));
}

static void assert_counted(coordinated *t, int ps, int64_t n)
{
    for (int i = 0; i < ps; i++) {
        assert_true(coordinated_calls(t, i) == (double)n);
        assert_true(coordinated_total(t, i) == (double)n);
    }
}

/* A worker is lost again and again while calls are made; the other goes on, and each call counts once. */
TEST(worker_lost_and_back)
{
    coordinated t = coordinated_begin(2, 2, (est_worker_functions){ 0 });

    coordinated_start(&t, OPTIONS(.fail_after = 100));
    coordinated_await_here(&t, 2);
    for (int i = 0; i < 6; i++) {
        schedule(&t, 1000);
        coordinated_await_completed(&t, i * 1000 + 50);
        assert_ok(est_local_cluster_lose(t.cluster, "worker", i % 2));
        coordinated_await_losses(&t, i + 1);
        if (i % 3 != 2) assert_ok(est_coordinator_join(t.coordinator)); /* by the other one */
        assert_ok(est_local_cluster_restart(t.cluster, "worker", i % 2));
        coordinated_await_here(&t, 2);
        assert_ok(est_coordinator_join(t.coordinator));
        assert_counted(&t, 2, (i + 1) * 1000);
    }
    assert_int_equal(est_coordinator_get_stats(t.coordinator).workers_lost, 6);
    assert_true(est_coordinator_get_stats(t.coordinator).retried > 0);
    coordinated_end(&t);
}

/* Both are lost: everybody waits until one is back. */
TEST(all_workers_lost)
{
    coordinated t = coordinated_begin(1, 2, (est_worker_functions){ 0 });

    coordinated_start(&t, OPTIONS(.fail_after = 100));
    coordinated_await_here(&t, 2);
    schedule(&t, 500);
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 1));
    coordinated_await_losses(&t, 2);
    schedule(&t, 500);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 1));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_counted(&t, 1, 1000);
    coordinated_end(&t);
}

/* Whether ps task i refuses a call of this coordinator as one that is over. */
static bool is_refused(const coordinated *t, int i, uint64_t call)
{
    est_server *ps = est_local_cluster_server(t->cluster, "ps", i);
    est_status  status;

    pthread_mutex_lock(&ps->host_lock);
    status = est_call_records_admit(&ps->calls, t->coordinator->origin, call, 1);
    pthread_mutex_unlock(&ps->host_lock);
    est_error_clear();
    return status == EST_ABORTED;
}

/* A call whose workers are lost is an error that names them, and not the end of all workers. It cannot end, since its
 * ps task executes nothing. */
TEST(call_that_loses_workers)
{
    coordinated       t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_remote_value *value;
    est_tensor       *result = NULL;
    est_server       *ps;

    coordinated_start(&t, OPTIONS(.fail_after = 2));
    schedule(&t, 1);
    assert_ok(est_coordinator_join(t.coordinator));
    ps = est_local_cluster_server(t.cluster, "ps", 0);
    pthread_mutex_lock(&ps->host_lock);
    assert_ok(coordinated_schedule(&t, 1, &value));
    for (int i = 0; i < 2; i++) {
        int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);

        while (est_coordinator_get_stats(t.coordinator).under_way == 0 && est_now_ns() < until) est_sleep_ns(1000000);
        assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
        coordinated_await_losses(&t, i + 1);
    }
    pthread_mutex_unlock(&ps->host_lock);
    assert_int_equal(est_coordinator_join(t.coordinator), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "worker:0, worker:0"));
    assert_non_null(strstr(est_error_message(), "fail_after"));
    assert_true(is_refused(&t, 0, 2)); /* a worker that still runs it is too late */
    assert_int_equal(est_remote_value_fetch(value, 0, &result), EST_UNAVAILABLE);
    est_remote_value_free(value);
    schedule(&t, 10); /* it goes on */
    assert_ok(est_coordinator_join(t.coordinator));
    coordinated_end(&t);
}

/* A worker that is out of reach may still run calls that are over: all ps tasks refuse them from the moment on at which
 * the program can rely on that, also one that was restarted. */
TEST(late_attempts)
{
    coordinated t = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_save(t.coordinator, 1));
    for (int i = 0; i < 2; i++) assert_true(is_refused(&t, i, 10) && !is_refused(&t, i, 11));

    assert_ok(est_local_cluster_restart(t.cluster, "ps", 1));
    schedule(&t, 1);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(is_refused(&t, 1, 10));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* --- ps tasks ----------------------------------------------------------------------------------------------------- */

/* The variables of a lost ps task return to the checkpoint, those of the other keep their values; calls go on. */
TEST(ps_lost_and_back)
{
    coordinated t = coordinated_begin(2, 2, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    schedule(&t, 300);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_save(t.coordinator, 1));
    schedule(&t, 200);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_counted(&t, 2, 500);

    assert_ok(est_local_cluster_restart(t.cluster, "ps", 1));
    schedule(&t, 100);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 600);
    assert_true(coordinated_calls(&t, 1) == 400); /* 300 of the checkpoint */
    assert_true(coordinated_total(&t, 1) == 400);

    for (int i = 0; i < 3; i++) { /* while calls are under way */
        schedule(&t, 1000);
        coordinated_await_completed(&t, 600 + 1000 * i + 20);
        assert_ok(est_local_cluster_restart(t.cluster, "ps", i % 2));
        assert_ok(est_coordinator_join(t.coordinator));
    }
    assert_int_equal(est_coordinator_get_stats(t.coordinator).completed, 3600);
    assert_true(coordinated_calls(&t, 0) <= 3600 && coordinated_calls(&t, 1) <= 3400);
    assert_true(coordinated_calls(&t, 0) == coordinated_total(&t, 0)); /* no call is half applied at a task */
    assert_true(coordinated_calls(&t, 1) == coordinated_total(&t, 1));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* Without a checkpoint a lost ps task is the end, with advice; a broken link is not. */
TEST(ps_lost_without_checkpoint)
{
    coordinated t = coordinated_open(1, 1);
    bool        done;

    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 0));
    schedule(&t, 1);
    assert_int_equal(est_coordinator_join(t.coordinator), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "ps:0"));
    assert_non_null(strstr(est_error_message(), "model_dir"));
    assert_int_equal(coordinated_schedule(&t, 1, NULL), EST_FAILED_PRECONDITION); /* always */
    assert_int_equal(est_coordinator_done(t.coordinator, &done), EST_FAILED_PRECONDITION);
    coordinated_end(&t);
}
