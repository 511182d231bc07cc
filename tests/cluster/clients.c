/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server says of a process with two links to it that is lost. */
#include <string.h>

#include "base/clock.h"
#include "cluster/server.h"
#include "support/log_test.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define SECS 20.0 /* for what should be at once, on a busy machine */

static est_link *reach(servers *s)
{
    est_link *link = NULL;

    assert_ok(est_net_connect(est_server_net(s->worker[0]), est_cluster_address(s->cluster, "worker", 1), "worker:1",
                              SECS, &link));
    return link;
}

/* Waits until worker 1 knows worker 0 by a link, another one than `lost`; or, `gone`, by none. */
static void await(servers *s, const est_link *lost, bool gone)
{
    int64_t until = est_machine_ns() + (int64_t)(SECS * 1e9);
    bool    done  = false;

    while (!done) {
        est_server *server = s->worker[1];

        if (est_machine_ns() > until) fail_msg("the link is not lost after %g s", SECS);
        pthread_mutex_lock(&server->lock);
        for (int i = 0; i < server->n_clients; i++) {
            const est_client *client = server->clients[i];

            if (strcmp(client->who.task, "worker:0") != 0) continue;
            done = gone ? client->link == NULL : client->link != NULL && client->link != lost;
        }
        pthread_mutex_unlock(&server->lock);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

static const est_link *link_of(servers *s)
{
    const est_link *link = NULL;

    pthread_mutex_lock(&s->worker[1]->lock);
    for (int i = 0; i < s->worker[1]->n_clients; i++) {
        if (strcmp(s->worker[1]->clients[i]->who.task, "worker:0") == 0) link = s->worker[1]->clients[i]->link;
    }
    pthread_mutex_unlock(&s->worker[1]->lock);
    return link;
}

/* A process may be killed right after it has closed the second link between two tasks, and the first may be found
 * broken before that: the loss is told all the same, and why. */
TEST(spare_link_lost_last)
{
    servers         s = servers_start(0, 2, "tcp");
    est_link       *first, *second;
    const est_link *met;

    log_keep(EST_LOG_INFO);
    first = reach(&s);
    await(&s, NULL, false);
    met    = link_of(&s);
    second = reach(&s);
    est_link_close(first, "the wire broke");
    await(&s, met, false);
    est_link_close(second, EST_SPARE);
    await(&s, NULL, true);
    log_expect("info worker:1: worker:0 is gone: * the wire broke");
    assert_int_equal(log_count(EST_LOG_INFO, "worker:1: worker:0 is gone"), 1);
    log_release();
    est_link_free(first);
    est_link_free(second);
    servers_stop(&s);
}

/* Of two links that tasks have made at once, one is closed, which is no news. */
TEST(spare_link)
{
    servers         s = servers_start(0, 2, "tcp");
    est_link       *first, *second;
    const est_link *met;

    log_keep(EST_LOG_INFO);
    first = reach(&s);
    await(&s, NULL, false);
    met    = link_of(&s);
    second = reach(&s);
    est_link_close(first, EST_SPARE);
    await(&s, met, false);
    assert_int_equal(log_count(EST_LOG_INFO, "worker:1: worker:0 is gone"), 0);
    log_release();
    est_link_free(first);
    est_link_free(second);
    servers_stop(&s);
}
