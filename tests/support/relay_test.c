/* SPDX-License-Identifier: Apache-2.0
 *
 * Relays. */
#include "support/relay_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/port_test.h"
#include "support/test.h"

static bool is_closed(int fd)
{
    struct pollfd at = { .fd = fd, .events = POLLRDHUP };

    return poll(&at, 1, 10) > 0;
}

static int connect_to(int port)
{
    struct sockaddr_in at = { .sin_family      = AF_INET,
                              .sin_port        = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Passes bytes on both ways until one side ends. */
static void carry(int a, int b)
{
    struct pollfd at[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };
    char          bytes[4096];

    for (;;) {
        assert_true(poll(at, 2, -1) > 0);
        for (int i = 0; i < 2; i++) {
            ssize_t n;

            if (at[i].revents == 0) continue;
            n = recv(at[i].fd, bytes, sizeof bytes, 0);
            if (n <= 0 || send(at[1 - i].fd, bytes, (size_t)n, MSG_NOSIGNAL) != n) return;
        }
    }
}

static bool is_held(const relay *r, int64_t since_ns)
{
    return r->holds(r->user, (double)(est_machine_ns() - since_ns) / (double)EST_NS_PER_SEC);
}

static void *run(void *arg)
{
    relay *r = arg;

    for (int from; (from = accept(r->listener, NULL, NULL)) >= 0; close(from)) {
        int64_t since_ns = est_machine_ns();
        int     to;

        atomic_fetch_add(&r->n_connections, 1);
        while (is_held(r, since_ns) && !is_closed(from)) {}
        if (is_closed(from)) continue;
        to = connect_to(r->to_port);
        carry(from, to);
        close(to);
    }
    return NULL;
}

void relay_start(relay *r)
{
    r->port = port_take(&r->listener);
    assert_int_equal(listen(r->listener, 16), 0);
    assert_int_equal(est_thread_start(&r->thread, "relay", run, r), EST_OK);
}

void relay_stop(relay *r)
{
    shutdown(r->listener, SHUT_RDWR);
    est_thread_join(&r->thread);
    close(r->listener);
}
