/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation and every system call that may fail does, one a run: two nets are made, connected, used and freed,
 * and whatever fails fails cleanly. Leaks are for the sanitizer to see. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "support/fault_loop.h"
#include "support/net_test.h"

#define ASK_SECS NET_TEST_SECS

static void serve(void *user, est_request *request)
{
    est_message *message = est_request_message(request);
    est_part     part;

    (void)user;
    part.data = est_message_part(message, 0, &part.size);
    est_request_answer(request, (est_payload){ .head = "x", .head_size = 1, .parts = &part, .n_parts = 1 });
}

static est_status use(est_link *link, const uint8_t *bytes, size_t size)
{
    est_part     part = { bytes, size };
    est_message *answer;
    est_ask     *ask;
    size_t       got;
    bool         same;

    EST_TRY(est_link_ask(link, 1, "an echo",
                         (est_payload){ .head = "head", .head_size = 4, .parts = &part, .n_parts = 1 }, ASK_SECS, NULL,
                         NULL, &ask));
    EST_TRY(est_ask_wait(ask, &answer));
    same = memcmp(est_message_part(answer, 0, &got), bytes, size) == 0 && got == size;
    est_message_free(answer);
    return same ? EST_OK : est_fail(EST_INTERNAL, "the echo differs");
}

static est_status body(const char *transport, const uint8_t *bytes, size_t size)
{
    est_net_options options = { .transport    = transport,
                                .certificates = net_test_certificates(),
                                .self         = { .job = "job", .task = "ps:0" },
                                .serve        = serve };
    est_net        *server = NULL, *client = NULL;
    est_link       *link = NULL;
    char            address[64];
    est_status      status;

    status = est_net_create(&options, &server);
    if (status == EST_OK) status = est_net_listen(server, "127.0.0.1:0");
    if (status == EST_OK) status = est_net_create(&options, &client);
    if (status == EST_OK) {
        snprintf(address, sizeof address, "127.0.0.1:%d", est_net_port(server));
        status = est_net_connect(client, address, "ps:0", NET_TEST_SECS, &link);
    }
    if (status == EST_OK) status = use(link, bytes, 100);
    if (status == EST_OK) status = use(link, bytes, size);
    est_link_free(link);
    est_net_free(client);
    est_net_free(server);
    return status;
}

static void expect_clean(est_status status)
{
    if (status == EST_OK || status == EST_RESOURCE_EXHAUSTED || status == EST_UNAVAILABLE ||
        status == EST_DEADLINE_EXCEEDED) {
        return;
    }
    fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void fail_one_by_one(fault_kind kind, const char *transport)
{
    const size_t size  = 3000000; /* more than a socket takes at once */
    uint8_t     *bytes = malloc(size);

    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(i * 31 >> 3);
    FAULT_LOOP(f, kind, .more_than = 9) {
        est_status status;

        fault_arm(&f);
        status = body(transport, bytes, size);
        if (!fault_end(&f)) net_check(status);
        expect_clean(status);
    }
    free(bytes);
}

TEST(allocations)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) fail_one_by_one(FAULT_ALLOCATIONS, net_test_transports[i]);
}

TEST(calls)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) fail_one_by_one(FAULT_POINTS, net_test_transports[i]);
}

static int setup(void **state)
{
    est_log_set_level(EST_LOG_OFF);
    return net_test_setup(state);
}

int main(void)
{
    return est_test_run(setup, net_test_teardown);
}
