/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers and ps tasks that are lost while calls are scheduled: every call is applied once. */
#include <signal.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cluster/call_records.h"
#include "cluster/remote_internal.h"
#include "coordinator/coordinator.h"
#include "estoc/initializers.h"
#include "runtime/session.h"
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

/* Waits until a worker has so many calls. */
static void await_under_way(const coordinated *t, int64_t n)
{
    int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);

    while (est_coordinator_get_stats(t->coordinator).under_way < n && est_now_ns() < until) est_sleep_ns(1000000);
    assert_true(est_coordinator_get_stats(t->coordinator).under_way >= n);
}

static void await_nothing_under_way(const coordinated *t)
{
    int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);

    while (est_coordinator_get_stats(t->coordinator).under_way > 0 && est_now_ns() < until) est_sleep_ns(1000000);
    assert_int_equal(est_coordinator_get_stats(t->coordinator).under_way, 0);
}

/* A ps task that executes nothing until it goes on. */
static est_server *hold_ps(coordinated *t, int ps)
{
    est_server *server = est_local_cluster_server(t->cluster, "ps", ps);

    assert_non_null(server);
    pthread_mutex_lock(&server->host_lock);
    return server;
}

static void release_ps(est_server *server)
{
    pthread_mutex_unlock(&server->host_lock);
}

/* The worker is lost when a call has been applied at one ps task: there is no checkpoint of this half, from which the
 * task would return after a loss of its own, and the call is applied once. */
TEST(half_applied_call)
{
    coordinated t     = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    int64_t     until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);
    est_server *ps;
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS,
                                          .lonely_secs = 0.3, .model_dir = dir));
    coordinated_await_here(&t, 1);
    schedule(&t, 1);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_save(t.coordinator, 1));
    ps = hold_ps(&t, 1);
    schedule(&t, 1);
    while (coordinated_calls(&t, 0) == 1 && est_now_ns() < until) est_sleep_ns(1000000);
    assert_true(coordinated_calls(&t, 0) == 2);
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_await_losses(&t, 1);
    release_ps(ps);
    assert_int_equal(est_coordinator_save(t.coordinator, 2), EST_DEADLINE_EXCEEDED);
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 0));
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    coordinated_await_here(&t, 1);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_counted(&t, 2, 2);
    assert_ok(est_coordinator_save(t.coordinator, 2));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* SIGTERM to all tasks of a job ends its workers, perhaps in a call: the save of the coordinator, which has caught the
 * signal, does not wait for lonely_secs then. */
TEST(save_after_signal)
{
    coordinated t     = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    int64_t     until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);
    est_server *ps;
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS,
                                          .silence_secs = 1, .model_dir = dir));
    coordinated_await_here(&t, 1);
    schedule(&t, 1);
    assert_ok(est_coordinator_join(t.coordinator));
    ps = hold_ps(&t, 1);
    schedule(&t, 1);
    while (coordinated_calls(&t, 0) == 1 && est_now_ns() < until) est_sleep_ns(1000000);
    assert_true(coordinated_calls(&t, 0) == 2);
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_await_losses(&t, 1);
    release_ps(ps);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(est_coordinator_join(t.coordinator), EST_CANCELLED);
    assert_int_equal(est_coordinator_save(t.coordinator, 1), EST_DEADLINE_EXCEEDED);
    assert_non_null(strstr(est_error_message(), "after SIGTERM"));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* A save while calls are under way waits for those that have begun, also when their worker is lost, and not for the
 * others. */
TEST(save_during_a_loss)
{
    coordinated t = coordinated_begin(2, 2, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir, .fail_after = 100));
    coordinated_await_here(&t, 2);
    for (int i = 0; i < 6; i++) {
        schedule(&t, 500);
        coordinated_await_completed(&t, i * 500 + 20);
        assert_ok(est_local_cluster_restart(t.cluster, "worker", i % 2));
        assert_ok(est_coordinator_save(t.coordinator, i + 1));
        assert_ok(est_coordinator_join(t.coordinator));
        assert_counted(&t, 2, (i + 1) * 500);
    }
    coordinated_kill(&t);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    assert_true(coordinated_calls(&t, 0) >= 2520 && coordinated_calls(&t, 0) <= 3000);
    assert_counted(&t, 2, (int64_t)coordinated_calls(&t, 0)); /* whole calls */
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* Calls that a worker was sent ahead are not to blame for its loss. */
TEST(calls_sent_ahead)
{
    coordinated t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_server *ps;
    int         n = 0;

    coordinated_start(&t, OPTIONS(.fail_after = 2, .ahead = 4));
    coordinated_await_here(&t, 1);
    ps = hold_ps(&t, 0);
    schedule(&t, 20);
    await_under_way(&t, 2);
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_await_losses(&t, 1);
    await_nothing_under_way(&t);
    release_ps(ps);
    pthread_mutex_lock(&t.coordinator->lock);
    for (const est_scheduled *call = t.coordinator->queue.first; call != NULL; call = call->next) {
        assert_int_equal(call->losses, n == 0);
        n++;
    }
    pthread_mutex_unlock(&t.coordinator->lock);
    assert_int_equal(n, 20);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_counted(&t, 1, 20);
    assert_true(est_coordinator_get_stats(t.coordinator).retried >= 2);
    coordinated_end(&t);
}

/* No call is to blame for a worker that is being stopped, and says so. */
TEST(stopped_worker)
{
    coordinated t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_server *ps;

    coordinated_start(&t, OPTIONS(.fail_after = 1, .ahead = 4));
    coordinated_await_here(&t, 1);
    ps = hold_ps(&t, 0);
    schedule(&t, 20);
    await_under_way(&t, 2);
    pthread_mutex_lock(&t.coordinator->lock);
    est_worker_abandon(&t.coordinator->workers[0], "it is being stopped");
    pthread_mutex_unlock(&t.coordinator->lock);
    await_nothing_under_way(&t);
    release_ps(ps);
    assert_ok(est_coordinator_join(t.coordinator)); /* over the next link */
    assert_counted(&t, 1, 20);
    coordinated_end(&t);
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
    ps = hold_ps(&t, 0);
    assert_ok(coordinated_schedule(&t, 1, &value));
    for (int i = 0; i < 2; i++) {
        await_under_way(&t, 1);
        assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
        coordinated_await_losses(&t, i + 1);
    }
    release_ps(ps);
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

    assert_ok(est_coordinator_save(t.coordinator, 2));
    for (int i = 0; i < 3; i++) { /* while calls are under way */
        schedule(&t, 1000);
        coordinated_await_completed(&t, 600 + 1000 * i + 20);
        assert_ok(est_local_cluster_restart(t.cluster, "ps", i % 2));
        assert_ok(est_coordinator_join(t.coordinator));
    }
    assert_int_equal(est_coordinator_get_stats(t.coordinator).completed, 3600);
    assert_true(coordinated_calls(&t, 0) >= 600 && coordinated_calls(&t, 0) <= 3600);
    assert_true(coordinated_calls(&t, 1) >= 400 + 1000 && coordinated_calls(&t, 1) <= 3400); /* lost once, not last */
    assert_true(coordinated_calls(&t, 0) == coordinated_total(&t, 0)); /* no call is half applied at a task */
    assert_true(coordinated_calls(&t, 1) == coordinated_total(&t, 1));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

static void await_ps_loss(const coordinated *t)
{
    int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);
    bool    lost  = false;

    while (!lost && est_now_ns() < until) {
        pthread_mutex_lock(&t->coordinator->lock);
        lost = t->coordinator->ps_lost;
        pthread_mutex_unlock(&t->coordinator->lock);
        if (!lost) est_sleep_ns(1000000);
    }
    assert_true(lost);
}

/* A ps task that is lost when no call is scheduled: a join recovers it, so that the session can be used again. */
TEST(ps_lost_between_calls)
{
    coordinated t = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_save(t.coordinator, 1));
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 1));
    await_ps_loss(&t);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_counted(&t, 2, 10);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

static double read_metric(coordinated *t, est_metric metric)
{
    est_tensor *value = NULL;
    double      number;

    assert_ok(est_session_run(est_coordinator_session(t->coordinator), EST_NO_FEEDS, EST_NODES(metric.value),
                              EST_NO_NODES, &value));
    number = nn_element(value, 0);
    est_tensor_free(value);
    return number;
}

/* All states of a shared metric return to the checkpoint, or none: a mean of ones stays 1. The program can see that a
 * ps task was lost. */
TEST(shared_metric_after_lost_ps)
{
    coordinated   t = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    est_tensor   *one;
    est_metric    mean;
    est_function *add;
    char          dir[64];

    est_test_dir(dir);
    mean = est_metric_mean(t.x, EST_METRIC(.name = "ones", .shared = true));
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    assert_ok(
        est_coordinator_function(t.coordinator, "add", EST_NODES(t.x), EST_NO_NODES, EST_NODES(mean.update), &add));
    one = coordinated_tensor(1);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).ps_lost, 0);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 10; k++)
            assert_ok(est_coordinator_schedule(t.coordinator, add, EST_ARGUMENTS({ .node = t.x, .value = one }), NULL));
        assert_ok(est_coordinator_join(t.coordinator));
        assert_int_equal(est_coordinator_get_stats(t.coordinator).ps_lost, i);
        assert_near(read_metric(&t, mean), 1, 0);
        assert_ok(est_local_cluster_restart(t.cluster, "ps", i % 2));
    }
    est_tensor_free(one);
    est_function_free(add);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

static bool has_ended(coordinated *t, const char *type)
{
    est_server *server = est_local_cluster_server(t->cluster, type, 0);
    bool        done;

    pthread_mutex_lock(&server->lock);
    done = server->done;
    pthread_mutex_unlock(&server->lock);
    return done;
}

/* Waits until est_server_join returns in that task. */
static void await_job_end(coordinated *t, const char *type)
{
    int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);

    while (!has_ended(t, type) && est_now_ns() < until) est_sleep_ns(1000000);
    assert_true(has_ended(t, type));
}

/* Without a checkpoint a lost ps task is the end, with advice; a broken link is not. */
TEST(ps_lost_without_checkpoint)
{
    coordinated   t    = coordinated_open(1, 1);
    est_function *more = NULL;
    est_status    status;
    bool          done;

    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 0));
    status = coordinated_schedule(&t, 1, NULL);
    if (status == EST_OK) status = est_coordinator_join(t.coordinator); /* schedule did not see the loss yet */
    assert_int_equal(status, EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "ps:0"));
    assert_non_null(strstr(est_error_message(), "model_dir"));
    assert_int_equal(coordinated_schedule(&t, 1, NULL), EST_FAILED_PRECONDITION); /* always */
    assert_int_equal(est_coordinator_done(t.coordinator, &done), EST_FAILED_PRECONDITION);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(est_coordinator_join(t.coordinator), EST_FAILED_PRECONDITION);
        assert_non_null(strstr(est_error_message(), "ps:0 lost the values of its variables"));
    }
    assert_int_equal(
        est_coordinator_function(t.coordinator, "more", EST_NODES(t.x), EST_NO_NODES, EST_NODES(t.count), &more),
        EST_FAILED_PRECONDITION);
    assert_ok(est_coordinator_end(t.coordinator));
    await_job_end(&t, "ps"); /* a failed job can be ended */
    await_job_end(&t, "worker");
    coordinated_end(&t);
}

/* After the end of the job nothing more can be done but to fetch what has completed. */
TEST(end)
{
    coordinated       t      = coordinated_open(2, 2);
    est_remote_value *result = NULL;
    est_tensor       *value  = NULL;
    bool              done;

    coordinated_await_here(&t, 2);
    assert_ok(coordinated_schedule(&t, 1, &result));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_end(t.coordinator));
    assert_ok(est_coordinator_end(t.coordinator));
    assert_ok(est_remote_value_fetch(result, 0, &value));
    est_tensor_free(value);
    est_remote_value_free(result);
    assert_int_equal(coordinated_schedule(&t, 1, NULL), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "the job has ended"));
    assert_int_equal(est_coordinator_join(t.coordinator), EST_FAILED_PRECONDITION);
    assert_int_equal(est_coordinator_done(t.coordinator, &done), EST_FAILED_PRECONDITION);
    await_job_end(&t, "ps");
    await_job_end(&t, "worker");
    coordinated_end(&t);
}

/* One that merely leaves has not ended it. */
TEST(free_leaves)
{
    coordinated t = coordinated_open(1, 1);

    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    coordinated_stop(&t);
    assert_false(has_ended(&t, "ps"));
    assert_false(has_ended(&t, "worker"));
    coordinated_start(&t, OPTIONS(.model_dir = NULL));
    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 10);
    coordinated_end(&t);
}

/* The session of the program stays until the next join or save, however many recoveries replace it. */
TEST(borrowed_session)
{
    coordinated  t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_session *session;
    est_tensor  *value = NULL;
    char         dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    session = est_coordinator_session(t.coordinator);
    for (int i = 0; i < 3; i++) {
        est_remote_value *result = NULL;

        assert_ok(est_local_cluster_restart(t.cluster, "ps", 0));
        assert_ok(coordinated_schedule(&t, 1, &result));
        assert_ok(est_remote_value_fetch(result, 0, &value));
        assert_int_equal(result->call, i + 1); /* for errors of a fetch */
        est_tensor_free(value);
        est_remote_value_free(result);
    }
    assert_true(t.coordinator->n_replaced >= 3);
    assert_true(est_session_graph(session) == t.graph); /* it is still a session */
    assert_ok(est_coordinator_join(t.coordinator));
    assert_int_equal(t.coordinator->n_replaced, 0);
    assert_true(coordinated_calls(&t, 0) == 1); /* each loss returned to 0 */
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* The next call of the program recovers, schedule as well; a message says so when there is none. */
TEST(nothing_recovers)
{
    coordinated t     = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    int64_t     until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);
    char        dir[64];

    est_test_dir(dir);
    log_keep(EST_LOG_INFO);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 0));
    while (!log_has("the link to ps:0 is lost") && est_now_ns() < until) est_sleep_ns(1000000);
    assert_false(log_has("calls wait"));
    pthread_mutex_lock(&t.coordinator->lock);
    assert_true(t.coordinator->ps_lost);
    t.coordinator->ps_lost_ns -= est_secs_to_ns(11);
    pthread_mutex_unlock(&t.coordinator->lock);
    while (!log_has("calls wait") && est_now_ns() < until) est_sleep_ns(1000000);
    log_expect("a ps task has been lost for 1* s, and calls wait: the next est_coordinator_schedule");
    schedule(&t, 1);
    log_release();
    coordinated_await_completed(&t, 1); /* without another call */
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* --- threads and logs --------------------------------------------------------------------------------------------- */

typedef struct fetcher {
    coordinated *t;
    est_status   status;
    int          stop;
} fetcher;

static void *fetch_all_the_time(void *arg)
{
    fetcher *f = arg;

    while (f->status == EST_OK && !__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
        est_remote_value *value  = NULL;
        est_tensor       *result = NULL;

        f->status = coordinated_schedule(f->t, 1, &value);
        if (f->status == EST_OK) f->status = est_remote_value_fetch(value, 0, &result);
        est_tensor_free(result);
        est_remote_value_free(value);
    }
    return NULL;
}

/* One thread fetches and so recovers, another joins, saves and makes functions: the session has one owner at a time. */
TEST(threads_and_ps_losses)
{
    coordinated t = coordinated_begin(2, 2, (est_worker_functions){ 0 });
    fetcher     f = { .t = &t, .status = EST_OK };
    est_thread  thread;
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    assert_ok(est_thread_start(&thread, "fetcher", fetch_all_the_time, &f));
    for (int i = 0; i < 4; i++) {
        est_function *more = NULL;

        coordinated_await_completed(&t, est_coordinator_get_stats(t.coordinator).completed + 5);
        assert_ok(est_local_cluster_restart(t.cluster, "ps", i % 2));
        assert_ok(
            est_coordinator_function(t.coordinator, "more", EST_NODES(t.x), EST_NODES(t.doubled), EST_NO_NODES, &more));
        assert_ok(est_coordinator_save(t.coordinator, i));
        assert_ok(est_coordinator_join(t.coordinator));
        est_function_free(more);
    }
    __atomic_store_n(&f.stop, 1, __ATOMIC_RELEASE);
    est_thread_join(&thread);
    assert_int_equal(f.status, EST_OK);
    assert_ok(est_coordinator_join(t.coordinator));
    for (int i = 0; i < 2; i++) assert_true(coordinated_calls(&t, i) == coordinated_total(&t, i));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

static void await_ps_lost(est_coordinator *c)
{
    int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);
    bool    lost  = false;

    while (!lost && est_now_ns() < until) {
        pthread_mutex_lock(&c->lock);
        lost = c->ps_lost;
        pthread_mutex_unlock(&c->lock);
        est_sleep_ns(1000000);
    }
    assert_true(lost);
}

/* A ps task that is lost when its variables have values, before it is declared ready: the next process has none. */
TEST(ps_lost_before_it_is_ready)
{
    coordinated t = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 1));
    await_ps_lost(t.coordinator);
    assert_int_equal(est_remote_declare_ready(t.coordinator->remote), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "ps:1 was restarted"));
    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_counted(&t, 2, 10);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* A link that is lost is not a ps task that is lost, also when the graph has variables that have no value yet. */
TEST(link_lost_while_the_graph_grows)
{
    coordinated      t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_coordinator *c;

    coordinated_start(&t, OPTIONS(.silence_secs = 5)); /* no model_dir */
    c = t.coordinator;
    schedule(&t, 10);
    assert_ok(est_coordinator_join(c));
    (void)est_weight(t.graph, "late", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_zeros()));
    est_link_close(est_tasks_of(c->remote)->tasks[0].link, "a test cuts it");
    await_ps_lost(c);
    assert_ok(est_coordinator_join(c));
    assert_int_equal(est_coordinator_get_stats(c).ps_lost, 0);
    schedule(&t, 10);
    assert_ok(est_coordinator_join(c));
    assert_counted(&t, 1, 20);
    coordinated_end(&t);
}

typedef struct joining {
    est_coordinator *coordinator;
    est_status       status;
} joining;

static void *join_calls(void *arg)
{
    joining *j = arg;

    j->status = est_coordinator_join(j->coordinator);
    return NULL;
}

/* The end of the job ends a join of another thread that waits for a lost ps task. */
TEST(end_without_ps)
{
    coordinated t     = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    int64_t     until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);
    bool        waits = false;
    joining     j;
    est_thread  thread;
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = 4 * COORDINATOR_SECS,
                                          .silence_secs = 1, .model_dir = dir));
    j = (joining){ .coordinator = t.coordinator };
    assert_ok(est_local_cluster_lose(t.cluster, "ps", 1));
    await_ps_lost(t.coordinator); /* a join that does not know of it has nothing to wait for */
    assert_ok(est_thread_start(&thread, "join", join_calls, &j));
    while (!waits && est_now_ns() < until) {
        pthread_mutex_lock(&t.coordinator->lock);
        waits = t.coordinator->recovering;
        pthread_mutex_unlock(&t.coordinator->lock);
        est_sleep_ns(1000000);
    }
    assert_true(waits);
    until = est_now_ns() + est_secs_to_ns(2 * COORDINATOR_SECS);
    assert_ok(est_coordinator_end(t.coordinator));
    est_thread_join(&thread);
    assert_true(est_now_ns() < until);
    assert_int_equal(j.status, EST_FAILED_PRECONDITION);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

static void look_at_stats(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    coordinated *t = user;

    (void)level, (void)wall_ns, (void)line;
    if (t->coordinator != NULL) (void)est_coordinator_get_stats(t->coordinator);
}

/* The program's sink of the log may ask for statistics: nothing is logged under the lock. */
TEST(log_sink_that_asks)
{
    coordinated t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(.model_dir = dir));
    coordinated_await_here(&t, 1);
    est_log_set_level(EST_LOG_DEBUG);
    est_log_set_sink(look_at_stats, &t);
    schedule(&t, 200);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    coordinated_await_losses(&t, 1);
    assert_ok(est_coordinator_join(t.coordinator));
    schedule(&t, 200);
    assert_ok(est_local_cluster_restart(t.cluster, "ps", 0));
    assert_ok(est_coordinator_join(t.coordinator));
    est_log_set_sink(NULL, NULL);
    est_log_set_level(EST_LOG_INFO);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* --- at least once ------------------------------------------------------------------------------------------------ */

/* No call is lost, and ps tasks keep no records, so that an attempt may be applied again. */
TEST(at_least_once)
{
    coordinated t = coordinated_begin(2, 2, (est_worker_functions){ 0 });

    coordinated_start(&t, OPTIONS(.at_least_once = true, .fail_after = 100));
    coordinated_await_here(&t, 2);
    for (int i = 0; i < 4; i++) {
        schedule(&t, 300);
        coordinated_await_completed(&t, i * 300 + 20);
        assert_ok(est_local_cluster_restart(t.cluster, "worker", i % 2));
        assert_ok(est_coordinator_join(t.coordinator));
    }
    assert_int_equal(est_coordinator_get_stats(t.coordinator).completed, 1200);
    for (int i = 0; i < 2; i++) assert_true(coordinated_calls(&t, i) >= 1200);
    coordinated_end(&t);
}
