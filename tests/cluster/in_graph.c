/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that is no task and drives a cluster: one graph with operations at workers and variables at ps tasks, as
 * TensorFlow's in-graph replication has it. */
#include <pthread.h>

#include "base/clock.h"
#include "cluster/remote_tasks.h"
#include "estoc/estoc.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define WORKERS 2
#define STEPS   10

static est_server *make_client(const servers *s)
{
    est_server *client = NULL;

    assert_ok(est_server_create(s->cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    assert_string_equal(est_server_target(client), "");
    return client;
}

static est_remote *drive(est_server *server)
{
    est_remote *remote = NULL;

    assert_ok(est_remote_create(
        server, EST_REMOTE(.type = "*", .is_chief = true, .connect_secs = 60, .answer_secs = 20), &remote));
    return remote;
}

/* Each worker has a part of the batch; their gradients together are those of the whole. */
typedef struct model {
    est_graph *graph;
    est_node   x[WORKERS], loss, train;
} model;

static model make_model(bool pinned)
{
    model    m = { 0 };
    est_node w, losses[WORKERS];

    assert_ok(est_graph_create(3, &m.graph));
    if (pinned) est_graph_device(m.graph, "/job:ps/task:0");
    w = est_weight(m.graph, "w", EST_SHAPE(4, 3), NULL);
    for (int i = 0; i < WORKERS; i++) {
        char name[16], device[32];

        snprintf(name, sizeof name, "x%d", i);
        snprintf(device, sizeof device, "/job:worker/task:%d", i);
        est_graph_device(m.graph, NULL);
        m.x[i] = est_placeholder(m.graph, name, EST_F32, EST_SHAPE(-1, 4));
        if (pinned) est_graph_device(m.graph, device);
        losses[i] = est_reduce_mean(est_square(est_matmul(m.x[i], est_read_variable(w))), EST_I64S(0, 1), false);
    }
    est_graph_device(m.graph, NULL);
    m.loss  = est_mul(est_add(losses[0], losses[1]), est_scalar(m.graph, EST_F32, 0.5));
    m.train = est_minimize(est_momentum(0.1, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static void train(est_session *session, const model *m, double losses[STEPS])
{
    est_step *step;

    assert_ok(
        est_session_prepare(session, EST_NODES(m->x[0], m->x[1]), EST_NODES(m->loss), EST_NODES(m->train), &step));
    for (int i = 0; i < STEPS; i++) {
        est_tensor *x[WORKERS] = { 0 };

        for (int k = 0; k < WORKERS; k++) {
            assert_ok(est_tensor_create(EST_F32, EST_SHAPE(5, 4), &x[k]));
            for (int j = 0; j < 20; j++)
                ((float *)est_tensor_mutable_data(x[k]))[j] = (float)((i + 7 * k + j) % 11) / 11.0F;
        }
        assert_ok(est_step_run(step, (const est_tensor *[]){ x[0], x[1] }));
        losses[i] = est_step_scalar(step, 0);
        for (int k = 0; k < WORKERS; k++) est_tensor_free(x[k]);
    }
}

static int runs_of(const est_server *server)
{
    int runs = 0;

    for (int i = 0; i < server->n_clients; i++) runs += (int)server->clients[i]->runs;
    return runs;
}

TEST(same_numbers)
{
    servers      s      = servers_start(1, WORKERS, "tcp");
    est_server  *client = make_client(&s);
    est_remote  *remote = drive(client);
    model        m = make_model(false), pinned = make_model(true);
    est_session *alone = NULL, *session = NULL;
    double       want[STEPS], got[STEPS];

    assert_int_equal(remote->n_tasks, 1 + WORKERS);
    alone   = nn_session(m.graph, NULL);
    session = nn_session(pinned.graph, remote);
    train(alone, &m, want);
    train(session, &pinned, got);
    assert_memory_equal(want, got, sizeof want);
    for (int i = 0; i < WORKERS; i++) { /* and they have done it */
        assert_true(runs_of(s.worker[i]) >= STEPS);
        assert_int_equal(est_store_size(est_host_store(s.worker[i]->host)), 0);
    }
    assert_non_null(est_store_find(est_host_store(s.ps[0]->host), "w/Momentum"));
    est_session_free(alone);
    est_session_free(session);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(m.graph);
    est_graph_free(pinned.graph);
    servers_stop(&s);
}

/* Variables that no device places go to ps tasks; where there are none, to any task but this one. */
TEST(variables)
{
    for (int n_ps = 2; n_ps >= 0; n_ps -= 2) {
        servers      s       = servers_start(n_ps, WORKERS, "tcp");
        est_server  *client  = n_ps > 0 ? make_client(&s) : NULL;
        est_remote  *remote  = drive(client != NULL ? client : s.worker[0]);
        est_session *session = NULL;
        est_graph   *graph;
        est_store   *store;
        est_tensor  *out = NULL;
        est_node     sum;

        assert_ok(est_graph_create(1, &graph));
        sum = est_read_variable(est_weight(graph, "v0", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones())));
        for (int i = 1; i < 4; i++) {
            char name[16];

            snprintf(name, sizeof name, "v%d", i);
            sum = est_add(sum, est_read_variable(
                                   est_weight(graph, name, EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()))));
        }
        assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
        assert_ok(est_session_store(session, &store));
        for (int i = 0; i < 4; i++) {
            char name[16];
            int  task;

            snprintf(name, sizeof name, "v%d", i);
            task = est_store_find(store, name)->task;
            assert_true(est_store_find(store, name)->elsewhere);
            if (n_ps > 0) assert_int_equal(task, i % 2); /* ps:0, ps:1 */
            if (n_ps == 0) assert_string_equal(remote->ops->name(remote, task), "worker:1");
        }
        assert_ok(est_session_init(session));
        assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(sum), EST_NO_NODES, &out));
        assert_true(nn_element(out, 1) == 4);
        est_tensor_free(out);
        est_session_free(session);
        est_remote_free(remote);
        est_server_free(client);
        est_graph_free(graph);
        servers_stop(&s);
    }
}

/* Two clients of one process, as of two containers with one process id, leave each other alone. */
TEST(two_clients)
{
    servers     s = servers_start(1, 1, "tcp");
    est_server *a = make_client(&s), *b = make_client(&s);
    est_remote *of_a = drive(a), *of_b = drive(b);
    model       m = make_model(false);
    double      losses[STEPS];

    for (int i = 0; i < 2; i++) { /* each after the other has come */
        est_session *first = NULL, *second = NULL;

        assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = of_a), &first));
        assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = of_b), &second));
        assert_ok(est_session_init(first));
        train(first, &m, losses);
        train(second, &m, losses);
        est_session_free(first);
        est_session_free(second);
    }
    est_remote_free(of_a);
    est_remote_free(of_b);
    est_server_free(a);
    est_server_free(b);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* A table that is pinned to a worker is filled and looked into there, whatever the device of the lookup. */
TEST(table)
{
    servers      s      = servers_start(1, WORKERS, "tcp");
    est_server  *client = make_client(&s);
    est_remote  *remote = drive(client);
    est_tensor  *words = NULL, *asked = NULL, *out[2] = { 0 };
    est_session *session = NULL;
    est_graph   *graph;
    est_node     table, x, ids, doubled;

    assert_ok(
        est_tensor_create_from(EST_STRING, EST_SHAPE(3), (est_str[]){ { "a", 1 }, { "b", 1 }, { "c", 1 } }, &words));
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(2), (est_str[]){ { "c", 1 }, { "b", 1 } }, &asked));
    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:worker/task:1");
    table = est_vocabulary_list(graph, words, NULL);
    est_graph_device(graph, NULL);
    x   = est_placeholder(graph, "x", EST_STRING, EST_SHAPE(-1));
    ids = est_lookup(table, x);
    est_graph_device(graph, "/job:worker/task:0");
    doubled = est_add(ids, ids);
    assert_ok(est_graph_status(graph));
    for (int i = 0; i < 2; i++) { /* a second session finds it filled */
        session = nn_session(graph, remote);
        assert_ok(est_session_run(session, EST_FEEDS({ x, asked }), EST_NODES(ids, doubled), EST_NO_NODES, out));
        assert_int_equal(((const int64_t *)est_tensor_data(out[0]))[0], 2);
        assert_int_equal(((const int64_t *)est_tensor_data(out[0]))[1], 1);
        assert_int_equal(((const int64_t *)est_tensor_data(out[1]))[0], 4);
        for (int k = 0; k < 2; k++) est_tensor_free(out[k]);
        est_session_free(session);
    }
    assert_true(runs_of(s.worker[1]) >= 4); /* the filler and the lookup, twice */
    est_tensor_free(words);
    est_tensor_free(asked);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(graph);
    servers_stop(&s);
}

static void *join(void *arg)
{
    assert_ok(est_server_join(arg));
    return NULL;
}

/* A server is not lonely while a client drives it, and leaves when the client has ended the job. */
TEST(join)
{
    servers      s       = servers_start(1, 1, "tcp");
    est_server  *client  = make_client(&s);
    est_session *session = NULL;
    model        m       = make_model(false);
    est_remote  *remote;
    pthread_t    thread;
    double       losses[STEPS];
    int64_t      until;

    est_server_free(s.ps[0]);
    assert_ok(est_server_create(s.cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1, .lonely_secs = 0.5),
                                &s.ps[0]));
    remote  = drive(client);
    session = nn_session(m.graph, remote);
    assert_int_equal(pthread_create(&thread, NULL, join, s.ps[0]), 0);
    for (until = est_now_ns() + EST_NS_PER_SEC; est_now_ns() < until;) train(session, &m, losses);
    est_session_free(session);
    assert_ok(est_remote_end_job(remote));
    est_remote_free(remote);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(est_server_join(s.worker[0]));
    est_server_free(client);
    est_graph_free(m.graph);
    servers_stop(&s);
}

static void *join_until_stopped(void *arg)
{
    assert_int_equal(est_server_join(arg), EST_CANCELLED);
    return NULL;
}

/* A program ends servers that serve beside it, whether they are in est_server_join yet or not. */
TEST(stop)
{
    servers   s = servers_start(1, 1, "tcp");
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, join_until_stopped, s.ps[0]), 0);
    est_server_stop(s.ps[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    est_server_stop(s.worker[0]);
    assert_int_equal(est_server_join(s.worker[0]), EST_CANCELLED);
    assert_string_equal(est_error_message(), "worker:0 was stopped");
    est_server_stop(NULL);
    servers_stop(&s);
}

/* A second program: its session waits for the chief's word. */
typedef struct follower {
    const model *m;
    est_remote  *remote;
    double       losses[STEPS];
} follower;

static void *follow(void *arg)
{
    follower    *f       = arg;
    est_session *session = NULL;

    assert_ok(est_session_create(f->m->graph, EST_SESSION(.threads = 1, .remote = f->remote), &session));
    train(session, f->m, f->losses);
    est_session_free(session);
    return NULL;
}

TEST(ready)
{
    servers      s     = servers_start(1, 0, "tcp");
    est_server  *first = make_client(&s), *second = make_client(&s);
    est_remote  *chief   = NULL;
    model        m       = make_model(false);
    follower     f       = { .m = &m };
    est_session *session = NULL;
    pthread_t    follows, joins;
    int64_t      until = est_now_ns() + 60 * EST_NS_PER_SEC;

    assert_ok(est_remote_create(first, EST_REMOTE(.is_chief = true, .connect_secs = 60), &chief));
    assert_ok(est_remote_create(second, EST_REMOTE(.connect_secs = 60), &f.remote));
    assert_int_equal(est_remote_declare_ready(f.remote), EST_FAILED_PRECONDITION);
    assert_int_equal(est_remote_end_job(f.remote), EST_FAILED_PRECONDITION);
    assert_string_equal(est_error_message(), "only the chief ends the job: create its remote with .is_chief = true");
    assert_int_equal(pthread_create(&joins, NULL, join, s.ps[0]), 0);
    assert_int_equal(pthread_create(&follows, NULL, follow, &f), 0);
    for (bool waits = false; !waits;) {
        pthread_mutex_lock(&s.ps[0]->lock);
        waits = s.ps[0]->n_parked == 1;
        pthread_mutex_unlock(&s.ps[0]->lock);
        assert_true(est_now_ns() < until);
        if (!waits) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    session = nn_session(m.graph, chief);
    assert_ok(est_remote_declare_ready(chief));
    assert_int_equal(pthread_join(follows, NULL), 0);
    assert_true(f.losses[STEPS - 1] < f.losses[0]);
    est_session_free(session);
    assert_ok(est_remote_end_job(chief));
    est_remote_free(f.remote);
    est_remote_free(chief);
    assert_int_equal(pthread_join(joins, NULL), 0);
    est_server_free(first);
    est_server_free(second);
    est_graph_free(m.graph);
    servers_stop(&s);
}

TEST(refused)
{
    servers     s      = servers_start(0, 1, "tcp");
    est_remote *remote = NULL;

    assert_int_equal(est_remote_create(s.worker[0], EST_REMOTE(.type = "*"), &remote), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "no other task"));
    assert_int_equal(est_remote_create(s.worker[0], NULL, &remote), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "no ps task"));
    assert_int_equal(est_remote_create(NULL, NULL, &remote), EST_INVALID_ARGUMENT);
    assert_null(remote);
    est_remote_free(NULL);
    est_server_free(NULL);
    servers_stop(&s);
}
