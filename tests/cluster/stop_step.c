/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGTERM while parameter servers that are alive do not answer: a task that waits for a part of a step gives the step
 * up, and what the parameter server does of it later it does once; one that waits for a checkpoint gives that a bounded
 * time. */
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/signals.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "cluster/wait_table.h"
#include "estoc/estoc.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define ANSWER_SECS 600.0
#define BOUND_SECS  100.0 /* it takes some seconds, on a machine without other work */

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
TEST(step)
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

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:ps/task:1");
    count = est_global_step(graph);
    est_graph_device(graph, "/job:ps/task:0");
    b = est_weight(graph, "b", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(graph, NULL);
    train = est_assign_add(b, est_const_f32(graph, EST_SHAPE(1), (const float[]){ 1 }));
    train = est_after(est_assign_add(count, est_scalar(graph, EST_I64, 1)), train);
    assert_ok(est_graph_status(graph));
    session = nn_session(graph, remote);
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
TEST(many)
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
    session = nn_session(graph, remote);
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

/* --- a save, a commit --------------------------------------------------------------------------------------------- */

/* Two tasks have a variable each, the first counts the steps. */
typedef struct job {
    servers      servers;
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_step    *step;
} job;

static job make_job(int sync_replicas, double answer_secs)
{
    job      j = { .servers = servers_start(2, 1, "tcp") };
    est_node a, b, train;

    j.remote = servers_remote(&j.servers, 0,
                              EST_REMOTE(.is_chief = true, .answer_secs = answer_secs, .sync_replicas = sync_replicas));
    assert_ok(est_graph_create(1, &j.graph));
    est_graph_device(j.graph, "/job:ps/task:0");
    (void)est_global_step(j.graph);
    a = est_weight(j.graph, "a", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(j.graph, "/job:ps/task:1");
    b = est_weight(j.graph, "b", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(j.graph, NULL);
    train = est_minimize(est_sgd(1.0),
                         est_reduce_sum(est_mul(est_read_variable(a), est_read_variable(b)), EST_I64S(0), false), NULL);
    assert_ok(est_graph_status(j.graph));
    j.session = nn_session(j.graph, j.remote);
    assert_ok(est_remote_declare_ready(j.remote));
    assert_ok(est_session_prepare(j.session, EST_NO_NODES, EST_NO_NODES, EST_NODES(train), &j.step));
    return j;
}

static void free_job(job *j)
{
    est_session_free(j->session);
    est_remote_free(j->remote);
    est_graph_free(j->graph);
    servers_stop(&j->servers);
}

static void block(job *j, bool blocked)
{
    for (int i = 0; i < 2; i++) {
        if (blocked) pthread_mutex_lock(&j->servers.ps[i]->host_lock);
        if (!blocked) pthread_mutex_unlock(&j->servers.ps[i]->host_lock);
    }
}

/* Closes the links to the tasks, and waits until they have seen it: so nothing is written for it any more. */
static void leave(job *j)
{
    int64_t until = deadline();

    for (int i = 0; i < 2; i++) {
        est_server *ps   = j->servers.ps[i];
        bool        gone = false;

        est_link_close(est_tasks_of(j->remote)->tasks[i].link, "it ends");
        while (!gone && est_now_ns() < until) {
            pthread_mutex_lock(&ps->lock);
            gone = ps->clients[0]->link == NULL;
            pthread_mutex_unlock(&ps->lock);
            if (!gone) est_sleep_ns(EST_NS_PER_SEC / 1000);
        }
        assert_true(gone);
    }
}

/* Neither task gets to its part: both have the time of one. */
TEST(save)
{
    const est_remote_entry entries[] = { { 0, { .key = "a", .name = "a", .dtype = EST_F32, .rows = -1 } },
                                         { 1, { .key = "b", .name = "b", .dtype = EST_F32, .rows = -1 } } };
    const est_remote_files files     = { "/proc/never-written", entries, 2 };
    job                    j         = make_job(0, 2);
    pthread_t              thread;
    int64_t                start_ns;
    est_status             status;
    bool                   parts[2];

    est_signals_catch();
    block(&j, true);
    assert_int_equal(pthread_create(&thread, NULL, stop_when_waiting, (void *)(uintptr_t) "the save of its variables"),
                     0);
    start_ns = est_now_ns();
    status   = j.remote->ops->save(j.remote, &files, parts);
    assert_true((double)(est_now_ns() - start_ns) < BOUND_SECS * (double)EST_NS_PER_SEC);
    assert_int_equal(status, EST_CANCELLED);
    assert_non_null(strstr(est_error_message(), "ps:0 was asked for the save of its variables: SIGTERM"));
    pthread_join(thread, NULL);
    leave(&j);
    block(&j, false);
    est_signals_release(status);
    free_job(&j);
}

typedef struct holding {
    est_remote *remote;
    est_status  status;
} holding;

static void *hold_steps(void *arg)
{
    holding *h = arg;

    h->status = est_remote_hold(h->remote);
    return NULL;
}

/* How long the task has waited for that; negative: it does not. */
static double secs_waited(const char *why)
{
    est_wait waits[EST_WAITS_MAX];
    int      n = est_waits_of("worker:0", waits, EST_WAITS_MAX);

    for (int i = 0; i < n; i++) {
        if (strcmp(waits[i].why, why) == 0) return (double)(est_now_ns() - waits[i].since_ns) / (double)EST_NS_PER_SEC;
    }
    return -1;
}

/* Until it has waited for more than a look at signals takes, or does not wait any more. */
static void await_long_wait(const char *why)
{
    int64_t until = deadline();
    bool    began = false;
    double  secs  = -1;

    while (secs < 1.5 && (!began || secs >= 0) && est_now_ns() < until) {
        est_sleep_ns(EST_NS_PER_SEC / 1000);
        secs  = secs_waited(why);
        began = began || secs >= 0;
    }
}

/* A task that was stopped and has still to save waits for a step of another that is under way: `ends`, or for so long
 * as a save may take then. */
static void hold_after_signal(bool ends)
{
    job         j     = make_job(0, ends ? ANSWER_SECS : 2);
    est_server *clock = j.servers.ps[0];
    holding     h     = { .remote = j.remote };
    int64_t     until = deadline();
    pthread_t   thread;

    pthread_mutex_lock(&clock->lock);
    assert_ok(est_gate_ask(clock->gate, "worker:1", 0, 0, NULL));
    assert_true(est_gate_next(clock->gate, &(void *){ NULL }, &(est_gate_answer){ 0 }));
    pthread_mutex_unlock(&clock->lock);
    est_signals_catch();
    (void)raise(SIGTERM);
    assert_int_equal(pthread_create(&thread, NULL, hold_steps, &h), 0);
    if (ends) await_long_wait("steps are under way, and a checkpoint waits for them");
    if (ends) {
        pthread_mutex_lock(&clock->lock);
        est_gate_leave(clock->gate, "worker:1");
        est_server_wake(clock);
        pthread_mutex_unlock(&clock->lock);
    }
    pthread_join(thread, NULL);
    assert_int_equal(h.status, ends ? EST_OK : EST_CANCELLED);
    assert_true(est_now_ns() < until);
    est_signals_release(EST_CANCELLED);
    free_job(&j);
}

TEST(hold)
{
    hold_after_signal(true);
    hold_after_signal(false);
}

/* The clock asks for the commit when the pushes have come; the task that is to make it does not get to it. */
static void *block_commit(void *arg)
{
    static const char commit[] = "the commit of a step";
    job              *j        = arg;
    int64_t           until    = deadline();

    while (!is_waiting("other workers have not pushed yet") && est_now_ns() < until)
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    pthread_mutex_lock(&j->servers.ps[1]->host_lock);
    pthread_mutex_lock(&j->servers.ps[0]->lock);
    est_gate_release(j->servers.ps[0]->gate);
    est_server_wake(j->servers.ps[0]);
    pthread_mutex_unlock(&j->servers.ps[0]->lock);
    (void)stop_when_waiting((void *)(uintptr_t)commit);
    while (is_waiting(commit) && est_now_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    pthread_mutex_unlock(&j->servers.ps[1]->host_lock);
    return NULL;
}

TEST(commit)
{
    job        j = make_job(1, ANSWER_SECS);
    pthread_t  thread;
    int64_t    start_ns;
    est_status status;

    est_signals_catch();
    pthread_mutex_lock(&j.servers.ps[0]->lock);
    est_gate_hold(j.servers.ps[0]->gate);
    pthread_mutex_unlock(&j.servers.ps[0]->lock);
    assert_int_equal(pthread_create(&thread, NULL, block_commit, &j), 0);
    start_ns = est_now_ns();
    status   = est_step_run(j.step, NULL); /* which takes its turn, and ends with the commit */
    assert_true((double)(est_now_ns() - start_ns) < BOUND_SECS * (double)EST_NS_PER_SEC);
    assert_int_equal(status, EST_CANCELLED);
    assert_non_null(strstr(est_error_message(), "ps:1 was asked for the commit of a step: SIGTERM"));
    pthread_join(thread, NULL);
    est_signals_release(status);
    free_job(&j);
}

int main(void)
{
    return est_test_run_apart(NULL, NULL);
}
