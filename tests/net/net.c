/* SPDX-License-Identifier: Apache-2.0
 *
 * The network between two nets of one process: payloads of all sizes, many asks at once, deadlines, cancelling, closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "net/inject.h"
#include "support/net_test.h"

static const char *const transports[] = { "tcp", "tls" };

#define N_TRANSPORTS (sizeof transports / sizeof transports[0])

static void fill_bytes(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
}

/* Sends head and parts, expects them back, every part at a multiple of 64 bytes. */
static void expect_echo(est_link *link, est_payload payload)
{
    est_message *answer = NULL;
    size_t       size;
    const void  *head;

    net_check(net_test_ask(link, NET_ECHO, payload, NET_TEST_SECS, &answer));
    head = est_message_head(answer, &size);
    assert_int_equal(size, payload.head_size);
    if (size > 0) assert_memory_equal(head, payload.head, size);
    assert_int_equal(est_message_parts(answer), payload.n_parts);
    for (int i = 0; i < payload.n_parts; i++) {
        void *part = est_message_part(answer, i, &size);

        assert_int_equal((uintptr_t)part % 64, 0);
        assert_int_equal(size, payload.parts[i].size);
        if (size > 0 && memcmp(part, payload.parts[i].data, size) != 0)
            fail_msg("part %d of %zu bytes differs", i, size);
    }
    est_message_free(answer);
}

static void echo_sizes(const char *transport)
{
    static const size_t sizes[] = { 0,     1,     2,     63,    64,    65,    127,    4095,
                                    16383, 16384, 16385, 32703, 32768, 65537, 100003, 1000003 };
    const size_t        big     = (size_t)64 << 20;
    uint8_t            *bytes   = malloc(big);
    est_part            parts[200];
    net_test            server, client;
    est_link           *link;

    assert_non_null(bytes);
    fill_bytes(bytes, big, 1);
    net_test_start(&server, transport, "ps:0", NULL);
    net_test_start(&client, transport, "worker:0", NULL);
    link = net_test_connect(&client, &server);
    assert_string_equal(est_link_peer(link)->task, "ps:0");
    expect_echo(link, (est_payload){ 0 });
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        parts[0] = (est_part){ bytes + i, sizes[i] };
        parts[1] = (est_part){ bytes, sizes[sizeof sizes / sizeof sizes[0] - 1 - i] };
        parts[2] = (est_part){ bytes + 3 * i, sizes[i] };
        expect_echo(link, (est_payload){ .head = bytes, .head_size = sizes[i] });
        expect_echo(link, (est_payload){ .head = bytes, .head_size = i, .parts = parts, .n_parts = 1 });
        expect_echo(link, (est_payload){ .head = bytes + 5, .head_size = sizes[i], .parts = parts, .n_parts = 3 });
    }
    for (int i = 0; i < 200; i++) parts[i] = (est_part){ bytes + 7 * i, (size_t)(i * i % 311) };
    expect_echo(link, (est_payload){ .head = "many", .head_size = 4, .parts = parts, .n_parts = 200 });
    parts[0] = (est_part){ bytes, big - 1 };
    expect_echo(link, (est_payload){ .head = "big", .head_size = 3, .parts = parts, .n_parts = 1 });
    est_link_free(link);
    net_test_stop(&client);
    net_test_stop(&server);
    free(bytes);
}

static void test_echo(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TRANSPORTS; i++) echo_sizes(transports[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
    };

    return cmocka_run_group_tests(tests, net_test_setup, net_test_teardown);
}
