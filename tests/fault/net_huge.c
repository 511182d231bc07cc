/* SPDX-License-Identifier: Apache-2.0
 *
 * A message of more than 2 GiB, which is more than one call of the system takes. What is sent has no memory behind it
 * but one page of zeros; what arrives has. */
#include <string.h>
#include <sys/mman.h>

#include "support/net_test.h"

TEST(huge)
{
    const size_t size  = ((size_t)2 << 30) + 1;
    void        *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    est_part     part  = { bytes, size };
    est_message *answer;
    uint64_t     count = 0;
    size_t       got;
    net_test     server, client;
    est_link    *link;

    assert_ptr_not_equal(bytes, MAP_FAILED);
    net_test_start(&server, "tcp", "ps:0", NULL);
    net_test_start(&client, "tcp", "worker:0", NULL);
    link = net_test_connect(&client, &server);
    net_check(net_test_ask(link, NET_COUNT, (est_payload){ .parts = &part, .n_parts = 1 }, 350, &answer));
    memcpy(&count, est_message_part(answer, 0, &got), sizeof count);
    assert_int_equal(count, size);
    est_message_free(answer);
    est_link_free(link);
    net_test_stop(&client);
    net_test_stop(&server);
    munmap(bytes, size);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
