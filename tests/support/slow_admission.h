/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that takes its time to say whether a peer is let in, and threads that connect meanwhile. */
#ifndef EST_TESTS_SLOW_ADMISSION_H
#define EST_TESTS_SLOW_ADMISSION_H

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "support/net_test.h"

/* A disk that does not answer before worker:1 was let in: what waits for it is not the network. */
typedef struct slow_disk {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            asked, met, dropped;
    est_admission   admission;
} slow_disk;

static inline void on_met(void *user, est_link *link)
{
    slow_disk *d = user;

    pthread_mutex_lock(&d->lock);
    if (strcmp(est_link_peer(link)->task, "worker:1") == 0) d->met = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* Waits for what another thread says; false when it does not. */
static inline bool await(slow_disk *d, const bool *flag)
{
    int64_t until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);
    bool    said;

    pthread_mutex_lock(&d->lock);
    while (!*flag && est_machine_ns() < until) est_cond_wait_ns(&d->changed, &d->lock, EST_NS_PER_SEC);
    said = *flag;
    pthread_mutex_unlock(&d->lock);
    return said;
}

static inline est_admission ask_disk(void *user, const est_task_id *peer, bool may_block, char *why, size_t size)
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

static inline void *come(void *arg)
{
    comer    *c    = arg;
    est_link *link = NULL;

    c->status = est_net_connect(c->client->net, c->address, "ps:0", NET_TEST_SECS, &link);
    snprintf(c->error, sizeof c->error, "%s", c->status != EST_OK ? est_error_message() : "");
    if (link != NULL) est_link_free(link);
    return NULL;
}

#endif
