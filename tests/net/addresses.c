/* SPDX-License-Identifier: Apache-2.0
 *
 * A host with two addresses, at the first of which nobody answers: the second is tried while there is time. The name is one that
 * only this program knows. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/net_test.h"

#define NAME "two.addresses.test"

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int resolve(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    resolver *next;
    void     *found = dlsym(RTLD_NEXT, "getaddrinfo");

    assert_non_null(found);
    memcpy(&next, &found, sizeof next);
    return next(host, port, hints, out);
}

/* In place of the C library's. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    if (host == NULL || strcmp(host, NAME) != 0) return resolve(host, port, hints, out);
    assert_int_equal(resolve("127.0.0.2", port, hints, out), 0);
    assert_null((*out)->ai_next);
    return resolve("127.0.0.1", port, hints, &(*out)->ai_next);
}

/* Takes connections, and says nothing. */
static int listen_silently(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &at.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void test_silent_address(void **state)
{
    net_test  server, client;
    est_link *link = NULL;
    char      address[64];
    int       fd;

    (void)state;
    net_test_start(&server, "tcp", "ps:0", NULL);
    net_test_start(&client, "tcp", "worker:0", NULL);
    fd = listen_silently(est_net_port(server.net));
    snprintf(address, sizeof address, NAME ":%d", est_net_port(server.net));
    net_check(est_net_connect(client.net, address, "ps:0", 8, &link));
    est_link_free(link);
    close(fd);
    net_test_stop(&client);
    net_test_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_silent_address) };

    return cmocka_run_group_tests(tests, net_test_setup, net_test_teardown);
}
