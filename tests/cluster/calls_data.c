/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls with datasets: by name and as bytes, iterators, and the evaluation of shards. */
#include <inttypes.h>

#include "data/encode.h"
#include "support/calls_test.h"

enum { SUM = 20, SHARDS };

/* The numbers below params (int64; 10 without), in batches of 2; the part of a pipeline. */
static est_status count_input(const est_input_context *context, void *user, est_dataset **out)
{
    int64_t      n = context->params != NULL ? *(const int64_t *)context->params : 10;
    est_dataset *d = est_dataset_range(0, n, 1);

    assert_string_equal(user, "the user");
    d = est_dataset_shard(d, context->n_pipelines, context->pipeline);
    return est_dataset_finish(est_dataset_batch(d, 2, NULL), out);
}

static est_status unavailable_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_UNAVAILABLE, "the disk is away");
}

static est_status cancelled_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_CANCELLED, "the user pressed a key");
}

static servers start_servers(int n_ps, int n_workers)
{
    return servers_start_functions(n_ps, n_workers,
                                   EST_WORKER_FUNCTIONS({ "count", count_input, "the user" },
                                                        { "broken", unavailable_input },
                                                        { "cancelled", cancelled_input }));
}

static est_status send_dataset(est_link *link, uint64_t number, const char *name, const int64_t *params, int pipeline,
                               int n_pipelines)
{
    est_packing         packing = { 0 };
    est_dataset_request request = {
        .number = number, .name = { name, strlen(name) }, .pipeline = pipeline, .n_pipelines = n_pipelines
    };

    if (params != NULL) request.params = (est_str){ (const char *)params, sizeof *params };
    est_dataset_request_put(&request, &packing);
    return calls_ask(link, EST_METHOD_DATASET, &packing, NULL);
}

static est_status send_iterator(est_link *link, uint64_t number, uint64_t dataset, int64_t skip)
{
    est_packing packing = { 0 };

    est_iterator_request_put(&(est_iterator_request){ number, dataset, skip }, &packing);
    return calls_ask(link, EST_METHOD_ITERATOR, &packing, NULL);
}

/* SUM returns the sum of n. */
static void send_sum(calls_job *j, est_link *link)
{
    assert_ok(calls_send_function(j, link, (est_function_request){ .number = SUM, .name = { "sum", 3 } }, "total",
                                  EST_NODES(j->n), EST_NODES(est_reduce_sum(j->n, EST_I64S(0), false)), EST_NO_NODES));
}

static est_status call_sum(est_link *link, uint64_t call, uint64_t iterator, const char *component,
                           est_message **answer)
{
    est_packing packing = { 0 };

    est_call_request_put(&(est_call_request){ .call = call, .first = 1, .function = SUM }, false, &packing);
    est_call_argument_put(
        &(est_call_argument){
            .feed = 0, .from_iterator = true, .iterator = iterator, .component = { component, strlen(component) } },
        &packing);
    return calls_ask(link, EST_METHOD_CALL, &packing, answer);
}

static void expect(est_status got, est_status want, const char *text)
{
    if (got != want || strstr(est_error_message(), text) == NULL)
        fail_msg("%s: %s; expected %s: %s", est_status_name(got), est_error_message(), est_status_name(want), text);
}

static double sum_next(est_link *link, uint64_t call, uint64_t iterator)
{
    est_message *answer;

    assert_ok(call_sum(link, call, iterator, "value", &answer));
    return calls_first(answer);
}

TEST(by_name)
{
    calls_job j    = calls_start(start_servers(1, 1), NULL);
    est_link *link = j.link[0];
    int64_t   six  = 6;

    assert_ok(calls_set_up(link, 1));
    send_sum(&j, link);
    assert_ok(send_dataset(link, 1, "count", NULL, 0, 1));
    assert_ok(send_dataset(link, 2, "count", &six, 1, 2)); /* 1 3 | 5 */
    assert_ok(send_iterator(link, 1, 1, 0));
    assert_ok(send_iterator(link, 2, 2, 0));
    assert_ok(send_iterator(link, 3, 1, 3)); /* after 0 1 | 2 3 | 4 5 */
    assert_true(sum_next(link, 1, 1) == 1 && sum_next(link, 2, 1) == 5);
    assert_true(sum_next(link, 3, 2) == 4 && sum_next(link, 4, 2) == 5);
    assert_true(sum_next(link, 5, 3) == 13 && sum_next(link, 6, 3) == 17);
    expect(call_sum(link, 7, 3, "value", NULL), EST_OUT_OF_RANGE, "ended after 5 elements: repeat it");
    assert_non_null(strstr(est_error_message(), "call 7 of 'sum'"));
    expect(call_sum(link, 7, 9, "value", NULL), EST_NOT_FOUND, "no iterator 9");
    expect(call_sum(link, 7, 1, "label", NULL), EST_NOT_FOUND, "no component 'label'; it has: value");
    assert_true(sum_next(link, 8, 1) == 13); /* a call that fails by itself has used its element */
    calls_stop(&j);
}

TEST(bad_datasets)
{
    calls_job         j       = calls_start(start_servers(1, 1), NULL);
    est_link         *link    = j.link[0];
    est_packing       packing = { 0 };
    const char *const wanted  = "evaluate";
    est_message      *answer;

    est_setup_put(&(est_setup){ .origin = 1 }, &wanted, 1, &packing);
    expect(calls_ask(link, EST_METHOD_SETUP, &packing, NULL), EST_NOT_FOUND,
           "worker:0: no function 'evaluate'; this server was given 'count', 'broken', 'cancelled'");
    est_setup_put(&(est_setup){ .origin = 1 }, NULL, 0, &packing);
    assert_ok(calls_ask(link, EST_METHOD_SETUP, &packing, &answer));
    assert_int_equal(est_head_bytes(answer, EST_FIELD_NAME).size, strlen("count"));
    est_message_free(answer);
    expect(send_dataset(link, 1, "evaluate", NULL, 0, 1), EST_NOT_FOUND, "'count', 'broken', 'cancelled'");
    expect(send_dataset(link, 1, "broken", NULL, 0, 1), EST_INTERNAL, "the disk is away"); /* no ps task was lost */
    expect(send_dataset(link, 1, "cancelled", NULL, 0, 1), EST_INTERNAL, "pressed a key"); /* nor is this the end */
    expect(send_dataset(link, 1, "count", NULL, 2, 2), EST_INVALID_ARGUMENT, "pipeline 2");
    expect(send_iterator(link, 1, 1, 0), EST_NOT_FOUND, "no dataset 1");
    assert_ok(send_dataset(link, 1, "count", NULL, 0, 1));
    expect(send_dataset(link, 1, "count", NULL, 0, 1), EST_ALREADY_EXISTS, "dataset 1");
    expect(send_iterator(link, 1, 1, 6), EST_OUT_OF_RANGE, "ended after 5");
    est_wire_put_u64(&packing.head, EST_FIELD_DATASET, 2);
    expect(calls_ask(link, EST_METHOD_DATASET, &packing, NULL), EST_INVALID_ARGUMENT, "neither bytes nor a name");
    est_wire_put_u64(&packing.head, EST_FIELD_DATASET, 1);
    assert_ok(calls_ask(link, EST_METHOD_RELEASE, &packing, NULL));
    expect(send_iterator(link, 1, 1, 0), EST_NOT_FOUND, "no dataset 1");
    calls_stop(&j);
}

static est_status send_bytes(est_link *link, uint64_t number, est_dataset *dataset, int pipeline, int n_pipelines,
                             est_message **answer)
{
    est_wire_writer     bytes    = { 0 };
    est_packing         packing  = { 0 };
    est_dataset        *finished = NULL;
    est_dataset_request request  = { .number = number, .pipeline = pipeline, .n_pipelines = n_pipelines };

    assert_ok(est_dataset_finish(dataset, &finished));
    assert_ok(est_dataset_encode(finished, &bytes));
    request.bytes = (est_str){ (const char *)bytes.data, bytes.size };
    est_dataset_request_put(&request, &packing);
    est_wire_writer_clear(&bytes);
    est_dataset_free(finished);
    return calls_ask(link, EST_METHOD_DATASET, &packing, answer);
}

TEST(as_bytes)
{
    calls_job    j    = calls_start(start_servers(1, 1), NULL);
    est_link    *link = j.link[0];
    est_message *answer;
    est_str      name;

    assert_ok(calls_set_up(link, 1));
    send_sum(&j, link);
    assert_ok(send_bytes(link, 1, est_dataset_batch(est_dataset_range(0, 8, 1), 2, NULL), 0, 1, &answer));
    name = est_head_bytes(answer, EST_FIELD_COMPONENT);
    assert_true(name.size == 5 && memcmp(name.data, "value", 5) == 0);
    assert_int_equal(est_head_u64(answer, EST_FIELD_DTYPE, 0), EST_I64);
    est_message_free(answer);
    assert_ok(send_bytes(link, 2, est_dataset_batch(est_dataset_range(0, 8, 1), 2, NULL), 1, 2, NULL)); /* 1 3 | 5 7 */
    for (uint64_t i = 1; i <= 2; i++) assert_ok(send_iterator(link, i, i, 0));
    assert_true(sum_next(link, 1, 1) == 1 && sum_next(link, 2, 2) == 4);
    assert_true(sum_next(link, 3, 1) == 5 && sum_next(link, 4, 2) == 12);
    calls_stop(&j);
}

static est_status ask_shard(est_link *link, uint64_t call, uint64_t dataset, int64_t n_shards, int64_t shard,
                            est_message **answer)
{
    est_packing packing = { 0 };

    est_call_request_put(&(est_call_request){ call, 1, SHARDS, dataset, n_shards, shard }, true, &packing);
    est_call_argument_put(&(est_call_argument){ .feed = 0, .component = { "value", 5 } }, &packing);
    return calls_ask(link, EST_METHOD_SHARD, &packing, answer);
}

/* States of shards add up to those of the dataset, however often a shard is evaluated. */
TEST(shards)
{
    calls_job    j = calls_start(start_servers(1, 2), NULL);
    est_message *answer;
    double       sum = 0;

    for (int i = 0; i < 2; i++) {
        assert_ok(calls_set_up(j.link[i], 1));
        assert_ok(send_dataset(j.link[i], 1, "count", NULL, 0, 1));
        assert_ok(calls_send_function(
            &j, j.link[i],
            (est_function_request){ .number = SHARDS, .name = { "sums", 4 }, .has_resets = true, .n_resets = 1 },
            "total", EST_NODES(j.n), EST_NODES(j.total), EST_NODES(j.reset, j.add_n)));
    }
    for (int k = 0; k < 6; k++) { /* 5 batches: one of the shards is empty */
        assert_ok(ask_shard(j.link[k % 2], (uint64_t)k + 1, 1, 6, k, &answer));
        est_message_free(answer);
        assert_ok(ask_shard(j.link[k % 2], (uint64_t)k + 1, 1, 6, k, &answer));
        sum += calls_first(answer);
    }
    assert_true(sum == 45);
    expect(ask_shard(j.link[0], 7, 1, 0, 0, NULL), EST_INVALID_ARGUMENT, "shards 0");
    expect(ask_shard(j.link[0], 7, 2, 1, 0, NULL), EST_NOT_FOUND, "no dataset 2");
    expect(calls_call(j.link[0], 7, 1, SHARDS, NULL, NULL), EST_INVALID_ARGUMENT, "is for the evaluation of shards");
    assert_ok(send_bytes(j.link[0], 2, est_dataset_repeat(est_dataset_range(0, 4, 1), EST_FOREVER), 0, 1, NULL));
    expect(ask_shard(j.link[0], 7, 2, 1, 0, NULL), EST_INVALID_ARGUMENT, "never ends");
    assert_ok(send_bytes(j.link[0], 3,
                         est_dataset_map_graph(est_dataset_batch(est_dataset_range(0, 4, 1), 2, NULL),
                                               EST_NAMED_NODES({ "value", j.n }),
                                               EST_NAMED_NODES({ "value", est_add(j.n, j.n) }),
                                               EST_MAP_GRAPH(.workers = 2, .unordered = true)),
                         0, 1, NULL));
    expect(ask_shard(j.link[0], 7, 3, 1, 0, NULL), EST_INVALID_ARGUMENT, "leave out .unordered");
    assert_ok(send_bytes(j.link[0], 4,
                         est_dataset_shuffle(est_dataset_batch(est_dataset_range(0, 4, 1), 2, NULL), 4, 0), 0, 1,
                         NULL)); /* a drawn order is the same for all */
    assert_ok(ask_shard(j.link[0], 7, 4, 1, 0, NULL));
    expect(calls_send_function(&j, j.link[0], (est_function_request){ .number = 9, .has_resets = true }, "total",
                               EST_NODES(j.x), EST_NO_NODES, EST_NODES(j.add)),
           EST_INVALID_ARGUMENT, "local states");
    calls_stop(&j);
}

/* The element of a call that failed because a ps task was lost is that of the next call. */
TEST(kept_element)
{
    calls_job j    = calls_start(start_servers(1, 1), NULL);
    est_link *link = j.link[0];
    est_node  x = est_cast(j.n, EST_F32), sum = est_reduce_sum(x, EST_I64S(0), false);
    est_node  w = est_variable(j.graph, "sums", EST_F32, EST_SHAPE());

    est_variable_initializer(w, est_scalar(j.graph, EST_F32, 0));
    calls_initialize(&j);
    assert_ok(calls_set_up(link, 1));
    assert_ok(calls_send_function(&j, link, (est_function_request){ .number = SUM, .name = { "sum", 3 } }, "total",
                                  EST_NODES(j.n), EST_NODES(sum), EST_NODES(est_assign_add(w, sum))));
    assert_ok(send_dataset(link, 1, "count", NULL, 0, 1));
    assert_ok(send_iterator(link, 1, 1, 0));
    assert_true(sum_next(link, 1, 1) == 1);
    est_server_free(j.s.ps[0]);
    assert_ok(est_server_create(j.s.cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &j.s.ps[0]));
    assert_int_not_equal(call_sum(link, 2, 1, "value", NULL), EST_OK);
    calls_initialize(&j);
    assert_true(sum_next(link, 2, 1) == 5);
    calls_stop(&j);
}

/* A call that uses two iterators. */
static void pack_two(uint64_t call, uint64_t function, uint64_t a, uint64_t b, est_packing *packing)
{
    uint64_t iterators[] = { a, b };

    est_call_request_put(&(est_call_request){ .call = call, .first = 1, .function = function }, false, packing);
    for (int i = 0; i < 2; i++) {
        est_call_argument_put(
            &(est_call_argument){
                .feed = i, .from_iterator = true, .iterator = iterators[i], .component = { "value", 5 } },
            packing);
    }
}

/* A call uses an element of each of its iterators, or of none; whether it did, its answer says. */
TEST(used_elements)
{
    calls_job    j       = calls_start(start_servers(1, 1), NULL);
    est_link    *link    = j.link[0];
    int64_t      two     = 2;
    est_node     m       = est_placeholder(j.graph, "m", EST_I64, EST_SHAPE(-1));
    est_packing  packing = { 0 };
    est_payload  payload;
    est_ask     *ask;
    est_message *answer;

    assert_ok(calls_set_up(link, 1));
    send_sum(&j, link);
    assert_ok(calls_send_function(&j, link, (est_function_request){ .number = 21, .name = { "both", 4 } }, "total",
                                  EST_NODES(j.n, m), EST_NODES(est_add(j.n, m)), EST_NO_NODES));
    assert_ok(send_dataset(link, 1, "count", NULL, 0, 1)); /* 0 1 | 2 3 | ... */
    assert_ok(send_dataset(link, 2, "count", &two, 0, 1)); /* 0 1 */
    for (uint64_t i = 1; i <= 2; i++) assert_ok(send_iterator(link, i, i, 0));
    pack_two(1, 21, 1, 2, &packing);
    assert_ok(calls_ask(link, EST_METHOD_CALL, &packing, NULL));
    for (uint64_t i = 2; i <= 3; i++) { /* the second one has ended, so the first keeps its element */
        pack_two(i, 21, 1, 2, &packing);
        assert_ok(est_packing_payload(&packing, &payload));
        assert_ok(est_link_ask(link, EST_METHOD_CALL, "a call", payload, CALLS_SECS, NULL, NULL, &ask));
        expect(est_ask_wait(ask, &answer), EST_OUT_OF_RANGE, "ended after 1 elements");
        est_packing_clear(&packing);
    }
    assert_true(sum_next(link, 4, 1) == 5);
    est_call_request_put(&(est_call_request){ .call = 5, .first = 1, .function = SUM }, false, &packing);
    est_call_argument_put(
        &(est_call_argument){ .feed = 0, .from_iterator = true, .iterator = 1, .component = { "label", 5 } }, &packing);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_ok(est_link_ask(link, EST_METHOD_CALL, "a call", payload, CALLS_SECS, NULL, NULL, &ask));
    assert_ok(est_ask_wait(ask, &answer)); /* 4 5 is used, and the answer says that the function failed */
    expect(est_call_failure_read(answer), EST_NOT_FOUND, "no component 'label'");
    est_message_free(answer);
    est_packing_clear(&packing);
    assert_true(sum_next(link, 6, 1) == 13);
    calls_stop(&j);
}

TEST(bad_functions)
{
    servers     s      = servers_start(1, 0, "tcp");
    est_server *server = NULL;

    expect(est_server_create(s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .functions = { NULL, 1 }), &server),
           EST_INVALID_ARGUMENT, "the pointer is NULL");
    expect(est_server_create(s.cluster, NULL, 0,
                             EST_SERVER(.transport = "tcp", .functions = EST_WORKER_FUNCTIONS({ "count" })), &server),
           EST_INVALID_ARGUMENT, "function 0 of the server has no input_fn");
    assert_null(server);
    servers_stop(&s);
}
