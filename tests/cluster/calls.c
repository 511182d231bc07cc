/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls at workers and ps tasks: functions, attempts, origins, lost tasks. */
#include <inttypes.h>

#include "base/clock.h"
#include "cluster/service_calls.h"
#include "cluster/task_status.h"
#include "support/calls_test.h"

#define CALLS 200

static uint64_t count_records(est_server *ps)
{
    uint64_t n;

    pthread_mutex_lock(&ps->host_lock);
    n = ps->calls.n;
    pthread_mutex_unlock(&ps->host_lock);
    return n;
}

static int used_segments(est_server *server)
{
    int n = 0;

    pthread_mutex_lock(&server->host_lock);
    for (int i = 0; i < est_host_segments(server->host); i++) n += est_host_graph(server->host, i) != NULL;
    pthread_mutex_unlock(&server->host_lock);
    return n;
}

TEST(runs)
{
    calls_job    j = calls_start(servers_start(2, 1, "tcp"), NULL);
    est_message *answer;

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL));
    assert_ok(calls_call(j.link[0], 2, 2, CALLS_ADD, calls_ones, NULL));
    assert_true(calls_read(&j, "w") == 2 && calls_read(&j, "v") == 2);
    assert_ok(calls_call(j.link[0], 3, 3, CALLS_TWICE, (const float[]){ 4, 3, 2, 1 }, &answer));
    assert_true(calls_first(answer) == 8);
    assert_ok(calls_call(j.link[0], 4, 4, CALLS_EMPTY, NULL, NULL));
    calls_stop(&j);
}

/* Another attempt draws the same numbers, another call does not. */
TEST(draws)
{
    calls_job    j = calls_start(servers_start(1, 2, "tcp"), NULL);
    est_message *answer;
    double       drawn[3];

    for (int i = 0; i < 2; i++) {
        assert_ok(calls_set_up(j.link[i], 1));
        calls_send_functions(&j, j.link[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(calls_call(j.link[i % 2], i < 2 ? 1 : 2, 1, CALLS_DRAW, NULL, &answer));
        drawn[i] = calls_first(answer);
    }
    assert_true(drawn[0] == drawn[1] && drawn[0] != drawn[2]);
    calls_stop(&j);
}

/* Two workers make the same call: each variable changes once. Their segments are the same at the ps tasks. */
static void check_once(const est_partitioner *partitioner)
{
    calls_job j = calls_start(servers_start(2, 2, "tcp"), partitioner);
    int       segments[2];

    for (int i = 0; i < 2; i++) {
        assert_ok(calls_set_up(j.link[i], 1));
        calls_send_functions(&j, j.link[i]);
        for (int k = 0; k < 2 && i == 0; k++) segments[k] = used_segments(j.s.ps[k]);
    }
    for (int k = 0; k < 2; k++) assert_int_equal(used_segments(j.s.ps[k]), segments[k]);
    for (int i = 0; i < 2; i++) assert_ok(calls_call(j.link[i], 1, 1, CALLS_ADD, calls_ones, NULL));
    assert_true(calls_read(&j, "w") == 1 && calls_read(&j, "v") == 1);
    for (int k = 0; k < 2; k++) assert_true(count_records(j.s.ps[k]) > 0);
    assert_ok(calls_call(j.link[0], 2, 2, CALLS_ADD, calls_ones, NULL)); /* the first is over */
    assert_int_equal(calls_call(j.link[1], 1, 1, CALLS_ADD, calls_ones, NULL), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "call 1 is over"));
    assert_true(calls_read(&j, "w") == 2);
    assert_ok(calls_call(j.link[1], 3, 3, CALLS_ADD, calls_ones, NULL)); /* the worker goes on */
    assert_true(calls_read(&j, "w") == 3 && calls_read(&j, "v") == 3);
    for (int k = 0; k < 2; k++) assert_true(count_records(j.s.ps[k]) <= 2);
    calls_stop(&j);
}

TEST(once)
{
    est_partitioner two = est_fixed_shards(2);

    check_once(NULL);
    check_once(&two);
}

/* Both workers make all calls at the same time, as after a partition of the network. */
TEST(race)
{
    calls_job j              = calls_start(servers_start(2, 2, "tcp"), NULL);
    est_ask  *asks[2][CALLS] = { { 0 } };

    for (int i = 0; i < 2; i++) {
        assert_ok(calls_set_up(j.link[i], 1));
        calls_send_functions(&j, j.link[i]);
    }
    for (int k = 0; k < 2 * CALLS; k++) {
        est_packing packing = { 0 };
        est_payload payload;

        calls_pack((uint64_t)(k / 2) + 1, 1, CALLS_ADD, calls_ones, &packing);
        assert_ok(est_packing_payload(&packing, &payload));
        assert_ok(est_link_ask(j.link[k % 2], EST_METHOD_CALL, "a call", payload, CALLS_SECS, NULL, NULL,
                               &asks[k % 2][k / 2]));
        est_packing_clear(&packing);
    }
    for (int k = 0; k < 2 * CALLS; k++) {
        est_message *answer;

        assert_ok(est_ask_wait(asks[k % 2][k / 2], &answer));
        est_message_free(answer);
    }
    assert_true(calls_read(&j, "w") == CALLS && calls_read(&j, "v") == CALLS);
    assert_true(count_records(j.s.ps[0]) >= CALLS);
    assert_ok(calls_call(j.link[0], CALLS + 1, CALLS + 1, CALLS_ADD, calls_ones, NULL));
    assert_int_equal(count_records(j.s.ps[0]), 1);
    calls_stop(&j);
}

static est_status tell_origin(est_link *ps, uint64_t origin, uint64_t first)
{
    est_packing packing = { 0 };

    est_wire_put_u64(&packing.head, EST_FIELD_ORIGIN, origin);
    est_wire_put_u64(&packing.head, EST_FIELD_CALL_FIRST, first);
    return calls_ask(ps, EST_METHOD_ORIGIN, &packing, NULL);
}

TEST(at_least_once)
{
    calls_job   j       = calls_start(servers_start(1, 1, "tcp"), NULL);
    est_link   *ps      = calls_meet(&j, "ps", 0);
    est_packing packing = { 0 };

    est_setup_put(&(est_setup){ .origin = 1, .at_least_once = true }, NULL, 0, &packing);
    assert_ok(calls_ask(j.link[0], EST_METHOD_SETUP, &packing, NULL));
    calls_send_functions(&j, j.link[0]);
    for (int i = 0; i < 2; i++) assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL));
    assert_true(calls_read(&j, "w") == 2);
    assert_ok(tell_origin(ps, 2, 0)); /* a newer coordinator refuses calls of the older one also here */
    assert_int_equal(calls_call(j.link[0], 2, 1, CALLS_ADD, calls_ones, NULL), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "newer coordinator"));
    assert_true(calls_read(&j, "w") == 2);
    est_link_free(ps);
    calls_stop(&j);
}

/* A call that the coordinator has given up, or that completed before a ps task was restarted, is not applied by an
 * attempt that is late. */
TEST(late_attempt)
{
    calls_job j  = calls_start(servers_start(1, 1, "tcp"), NULL);
    est_link *ps = calls_meet(&j, "ps", 0);

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(tell_origin(ps, 1, 3));
    assert_int_equal(calls_call(j.link[0], 2, 1, CALLS_ADD, calls_ones, NULL), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "call 2 is over"));
    assert_ok(calls_call(j.link[0], 3, 1, CALLS_ADD, calls_ones, NULL));
    assert_true(calls_read(&j, "w") == 1);
    est_link_free(ps);
    calls_stop(&j);
}

TEST(origins)
{
    calls_job    j       = calls_start(servers_start(1, 2, "tcp"), NULL);
    est_packing  packing = { 0 };
    est_link    *ps      = calls_meet(&j, "ps", 0);
    est_message *answer;

    for (int i = 0; i < 2; i++) {
        assert_ok(calls_set_up(j.link[i], 5));
        calls_send_functions(&j, j.link[i]);
    }
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL));
    assert_int_equal(calls_set_up(j.link[0], 4), EST_ABORTED);
    est_wire_put_u64(&packing.head, EST_FIELD_ORIGIN, 6);
    assert_ok(calls_ask(ps, EST_METHOD_ORIGIN, &packing, NULL));
    assert_int_equal(count_records(j.s.ps[0]), 0);
    est_wire_put_u64(&packing.head, EST_FIELD_ORIGIN, 5);
    assert_int_equal(calls_ask(ps, EST_METHOD_ORIGIN, &packing, NULL), EST_ABORTED);
    assert_ok(calls_ask(ps, EST_METHOD_ORIGIN, &packing, &answer)); /* a question */
    assert_int_equal(est_head_u64(answer, EST_FIELD_ORIGIN, 0), 6);
    est_message_free(answer);
    assert_int_equal(calls_call(j.link[1], 2, 1, CALLS_ADD, calls_ones, NULL), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "newer coordinator"));
    assert_true(calls_read(&j, "w") == 1);
    assert_ok(calls_set_up(j.link[1], 6));
    calls_send_functions(&j, j.link[1]);
    assert_ok(calls_call(j.link[1], 1, 1, CALLS_ADD, calls_ones, NULL)); /* another call than that of origin 5 */
    assert_true(calls_read(&j, "w") == 2);
    est_link_free(ps);
    calls_stop(&j);
}

/* A lost ps task fails the call with its name. When it is back with values, the worker goes on. */
TEST(lost_ps)
{
    calls_job  j = calls_start(servers_start(2, 1, "tcp"), NULL);
    est_status status;

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL));
    est_server_free(j.s.ps[1]);
    assert_ok(est_server_create(j.s.cluster, "ps", 1, EST_SERVER(.transport = "tcp", .threads = 1), &j.s.ps[1]));
    status = calls_call(j.link[0], 2, 2, CALLS_ADD, calls_ones, NULL);
    assert_true(status == EST_UNAVAILABLE || status == EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "ps:1"));
    calls_initialize(&j);
    assert_ok(calls_call(j.link[0], 2, 2, CALLS_ADD, calls_ones, NULL));
    assert_true(calls_read(&j, "w") == 2 || calls_read(&j, "v") == 2); /* that of ps:0 once, */
    assert_true(calls_read(&j, "w") == 1 || calls_read(&j, "v") == 1); /* that of ps:1 since its initial value */
    calls_stop(&j);
}

static bool is_connected(est_server *server, const char *task)
{
    const est_client *client;
    bool              here;

    pthread_mutex_lock(&server->lock);
    client = est_clients_find(server, task);
    here   = client != NULL && client->link != NULL;
    pthread_mutex_unlock(&server->lock);
    return here;
}

#define await(condition)                                                                                               \
    for (int64_t until_ = est_now_ns() + (int64_t)(CALLS_SECS * 1e9); !(condition);) {                                 \
        if (est_now_ns() > until_) fail_msg("%s did not happen", #condition);                                          \
        est_sleep_ns(1000000);                                                                                         \
    }

/* A worker whose coordinator is gone leaves the ps tasks. A coordinator that is back begins with SETUP. */
TEST(lost_coordinator)
{
    calls_job j = calls_start(servers_start(1, 1, "tcp"), NULL);

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL));
    assert_true(is_connected(j.s.ps[0], "worker:0"));
    est_link_close(j.link[0], "it broke");
    est_link_free(j.link[0]);
    await(!is_connected(j.s.ps[0], "worker:0"));
    j.link[0] = calls_meet(&j, "worker", 0);
    assert_int_equal(calls_call(j.link[0], 2, 1, CALLS_ADD, calls_ones, NULL), EST_FAILED_PRECONDITION);
    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL)); /* answered from memory */
    assert_true(calls_read(&j, "w") == 1);
    calls_stop(&j);
}

static void expect(est_status got, est_status want, const char *text)
{
    if (got != want || strstr(est_error_message(), text) == NULL)
        fail_msg("%s: %s; expected %s: %s", est_status_name(got), est_error_message(), est_status_name(want), text);
}

static bool is_calling(const est_server *worker)
{
    est_calls_seen seen;

    return est_calls_look(worker, &seen) && seen.call != 0;
}

/* A worker that is stopped says so of the call under way and of those that wait: no ps task was lost. */
TEST(stopped_worker)
{
    calls_job j       = calls_start(servers_start(1, 1, "tcp"), NULL);
    est_ask  *asks[2] = { NULL };

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    pthread_mutex_lock(&j.s.ps[0]->host_lock); /* it executes nothing */
    for (int i = 0; i < 2; i++) {
        est_packing packing = { 0 };
        est_payload payload;

        calls_pack((uint64_t)i + 1, 1, CALLS_ADD, calls_ones, &packing);
        assert_ok(est_packing_payload(&packing, &payload));
        assert_ok(est_link_ask(j.link[0], EST_METHOD_CALL, "a call", payload, CALLS_SECS, NULL, NULL, &asks[i]));
        est_packing_clear(&packing);
    }
    await(is_calling(j.s.worker[0]));
    est_server_stop(j.s.worker[0]);
    calls_end(&j, 0);
    est_server_free(j.s.worker[0]);
    j.s.worker[0] = NULL;
    pthread_mutex_unlock(&j.s.ps[0]->host_lock);
    for (int i = 0; i < 2; i++) assert_int_equal(est_ask_wait(asks[i], NULL), EST_CANCELLED);
    calls_stop(&j);
}

/* The end of the job ends the worker's connections, so that no task waits for another. */
TEST(end)
{
    calls_job   j       = calls_start(servers_start(1, 1, "tcp"), NULL);
    est_packing packing = { 0 };

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_ask(j.link[0], EST_METHOD_DONE, &packing, NULL));
    await(!is_connected(j.s.ps[0], "worker:0"));
    est_link_close(j.link[0], EST_GOODBYE);
    calls_end(&j, 0);

    /* A worker executes calls only while it is in est_server_join. */
    est_link_free(j.link[0]);
    j.link[0] = calls_meet(&j, "worker", 0);
    expect(calls_set_up(j.link[0], 2), EST_UNAVAILABLE, "worker:0 is not in est_server_join");
    expect(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL), EST_CANCELLED, "not in est_server_join");
    calls_join(&j, 0); /* the coordinator that tries again is served */
    assert_ok(calls_set_up(j.link[0], 2));
    calls_stop(&j);
}

/* Segments of functions that were released are forgotten, unless another worker uses them. */
TEST(segments)
{
    calls_job   j       = calls_start(servers_start(1, 2, "tcp"), NULL);
    est_packing packing = { 0 };
    int         before;

    await(used_segments(j.s.ps[0]) == 0); /* those of the initial values are gone */
    for (int i = 0; i < 2; i++) {
        assert_ok(calls_set_up(j.link[i], 1));
        calls_send_functions(&j, j.link[i]);
    }
    before = used_segments(j.s.ps[0]);
    assert_true(before > 0);
    for (int i = 0; i < 2; i++) {
        est_wire_put_u64(&packing.head, EST_FIELD_FUNCTION, CALLS_ADD);
        assert_ok(calls_ask(j.link[i], EST_METHOD_RELEASE, &packing, NULL));
        if (i == 0) assert_ok(calls_call(j.link[1], 1, 1, CALLS_ADD, calls_ones, NULL));
    }
    await(used_segments(j.s.ps[0]) == 0);
    assert_int_equal(calls_call(j.link[0], 2, 1, CALLS_ADD, calls_ones, NULL), EST_NOT_FOUND);
    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL)); /* known by its bytes, not by its number */
    assert_true(calls_read(&j, "w") == 1);
    calls_stop(&j);
}

TEST(status)
{
    calls_job j    = calls_start(servers_start(1, 1, "tcp"), NULL);
    char     *text = NULL;

    assert_ok(est_server_status(j.s.worker[0], &text));
    assert_non_null(strstr(text, "\"calls\": null"));
    est_free(text);
    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL));
    assert_ok(est_server_status(j.s.worker[0], &text));
    assert_non_null(strstr(text, "\"coordinator\": \"client:"));
    assert_non_null(strstr(text, "\"functions\": 4"));
    assert_non_null(strstr(text, "\"completed\": 1"));
    assert_non_null(strstr(text, "\"under_way\": null"));
    est_free(text);
    calls_stop(&j);
}

TEST(bad_requests)
{
    calls_job   j       = calls_start(servers_start(1, 1, "tcp"), NULL);
    est_link   *ps      = calls_meet(&j, "ps", 0);
    est_packing packing = { 0 };
    est_nodes   none    = { 0 };

    expect(calls_set_up(ps, 1), EST_FAILED_PRECONDITION, "ps:0 executes no calls");
    expect(calls_call(j.link[0], 1, 1, 1, NULL, NULL), EST_FAILED_PRECONDITION, "needs a SETUP");
    expect(calls_set_up(j.link[0], 0), EST_INVALID_ARGUMENT, "no origin");
    assert_ok(calls_set_up(j.link[0], 1));
    expect(calls_call(j.link[0], 1, 1, CALLS_ADD, NULL, NULL), EST_NOT_FOUND, "no function 1");
    calls_send_functions(&j, j.link[0]);
    expect(calls_call(j.link[0], 0, 0, CALLS_ADD, calls_ones, NULL), EST_INVALID_ARGUMENT, "a call needs a number");
    expect(calls_call(j.link[0], 1, 2, CALLS_ADD, calls_ones, NULL), EST_INVALID_ARGUMENT, "first 2");
    expect(calls_call(j.link[0], 1, 1, CALLS_ADD, NULL, NULL), EST_INVALID_ARGUMENT, "no value for feed 0 ('x')");
    expect(calls_call(j.link[0], 1, 1, CALLS_EMPTY, calls_ones, NULL), EST_INVALID_ARGUMENT, "has 0 feeds");
    calls_pack(1, 1, CALLS_ADD, calls_ones, &packing);
    est_call_argument_put(&(est_call_argument){ .feed = 0 }, &packing);
    expect(calls_ask(j.link[0], EST_METHOD_CALL, &packing, NULL), EST_INVALID_ARGUMENT, "more arguments than tensors");
    expect(calls_send_function(&j, j.link[0], (est_function_request){ .number = CALLS_ADD }, NULL, none, none, none),
           EST_ALREADY_EXISTS, "function 1 is here");
    expect(calls_send_function(&j, j.link[0], (est_function_request){ .number = 9 }, "w2", none, none, none),
           EST_INVALID_ARGUMENT, "'w2'");
    est_wire_put_u64(&packing.head, EST_FIELD_FUNCTION, 9);
    expect(calls_ask(j.link[0], EST_METHOD_FUNCTION, &packing, NULL), EST_INVALID_ARGUMENT, "no graph");
    assert_ok(calls_call(j.link[0], 1, 1, CALLS_ADD, calls_ones, NULL)); /* none of them did harm */
    assert_true(calls_read(&j, "w") == 1);
    est_link_free(ps);
    calls_stop(&j);
}

/* A variable that the coordinator has not initialized would be placed by each worker for itself. */
TEST(no_value)
{
    calls_job j = calls_start(servers_start(2, 1, "tcp"), NULL);
    est_node  late;

    late = est_variable(j.graph, "late", EST_F32, EST_SHAPE(4));
    assert_ok(calls_set_up(j.link[0], 1));
    expect(calls_send_function(&j, j.link[0], (est_function_request){ .number = 1, .name = { "f", 1 } }, "total",
                               EST_NO_NODES, EST_NODES(est_read_variable(late)), EST_NO_NODES),
           EST_FAILED_PRECONDITION, "function 'f': variable 'late' has no value");
    calls_stop(&j);
}
