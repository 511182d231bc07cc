/* SPDX-License-Identifier: Apache-2.0
 *
 * A task that is far away, or busy, and takes its time to say who it is: whoever waits for it keeps the one attempt, and looks at
 * other things meanwhile. */
#include <arpa/inet.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cluster/remote.h"
#include "cluster/tasks.h"
#include "estoc/estoc.h"
#include "support/nn_test.h"
#include "support/port_test.h"

#define CONNECT_SECS 60.0
#define LOOKS        3 /* of the waiting task, which the hello takes */

/* Between worker and ps: nothing passes before the worker has looked around so often. */
typedef struct relay {
    int        listener, ps_port, looks_min;
    atomic_int n_looks, n_attempts;
    int        over_at; /* the look that finds the job ended; 0: none */
} relay;

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

static void *run_relay(void *arg)
{
    relay *r = arg;

    for (int from; (from = accept(r->listener, NULL, NULL)) >= 0; close(from)) {
        int to;

        atomic_fetch_add(&r->n_attempts, 1);
        while (atomic_load(&r->n_looks) < r->looks_min && !is_closed(from)) {}
        if (is_closed(from)) continue;
        to = connect_to(r->ps_port);
        carry(from, to);
        close(to);
    }
    return NULL;
}

static bool look(void *user)
{
    relay *r = user;

    return atomic_fetch_add(&r->n_looks, 1) + 1 == r->over_at;
}

/* What connecting to the ps through a relay comes to; how many connections that took. */
static est_status connect_through(int looks_min, int over_at, int *n_attempts)
{
    relay        r = { .looks_min = looks_min, .over_at = over_at };
    int          held[3], ports[3];
    char         near[32], far[32], own[32];
    est_cluster *near_cluster = NULL, *far_cluster = NULL;
    est_server  *ps = NULL, *worker = NULL;
    est_remote  *remote = NULL;
    est_thread   thread;
    est_status   status;

    for (int i = 0; i < 3; i++) ports[i] = port_take(&held[i]);
    r.listener = held[0];
    r.ps_port  = ports[1];
    assert_int_equal(listen(r.listener, 16), 0);
    snprintf(far, sizeof far, "127.0.0.1:%d", ports[0]);
    snprintf(near, sizeof near, "127.0.0.1:%d", ports[1]);
    snprintf(own, sizeof own, "127.0.0.1:%d", ports[2]);
    assert_ok(est_cluster_create(
        (const est_job[]){ { "ps", (const char *[]){ near }, 1 }, { "worker", (const char *[]){ own }, 1 } }, 2,
        &near_cluster));
    assert_ok(est_cluster_create(
        (const est_job[]){ { "ps", (const char *[]){ far }, 1 }, { "worker", (const char *[]){ own }, 1 } }, 2,
        &far_cluster));
    assert_ok(est_server_create(near_cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &ps));
    assert_ok(est_server_create(far_cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &worker));
    assert_ok(est_remote_create(worker, EST_REMOTE(.is_chief = true, .connect_secs = CONNECT_SECS), &remote));
    est_remote_set_over(remote, look, &r);
    assert_ok(est_thread_start(&thread, "relay", run_relay, &r));
    status      = remote->ops->connect(remote);
    *n_attempts = atomic_load(&r.n_attempts);
    est_remote_free(remote);
    est_server_free(worker);
    est_server_free(ps);
    shutdown(r.listener, SHUT_RDWR);
    est_thread_join(&thread);
    for (int i = 0; i < 3; i++) close(held[i]);
    est_cluster_free(near_cluster);
    est_cluster_free(far_cluster);
    return status;
}

static void test_slow_hello(void **state)
{
    int n_attempts;

    (void)state;
    assert_ok(connect_through(LOOKS, 0, &n_attempts));
    assert_int_equal(n_attempts, 1);
}

/* Who keeps an attempt still sees that the job has ended. */
static void test_job_ends_meanwhile(void **state)
{
    int n_attempts;

    (void)state;
    assert_int_equal(connect_through(INT_MAX, LOOKS, &n_attempts), EST_OUT_OF_RANGE);
    assert_non_null(strstr(est_error_message(), "the job has ended while waiting for ps:0"));
    assert_int_equal(n_attempts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_slow_hello), cmocka_unit_test(test_job_ends_meanwhile) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
