/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls at workers and ps tasks: the requests of a coordinator (cluster/calls.h), sent to servers of this process. */
#include "cluster/calls.h"

#include <inttypes.h>

#include "base/clock.h"
#include "cluster/remote_tasks.h"
#include "cluster/task_status.h"
#include "estoc/estoc.h"
#include "runtime/segment.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define SECS 20.0

enum { ADD = 1, DRAW, EMPTY, TWICE };

/* A coordinator and its cluster. */
typedef struct job {
    servers      s;
    est_server  *client;
    est_remote  *remote;
    est_session *session;
    est_graph   *graph;
    est_node     x, w, table, add, draw, doubled, nothing;
    est_link    *link[2];
} job;

static est_link *meet(const job *j, int worker)
{
    est_link   *link = NULL;
    char        name[32];
    const char *address = est_cluster_address(j->s.cluster, "worker", worker);

    snprintf(name, sizeof name, "worker:%d", worker);
    assert_ok(est_net_connect(est_server_net(j->client), address, name, SECS, &link));
    return link;
}

/* `add` changes a variable of each ps task. */
static void make_graph(job *j)
{
    assert_ok(est_graph_create(7, &j->graph));
    j->x = est_placeholder(j->graph, "x", EST_F32, EST_SHAPE(4));
    j->w = est_variable(j->graph, "w", EST_F32, EST_SHAPE(4));
    est_variable_initializer(j->w, nn_const(j->graph, EST_SHAPE(4), NN_VALUES(0, 0, 0, 0)));
    j->table = est_variable(j->graph, "table", EST_F32, EST_SHAPE(4));
    est_variable_initializer(j->table, nn_const(j->graph, EST_SHAPE(4), NN_VALUES(0, 0, 0, 0)));
    j->add     = est_group(j->graph, EST_NODES(est_assign_add(j->w, j->x), est_assign_add(j->table, j->x)));
    j->doubled = est_mul(j->x, est_scalar(j->graph, EST_F32, 2));
    j->draw    = est_random_uniform(est_const_list(j->graph, EST_I64S(3)), EST_F32, 0);
    j->nothing = est_group(j->graph, EST_NO_NODES);
    assert_ok(est_graph_status(j->graph));
}

static job start(int n_ps, int n_workers, const est_partitioner *partitioner)
{
    job j = { .s = servers_start(n_ps, n_workers, "tcp") };

    make_graph(&j);
    assert_ok(est_server_create(j.s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &j.client));
    assert_ok(est_remote_create(j.client,
                                EST_REMOTE(.is_chief = true, .connect_secs = SECS, .answer_secs = SECS,
                                           .partitioner = partitioner, .round_robin = true),
                                &j.remote));
    j.session = nn_session(j.graph, j.remote);
    assert_ok(est_remote_declare_ready(j.remote));
    for (int i = 0; i < n_workers; i++) j.link[i] = meet(&j, i);
    return j;
}

static void stop(job *j)
{
    for (int i = 0; i < 2; i++) {
        if (j->link[i] == NULL) continue;
        est_link_close(j->link[i], "it has left");
        est_link_free(j->link[i]);
    }
    est_session_free(j->session);
    est_remote_free(j->remote);
    est_server_free(j->client);
    est_graph_free(j->graph);
    servers_stop(&j->s);
}

/* Sends a request and waits; the answer may be NULL. Clears the packing. */
static est_status ask(est_link *link, est_method method, est_packing *packing, est_message **out)
{
    est_payload  payload;
    est_ask     *pending = NULL;
    est_message *answer  = NULL;
    est_status   status;

    assert_ok(est_packing_payload(packing, &payload));
    status = est_link_ask(link, (uint16_t)method, est_method_text(method), payload, SECS, NULL, NULL, &pending);
    if (status == EST_OK) status = est_ask_wait(pending, &answer);
    est_packing_clear(packing);
    if (out != NULL) {
        *out = answer;
    } else {
        est_message_free(answer);
    }
    return status;
}

static est_status set_up(est_link *link, uint64_t origin)
{
    est_packing packing = { 0 };

    est_setup_put(&(est_setup){ .origin = origin, .seed = 5, .connect_secs = SECS }, NULL, 0, &packing);
    return ask(link, EST_METHOD_SETUP, &packing, NULL);
}

static est_status send_function(const job *j, est_link *link, uint64_t number, const char *name, est_nodes feeds,
                                est_nodes fetches, est_nodes targets)
{
    est_node        nodes[16];
    est_segment     cut     = { .graph = j->graph };
    est_wire_writer bytes   = { 0 };
    est_packing     packing = { 0 };
    int             n       = 0;

    cut.io = (est_io){ nodes, nodes + feeds.n, nodes + feeds.n + fetches.n, feeds.n, fetches.n, targets.n };
    for (int i = 0; i < feeds.n; i++) nodes[n++] = feeds.data[i];
    for (int i = 0; i < fetches.n; i++) nodes[n++] = fetches.data[i];
    for (int i = 0; i < targets.n; i++) nodes[n++] = targets.data[i];
    assert_ok(est_segment_encode(&cut, &bytes));
    est_function_request_put(&(est_function_request){ .number = number,
                                                      .name   = { name, strlen(name) },
                                                      .bytes  = { (const char *)bytes.data, bytes.size } },
                             NULL, 0, &packing);
    est_wire_writer_clear(&bytes);
    return ask(link, EST_METHOD_FUNCTION, &packing, NULL);
}

static void send_functions(const job *j, est_link *link)
{
    assert_ok(send_function(j, link, ADD, "add", EST_NODES(j->x), EST_NO_NODES, EST_NODES(j->add)));
    assert_ok(send_function(j, link, DRAW, "draw", EST_NO_NODES, EST_NODES(j->draw), EST_NO_NODES));
    assert_ok(send_function(j, link, EMPTY, "empty", EST_NO_NODES, EST_NO_NODES, EST_NODES(j->nothing)));
    assert_ok(send_function(j, link, TWICE, "twice", EST_NODES(j->x), EST_NODES(j->doubled), EST_NO_NODES));
}

static void pack_call(uint64_t call, uint64_t first, uint64_t function, const float *x, est_packing *packing)
{
    est_call_request_put(&(est_call_request){ .call = call, .first = first, .function = function }, false, packing);
    if (x == NULL) return;
    est_call_argument_put(&(est_call_argument){ .feed = 0 }, packing);
    est_pack_view(packing, &(est_view){ (void *)(uintptr_t)x, EST_F32, EST_SHAPE(4), 4 });
}

static est_status call(est_link *link, uint64_t number, uint64_t first, uint64_t function, const float *x,
                       est_message **answer)
{
    est_packing packing = { 0 };

    pack_call(number, first, function, x, &packing);
    return ask(link, EST_METHOD_CALL, &packing, answer);
}

static float read_first(const job *j, const char *name)
{
    est_tensor *value = NULL;
    float       first;

    assert_ok(est_session_read(j->session, name, &value));
    first = *(const float *)est_tensor_data(value);
    est_tensor_free(value);
    return first;
}

static const float ones[4] = { 1, 1, 1, 1 };

TEST(runs)
{
    job          j = start(2, 1, NULL);
    est_message *answer;
    est_unpacked got = { 0 };

    assert_ok(set_up(j.link[0], 1));
    send_functions(&j, j.link[0]);
    assert_ok(call(j.link[0], 1, 1, ADD, ones, NULL));
    assert_ok(call(j.link[0], 2, 2, ADD, ones, NULL));
    assert_true(read_first(&j, "w") == 2 && read_first(&j, "table") == 2);
    assert_ok(call(j.link[0], 3, 3, TWICE, (const float[]){ 1, 2, 3, 4 }, &answer));
    assert_ok(est_unpack_tensors(answer, &got));
    assert_int_equal(got.n, 1);
    assert_true(((const float *)got.views[0].data)[3] == 8);
    est_unpacked_clear(&got);
    est_message_free(answer);
    assert_ok(call(j.link[0], 4, 4, EMPTY, NULL, NULL));
    stop(&j);
}

/* Another attempt draws the same numbers, another call does not. */
TEST(draws)
{
    job   j = start(1, 2, NULL);
    float drawn[3][3];

    for (int i = 0; i < 2; i++) {
        assert_ok(set_up(j.link[i], 1));
        send_functions(&j, j.link[i]);
    }
    for (int i = 0; i < 3; i++) {
        est_message *answer;
        est_unpacked got = { 0 };

        assert_ok(call(j.link[i % 2], i < 2 ? 1 : 2, 1, DRAW, NULL, &answer));
        assert_ok(est_unpack_tensors(answer, &got));
        memcpy(drawn[i], got.views[0].data, sizeof drawn[i]);
        est_unpacked_clear(&got);
        est_message_free(answer);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
    stop(&j);
}

/* Two workers make the same call: each variable changes once. Their segments are the same at the ps tasks. */
static void check_once(const est_partitioner *partitioner)
{
    job j = start(2, 2, partitioner);
    int segments[2];

    for (int i = 0; i < 2; i++) {
        assert_ok(set_up(j.link[i], 1));
        send_functions(&j, j.link[i]);
        if (i == 0)
            for (int k = 0; k < 2; k++) segments[k] = est_host_segments(j.s.ps[k]->host);
    }
    for (int k = 0; k < 2; k++) assert_int_equal(est_host_segments(j.s.ps[k]->host), segments[k]);
    for (int i = 0; i < 2; i++) assert_ok(call(j.link[i], 1, 1, ADD, ones, NULL));
    assert_true(read_first(&j, "w") == 1 && read_first(&j, "table") == 1);
    assert_true(j.s.ps[0]->calls.n > 0);
    assert_ok(call(j.link[0], 2, 2, ADD, ones, NULL)); /* which confirms the first */
    assert_int_equal(call(j.link[1], 1, 1, ADD, ones, NULL), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "call 1 is over"));
    assert_true(read_first(&j, "w") == 2);
    assert_ok(call(j.link[1], 3, 3, ADD, ones, NULL)); /* the worker goes on */
    assert_true(read_first(&j, "w") == 3 && read_first(&j, "table") == 3);
    for (int k = 0; k < 2; k++) assert_true(j.s.ps[k]->calls.n <= 2);
    stop(&j);
}

TEST(once)
{
    est_partitioner two = est_fixed_shards(2);

    check_once(NULL);
    check_once(&two);
}

TEST(origins)
{
    job         j       = start(1, 2, NULL);
    est_packing packing = { 0 };
    est_link   *ps      = NULL;

    for (int i = 0; i < 2; i++) {
        assert_ok(set_up(j.link[i], 5));
        send_functions(&j, j.link[i]);
    }
    assert_ok(call(j.link[0], 1, 1, ADD, ones, NULL));
    assert_int_equal(set_up(j.link[0], 4), EST_ABORTED);
    assert_ok(est_net_connect(est_server_net(j.client), est_cluster_address(j.s.cluster, "ps", 0), "ps:0", SECS, &ps));
    est_wire_put_u64(&packing.head, EST_FIELD_ORIGIN, 6);
    assert_ok(ask(ps, EST_METHOD_ORIGIN, &packing, NULL));
    assert_true(j.s.ps[0]->calls.n == 0);
    est_wire_put_u64(&packing.head, EST_FIELD_ORIGIN, 5);
    assert_int_equal(ask(ps, EST_METHOD_ORIGIN, &packing, NULL), EST_ABORTED);
    assert_int_equal(ask(ps, EST_METHOD_ORIGIN, &packing, NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(call(j.link[1], 2, 1, ADD, ones, NULL), EST_ABORTED); /* of the origin before */
    assert_non_null(strstr(est_error_message(), "newer coordinator"));
    assert_true(read_first(&j, "w") == 1);
    assert_ok(set_up(j.link[1], 6));
    send_functions(&j, j.link[1]);
    assert_ok(call(j.link[1], 1, 1, ADD, ones, NULL)); /* call 1 of another coordinator is another call */
    assert_true(read_first(&j, "w") == 2);
    est_link_free(ps);
    stop(&j);
}
