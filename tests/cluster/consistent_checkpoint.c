/* SPDX-License-Identifier: Apache-2.0
 *
 * While the chief holds steps for a checkpoint no variable changes at any task: not by a worker whose step was given to
 * others and that comes back with it, nor by one that was asked to commit. Afterwards all go on. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "estoc/estoc.h"
#include "net/inject.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define CONNECT_SECS 60.0

/* Where the variable is, and where steps are counted. */
enum { PUSHES, CLOCK, N_PS };

typedef struct trainer {
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_node     train;
    est_step    *run;
} trainer;

typedef struct job {
    servers   servers;
    trainer   chief, worker;
    pthread_t clock;
} job;

static void open_session(trainer *t)
{
    est_session_free(t->session);
    t->session = NULL;
    assert_ok(est_session_create(t->graph, EST_SESSION(.threads = 1, .remote = t->remote), &t->session));
}

static void prepare(trainer *t)
{
    assert_ok(est_session_prepare(t->session, EST_NO_NODES, EST_NO_NODES, EST_NODES(t->train), &t->run));
}

static trainer make_trainer(servers *s, int index)
{
    trainer  t = { 0 };
    est_node b, count;

    assert_ok(est_graph_create(5, &t.graph));
    est_graph_device(t.graph, "/job:ps/task:1");
    count = est_global_step(t.graph);
    est_graph_device(t.graph, "/job:ps/task:0");
    b = est_weight(t.graph, "b", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(t.graph, NULL);
    t.train = est_assign_add(b, est_const_f32(t.graph, EST_SHAPE(1), (const float[]){ 1 }));
    t.train = est_after(est_assign_add(count, est_scalar(t.graph, EST_I64, 1)), t.train);
    assert_ok(est_graph_status(t.graph));
    t.remote = servers_remote(s, index, EST_REMOTE(.is_chief = index == 0, .connect_secs = CONNECT_SECS));
    open_session(&t);
    if (index == 0) {
        assert_ok(est_session_init(t.session));
        assert_ok(est_remote_declare_ready(t.remote));
    }
    prepare(&t);
    return t;
}

static void free_trainer(trainer *t)
{
    est_session_free(t->session);
    est_remote_free(t->remote);
    est_graph_free(t->graph);
}

/* Gives turns of the lost to others. */
static void *keep_clock(void *server)
{
    return est_server_join(server) == EST_OK ? NULL : server;
}

static void begin(job *j)
{
    j->servers = servers_start(N_PS, 2, "tcp");
    j->chief   = make_trainer(&j->servers, 0);
    j->worker  = make_trainer(&j->servers, 1);
    assert_int_equal(pthread_create(&j->clock, NULL, keep_clock, j->servers.ps[CLOCK]), 0);
}

static void end(job *j)
{
    void *failed;

    assert_ok(est_remote_end_job(j->chief.remote));
    free_trainer(&j->worker);
    free_trainer(&j->chief);
    pthread_join(j->clock, &failed);
    assert_null(failed);
    servers_stop(&j->servers);
}

static void take_turn(trainer *t)
{
    bool finished;

    assert_ok(t->remote->ops->turn(t->remote, &finished));
    assert_false(finished);
}

static void make_step(trainer *t)
{
    take_turn(t);
    assert_ok(est_step_run(t->run, NULL));
}

static void expect_values(const job *j, float b, int64_t step)
{
    est_tensor *value = NULL;

    assert_ok(est_session_read(j->chief.session, "b", &value));
    assert_true(*(const float *)est_tensor_data(value) == b);
    est_tensor_free(value);
    assert_ok(est_session_read(j->chief.session, "global_step", &value));
    assert_int_equal(*(const int64_t *)est_tensor_data(value), step);
    est_tensor_free(value);
}

static void listen_to_worker(const job *j, bool silent)
{
    assert_ok(est_net_inject(est_server_net(j->servers.ps[CLOCK]), "worker:1",
                             silent ? EST_INJECT_SILENCE : EST_INJECT_NOTHING, 0));
}

/* As if the clock had not heard the worker for so long that its step is given to others. */
static void lose_worker(const job *j)
{
    est_server *clock = j->servers.ps[CLOCK];
    int64_t     until = est_now_ns() + (int64_t)(CONNECT_SECS * (double)EST_NS_PER_SEC);
    bool        lost  = false;

    listen_to_worker(j, true);
    while (!lost && est_now_ns() < until) {
        pthread_mutex_lock(&clock->lock);
        for (int i = 0; i < clock->n_clients; i++) {
            est_client *client = clock->clients[i];

            if (strcmp(client->who.task, "worker:1") != 0) continue;
            lost = client->link == NULL;
            if (!lost) est_link_close(client->link, "silent");
            if (lost) client->since_ns -= (int64_t)(2 * clock->silence_secs * (double)EST_NS_PER_SEC);
        }
        pthread_mutex_unlock(&clock->lock);
        if (!lost) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_true(lost);
}

static bool is_held(est_server *s)
{
    bool held;

    pthread_mutex_lock(&s->lock);
    held = est_gate_is_held(s->gate);
    pthread_mutex_unlock(&s->lock);
    return held;
}

/* A worker that has a turn is not heard any more where it got it, so the step is given to others and the chief may
 * copy. Then it comes with its push to the task that it still has a link with. */
TEST(late_push)
{
    job j;

    begin(&j);
    make_step(&j.worker);
    take_turn(&j.worker);
    lose_worker(&j);
    assert_ok(est_remote_hold(j.chief.remote));
    expect_values(&j, 2, 1);
    assert_int_equal(est_step_run(j.worker.run, NULL), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "no step of worker:1 is under way: try again"));
    expect_values(&j, 2, 1);
    assert_ok(est_remote_release(j.chief.remote));
    listen_to_worker(&j, false);
    open_session(&j.worker); /* as training does then */
    prepare(&j.worker);
    make_step(&j.worker);
    expect_values(&j, 3, 2);
    end(&j);
}

/* A committer that was lost is replaced; it must not do its work while variables are copied. */
TEST(late_commit)
{
    job                    j;
    est_packing            packing = { 0 };
    const est_remote_task *peers;

    begin(&j);
    peers = est_tasks_of(j.worker.remote)->tasks;
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, 0);
    assert_ok(est_remote_hold(j.chief.remote));
    for (int i = 0; i < N_PS; i++) {
        assert_int_equal(est_remote_task_tell(&peers[i], EST_METHOD_COMMIT, &packing, EST_ASK_SECS), EST_ABORTED);
    }
    assert_ok(est_remote_release(j.chief.remote));
    for (int i = 0; i < N_PS; i++)
        assert_ok(est_remote_task_tell(&peers[i], EST_METHOD_COMMIT, &packing, EST_ASK_SECS));
    est_packing_clear(&packing);
    end(&j);
}

/* A hold that one task does not confirm is none at the others. */
TEST(half_a_hold)
{
    job      j;
    est_net *net;

    begin(&j);
    net = est_server_net(j.servers.worker[0]);
    assert_ok(est_net_inject(net, "ps:0", EST_INJECT_CUT, 1));
    assert_int_equal(est_remote_hold(j.chief.remote), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "ps:0"));
    assert_false(is_held(j.servers.ps[CLOCK]));
    assert_ok(est_net_inject(net, "ps:0", EST_INJECT_NOTHING, 0));
    open_session(&j.chief);
    assert_ok(est_remote_hold(j.chief.remote));
    assert_true(is_held(j.servers.ps[CLOCK]) && is_held(j.servers.ps[PUSHES]));
    assert_ok(est_remote_release(j.chief.remote));
    assert_false(is_held(j.servers.ps[CLOCK]) || is_held(j.servers.ps[PUSHES]));
    end(&j);
}

/* A release that did not come: the chief that makes a step has copied, or failed to. */
TEST(no_release)
{
    job j;

    begin(&j);
    assert_ok(est_remote_hold(j.chief.remote));
    make_step(&j.chief);
    make_step(&j.worker);
    expect_values(&j, 3, 2);
    end(&j);
}

/* A turn that is left of a step that failed is given back by whoever holds: nobody would wait for it else. */
TEST(turn_left_over)
{
    job  j;
    bool finished;

    begin(&j);
    assert_ok(j.chief.remote->ops->turn(j.chief.remote, &finished));
    j.chief.remote->ops->abandon(j.chief.remote);
    assert_ok(est_remote_hold(j.chief.remote));
    assert_ok(est_remote_release(j.chief.remote));
    make_step(&j.worker);
    end(&j);
}

/* The link to the clock breaks before copies are made, as remote_files.c finds out by asking for them: the others are
 * released nevertheless. */
TEST(release_without_clock)
{
    job              j;
    est_remote_task *clock;

    begin(&j);
    clock = &est_tasks_of(j.chief.remote)->tasks[CLOCK];
    assert_ok(est_remote_hold(j.chief.remote));
    est_link_close(clock->link, "the link breaks");
    assert_int_equal(est_remote_task_list_variables(clock), EST_UNAVAILABLE);
    assert_int_equal(est_remote_release(j.chief.remote), EST_UNAVAILABLE);
    assert_false(is_held(j.servers.ps[PUSHES]));
    make_step(&j.worker);
    open_session(&j.chief);
    expect_values(&j, 2, 1);
    end(&j);
}

/* A hold that is asked for again, as after an answer that was lost, is one. */
TEST(hold_twice)
{
    job j;

    begin(&j);
    for (int i = 0; i < 2; i++) assert_ok(est_remote_hold(j.chief.remote));
    assert_ok(est_remote_release(j.chief.remote));
    assert_false(is_held(j.servers.ps[CLOCK]) || is_held(j.servers.ps[PUSHES]));
    make_step(&j.worker);
    end(&j);
}
