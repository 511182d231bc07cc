/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers that die: processes killed while they are asked, and started again at the same port. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "support/net_test.h"

typedef struct child {
    pid_t pid;
    int   port;
} child;

static void keep(void *user, est_request *request)
{
    (void)user;
    if (est_request_method(request) == NET_ECHO) est_request_answer(request, (est_payload){ 0 });
}

/* A process that listens at the port (0: any) and answers nothing but echoes, until it is killed. */
static child start_child(const char *transport, int port, uint64_t incarnation)
{
    int   ends[2];
    child c = { 0 };

    assert_int_equal(pipe(ends), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        est_net_options options = { .transport    = transport,
                                    .certificates = net_test_certificates(),
                                    .self         = { "job", "ps:0", incarnation },
                                    .serve        = keep };
        est_net        *net;
        char            address[64];

        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        if (est_net_create(&options, &net) != EST_OK || est_net_listen(net, address) != EST_OK) _exit(1);
        port = est_net_port(net);
        if (write(ends[1], &port, sizeof port) != sizeof port) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    if (read(ends[0], &c.port, sizeof c.port) != sizeof c.port) fail_msg("the process did not start");
    close(ends[0]);
    return c;
}

static void kill_child(child c)
{
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
}

/* The first process is started before any thread of ours: a child of fork has only its own. Those that follow are made
 * by the same call, which touches nothing that a thread of ours might have locked. */
static void killed_and_restarted(const char *transport)
{
    child        first = start_child(transport, 0, 100), second = start_child(transport, 0, 200);
    net_test     client;
    est_link    *link = NULL, *again = NULL;
    est_ask     *ask;
    est_message *answer;
    char         address[64];
    int64_t      start;
    double       secs;

    net_test_start(&client, transport, "worker:0", NULL);
    snprintf(address, sizeof address, "127.0.0.1:%d", first.port);
    net_check(est_net_connect(client.net, address, "ps:0", NET_TEST_SECS, &link));
    assert_int_equal(est_link_peer(link)->incarnation, 100);
    net_check(est_link_ask(link, NET_KEEP, "pull of step 7", (est_payload){ 0 }, NET_TEST_SECS, NULL, NULL, &ask));
    start = est_machine_ns();
    kill_child(first);
    net_expect(est_ask_wait(ask, &answer), EST_UNAVAILABLE, "ps:0 was asked for pull of step 7: ");
    secs = (double)(est_machine_ns() - start) / 1e9;
    if (secs > 5) fail_msg("it took %g s to see that the process was gone", secs); /* silence would be 10 */
    net_test_wait(&client, &client.n_lost, 1);
    assert_true(est_link_is_lost(link));
    est_link_free(link);

    snprintf(address, sizeof address, "127.0.0.1:%d", second.port);
    net_check(est_net_connect(client.net, address, "ps:0", NET_TEST_SECS, &link));
    kill_child(second);
    net_test_stop(&client); /* no threads while we fork */
    est_link_free(link);
    first = start_child(transport, second.port, 300);
    net_test_start(&client, transport, "worker:0", NULL);
    net_check(est_net_connect(client.net, address, "ps:0", NET_TEST_SECS, &again));
    assert_int_equal(est_link_peer(again)->incarnation, 300);
    net_check(net_test_ask(again, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer));
    est_message_free(answer);
    est_link_free(again);
    kill_child(first);
    net_test_stop(&client);
}

TEST(kill)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) killed_and_restarted(net_test_transports[i]);
}

/* A process that stands still is silent, and is lost; the kernel keeps its connection. */
TEST(stopped)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        child           c       = start_child(net_test_transports[i], 0, 1);
        est_net_options options = { .silence_secs = 0.3 };
        net_test        client;
        est_link       *link;
        est_message    *answer;
        char            address[64];

        (void)state;
        net_test_start(&client, net_test_transports[i], "worker:0", &options);
        snprintf(address, sizeof address, "127.0.0.1:%d", c.port);
        net_check(est_net_connect(client.net, address, "ps:0", NET_TEST_SECS, &link));
        assert_int_equal(kill(c.pid, SIGSTOP), 0);
        assert_int_equal(waitpid(c.pid, NULL, WUNTRACED), c.pid); /* its threads run until it is reported */
        net_expect(net_test_ask(link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer), EST_UNAVAILABLE,
                   "nothing came from ps:0 for 0.3 s");
        est_link_free(link);
        net_test_stop(&client);
        kill_child(c);
    }
}

/* What a peer that stands still has not taken is the sender's again when its deadline is over. */
TEST(stopped_large)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        const size_t size = (size_t)32 << 20;
        child        c    = start_child(net_test_transports[i], 0, 1);
        net_test     client;
        est_link    *link;
        est_message *answer;
        uint8_t     *bytes = malloc(size);
        est_part     part  = { bytes, size };
        char         address[64];
        int64_t      start;
        double       secs;

        (void)state;
        assert_non_null(bytes);
        memset(bytes, 1, size);
        net_test_start(&client, net_test_transports[i], "worker:0", NULL);
        snprintf(address, sizeof address, "127.0.0.1:%d", c.port);
        net_check(est_net_connect(client.net, address, "ps:0", NET_TEST_SECS, &link));
        assert_int_equal(kill(c.pid, SIGSTOP), 0);
        assert_int_equal(waitpid(c.pid, NULL, WUNTRACED), c.pid);
        start = est_machine_ns();
        net_expect(net_test_ask(link, NET_ECHO, (est_payload){ .parts = &part, .n_parts = 1 }, 0.1, &answer),
                   EST_DEADLINE_EXCEEDED, "ps:0 did not answer a test within 0.1 s");
        secs = (double)(est_machine_ns() - start) / 1e9;
        if (secs > 5) fail_msg("it took %g s to get the memory back", secs); /* silence would be 10 */
        memset(bytes, 2, size);
        free(bytes);
        est_link_free(link);
        net_test_stop(&client);
        kill_child(c);
    }
}

/* --- a peer that does not fetch its answers ----------------------------------------------------------------------- */

#define FETCHES     20
#define FETCH_BYTES ((uint64_t)8 << 20)

typedef struct sluggard {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            is_still;
} sluggard;

/* Keeps the network thread, outside of reading, so that what is asked leaves at once and no answer is read. */
static void stand_still(void *user, est_status status, const char *error, est_message *answer)
{
    sluggard *s = user;

    (void)status, (void)error, (void)answer;
    pthread_mutex_lock(&s->lock);
    s->is_still = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (;;) pause();
}

static void ignore(void *user, est_status status, const char *error, est_message *answer)
{
    (void)user, (void)status, (void)error, (void)answer;
}

/* A process that asks the server, whose port comes from the pipe, for more than a link keeps, and stands still. */
static pid_t start_sluggard(const char *transport, int port_from)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        sluggard        s       = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
        est_net_options options = { .transport    = transport,
                                    .certificates = net_test_certificates(),
                                    .self         = { "job", "worker:0", 1 } };
        uint64_t        size    = FETCH_BYTES;
        est_payload     fill    = { .head = &size, .head_size = sizeof size };
        est_net        *net;
        est_link       *link;
        char            address[64];
        int             port;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* who stands still would outlive a test that fails */
        if (read(port_from, &port, sizeof port) != sizeof port) _exit(1);
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        if (est_net_create(&options, &net) != EST_OK ||
            est_net_connect(net, address, "ps:0", NET_TEST_SECS, &link) != EST_OK ||
            est_link_ask(link, NET_KEEP, "a word", (est_payload){ 0 }, 0.001, stand_still, &s, NULL) != EST_OK) {
            _exit(1);
        }
        pthread_mutex_lock(&s.lock);
        while (!s.is_still) pthread_cond_wait(&s.changed, &s.lock);
        pthread_mutex_unlock(&s.lock);
        for (int i = 0; i < FETCHES; i++) {
            if (est_link_ask(link, NET_FILL, "bytes", fill, EST_FOREVER, ignore, NULL, NULL) != EST_OK) _exit(1);
        }
        for (;;) raise(SIGSTOP);
    }
    return pid;
}

/* Nothing is read from a peer that does not fetch its answers; that it is silent is seen by what it does not take. */
TEST(stopped_while_held)
{
    for (int i = 0; i < 2; i++) { /* ucx hears its peers also while they are held */
        est_net_options options = { .silence_secs = 0.5 };
        net_test        server;
        int64_t         start;
        double          secs;
        int             ends[2], port;
        pid_t           pid;

        (void)state;
        assert_int_equal(pipe(ends), 0);
        pid = start_sluggard(net_test_transports[i], ends[0]);
        net_test_start(&server, net_test_transports[i], "ps:0", &options);
        port = est_net_port(server.net);
        assert_int_equal(write(ends[1], &port, sizeof port), sizeof port);
        assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
        start = est_machine_ns();
        net_test_wait(&server, &server.n_lost, 1);
        secs = (double)(est_machine_ns() - start) / 1e9;
        if (secs > 5) fail_msg("it took %g s to find a peer silent", secs);
        assert_string_equal(server.why, "worker:0 read nothing of what was sent to it for 0.5 s");
        net_test_release(&server);
        net_test_stop(&server);
        kill_child((child){ .pid = pid });
        close(ends[0]);
        close(ends[1]);
    }
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
