/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters in one process: a client trains over their servers, tasks are lost and started again. */
#include "estoc/local_cluster.h"

#include "base/clock.h"
#include "cluster/clients.h"
#include "estoc/strategy.h"
#include "runtime/remote.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

#define TCP EST_SERVER(.transport = "tcp")

/* A client with a session over the ps tasks of a local cluster. */
typedef struct client {
    est_local_cluster *cluster;
    est_strategy      *strategy;
    est_server        *server;
    est_remote        *remote;
    est_graph         *graph;
    est_session       *session;
    est_node           add;
} client;

static void open_session(client *c)
{
    assert_ok(
        est_strategy_remote(c->strategy, c->server, EST_REMOTE(.is_chief = true, .connect_secs = 20), &c->remote));
    assert_ok(est_session_create(c->graph, EST_SESSION(.threads = 1, .remote = c->remote), &c->session));
}

static void close_session(client *c)
{
    est_session_free(c->session);
    est_remote_free(c->remote);
}

static client make_client(int ps, int workers, bool chief)
{
    client          c = { 0 };
    const est_task *task;
    est_node        v;

    assert_ok(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = ps, .workers = workers, .chief = chief, .server = TCP),
                                       &c.cluster));
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(c.cluster)),
                                            &c.strategy));
    task = est_strategy_task(c.strategy);
    assert_ok(est_server_create(task->cluster, task->type, task->index,
                                EST_SERVER(.transport = "tcp", .silence_secs = 0.5), &c.server));
    assert_ok(est_graph_create(3, &c.graph));
    v     = est_weight(c.graph, "v", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_ones()));
    c.add = est_assign_add(v, est_scalar(c.graph, EST_F32, 1));
    open_session(&c);
    return c;
}

static void end_client(client *c)
{
    close_session(c);
    est_server_free(c->server);
    est_strategy_free(c->strategy);
    est_graph_free(c->graph);
    est_local_cluster_free(c->cluster);
}

static est_status add(client *c)
{
    return est_session_run(c->session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(c->add), NULL);
}

static double read_v(client *c)
{
    est_tensor *v = NULL;
    double      first;

    assert_ok(est_session_read(c->session, "v", &v));
    first = nn_element(v, 0);
    est_tensor_free(v);
    return first;
}

TEST(client)
{
    client          c    = make_client(2, 2, false);
    const est_task *task = est_resolver_task(est_local_cluster_resolver(c.cluster));

    assert_null(task->type);
    assert_int_equal(task->num_ps_replicas, 2);
    assert_int_equal(task->num_worker_replicas, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            strncmp(est_server_target(est_local_cluster_server(c.cluster, "ps", i)), "tcp://127.0.0.1:", 16), 0);
        assert_non_null(est_local_cluster_server(c.cluster, "worker", i));
        assert_null(est_local_cluster_server(c.cluster, "worker", i + 2));
    }
    assert_ok(est_session_init(c.session));
    for (int i = 0; i < 3; i++) assert_ok(add(&c));
    assert_near(read_v(&c), 4, 0);
    assert_ok(est_remote_end_job(c.remote)); /* servers that have ended can be freed as well */
    end_client(&c);
}

/* The program as the chief has a server that the others can reach, which it starts itself. */
TEST(chief)
{
    client          c    = make_client(1, 1, true);
    const est_task *task = est_strategy_task(c.strategy);

    assert_string_equal(task->type, "chief");
    assert_true(task->is_chief);
    assert_int_equal(strncmp(est_server_target(c.server), "tcp://127.0.0.1:", 16), 0);
    assert_null(est_local_cluster_server(c.cluster, "chief", 0));
    assert_int_equal(est_local_cluster_lose(c.cluster, "chief", 0), EST_NOT_FOUND);
    assert_ok(est_session_init(c.session));
    assert_ok(add(&c));
    assert_near(read_v(&c), 2, 0);
    end_client(&c);
}

/* Connections of a lost task break, and its variables are gone; at its address it comes back without them. */
TEST(lose_and_restart)
{
    client      c = make_client(1, 1, false);
    est_tensor *v = NULL;

    assert_ok(est_session_init(c.session));
    assert_ok(add(&c));
    assert_ok(est_local_cluster_lose(c.cluster, "ps", 0));
    assert_null(est_local_cluster_server(c.cluster, "ps", 0));
    assert_int_equal(est_local_cluster_lose(c.cluster, "ps", 0), EST_FAILED_PRECONDITION);
    assert_int_equal(add(&c), EST_UNAVAILABLE);
    assert_null(strstr(est_error_message(), "closes its network")); /* that would be a farewell */
    close_session(&c);
    assert_ok(est_local_cluster_restart(c.cluster, "ps", 0));
    open_session(&c);
    assert_int_equal(est_session_read(c.session, "v", &v), EST_FAILED_PRECONDITION);
    assert_ok(est_session_init(c.session));
    assert_near(read_v(&c), 1, 0);
    close_session(&c);
    assert_ok(est_local_cluster_restart(c.cluster, "ps", 0)); /* it is lost first */
    open_session(&c);
    assert_int_equal(est_session_read(c.session, "v", &v), EST_FAILED_PRECONDITION);
    assert_int_equal(est_local_cluster_lose(c.cluster, "ps", 1), EST_NOT_FOUND);
    assert_int_equal(est_local_cluster_restart(c.cluster, "master", 0), EST_NOT_FOUND);
    assert_string_equal(est_error_message(), "the local cluster has no task master:0");
    end_client(&c);
}

/* Without any configuration all of it goes over TLS, with the certificates of the user. */
TEST(tls)
{
    est_local_cluster *c        = NULL;
    est_strategy      *strategy = NULL;
    est_server        *server   = NULL;
    est_remote        *remote   = NULL;
    const est_task    *task;

    assert_ok(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 1), &c));
    assert_int_equal(strncmp(est_server_target(est_local_cluster_server(c, "ps", 0)), "tls://", 6), 0);
    assert_ok(
        est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(c)), &strategy));
    task = est_strategy_task(strategy);
    assert_ok(est_server_create(task->cluster, task->type, task->index, NULL, &server));
    assert_ok(est_strategy_remote(strategy, server, EST_REMOTE(.is_chief = true, .connect_secs = 20), &remote));
    assert_ok(remote->ops->connect(remote));
    est_remote_free(remote);
    est_server_free(server);
    est_strategy_free(strategy);
    est_local_cluster_free(c);
}

TEST(refused)
{
    static const int   wrong[][2] = { { 0, 0 }, { -1, 2 }, { 1, -1 }, { 200, 57 }, { INT32_MAX, INT32_MAX } };
    est_local_cluster *c          = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = wrong[i][0], .workers = wrong[i][1]), &c),
                         EST_INVALID_ARGUMENT);
    }
    assert_int_equal(
        est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 1, .server = EST_SERVER(.transport = "pigeon")), &c),
        EST_INVALID_ARGUMENT);
    assert_null(c);
    est_local_cluster_free(NULL);
}

TEST(failures)
{
    FAULT_LOOPS(f) {
        est_local_cluster *c = NULL;
        est_status         status;

        fault_arm(&f);
        status = est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 1, .workers = 1, .server = TCP), &c);
        if (!fault_end(&f)) assert_ok(status);
        est_local_cluster_free(c);
    }
}
