/* SPDX-License-Identifier: Apache-2.0
 *
 * The device setter of between-graph replication: which task gets which variable, and a training with it over real
 * servers. */
#include <string.h>

#include "estoc/estoc.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

static const char *device_of(const est_graph *graph, const char *name)
{
    const est_node_def *def = est_def(est_graph_find(graph, name));

    if (def == NULL) fail_msg("no operation %s", name);
    return def->device;
}

static est_graph *make_graph(void)
{
    est_graph *graph = NULL;

    assert_ok(est_graph_create(3, &graph));
    return graph;
}

TEST(in_turn)
{
    est_graph *graph = make_graph();
    est_node   a, sum;

    est_replica_device_setter(graph, EST_DEVICE_SETTER(.ps_tasks = 2, .worker_device = "/job:worker/task:1"));
    a = est_weight(graph, "a", EST_SHAPE(100), NULL);
    (void)est_weight(graph, "b", EST_SHAPE(1), NULL);
    (void)est_weight(graph, "c", EST_SHAPE(1), NULL);
    sum = est_named(est_reduce_sum(est_read_variable(a), EST_I64S(0), false), "sum");
    (void)est_minimize(est_momentum(0.1, NULL), sum, NULL);
    assert_ok(est_graph_status(graph));
    assert_string_equal(device_of(graph, "a"), "/job:ps/task:0");
    assert_string_equal(device_of(graph, "b"), "/job:ps/task:1");
    assert_string_equal(device_of(graph, "c"), "/job:ps/task:0");
    assert_string_equal(device_of(graph, "a/Momentum"), "/job:ps/task:0");
    assert_string_equal(device_of(graph, "global_step"), "/job:ps/task:1");
    assert_string_equal(device_of(graph, "sum"), "/job:worker/task:1");
    est_graph_free(graph);
}

TEST(by_bytes)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    static const int64_t     sizes[] = { 100, 10, 20, 80 };
    static const char *const want[]  = { "/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1", "/job:ps/task:1" };
    est_graph               *graph   = make_graph();
    est_cluster             *cluster = NULL;

    assert_ok(est_cluster_create(EST_JOBS({ .name = "ps", .addresses = EST_STRINGS("a:1", "b:1") }), &cluster));
    est_replica_device_setter(graph, EST_DEVICE_SETTER(.cluster = cluster, .ps_tasks = 7, .by_bytes = true));
    for (int i = 0; i < 4; i++) (void)est_variable(graph, names[i], EST_F32, EST_SHAPE(sizes[i]));
    assert_ok(est_graph_status(graph));
    for (int i = 0; i < 4; i++) assert_string_equal(device_of(graph, names[i]), want[i]);
    est_cluster_free(cluster);
    est_graph_free(graph);
}

/* The parts that the program pins itself win; a pinned variable takes no turn. */
TEST(pinned)
{
    est_graph *graph = make_graph();

    est_replica_device_setter(graph, EST_DEVICE_SETTER(.ps_tasks = 2));
    est_graph_device(graph, "/job:worker/task:3");
    (void)est_variable(graph, "own", EST_F32, EST_SHAPE(1));
    est_graph_device(graph, "/job:ps/task:1");
    (void)est_variable(graph, "there", EST_F32, EST_SHAPE(1));
    est_graph_device(graph, "/cpu:0");
    (void)est_variable(graph, "first", EST_F32, EST_SHAPE(1));
    (void)est_named(est_scalar(graph, EST_F32, 1), "one");
    est_graph_device(graph, "/task:2");
    (void)est_named(est_scalar(graph, EST_F32, 1), "two");
    assert_ok(est_graph_status(graph));
    assert_string_equal(device_of(graph, "own"), "/job:worker/task:3");
    assert_string_equal(device_of(graph, "there"), "/job:ps/task:1");
    assert_string_equal(device_of(graph, "first"), "/job:ps/task:0/device:cpu:0");
    assert_string_equal(device_of(graph, "one"), "/job:worker/device:cpu:0");
    assert_string_equal(device_of(graph, "two"), "/job:worker/task:2");
    est_graph_free(graph);
}

TEST(none_and_wrong)
{
    est_graph *graph = make_graph();

    est_replica_device_setter(graph, NULL); /* no ps task: nothing to do */
    (void)est_variable(graph, "v", EST_F32, EST_SHAPE(1));
    assert_string_equal(device_of(graph, "v"), "");
    est_replica_device_setter(graph, EST_DEVICE_SETTER(.ps_tasks = -1));
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(),
                        "est_replica_device_setter: ps_tasks is -1; write a number from 0 to 100000");
    est_graph_free(graph);
    graph = make_graph();
    est_replica_device_setter(graph, EST_DEVICE_SETTER(.ps_tasks = 1, .worker_device = "worker 1"));
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "the device is \"worker 1\""));
    est_graph_free(graph);
    est_replica_device_setter(NULL, NULL);
}

/* A worker trains with a graph of its own: variables are where the setter put them, the rest runs here. */
TEST(trains)
{
    servers      s       = servers_start(2, 1, "tcp");
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20));
    est_graph   *graph   = make_graph();
    est_session *session = NULL;
    est_store   *store;
    est_node     loss, train;
    est_step    *step;
    double       first = 0;

    est_replica_device_setter(graph, EST_DEVICE_SETTER(.cluster = s.cluster, .worker_device = "/job:worker/task:0"));
    (void)est_global_step(graph);
    loss    = est_read_variable(est_weight(graph, "w", EST_SHAPE(4), EST_WEIGHT(.initializer = est_init_ones())));
    loss    = est_reduce_mean(est_square(loss), EST_I64S(0), false);
    train   = est_minimize(est_adam(0.1, NULL), loss, NULL);
    session = nn_session(graph, remote);
    assert_ok(est_session_store(session, &store));
    assert_int_equal(est_store_find(store, "global_step")->task, 0);
    assert_int_equal(est_store_find(store, "w")->task, 1);
    assert_int_equal(est_store_find(store, "w/Adam")->task, 1);
    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NODES(loss), EST_NODES(train), &step));
    for (int i = 0; i < 20; i++) {
        assert_ok(est_step_run(step, NULL));
        if (i == 0) first = est_step_scalar(step, 0);
    }
    assert_true(est_step_scalar(step, 0) < first / 4);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    servers_stop(&s);
}
