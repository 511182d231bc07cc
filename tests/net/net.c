/* SPDX-License-Identifier: Apache-2.0
 *
 * The network between two nets of one process: payloads of all sizes, many asks at once, deadlines, cancelling,
 * closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "net/inject.h"
#include "support/net_test.h"

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

TEST(echo)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) echo_sizes(net_test_transports[i]);
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

#define THREADS 6
#define ROUNDS  60
#define WINDOW  8

typedef struct asker {
    est_link  *link;
    est_thread thread;
    uint32_t   seed;
    int        n_wrong;
} asker;

static void *ask_many(void *arg)
{
    asker   *self = arg;
    uint8_t *bytes[WINDOW];
    est_ask *asks[WINDOW] = { 0 };
    est_part parts[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        bytes[i] = malloc(200000);
        parts[i] = (est_part){ bytes[i], 0 };
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int          i = (int)(round % WINDOW);
        est_message *answer;
        size_t       size;

        if (asks[i] != NULL) {
            if (est_ask_wait(asks[i], &answer) != EST_OK) {
                self->n_wrong++;
            } else {
                const void *part = est_message_part(answer, 0, &size);

                if (size != parts[i].size || memcmp(part, bytes[i], size) != 0) self->n_wrong++;
                est_message_free(answer);
            }
        }
        asks[i]       = NULL;
        parts[i].size = (self->seed * 7919 + round * 104729) % (round % 4 == 0 ? 200000 : 300);
        fill_bytes(bytes[i], parts[i].size, self->seed + round);
        if (est_link_ask(self->link, NET_ECHO, "one of many", (est_payload){ .parts = &parts[i], .n_parts = 1 },
                         NET_TEST_SECS, NULL, NULL, &asks[i]) != EST_OK) {
            self->n_wrong++;
        }
    }
    for (int i = 0; i < WINDOW; i++) {
        est_message *answer;

        if (asks[i] != NULL && est_ask_wait(asks[i], &answer) == EST_OK) {
            est_message_free(answer);
        } else {
            self->n_wrong++;
        }
        free(bytes[i]);
    }
    return NULL;
}

/* Both ends ask over the same link at once. */
static void ask_from_many_threads(const char *transport)
{
    net_test          server, client;
    est_link         *link;
    asker             askers[THREADS];
    est_link_counters counters;

    net_test_start(&server, transport, "ps:0", NULL);
    net_test_start(&client, transport, "worker:0", NULL);
    link = net_test_connect(&client, &server);
    net_test_wait(&server, &server.n_met, 1);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){ .link = i % 2 == 0 ? link : server.link, .seed = (uint32_t)i };
        net_check(est_thread_start(&askers[i].thread, "asker", ask_many, &askers[i]));
    }
    for (int i = 0; i < THREADS; i++) est_thread_join(&askers[i].thread);
    for (int i = 0; i < THREADS; i++) assert_int_equal(askers[i].n_wrong, 0);
    counters = est_link_count(link);
    assert_int_equal(counters.requests_out, THREADS / 2 * ROUNDS);
    assert_int_equal(counters.requests_in, THREADS / 2 * ROUNDS);
    assert_true(counters.bytes_in > 1000000 && counters.bytes_out > 1000000);
    assert_true(counters.silent_secs < NET_TEST_SECS);
    est_link_free(link);
    net_test_stop(&client);
    net_test_stop(&server);
}

TEST(many)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) ask_from_many_threads(net_test_transports[i]);
}

/* --- how an ask ends ---------------------------------------------------------------------------------------------- */

typedef struct pair {
    net_test  server, client;
    est_link *link; /* from client to server */
} pair;

static void start_pair(pair *p, const char *transport, double silence_secs)
{
    est_net_options options = { .silence_secs = silence_secs };

    net_test_start(&p->server, transport, "ps:0", &options);
    net_test_start(&p->client, transport, "worker:0", &options);
    p->link = net_test_connect(&p->client, &p->server);
    net_test_wait(&p->server, &p->server.n_met, 1);
}

static void stop_pair(pair *p)
{
    est_link_free(p->link);
    net_test_stop(&p->client);
    net_test_stop(&p->server);
}

TEST(failure)
{
    pair         p;
    est_message *answer = NULL;

    start_pair(&p, "tcp", 0);
    net_expect(net_test_ask(p.link, NET_FAIL, (est_payload){ .head = "no variable w", .head_size = 14 }, NET_TEST_SECS,
                            &answer),
               EST_NOT_FOUND, "ps:0: no variable w");
    assert_null(answer);
    stop_pair(&p);
}

/* The parts may be used again at once, although the frame was on its way. */
TEST(deadline)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        const size_t big   = (size_t)32 << 20;
        uint8_t     *bytes = malloc(big);
        est_part     part  = { bytes, big };
        est_message *answer;
        pair         p;

        (void)state;
        memset(bytes, 1, big);
        start_pair(&p, net_test_transports[i], 0);
        for (int round = 0; round < 3; round++) {
            net_expect(net_test_ask(p.link, NET_KEEP, (est_payload){ .parts = &part, .n_parts = 1 }, 0.001, &answer),
                       EST_DEADLINE_EXCEEDED, "ps:0 did not answer a test within 0.001 s");
        }
        free(bytes);
        net_check(net_test_ask(p.link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer));
        est_message_free(answer);
        net_test_release(&p.server); /* late answers find nobody and do no harm */
        net_check(net_test_ask(p.link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer));
        est_message_free(answer);
        stop_pair(&p);
    }
}

/* Looking at an ask now and then: until it is answered, and until its deadline. */
TEST(await)
{
    pair         p;
    est_message *answer;
    est_ask     *ask;

    start_pair(&p, "tcp", 0);
    net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, NET_TEST_SECS, NULL, NULL, &ask));
    net_test_wait(&p.server, &p.server.n_kept, 1);
    assert_false(est_ask_await(ask, 0.001));
    net_test_release(&p.server);
    assert_true(est_ask_await(ask, NET_TEST_SECS));
    net_check(est_ask_wait(ask, &answer));
    est_message_free(answer);
    net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, 0.01, NULL, NULL, &ask));
    assert_true(est_ask_await(ask, NET_TEST_SECS));
    net_expect(est_ask_wait(ask, &answer), EST_DEADLINE_EXCEEDED, "ps:0 did not answer a pull within 0.01 s");
    net_test_wait(&p.server, &p.server.n_kept, 1);
    net_test_release(&p.server);
    stop_pair(&p);
}

/* An answer that is given up may still come, to nobody; one that has come is not given up. */
TEST(give_up)
{
    pair         p;
    est_message *answer = NULL;
    est_ask     *ask;

    start_pair(&p, "tcp", 0);
    net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, NET_TEST_SECS, NULL, NULL, &ask));
    net_test_wait(&p.server, &p.server.n_kept, 1);
    est_ask_give_up(ask, "enough");
    assert_true(est_ask_await(ask, 0));
    net_expect(est_ask_wait(ask, &answer), EST_CANCELLED, "ps:0 was asked for a pull: enough");
    net_test_release(&p.server);
    net_check(est_link_ask(p.link, NET_ECHO, "an echo", (est_payload){ 0 }, NET_TEST_SECS, NULL, NULL, &ask));
    assert_true(est_ask_await(ask, NET_TEST_SECS));
    est_ask_give_up(ask, "too late");
    net_check(est_ask_wait(ask, &answer));
    est_message_free(answer);
    stop_pair(&p);
}

typedef struct ending {
    net_test  *t;
    int        n;
    est_status status;
    char       error[512];
    size_t     size;
} ending;

static void note_ending(void *user, est_status status, const char *error, est_message *answer)
{
    ending *e = user;

    pthread_mutex_lock(&e->t->lock);
    e->status = status;
    snprintf(e->error, sizeof e->error, "%s", error);
    if (answer != NULL) est_message_head(answer, &e->size);
    e->n++;
    pthread_cond_broadcast(&e->t->changed);
    pthread_mutex_unlock(&e->t->lock);
}

TEST(done)
{
    pair   p;
    ending answered, late, lost;

    start_pair(&p, "tcp", 0);
    answered = late = lost = (ending){ .t = &p.client };
    net_check(est_link_ask(p.link, NET_ECHO, "echo", (est_payload){ .head = "12345", .head_size = 5 }, NET_TEST_SECS,
                           note_ending, &answered, NULL));
    net_test_wait(&p.client, &answered.n, 1);
    assert_int_equal(answered.status, EST_OK);
    assert_int_equal(answered.size, 5);
    net_check(est_link_ask(p.link, NET_KEEP, "patience", (est_payload){ 0 }, 0.01, note_ending, &late, NULL));
    net_test_wait(&p.client, &late.n, 1);
    assert_int_equal(late.status, EST_DEADLINE_EXCEEDED);
    assert_string_equal(late.error, "ps:0 did not answer patience within 0.01 s");
    net_check(est_link_ask(p.link, NET_KEEP, "patience", (est_payload){ 0 }, EST_FOREVER, note_ending, &lost, NULL));
    net_test_wait(&p.server, &p.server.n_kept, 2);
    est_link_close(p.link, "the test is over");
    net_test_wait(&p.client, &lost.n, 1);
    assert_int_equal(lost.status, EST_UNAVAILABLE);
    net_test_release(&p.server);
    stop_pair(&p);
}

TEST(close)
{
    pair         p;
    est_message *answer;
    est_ask     *ask;

    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        start_pair(&p, net_test_transports[i], 0);
        net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, NET_TEST_SECS, NULL, NULL, &ask));
        net_test_wait(&p.server, &p.server.n_kept, 1);
        est_link_close(p.link, "enough of it");
        net_expect(est_ask_wait(ask, &answer), EST_UNAVAILABLE, "ps:0 was asked for a pull: enough of it");
        net_test_wait(&p.client, &p.client.n_lost, 1);
        net_test_wait(&p.server, &p.server.n_lost, 1);
        assert_string_equal(p.client.why, "enough of it");
        assert_string_equal(p.server.why, "closed by worker:0: enough of it");
        assert_true(est_link_is_lost(p.link) && est_link_is_lost(p.server.link));
        net_expect(est_link_ask(p.link, NET_ECHO, "more", (est_payload){ 0 }, 1, NULL, NULL, &ask), EST_UNAVAILABLE,
                   "ps:0 cannot be asked for more: enough of it");
        net_test_release(&p.server);
        stop_pair(&p);
    }
}

/* A net that ends at once gives the reason of a link that was closed before, not its own: many times, as the two are
 * close together. */
TEST(close_and_end)
{
    pair p;

    for (int i = 0; i < 20; i++) {
        start_pair(&p, "tcp", 0);
        net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, NET_TEST_SECS, note_ending,
                               &(ending){ .t = &p.client }, NULL));
        net_test_wait(&p.server, &p.server.n_kept, 1);
        est_link_close(p.server.link, "enough of it");
        est_net_free(p.server.net);
        p.server.net = NULL;
        net_test_wait(&p.client, &p.client.n_lost, 1);
        assert_string_equal(p.client.why, "closed by ps:0: enough of it");
        net_test_release(&p.server);
        stop_pair(&p);
    }
}

typedef struct waiter {
    est_thread thread;
    est_ask   *ask;
    est_net   *net;
    est_status status;
    char       error[512];
} waiter;

static void *wait_for_ask(void *arg)
{
    waiter      *w = arg;
    est_message *answer;

    w->status = est_ask_wait(w->ask, &answer);
    snprintf(w->error, sizeof w->error, "%s", est_error_message());
    return NULL;
}

static void *wait_for_connection(void *arg)
{
    waiter   *w = arg;
    est_link *link;

    w->status = est_net_connect(w->net, "127.0.0.1:1", "ps:7", 1000, &link);
    snprintf(w->error, sizeof w->error, "%s", est_error_message());
    return NULL;
}

TEST(cancel)
{
    pair         p;
    waiter       asking = { 0 }, connecting = { 0 };
    est_ask     *ask;
    est_link    *link;
    est_message *answer;

    start_pair(&p, "tls", 0);
    net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, 1000, NULL, NULL, &asking.ask));
    net_check(est_link_ask(p.link, NET_ECHO, "an echo", (est_payload){ 0 }, 1000, NULL, NULL, &ask));
    connecting.net = p.client.net;
    net_check(est_thread_start(&asking.thread, "asking", wait_for_ask, &asking));
    net_check(est_thread_start(&connecting.thread, "connecting", wait_for_connection, &connecting));
    net_test_wait(&p.server, &p.server.n_kept, 1);
    est_net_cancel(p.client.net, "the job is over");
    est_net_cancel(p.client.net, "twice is fine");
    est_thread_join(&asking.thread);
    est_thread_join(&connecting.thread);
    assert_int_equal(asking.status, EST_CANCELLED);
    assert_string_equal(asking.error, "ps:0 was asked for a pull: the job is over");
    assert_int_equal(connecting.status, EST_CANCELLED);
    assert_non_null(strstr(connecting.error, "the job is over"));
    net_expect(est_ask_wait(ask, &answer), EST_CANCELLED, "ps:0 was asked for an echo: "); /* answered or not */
    net_expect(est_link_ask(p.link, NET_ECHO, "more", (est_payload){ 0 }, 1, NULL, NULL, &ask), EST_CANCELLED,
               "cancelled");
    net_expect(est_net_connect(p.client.net, p.server.address, NULL, 5, &link), EST_CANCELLED, "the job is over");
    net_test_release(&p.server);
    stop_pair(&p);
}

static void cancel_from_callback(void *user, est_status status, const char *error, est_message *answer)
{
    (void)status, (void)error, (void)answer;
    est_net_cancel(((net_test *)user)->net, "a callback has seen enough");
}

TEST(cancel_from_callback)
{
    pair   p;
    waiter asking = { 0 }, connecting = { 0 };

    start_pair(&p, "tcp", 0);
    net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, 1000, NULL, NULL, &asking.ask));
    connecting.net = p.client.net;
    net_check(est_thread_start(&asking.thread, "asking", wait_for_ask, &asking));
    net_check(est_thread_start(&connecting.thread, "connecting", wait_for_connection, &connecting));
    net_check(
        est_link_ask(p.link, NET_ECHO, "an echo", (est_payload){ 0 }, 1000, cancel_from_callback, &p.client, NULL));
    est_thread_join(&asking.thread);
    est_thread_join(&connecting.thread);
    assert_int_equal(asking.status, EST_CANCELLED);
    assert_int_equal(connecting.status, EST_CANCELLED);
    assert_non_null(strstr(connecting.error, "a callback has seen enough"));
    net_test_wait(&p.server, &p.server.n_kept, 1);
    net_test_release(&p.server);
    stop_pair(&p);
}

/* Links, asks and requests may be given back after their nets. */
TEST(free_while_open)
{
    pair         p;
    waiter       asking = { 0 };
    ending       done;
    est_ask     *ask;
    est_message *answer, *kept;

    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        start_pair(&p, net_test_transports[i], 0);
        done = (ending){ .t = &p.client };
        net_check(
            net_test_ask(p.link, NET_ECHO, (est_payload){ .head = "kept", .head_size = 4 }, NET_TEST_SECS, &kept));
        net_check(est_link_ask(p.link, NET_KEEP, "a pull", (est_payload){ 0 }, 1000, NULL, NULL, &asking.ask));
        net_check(est_link_ask(p.link, NET_KEEP, "a push", (est_payload){ 0 }, 1000, NULL, NULL, &ask));
        net_check(est_link_ask(p.link, NET_KEEP, "a call", (est_payload){ 0 }, 1000, note_ending, &done, NULL));
        net_check(est_thread_start(&asking.thread, "asking", wait_for_ask, &asking));
        net_test_wait(&p.server, &p.server.n_kept, 3);
        est_net_free(p.client.net);
        est_thread_join(&asking.thread);
        assert_int_equal(asking.status, EST_CANCELLED);
        assert_int_equal(done.status, EST_CANCELLED);
        net_expect(est_ask_wait(ask, &answer), EST_CANCELLED, "ps:0 was asked for a push");
        net_test_wait(&p.server, &p.server.n_lost, 1);
        assert_non_null(strstr(p.server.why, "worker:0"));
        est_net_free(p.server.net);
        net_test_release(&p.server);
        est_message_free(kept);
        p.client.net = p.server.net = NULL;
        stop_pair(&p);
    }
}

/* What was answered before the end arrives. */
TEST(answers_before_end)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        uint64_t     size = (uint64_t)16 << 20;
        est_ask     *asks[3];
        est_message *answer;
        size_t       got;
        pair         p;

        (void)state;
        start_pair(&p, net_test_transports[i], 0);
        for (int k = 0; k < 3; k++) {
            net_check(est_link_ask(p.link, NET_FILL, "bytes", (est_payload){ .head = &size, .head_size = sizeof size },
                                   NET_TEST_SECS, NULL, NULL, &asks[k]));
        }
        net_check(est_link_ask(p.link, NET_KEEP, "the end", (est_payload){ 0 }, NET_TEST_SECS, note_ending,
                               &(ending){ .t = &p.client }, NULL));
        net_test_wait(&p.server, &p.server.n_kept, 1);
        est_net_free(p.server.net);
        p.server.net = NULL;
        for (int k = 0; k < 3; k++) {
            net_check(est_ask_wait(asks[k], &answer));
            est_message_part(answer, 0, &got);
            assert_int_equal(got, size);
            est_message_free(answer);
        }
        net_test_wait(&p.client, &p.client.n_lost, 1);
        assert_non_null(strstr(p.client.why, "closed by ps:0: ps:0 closes its network"));
        net_test_release(&p.server);
        stop_pair(&p);
    }
}

/* A peer that is slow: what it is sent waits, in its network thread, until the gate opens or some time has passed. */
typedef struct slow {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int64_t         pause_ns;
    bool            open;
    int             n_good, n_bad;
    pair           *pair;
} slow;

static void init_slow(slow *s, int64_t pause_ns)
{
    *s = (slow){ .pause_ns = pause_ns };
    net_check(est_lock_init(&s->lock));
    net_check(est_cond_init(&s->changed));
}

static void ask_for(pair *p, uint64_t size, slow *s);

/* All at once, before the answer to any of them makes the network thread wait. */
static void ask_all_at_once(void *user, est_status status, const char *error, est_message *answer)
{
    (void)error, (void)answer;
    assert_int_equal(status, EST_OK);
    for (int k = 0; k < 200; k++) ask_for(((slow *)user)->pair, (uint64_t)1 << 20, user);
}

static void take_slowly(void *user, est_status status, const char *error, est_message *answer)
{
    slow   *s     = user;
    int64_t until = est_now_ns() + s->pause_ns;

    (void)error, (void)answer;
    pthread_mutex_lock(&s->lock);
    while (!s->open && est_now_ns() < until) est_cond_wait_ns(&s->changed, &s->lock, until - est_now_ns());
    if (status == EST_OK) s->n_good++;
    if (status != EST_OK) s->n_bad++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void open_slow(slow *s, int n)
{
    pthread_mutex_lock(&s->lock);
    s->open = true;
    pthread_cond_broadcast(&s->changed);
    while (s->n_good + s->n_bad < n) est_cond_wait_ns(&s->changed, &s->lock, EST_NS_PER_SEC);
    pthread_mutex_unlock(&s->lock);
}

static void ask_for(pair *p, uint64_t size, slow *s)
{
    net_check(est_link_ask(p->link, NET_FILL, "bytes", (est_payload){ .head = &size, .head_size = sizeof size }, 1000,
                           take_slowly, s, NULL));
}

/* Answers that a peer takes slowly arrive before the end as well, though all of them take longer than a second. */
TEST(slow_answers_before_end)
{
    slow s;
    pair p;

    for (int i = 0; i < 2; i++) { /* tcp and tls: ucx takes what comes whether or not somebody looks */
        start_pair(&p, net_test_transports[i], 0);
        init_slow(&s, EST_NS_PER_SEC / 4);
        for (int k = 0; k < 7; k++) ask_for(&p, (uint64_t)9 << 20, &s);
        net_check(est_link_ask(p.link, NET_KEEP, "the end", (est_payload){ 0 }, NET_TEST_SECS, note_ending,
                               &(ending){ .t = &p.client }, NULL));
        net_test_wait(&p.server, &p.server.n_kept, 1);
        est_net_free(p.server.net);
        p.server.net = NULL;
        open_slow(&s, 7);
        assert_int_equal(s.n_good, 7);
        net_test_release(&p.server);
        stop_pair(&p);
        pthread_mutex_destroy(&s.lock);
        pthread_cond_destroy(&s.changed);
    }
}

static void wait_full(net_test *t, est_link *link)
{
    int64_t until = est_now_ns() + (int64_t)NET_TEST_SECS * EST_NS_PER_SEC;

    pthread_mutex_lock(&t->lock);
    while (!est_link_is_full(link) && est_now_ns() < until)
        est_cond_wait_ns(&t->changed, &t->lock, EST_NS_PER_SEC / 100);
    pthread_mutex_unlock(&t->lock);
    assert_true(est_link_is_full(link));
}

/* Requests of a peer that does not fetch its answers wait, also those that came together; others are served
 * meanwhile. */
TEST(back_pressure)
{
    slow s;
    pair p;

    for (int i = 0; i < 2; i++) {
        net_test     other;
        est_link    *link, *served;
        est_message *answer;

        start_pair(&p, net_test_transports[i], 0);
        served = est_link_ref(p.server.link);
        net_test_start(&other, net_test_transports[i], "worker:1", NULL);
        init_slow(&s, 1000 * EST_NS_PER_SEC);
        s.pair = &p;
        net_check(est_link_ask(p.link, NET_ECHO, "a beginning", (est_payload){ 0 }, 1000, ask_all_at_once, &s, NULL));
        wait_full(&p.server, served);
        link = net_test_connect(&other, &p.server);
        net_check(net_test_ask(link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer));
        est_message_free(answer);
        assert_true(est_link_count(served).bytes_out < (uint64_t)100 << 20);
        open_slow(&s, 200);
        assert_int_equal(s.n_good, 200);
        assert_false(est_link_is_full(served));
        est_link_free(served);
        est_link_free(link);
        net_test_stop(&other);
        stop_pair(&p);
        pthread_mutex_destroy(&s.lock);
        pthread_cond_destroy(&s.changed);
    }
}

/* A step of training allocates nothing once it has run. */
TEST(steady)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        uint8_t     *bytes    = calloc(1, 300000);
        est_part     parts[2] = { { bytes, 300000 }, { bytes, 100 } };
        est_message *answer;
        uint64_t     before = 0;
        pair         p;

        (void)state;
        start_pair(&p, net_test_transports[i], 0);
        for (int round = 0; round < 60; round++) {
            if (round == 30) before = est_alloc_count();
            net_check(net_test_ask(p.link, NET_COUNT,
                                   (est_payload){ .head = "h", .head_size = 1, .parts = parts, .n_parts = 2 },
                                   NET_TEST_SECS, &answer));
            est_message_free(answer);
        }
        assert_int_equal(est_alloc_count(), before);
        stop_pair(&p);
        free(bytes);
    }
}

/* --- a bad network ------------------------------------------------------------------------------------------------ */

TEST(silence)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        const double silence = 0.25;
        est_message *answer;
        int64_t      start;
        double       secs;
        pair         p;

        (void)state;
        start_pair(&p, net_test_transports[i], silence);
        /* An ask that takes longer than silence may last: beats keep the link. */
        net_expect(net_test_ask(p.link, NET_KEEP, (est_payload){ 0 }, 3 * silence, &answer), EST_DEADLINE_EXCEEDED,
                   "ps:0");
        assert_false(est_link_is_lost(p.link));
        start = est_machine_ns();
        net_check(est_net_inject(p.client.net, "ps:0", EST_INJECT_SILENCE, 0));
        net_expect(net_test_ask(p.link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer), EST_UNAVAILABLE,
                   "nothing came from ps:0 for 0.25 s");
        net_test_wait(&p.client, &p.client.n_lost, 1);
        net_test_wait(&p.server, &p.server.n_lost, 1);
        secs = (double)(est_machine_ns() - start) / 1e9;
        if (secs > 5) fail_msg("it took %g s to find a peer silent", secs);
        assert_string_equal(p.client.why, "nothing came from ps:0 for 0.25 s");
        net_test_release(&p.server);
        stop_pair(&p);
    }
}

TEST(cut)
{
    for (int i = 0, n = net_test_n_transports(); i < n; i++) {
        uint8_t     *bytes = calloc(1, 100000);
        est_part     part  = { bytes, 100000 };
        est_message *answer;
        est_link    *again;
        pair         p;

        (void)state;
        start_pair(&p, net_test_transports[i], 0);
        net_check(est_net_inject(p.client.net, "ps:0", EST_INJECT_CUT, 5000));
        net_expect(
            net_test_ask(p.link, NET_ECHO, (est_payload){ .parts = &part, .n_parts = 1 }, NET_TEST_SECS, &answer),
            EST_UNAVAILABLE, "ps:0 was asked for a test");
        net_test_wait(&p.client, &p.client.n_lost, 1);
        net_test_wait(&p.server, &p.server.n_lost, 1);
        net_check(est_net_inject(p.client.net, "", EST_INJECT_NOTHING, 0));
        again = net_test_connect(&p.client, &p.server);
        net_check(net_test_ask(again, NET_ECHO, (est_payload){ .parts = &part, .n_parts = 1 }, NET_TEST_SECS, &answer));
        est_message_free(answer);
        est_link_free(again);
        stop_pair(&p);
        free(bytes);
    }
}

/* --- making links ------------------------------------------------------------------------------------------------- */

TEST(options)
{
    est_net  *net = NULL;
    net_test  t;
    est_link *link;
    char      text[128];

    net_expect(est_net_create(&(est_net_options){ .transport = "pigeon" }, &net), EST_INVALID_ARGUMENT,
               "there is no transport \"pigeon\"; expected tls, tcp or ucx");
    if (net_test_n_transports() < 3) {
        net_expect(est_net_create(&(est_net_options){ .transport = "ucx" }, &net), EST_UNIMPLEMENTED, "install libucx");
    }
    net_expect(est_net_create(&(est_net_options){ .transport = "tls" }, &net), EST_INVALID_ARGUMENT,
               "Run `estoc certificates certs` once, copy the folder to every machine, and run `export "
               "ESTOC_CERTS=certs` before each task; or set ESTOC_PROTOCOL=tcp");
    net_expect(est_net_create(&(est_net_options){ .transport = "tls", .certificates = "/nowhere" }, &net),
               EST_FAILED_PRECONDITION, "cannot use the authority /nowhere/ca.pem: No such file or directory");
    est_net_free(NULL);
    net_test_start(&t, "tcp", "ps:0", NULL);
    net_expect(est_net_listen(t.net, ":0"), EST_FAILED_PRECONDITION, "already");
    net_check(est_net_create(&(est_net_options){ .transport = "tcp", .self.task = "worker:0" }, &net));
    assert_int_equal(est_net_port(net), 0);
    net_expect(est_net_listen(net, t.address), EST_UNAVAILABLE, "the port is in use");
    net_expect(est_net_listen(net, "127.0.0.1"), EST_INVALID_ARGUMENT, "\"127.0.0.1\" is not an address");
    net_expect(est_net_listen(net, "::1:5"), EST_INVALID_ARGUMENT, "is not an address");
    net_expect(est_net_listen(net, "127.0.0.1:70000"), EST_INVALID_ARGUMENT, "is not an address");
    net_expect(est_net_connect(net, ":5", NULL, 1, &link), EST_INVALID_ARGUMENT, "names no host");
    net_check(est_net_listen(net, ":0"));
    /* Nobody answers requests where nobody serves; a name is looked up; its addresses are tried one after the other. */
    snprintf(text, sizeof text, "localhost:%d", est_net_port(net));
    net_expect(est_net_connect(t.net, text, "worker:0", NET_TEST_SECS, &link), EST_PERMISSION_DENIED,
               "refused by worker:0: ps:0 belongs to job job, this task to no job (set ESTOC_JOB)");
    net_expect(est_net_connect(t.net, "127.0.0.1:1", "ps:1", 1, &link), EST_UNAVAILABLE,
               "connecting to ps:1 at 127.0.0.1:1: not reached within 1 s: Connection refused");
    est_net_free(net);
    net_test_stop(&t);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
