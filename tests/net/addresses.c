/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a net listens, by what its task is called; and a host with two addresses, at the first of which nobody answers:
 * the second is tried while there is time. Its name is one that only this program knows. */
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

TEST(silent_address)
{
    net_test  server, client;
    est_link *link = NULL;
    char      address[64];
    int       fd;

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

/* A task is called by a name that need not be its own host's, or be known there yet: a service's, one that /etc/hosts
 * gives to 127.0.1.1. So a task with a name listens at all interfaces, and a task with an address only at that one. */
static void expect_listens_at(const char *transport, const char *at, bool everywhere)
{
    static const char *const hosts[] = { "127.0.0.1", "127.0.0.2" };
    est_net_options          options = { .transport    = transport,
                                         .certificates = net_test_certificates(),
                                         .self         = { .job = "job", .task = "ps:0" } };
    const int                n       = strcmp(transport, "ucx") == 0 ? 1 : 2; /* no interface of ucx has 127.0.0.2 */
    est_net                 *net;
    net_test                 client;

    net_check(est_net_create(&options, &net));
    net_check(est_net_listen(net, at));
    net_test_start(&client, transport, "worker:0", NULL);
    for (int i = 0; i < n; i++) {
        est_link *link;
        char      text[64];

        snprintf(text, sizeof text, "%s:%d", hosts[i], est_net_port(net));
        if (i == 0 || everywhere) {
            net_check(est_net_connect(client.net, text, "ps:0", NET_TEST_SECS, &link));
            est_link_free(link);
        } else {
            net_expect(est_net_connect(client.net, text, "ps:0", 0.05, &link), EST_UNAVAILABLE, "not reached");
        }
    }
    est_net_free(net);
    net_test_stop(&client);
}

TEST(listening)
{
    for (int i = 0; i < net_test_n_transports(); i++) {
        expect_listens_at(net_test_transports[i], "127.0.0.1:0", false);
        expect_listens_at(net_test_transports[i], "no-such-host.invalid:0", true);
        expect_listens_at(net_test_transports[i], ":0", true);
    }
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
