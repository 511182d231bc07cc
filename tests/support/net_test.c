/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the network share. */
#include "support/net_test.h"
#include "support/dir_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "net/transport.h"

const char *const net_test_transports[] = { "tcp", "tls", "ucx" };

static char folder[64];

int net_test_setup(void **state)
{
    (void)state;
    est_test_dir(folder);
    return est_certificates_make(folder, "job", 0) == EST_OK ? 0 : 1;
}

int net_test_teardown(void **state)
{
    (void)state;
    return est_dir_remove(folder) == EST_OK ? 0 : 1;
}

const char *net_test_certificates(void)
{
    return folder;
}

int net_test_n_transports(void)
{
    if (est_transport_ucx.check() == EST_OK) return 3;
    print_message("left out: %s\n", est_error_message());
    return 2;
}

void net_check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

void net_expect(est_status got, est_status want, const char *text)
{
    if (got != want) fail_msg("%s instead of %s: %s", est_status_name(got), est_status_name(want), est_error_message());
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" does not say \"%s\"", est_error_message(), text);
}

static void echo(est_request *request)
{
    est_message *message = est_request_message(request);
    est_part     parts[256];
    est_payload  payload = { .parts = parts, .n_parts = est_message_parts(message) };

    payload.head = est_message_head(message, &payload.head_size);
    for (int i = 0; i < payload.n_parts; i++) parts[i].data = est_message_part(message, i, &parts[i].size);
    est_request_answer(request, payload);
}

static void fill(est_request *request)
{
    uint64_t    size;
    size_t      n;
    const void *head = est_message_head(est_request_message(request), &n);
    est_part    part = { 0 };
    void       *bytes;

    if (n != sizeof size) {
        est_request_fail(request, EST_INVALID_ARGUMENT, "no size");
        return;
    }
    memcpy(&size, head, sizeof size);
    bytes = malloc(size + 1);
    if (bytes != NULL) memset(bytes, 7, size);
    part = (est_part){ bytes, size };
    est_request_answer(request, (est_payload){ .parts = &part, .n_parts = 1 });
    free(bytes);
}

static void count(est_request *request)
{
    est_message *message = est_request_message(request);
    uint64_t     sum     = 0;
    size_t       size;
    est_part     part = { &sum, sizeof sum };

    for (int i = 0; i < est_message_parts(message); i++) {
        est_message_part(message, i, &size);
        sum += size;
    }
    est_request_answer(request, (est_payload){ .parts = &part, .n_parts = 1 });
}

static void serve(void *user, est_request *request)
{
    net_test *t = user;
    char      text[256];
    size_t    size;

    switch (est_request_method(request)) {
    case NET_ECHO: echo(request); return;
    case NET_COUNT: count(request); return;
    case NET_FILL: fill(request); return;
    case NET_KEEP:
        pthread_mutex_lock(&t->lock);
        t->kept[t->n_kept++] = request;
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
        return;
    default:
        snprintf(text, sizeof text, "%s", (const char *)est_message_head(est_request_message(request), &size));
        est_request_fail(request, EST_NOT_FOUND, text);
    }
}

static void met(void *user, est_link *link)
{
    net_test *t = user;

    pthread_mutex_lock(&t->lock);
    est_link_free(t->link);
    t->link = est_link_ref(link);
    t->n_met++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void lost(void *user, est_link *link, const char *why)
{
    net_test *t = user;

    (void)link;
    pthread_mutex_lock(&t->lock);
    snprintf(t->why, sizeof t->why, "%s", why);
    t->n_lost++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void net_test_start(net_test *t, const char *transport, const char *task, const est_net_options *more)
{
    static uint64_t starts;
    est_net_options options = more != NULL ? *more : (est_net_options){ 0 };

    memset(t, 0, sizeof *t);
    net_check(est_lock_init(&t->lock));
    net_check(est_cond_init(&t->changed));
    options.transport = transport;
    if (options.certificates == NULL) options.certificates = folder;
    if (options.self.job[0] == '\0') snprintf(options.self.job, sizeof options.self.job, "job");
    snprintf(options.self.task, sizeof options.self.task, "%s", task);
    options.self.incarnation = ++starts;
    options.serve            = serve;
    options.met              = met;
    options.lost             = lost;
    options.user             = t;
    net_check(est_net_create(&options, &t->net));
    net_check(est_net_listen(t->net, "127.0.0.1:0"));
    snprintf(t->address, sizeof t->address, "127.0.0.1:%d", est_net_port(t->net));
}

void net_test_stop(net_test *t)
{
    est_net_free(t->net);
    est_link_free(t->link);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

est_link *net_test_connect(net_test *a, net_test *b)
{
    est_link *link = NULL;

    net_check(est_net_connect(a->net, b->address, NULL, NET_TEST_SECS, &link));
    return link;
}

void net_test_wait(net_test *t, const int *counter, int at_least)
{
    int64_t until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);
    bool    enough;

    pthread_mutex_lock(&t->lock);
    while (*counter < at_least && est_machine_ns() < until)
        est_cond_wait_ns(&t->changed, &t->lock, EST_NS_PER_SEC / 10);
    enough = *counter >= at_least;
    pthread_mutex_unlock(&t->lock);
    if (!enough) fail_msg("what was waited for did not happen");
}

void net_test_release(net_test *t)
{
    int n;

    pthread_mutex_lock(&t->lock);
    n = t->n_kept;
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < n; i++) echo(t->kept[i]);
    pthread_mutex_lock(&t->lock);
    t->n_kept = 0;
    pthread_mutex_unlock(&t->lock);
}

est_status net_test_ask(est_link *link, uint16_t method, est_payload payload, double secs, est_message **answer)
{
    est_ask *ask = NULL;

    EST_TRY(est_link_ask(link, method, "a test", payload, secs, NULL, NULL, &ask));
    return est_ask_wait(ask, answer);
}
