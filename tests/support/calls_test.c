/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator that sends its requests one by one. */
#include "support/calls_test.h"

#include "base/clock.h"
#include "cluster/remote_tasks.h"
#include "graph/graph.h"
#include "runtime/segment.h"
#include "tensor/tensor.h"

const float calls_ones[4] = { 1, 1, 1, 1 };

est_link *calls_meet(const calls_job *j, const char *type, int index)
{
    est_link *link = NULL;
    char      name[32];

    snprintf(name, sizeof name, "%s:%d", type, index);
    assert_ok(est_net_connect(est_server_net(j->client), est_cluster_address(j->s.cluster, type, index), name,
                              CALLS_SECS, &link));
    return link;
}

static est_node make_variable(calls_job *j, const char *name)
{
    est_node variable = est_variable(j->graph, name, EST_F32, EST_SHAPE(4));

    est_variable_initializer(variable, nn_const(j->graph, EST_SHAPE(4), NN_VALUES(0, 0, 0, 0)));
    return variable;
}

static void make_graph(calls_job *j)
{
    est_node w, v, total, zero;

    assert_ok(est_graph_create(7, &j->graph));
    j->x       = est_placeholder(j->graph, "x", EST_F32, EST_SHAPE(4));
    w          = make_variable(j, "w");
    v          = make_variable(j, "v");
    j->add     = est_group(j->graph, EST_NODES(est_assign_add(w, j->x), est_assign_add(v, j->x)));
    j->doubled = est_mul(j->x, est_scalar(j->graph, EST_F32, 2));
    j->draw    = est_random_uniform(est_const_list(j->graph, EST_I64S(3)), EST_F32, 0);
    j->nothing = est_group(j->graph, EST_NO_NODES);
    j->n       = est_placeholder(j->graph, "n", EST_I64, EST_SHAPE(-1));
    total      = est_variable(j->graph, "total", EST_I64, EST_SHAPE());
    zero       = est_scalar(j->graph, EST_I64, 0);
    est_variable_initializer(total, zero);
    est_graph_collect(j->graph, "local_variables", total);
    j->total = est_read_variable(total);
    j->add_n = est_assign_add(total, est_reduce_sum(j->n, EST_I64S(0), false));
    j->reset = est_assign(total, zero);
    assert_ok(est_graph_status(j->graph));
}

static void *serve(void *arg)
{
    est_status status = est_server_join(arg);

    assert_true(status == EST_OK || status == EST_CANCELLED);
    return NULL;
}

static bool has_joined(est_server *worker)
{
    bool joined;

    pthread_mutex_lock(&worker->lock);
    joined = worker->joined;
    pthread_mutex_unlock(&worker->lock);
    return joined;
}

void calls_join(calls_job *j, int worker)
{
    assert_ok(est_thread_start(&j->served[worker], "test-worker", serve, j->s.worker[worker]));
    while (!has_joined(j->s.worker[worker])) est_sleep_ns(EST_NS_PER_SEC / 1000);
}

void calls_end(calls_job *j, int worker)
{
    est_thread_join(&j->served[worker]);
    j->served[worker] = (est_thread){ 0 };
}

void calls_initialize(calls_job *j)
{
    est_session_free(j->session);
    j->session = nn_session(j->graph, j->remote);
    assert_ok(est_remote_declare_ready(j->remote));
}

calls_job calls_start(servers s, const est_partitioner *partitioner)
{
    calls_job j = { .s = s };

    make_graph(&j);
    assert_ok(est_server_create(j.s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &j.client));
    assert_ok(est_remote_create(j.client,
                                EST_REMOTE(.is_chief = true, .connect_secs = CALLS_SECS, .answer_secs = CALLS_SECS,
                                           .partitioner = partitioner, .round_robin = true),
                                &j.remote));
    calls_initialize(&j);
    for (int i = 0; i < j.s.n_workers; i++) {
        calls_join(&j, i);
        j.link[i] = calls_meet(&j, "worker", i);
    }
    return j;
}

void calls_stop(calls_job *j)
{
    for (int i = 0; i < j->s.n_workers; i++) {
        est_link_close(j->link[i], EST_GOODBYE);
        est_link_free(j->link[i]);
        if (j->s.worker[i] != NULL) est_server_stop(j->s.worker[i]);
        if (j->served[i].id != 0) calls_end(j, i);
    }
    est_session_free(j->session);
    est_remote_free(j->remote);
    est_server_free(j->client);
    est_graph_free(j->graph);
    servers_stop(&j->s);
}

est_status calls_ask(est_link *link, est_method method, est_packing *packing, est_message **out)
{
    est_payload  payload;
    est_ask     *pending = NULL;
    est_message *answer  = NULL;
    est_status   status;

    assert_ok(est_packing_payload(packing, &payload));
    status = est_link_ask(link, (uint16_t)method, est_method_text(method), payload, CALLS_SECS, NULL, NULL, &pending);
    if (status == EST_OK) status = est_ask_wait(pending, &answer);
    est_packing_clear(packing);
    if (status == EST_OK) {
        status = est_call_failure_read(answer);
        if (status != EST_OK) {
            est_message_free(answer);
            answer = NULL;
        }
    }
    if (out != NULL) {
        *out = answer;
    } else {
        est_message_free(answer);
    }
    return status;
}

est_status calls_set_up(est_link *link, uint64_t origin)
{
    est_packing packing = { 0 };

    est_setup_put(&(est_setup){ .origin = origin, .seed = 5, .connect_secs = CALLS_SECS }, NULL, 0, &packing);
    return calls_ask(link, EST_METHOD_SETUP, &packing, NULL);
}

est_status calls_send_function(const calls_job *j, est_link *link, est_function_request function, const char *local,
                               est_nodes feeds, est_nodes fetches, est_nodes targets)
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
    function.bytes = (est_str){ (const char *)bytes.data, bytes.size };
    est_function_request_put(&function, &local, local != NULL, &packing);
    est_wire_writer_clear(&bytes);
    return calls_ask(link, EST_METHOD_FUNCTION, &packing, NULL);
}

void calls_send_functions(const calls_job *j, est_link *link)
{
    const struct {
        const char *name;
        est_nodes   feeds, fetches, targets;
    } functions[] = { { "add", EST_NODES(j->x), EST_NO_NODES, EST_NODES(j->add) },
                      { "draw", EST_NO_NODES, EST_NODES(j->draw), EST_NO_NODES },
                      { "empty", EST_NO_NODES, EST_NO_NODES, EST_NODES(j->nothing) },
                      { "twice", EST_NODES(j->x), EST_NODES(j->doubled), EST_NO_NODES } };

    for (int i = 0; i < 4; i++) {
        assert_ok(
            calls_send_function(j, link,
                                (est_function_request){ .number = (uint64_t)(CALLS_ADD + i),
                                                        .name   = { functions[i].name, strlen(functions[i].name) } },
                                "total", functions[i].feeds, functions[i].fetches, functions[i].targets));
    }
}

void calls_pack(uint64_t call, uint64_t first, uint64_t function, const float *x, est_packing *packing)
{
    est_call_request_put(&(est_call_request){ .call = call, .first = first, .function = function }, false, packing);
    if (x == NULL) return;
    est_call_argument_put(&(est_call_argument){ .feed = 0 }, packing);
    est_pack_view(packing, &(est_view){ (void *)(uintptr_t)x, EST_F32, EST_SHAPE(4), 4 });
}

est_status calls_call(est_link *link, uint64_t call, uint64_t first, uint64_t function, const float *x,
                      est_message **answer)
{
    est_packing packing = { 0 };

    calls_pack(call, first, function, x, &packing);
    return calls_ask(link, EST_METHOD_CALL, &packing, answer);
}

double calls_read(const calls_job *j, const char *variable)
{
    est_tensor *value = NULL;
    double      first;

    assert_ok(est_session_read(j->session, variable, &value));
    first = nn_element(value, 0);
    est_tensor_free(value);
    return first;
}

double calls_first(est_message *answer)
{
    est_unpacked got = { 0 };
    double       first;

    assert_ok(est_unpack_tensors(answer, &got));
    assert_true(got.n > 0 && got.views[0].count > 0);
    first = est_number_at(got.views[0].dtype, got.views[0].data, 0);
    est_unpacked_clear(&got);
    est_message_free(answer);
    return first;
}
