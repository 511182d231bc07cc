/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions at a target: the master of a server drives the steps of clients that know only its address. */
#include <pthread.h>

#include "base/clock.h"
#include "estoc/estoc.h"
#include "runtime/session.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define WORKERS 2
#define STEPS   10

/* Variables at ps:0 and at worker:0, losses at two workers. */
typedef struct model {
    est_graph *graph;
    est_node   x[WORKERS], b, loss, train;
} model;

static model make_model(bool pinned)
{
    model    m = { 0 };
    est_node w, losses[WORKERS];

    assert_ok(est_graph_create(3, &m.graph));
    if (pinned) est_graph_device(m.graph, "/job:ps/task:0");
    w = est_weight(m.graph, "w", EST_SHAPE(4, 3), NULL);
    if (pinned) est_graph_device(m.graph, "/job:worker/task:0");
    m.b = est_weight(m.graph, "b", EST_SHAPE(3), NULL);
    for (int i = 0; i < WORKERS; i++) {
        char name[16], device[32];

        snprintf(name, sizeof name, "x%d", i);
        snprintf(device, sizeof device, "/job:worker/task:%d", i);
        est_graph_device(m.graph, NULL);
        m.x[i] = est_placeholder(m.graph, name, EST_F32, EST_SHAPE(-1, -1));
        if (pinned) est_graph_device(m.graph, device);
        losses[i] = est_reduce_mean(
            est_square(est_add(est_matmul(m.x[i], est_read_variable(w)), est_read_variable(m.b))), EST_I64S(0, 1),
            false);
    }
    est_graph_device(m.graph, NULL);
    m.loss  = est_mul(est_add(losses[0], losses[1]), est_scalar(m.graph, EST_F32, 0.5));
    m.train = est_minimize(est_momentum(0.1, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static est_tensor *make_x(int seed, int columns)
{
    est_tensor *x = NULL;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(5, columns), &x));
    for (int j = 0; j < 5 * columns; j++) ((float *)est_tensor_mutable_data(x))[j] = (float)((seed + j) % 11) / 11.0F;
    return x;
}

static est_status train(est_session *session, const model *m, int columns, double losses[STEPS])
{
    est_step  *step;
    est_status status = EST_OK;

    EST_TRY(est_session_prepare(session, EST_NODES(m->x[0], m->x[1]), EST_NODES(m->loss), EST_NODES(m->train), &step));
    for (int i = 0; i < STEPS && status == EST_OK; i++) {
        est_tensor *x[WORKERS] = { make_x(i, columns), make_x(i + 7, columns) };

        status    = est_step_run(step, (const est_tensor *[]){ x[0], x[1] });
        losses[i] = est_step_scalar(step, 0);
        for (int k = 0; k < WORKERS; k++) est_tensor_free(x[k]);
    }
    return status;
}

static est_session *session_at(est_graph *graph, est_server *server)
{
    est_session *session = NULL;

    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .target = est_server_target(server), .connect_secs = 60), &session));
    return session;
}

static void await_sessions(est_server *server, int n)
{
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    while (est_master_sessions(server->master) != n) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* Whatever the server is, a ps, the worker that has variables, or the other one. */
TEST(same_numbers)
{
    model        m     = make_model(false);
    est_session *alone = nn_session(m.graph, NULL);
    double       want[STEPS], got[STEPS];

    assert_ok(train(alone, &m, 4, want));
    for (int at = 0; at < 3; at++) {
        servers      s       = servers_start(1, WORKERS, "tcp");
        est_server  *master  = at == 0 ? s.ps[0] : s.worker[at - 1];
        model        pinned  = make_model(true);
        est_session *session = session_at(pinned.graph, master);
        est_tensor  *w[2]    = { 0 };

        assert_ok(est_session_init(session));
        assert_ok(train(session, &pinned, 4, got));
        assert_memory_equal(want, got, sizeof want);
        assert_non_null(est_store_find(est_host_store(s.ps[0]->host), "w/Momentum"));
        assert_non_null(est_store_find(est_host_store(s.worker[0]->host), "b"));
        assert_int_equal(est_store_size(est_host_store(s.worker[1]->host)), 0);
        assert_ok(est_session_read(alone, "w", &w[0]));
        assert_ok(est_session_read(session, "w", &w[1]));
        assert_memory_equal(est_tensor_data(w[0]), est_tensor_data(w[1]), est_tensor_bytes(w[0]));
        assert_int_equal(est_master_sessions(master->master), 1);
        est_session_free(session);
        await_sessions(master, 0);
        for (int i = 0; i < 2; i++) est_tensor_free(w[i]);
        est_graph_free(pinned.graph);
        servers_stop(&s);
    }
    est_session_free(alone);
    est_graph_free(m.graph);
}

/* Variables outlive the client; a graph that grows is sent again; values are written and saved. */
TEST(come_back)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[1]);
    est_tensor  *b = NULL, *zeros = NULL, *out = NULL;
    est_node     late;
    double       losses[STEPS];
    est_saver   *saver = NULL;
    char         dir[64];

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_session_init(session));
    assert_ok(train(session, &m, 4, losses));
    assert_ok(est_session_read(session, "b", &b));
    assert_ok(est_saver_save(saver, session, 1, NULL, NULL));
    est_session_free(session);

    session = session_at(m.graph, s.ps[0]);
    assert_ok(est_session_init(session)); /* finds that nothing is to do */
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(est_read_variable(m.b)), EST_NO_NODES, &out));
    assert_memory_equal(est_tensor_data(b), est_tensor_data(out), est_tensor_bytes(b));
    est_tensor_free(out);
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(3), (float[3]){ 0 }, &zeros));
    assert_ok(est_session_write(session, "b", zeros));
    est_graph_device(m.graph, "/job:worker/task:1");
    late = est_weight(m.graph, "late", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_ones()));
    late = est_add(est_read_variable(late), est_read_variable(m.b));
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(late), EST_NO_NODES, &out));
    assert_true(nn_element(out, 2) == 1);
    est_tensor_free(out);
    assert_non_null(est_store_find(est_host_store(s.worker[1]->host), "late"));
    assert_ok(est_saver_restore(saver, session, EST_RESTORE(.partial = true), NULL));
    assert_ok(est_session_read(session, "b", &out));
    assert_memory_equal(est_tensor_data(b), est_tensor_data(out), est_tensor_bytes(b));
    est_tensor_free(out);
    est_tensor_free(zeros);
    est_tensor_free(b);
    est_saver_free(saver);
    est_test_dir_remove(dir);
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* A variable at ps:0, and one more. */
typedef struct counting {
    est_graph *graph;
    est_node   more;
} counting;

static counting make_counting(void)
{
    counting c = { 0 };
    est_node n;

    assert_ok(est_graph_create(1, &c.graph));
    n      = est_weight(c.graph, "n", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_zeros()));
    c.more = est_assign_add(n, est_ones_like(est_read_variable(n)));
    assert_ok(est_graph_status(c.graph));
    return c;
}

static void *count_at(void *server)
{
    counting     c       = make_counting();
    est_session *session = session_at(c.graph, server);

    for (int i = 0; i < STEPS; i++) {
        assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(c.more), NULL));
    }
    est_session_free(session);
    est_graph_free(c.graph);
    return NULL;
}

/* Several clients at one master at the same time: no update is lost or made twice. */
TEST(clients)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    counting     c       = make_counting();
    est_session *session = session_at(c.graph, s.worker[0]);
    est_server  *at[3]   = { s.worker[0], s.worker[0], s.worker[1] };
    est_tensor  *n       = NULL;
    pthread_t    threads[3];

    assert_ok(est_session_init(session));
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_at, at[i]), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(est_session_read(session, "n", &n));
    assert_true(nn_element(n, 1) == 3 * STEPS);
    est_tensor_free(n);
    est_session_free(session);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* A lost client's session ends; a lost session is an error, and a new one finds the variables. */
TEST(lost)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[0]);
    double       losses[STEPS];

    assert_ok(est_session_init(session));
    pthread_mutex_lock(&s.worker[0]->lock);
    for (int i = 0; i < s.worker[0]->n_clients; i++) {
        const est_client *of = s.worker[0]->clients[i];

        if (est_is_external(of->who.task) && of->link != NULL) est_link_close(of->link, "a test");
    }
    pthread_mutex_unlock(&s.worker[0]->lock);
    await_sessions(s.worker[0], 0);
    assert_int_equal(train(session, &m, 4, losses), EST_UNAVAILABLE);
    est_session_free(session);
    session = session_at(m.graph, s.worker[0]);
    assert_ok(train(session, &m, 4, losses));

    /* as is a server that ends, */
    est_server_free(s.worker[0]);
    s.worker[0] = NULL;
    assert_int_equal(train(session, &m, 4, losses), EST_UNAVAILABLE);
    est_session_free(session);

    /* and a task that the master lost: the client hears which */
    assert_ok(est_server_create(s.cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[0]));
    session = session_at(m.graph, s.worker[1]);
    assert_ok(est_session_init(session));
    assert_ok(train(session, &m, 4, losses));
    est_server_free(s.worker[0]);
    s.worker[0] = NULL;
    assert_ok(est_server_create(s.cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[0]));
    assert_int_equal(train(session, &m, 4, losses), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

TEST(errors)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true));
    model        m       = make_model(true);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     nowhere;
    est_step    *step = NULL;
    double       losses[STEPS];

    assert_int_equal(est_session_create(m.graph, EST_SESSION(.target = "nonsense"), &session), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "expected tls://host:port"));
    assert_int_equal(est_session_create(m.graph, EST_SESSION(.target = "smoke://a:1"), &session), EST_INVALID_ARGUMENT);
    assert_int_equal(
        est_session_create(m.graph, EST_SESSION(.target = est_server_target(s.ps[0]), .remote = remote), &session),
        EST_INVALID_ARGUMENT);
    assert_int_equal(
        est_session_create(m.graph, EST_SESSION(.target = "tcp://127.0.0.1:1", .connect_secs = 0.1), &session),
        EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "no server answers at the target tcp://127.0.0.1:1"));

    session = session_at(m.graph, s.ps[0]);
    assert_int_equal(train(session, &m, 4, losses), EST_FAILED_PRECONDITION); /* no variable has a value */
    assert_ok(est_session_init(session));
    assert_int_equal(train(session, &m, 3, losses), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    assert_ok(train(session, &m, 4, losses));
    est_session_free(session);

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:worker/task:7");
    nowhere = est_placeholder(graph, "x", EST_F32, EST_SHAPE(1));
    session = session_at(graph, s.ps[0]);
    assert_int_equal(
        est_session_prepare(session, EST_NODES(nowhere), EST_NODES(est_square(nowhere)), EST_NO_NODES, &step),
        EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "the cluster has no such task"));
    est_session_free(session);
    est_graph_free(graph);
    est_graph_free(m.graph);
    est_remote_free(remote);
    servers_stop(&s);
}

/* The tasks of a cluster are missing: the client waits for them no longer than it said. */
TEST(missing_task)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = NULL;

    est_server_free(s.worker[1]);
    s.worker[1] = NULL;
    assert_int_equal(
        est_session_create(m.graph, EST_SESSION(.target = est_server_target(s.ps[0]), .connect_secs = 0.5), &session),
        EST_DEADLINE_EXCEEDED);
    assert_non_null(strstr(est_error_message(), "worker:1"));
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* Without memory at any place of a step, in the client, the master or a task, the step fails or not; the next session
 * is good. So it is when a session is opened. */
TEST(memory)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[0]);
    est_tensor  *x[2]    = { make_x(0, 4), make_x(7, 4) };
    double       losses[STEPS];

    assert_ok(est_session_init(session));
    assert_ok(train(session, &m, 4, losses));
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 10) {
        est_tensor *loss = NULL;
        est_status  status;

        fault_arm(&f);
        status = est_session_run(session, EST_FEEDS({ m.x[0], x[0] }, { m.x[1], x[1] }), EST_NODES(m.loss),
                                 EST_NODES(m.train), &loss);
        if (!fault_end(&f)) assert_ok(status);
        est_tensor_free(loss);
        if (status == EST_OK) continue;
        est_session_free(session);
        session = session_at(m.graph, s.worker[0]);
        assert_ok(train(session, &m, 4, losses));
    }
    est_session_free(session);
    FAULT_LOOP(f, FAULT_PLACES, .more_than = 20, .depth = 1) {
        est_status status;

        session = NULL;
        fault_arm(&f);
        status = est_session_create(
            m.graph, EST_SESSION(.threads = 1, .target = est_server_target(s.worker[0]), .connect_secs = 60), &session);
        if (!fault_end(&f)) assert_ok(status);
        est_session_free(session);
        await_sessions(s.worker[0], 0);
    }
    for (int i = 0; i < 2; i++) est_tensor_free(x[i]);
    est_graph_free(m.graph);
    servers_stop(&s);
}
