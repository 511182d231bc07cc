/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer of which only the disk knows whether it is let in. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "support/net_test.h"

/* A disk that does not answer before worker:1 was let in: what waits for it is not the network. */
typedef struct slow_disk {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            asked, met, dropped;
    est_admission   admission;
} slow_disk;

static void on_met(void *user, est_link *link)
{
    slow_disk *d = user;

    pthread_mutex_lock(&d->lock);
    if (strcmp(est_link_peer(link)->task, "worker:1") == 0) d->met = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* Waits for what another thread says; false when it does not. */
static bool await(slow_disk *d, const bool *flag)
{
    int64_t until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);
    bool    said;

    pthread_mutex_lock(&d->lock);
    while (!*flag && est_machine_ns() < until) est_cond_wait_ns(&d->changed, &d->lock, EST_NS_PER_SEC);
    said = *flag;
    pthread_mutex_unlock(&d->lock);
    return said;
}

static est_admission ask_disk(void *user, const est_task_id *peer, bool may_block, char *why, size_t size)
{
    slow_disk *d = user;

    if (strcmp(peer->task, "worker:0") != 0) return EST_ADMITTED;
    if (!may_block) return EST_UNDECIDED;
    pthread_mutex_lock(&d->lock);
    d->asked = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    snprintf(why, size, await(d, &d->met) ? "the disk says no" : "the network waited for the disk");
    return d->admission;
}

typedef struct comer {
    net_test   *client;
    const char *address;
    est_status  status;
    char        error[256];
} comer;

static void *come(void *arg)
{
    comer    *c    = arg;
    est_link *link = NULL;

    c->status = est_net_connect(c->client->net, c->address, "ps:0", NET_TEST_SECS, &link);
    snprintf(c->error, sizeof c->error, "%s", c->status != EST_OK ? est_error_message() : "");
    if (link != NULL) est_link_free(link);
    return NULL;
}

static void admit_by_disk(const char *transport, est_admission admission)
{
    slow_disk       d       = { .admission = admission };
    est_net_options options = { .transport    = transport,
                                .certificates = net_test_certificates(),
                                .self         = { .job = "job", .task = "ps:0" },
                                .admit        = ask_disk,
                                .met          = on_met,
                                .user         = &d };
    net_test        late, quick;
    est_net        *net;
    est_link       *link = NULL;
    est_thread      thread;
    char            address[64];
    comer           c = { .client = &late, .address = address };

    net_check(est_lock_init(&d.lock));
    net_check(est_cond_init(&d.changed));
    net_check(est_net_create(&options, &net));
    net_check(est_net_listen(net, "127.0.0.1:0"));
    snprintf(address, sizeof address, "127.0.0.1:%d", est_net_port(net));
    net_test_start(&late, transport, "worker:0", NULL);
    net_test_start(&quick, transport, "worker:1", NULL);
    net_check(est_thread_start(&thread, "comer", come, &c));
    assert_true(await(&d, &d.asked));
    net_check(est_net_connect(quick.net, address, "ps:0", NET_TEST_SECS, &link));
    est_link_free(link);
    est_thread_join(&thread);
    assert_int_equal(c.status, admission == EST_ADMITTED ? EST_OK : EST_FAILED_PRECONDITION);
    if (admission == EST_REFUSED) assert_non_null(strstr(c.error, "refused by ps:0: the disk says no"));
    net_test_stop(&late);
    net_test_stop(&quick);
    est_net_free(net);
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.lock);
}

static void test_admission(void **state)
{
    (void)state;
    for (int i = 0; i < net_test_n_transports(); i++) {
        admit_by_disk(net_test_transports[i], EST_ADMITTED);
        admit_by_disk(net_test_transports[i], EST_REFUSED);
    }
}

/* --- many of them ---------------------------------------------------------------------------------------------------- */

#define DESCRIPTORS 64 /* of which a quarter is for those who are not let in yet */
#define COMERS      (DESCRIPTORS / 4 + 1)

static void note_drop(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    slow_disk *d = user;

    (void)level;
    (void)wall_ns;
    if (strstr(line, "too many connections were not let in yet") == NULL) return;
    pthread_mutex_lock(&d->lock);
    d->dropped = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* Whoever says a name and waits for the disk still takes one of the places that strangers have. */
static void test_bounded(void **state)
{
    slow_disk       d       = { .admission = EST_ADMITTED };
    est_net_options options = {
        .transport = "tcp", .self = { .job = "job", .task = "ps:0" }, .admit = ask_disk, .met = on_met, .user = &d
    };
    struct rlimit few, before;
    net_test      late;
    est_net      *net;
    est_thread    threads[COMERS];
    comer         comers[COMERS];
    char          address[64];

    (void)state;
    net_check(est_lock_init(&d.lock));
    net_check(est_cond_init(&d.changed));
    est_log_set_sink(note_drop, &d);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ .rlim_cur = DESCRIPTORS, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    net_check(est_net_create(&options, &net));
    net_check(est_net_listen(net, "127.0.0.1:0"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", est_net_port(net));
    net_test_start(&late, "tcp", "worker:0", NULL);
    for (int i = 0; i < COMERS; i++) {
        comers[i] = (comer){ .client = &late, .address = address };
        net_check(est_thread_start(&threads[i], "comer", come, &comers[i]));
    }
    assert_true(await(&d, &d.dropped));
    pthread_mutex_lock(&d.lock);
    d.met = true; /* the disk answers */
    pthread_cond_broadcast(&d.changed);
    pthread_mutex_unlock(&d.lock);
    for (int i = 0; i < COMERS; i++) est_thread_join(&threads[i]);
    net_test_stop(&late);
    est_net_free(net);
    est_log_set_sink(NULL, NULL);
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_admission), cmocka_unit_test(test_bounded) };

    return cmocka_run_group_tests(tests, net_test_setup, net_test_teardown);
}
