/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections whose peers were not let in yet: which of them has to go, and what a process with few descriptors
 * bears. */
#include "net/unfinished.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "support/flood_test.h"
#include "support/log_test.h"
#include "support/net_test.h"

#define DESCRIPTORS 64
#define FILES       8 /* that the flooded process still opens */

static est_unfinished       all;
static est_unfinished_entry entries[8];

static void add(int i, const char *address)
{
    est_unfinished_add(&all, &entries[i], address);
}

static void expect_victim(int i)
{
    assert_ptr_equal(est_unfinished_victim(&all), &entries[i]);
    est_unfinished_remove(&all, &entries[i]);
    est_unfinished_remove(&all, &entries[i]); /* once more is nothing */
}

/* The oldest of the source that has most; of sources that have as many, the oldest. */
TEST(victim)
{
    est_unfinished_init(&all, 1024);
    assert_int_equal(all.n_max, 256);
    assert_null(est_unfinished_victim(&all));
    add(0, "10.0.0.1:1");
    add(1, "10.0.0.2:1");
    add(2, "10.0.0.2:2");
    add(3, "[2001:db8::1]:1");
    add(4, "[2001:db8::2]:1"); /* the same network */
    add(5, "[2001:db8::3]:1");
    assert_int_equal(all.n, 6);
    expect_victim(3);
    expect_victim(1);
    expect_victim(4);
    expect_victim(0);
    expect_victim(2);
    expect_victim(5);
    assert_null(est_unfinished_victim(&all));
    assert_int_equal(all.n, 0);
}

TEST(limits)
{
    est_unfinished_init(&all, 32);
    assert_int_equal(all.n_max, 16);
    est_unfinished_init(&all, 1000000);
    assert_int_equal(all.n_max, 1024);
}

/* --- a process with few descriptors ------------------------------------------------------------------------------- */

/* Listens, says at which port, opens files when it is told to, says how many, and ends when nobody tells it anything
 * more. */
static int limited_main(const char *transport, int in, int out)
{
    const struct rlimit limit = { .rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS };
    net_test            server;
    int                 number;
    char                byte;

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    net_test_start(&server, transport, "ps:0", NULL);
    number = est_net_port(server.net);
    if (write(out, &number, sizeof number) != sizeof number) return 1;
    while (read(in, &byte, 1) == 1) {
        int fds[FILES];

        for (number = 0; number < FILES; number++) {
            fds[number] = dup(in);
            if (fds[number] < 0) break;
        }
        for (int i = 0; i < number; i++) close(fds[i]);
        if (write(out, &number, sizeof number) != sizeof number) return 1;
    }
    net_test_stop(&server);
    return 0;
}

static void bear_flood(const char *transport, bool speaks)
{
    static flood f;
    net_test     client, server = { 0 };
    int          to[2], from[2], number, status;
    pid_t        child;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(to[1]);
        close(from[0]);
        _exit(limited_main(transport, to[0], from[1]));
    }
    close(to[0]);
    close(from[1]);
    assert_int_equal(read(from[0], &number, sizeof number), sizeof number);
    snprintf(server.address, sizeof server.address, "127.0.0.1:%d", number);
    f = (flood){ .port = number, .n = 4 * DESCRIPTORS, .speaks = speaks };
    flood_start(&f);
    assert_int_equal(write(to[1], "f", 1), 1);
    assert_int_equal(read(from[0], &number, sizeof number), sizeof number);
    assert_int_equal(number, FILES);
    net_test_start(&client, transport, "worker:0", NULL);
    for (int i = 0; i < 3; i++) {
        est_link    *link = net_test_connect(&client, &server);
        est_message *answer;

        net_check(net_test_ask(link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer));
        est_message_free(answer);
        est_link_close(link, "done");
        est_link_free(link);
    }
    flood_stop(&f);
    net_test_stop(&client);
    close(to[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(from[0]);
}

/* Descriptors are left for files, and a peer gets in. */
TEST(flood)
{
    bear_flood("tcp", false);
    bear_flood("tls", false);
    bear_flood("tls", true);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

/* A stranger with many addresses does not fill the log. */
TEST(log)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    net_test           server;
    char               byte;

    log_keep(EST_LOG_DEBUG);
    net_test_start(&server, "tcp", "ps:0", NULL);
    to.sin_port = htons((uint16_t)est_net_port(server.net));
    for (uint32_t i = 0; i < 100; i++) {
        struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + i) };
        int                fd   = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        assert_int_equal(send(fd, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
        assert_true(recv(fd, &byte, 1, 0) <= 0); /* it is closed */
        close(fd);
    }
    net_test_stop(&server);
    log_release();
    assert_int_equal(log_count(EST_LOG_OFF, "refused a connection"), 100);
    assert_int_equal(log_count(EST_LOG_WARN, "refused a connection"), 32);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
