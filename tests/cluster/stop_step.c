/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGTERM while a parameter server that is alive does not answer a part of a step: the task that waits gives the step up, and what
 * the parameter server does of it later it does once. */
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/signals.h"
#include "cluster/remote.h"
#include "cluster/waits.h"
#include "estoc/estoc.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/sanitized.h"
#include "support/servers_test.h"

#define ANSWER_SECS 600.0
#define BOUND_SECS  (EST_TEST_SANITIZED ? 20.0 : 10.0) /* it takes about 1.5 s, on a machine without other work */

static int64_t deadline(void)
{
    return est_now_ns() + (int64_t)(BOUND_SECS * (double)EST_NS_PER_SEC);
}

static bool is_waiting(const char *why)
{
    est_wait waits[EST_WAITS_MAX];
    int      n = est_waits_of("worker:0", waits, EST_WAITS_MAX);

    for (int i = 0; i < n; i++) {
        if (strcmp(waits[i].why, why) == 0) return true;
    }
    return false;
}

static void *stop_when_waiting(void *arg)
{
    int64_t until = deadline();

    while (!is_waiting(arg) && est_now_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    (void)raise(SIGTERM);
    return NULL;
}

static double scalar(est_session *session, const char *name)
{
    est_tensor *value = NULL;
    double      out;

    assert_ok(est_session_read(session, name, &value));
    out = est_tensor_dtype(value) == EST_I64 ? (double)*(const int64_t *)est_tensor_data(value)
                                             : (double)*(const float *)est_tensor_data(value);
    est_tensor_free(value);
    return out;
}

/* The variable is at the first task, the count at the second: phases 1 and 3. The first does not get to its part. */
static void test_step(void **state)
{
    servers      s       = servers_start(2, 1, "tcp");
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .answer_secs = ANSWER_SECS));
    est_session *session = NULL;
    est_step    *step    = NULL;
    est_graph   *graph;
    est_node     b, count, train;
    est_status   status;
    pthread_t    thread;
    int64_t      start_ns;
    bool         finished;

    (void)state;
    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:ps/task:1");
    count = est_global_step(graph);
    est_graph_device(graph, "/job:ps/task:0");
    b = est_weight(graph, "b", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, NULL);
    train = est_assign_add(b, est_const_f32(graph, EST_SHAPE(1), (const float[]){ 1 }));
    train = est_after(est_assign_add(count, est_scalar(graph, EST_I64, 1)), train);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_remote_declare_ready(remote));
    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NO_NODES, EST_NODES(train), &step));
    assert_ok(remote->ops->turn(remote, &finished));

    est_signals_catch();
    pthread_mutex_lock(&s.ps[0]->host_lock);
    assert_int_equal(pthread_create(&thread, NULL, stop_when_waiting, (void *)(uintptr_t) "phase 1 of a step"), 0);
    start_ns = est_now_ns();
    status   = est_step_run(step, NULL);
    assert_true((double)(est_now_ns() - start_ns) < BOUND_SECS * (double)EST_NS_PER_SEC);
    assert_int_equal(status, EST_CANCELLED);
    assert_non_null(strstr(est_error_message(), "ps:0 was asked for phase 1 of a step: SIGTERM"));
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&s.ps[0]->host_lock);
    est_signals_release(status);

    assert_ok(remote->ops->turn(remote, &finished)); /* the next step comes after what was given up */
    assert_ok(est_step_run(step, NULL));
    assert_true(scalar(session, "b") == 3);
    assert_true(scalar(session, "global_step") == 1);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    servers_stop(&s);
}

/* Parts of a step at many tasks that do not answer are waited for together. */
static void test_many(void **state)
{
    servers      s       = servers_start(SERVERS_MAX, 1, "tcp");
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .answer_secs = ANSWER_SECS));
    est_session *session = NULL;
    est_step    *step    = NULL;
    est_graph   *graph;
    est_node     adds[SERVERS_MAX];
    est_status   status;
    pthread_t    thread;
    int64_t      start_ns;

    (void)state;
    assert_ok(est_graph_create(1, &graph));
    for (int i = 0; i < SERVERS_MAX; i++) {
        char     device[32], name[8];
        est_node one = est_const_f32(graph, EST_SHAPE(1), (const float[]){ 1 });

        snprintf(device, sizeof device, "/job:ps/task:%d", i);
        snprintf(name, sizeof name, "v%d", i);
        est_graph_device(graph, device);
        adds[i] = est_assign_add(est_weight(graph, name, EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_zeros())),
                                 one);
        est_graph_device(graph, NULL);
    }
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NO_NODES, (est_nodes){ adds, SERVERS_MAX }, &step));

    est_signals_catch();
    for (int i = 0; i < SERVERS_MAX; i++) pthread_mutex_lock(&s.ps[i]->host_lock);
    assert_int_equal(pthread_create(&thread, NULL, stop_when_waiting, (void *)(uintptr_t) "phase 1 of a step"), 0);
    start_ns = est_now_ns();
    status   = est_step_run(step, NULL);
    assert_true((double)(est_now_ns() - start_ns) < BOUND_SECS * (double)EST_NS_PER_SEC);
    assert_int_equal(status, EST_CANCELLED);
    pthread_join(thread, NULL);
    for (int i = 0; i < SERVERS_MAX; i++) pthread_mutex_unlock(&s.ps[i]->host_lock);
    est_signals_release(status);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    servers_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_step), cmocka_unit_test(test_many) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
