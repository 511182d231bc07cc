/* SPDX-License-Identifier: Apache-2.0
 *
 * Many ranks in one process. */
#include "support/collective_test.h"

#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "collective/work.h"

bool collective_apart;

static void serve(void *user, est_request *request)
{
    collective_rank *r = user;

    pthread_mutex_lock(&r->lock);
    r->n_blocks += est_request_method(request) == EST_GROUP_BLOCK;
    pthread_mutex_unlock(&r->lock);
    if (!est_mailbox_serve(r->mailbox, request)) est_request_fail(request, EST_UNIMPLEMENTED, "not of a group");
}

static void lost(void *user, est_link *link, const char *why)
{
    collective_rank *r = user;

    est_mailbox_lost(r->mailbox, link, why);
    pthread_mutex_lock(&r->lock);
    r->n_lost++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

int collective_blocks(collective_rank *r)
{
    int n;

    pthread_mutex_lock(&r->lock);
    n = r->n_blocks;
    pthread_mutex_unlock(&r->lock);
    return n;
}

void collective_await_lost(collective_rank *r, int n)
{
    int64_t until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);

    pthread_mutex_lock(&r->lock);
    while (r->n_lost < n && est_machine_ns() < until) est_cond_wait_ns(&r->changed, &r->lock, 100000000);
    if (r->n_lost < n) collective_fail(r, "%d links were lost instead of %d", r->n_lost, n);
    pthread_mutex_unlock(&r->lock);
}

void collective_start(collective_test *t, const char *transport, int n)
{
    static uint64_t starts;

    memset(t, 0, sizeof *t);
    t->n = n;
    starts++;
    for (int i = 0; i < n; i++) {
        collective_rank *r       = &t->ranks[i];
        est_net_options  options = { .transport    = transport,
                                     .certificates = net_test_certificates(),
                                     .self         = { .job = "job", .incarnation = 1000 * starts + (uint64_t)i },
                                     .silence_secs = COLLECTIVE_LIMIT_SECS,
                                     .serve        = serve,
                                     .lost         = lost,
                                     .user         = r };

        r->test = t;
        r->rank = i;
        snprintf(t->tasks[i], sizeof t->tasks[i], "worker:%d", i);
        snprintf(options.self.task, sizeof options.self.task, "%s", t->tasks[i]);
        net_check(est_lock_init(&r->lock));
        net_check(est_cond_init(&r->changed));
        net_check(est_mailbox_create(&r->mailbox));
        net_check(est_net_create(&options, &r->net));
        net_check(est_net_listen(r->net, "127.0.0.1:0"));
        snprintf(t->addresses[i], sizeof t->addresses[i], "127.0.0.1:%d", est_net_port(r->net));
        if (collective_apart) t->hosts[i] = t->tasks[i];
        t->list[i] = (est_rank){ .task = t->tasks[i], .address = t->addresses[i] };
    }
}

void collective_stop(collective_test *t)
{
    collective_leave(t);
    for (int i = 0; i < t->n; i++) est_net_free(t->ranks[i].net);
    for (int i = 0; i < t->n; i++) {
        est_mailbox_free(t->ranks[i].mailbox);
        pthread_cond_destroy(&t->ranks[i].changed);
        pthread_mutex_destroy(&t->ranks[i].lock);
    }
}

est_group_options collective_options(collective_rank *r, const est_group_options *more)
{
    est_group_options options = more != NULL ? *more : (est_group_options){ 0 };

    options.ranks = r->test->list;
    options.n     = r->test->n;
    options.rank  = r->rank;
    options.host  = r->test->hosts[r->rank];
    if (options.generation == 0) options.generation = 1;
    if (options.join_secs == 0) options.join_secs = COLLECTIVE_LIMIT_SECS;
    if (options.deadline_secs == 0) options.deadline_secs = COLLECTIVE_LIMIT_SECS;
    return options;
}

static void join(collective_rank *r)
{
    est_group_options options = collective_options(r, r->arg);

    collective_check(r, est_group_create(r->mailbox, r->net, &options, &r->group));
}

void collective_join(collective_test *t, const est_group_options *more)
{
    est_group_options none = { 0 };

    if (more != NULL) none = *more;
    collective_run(t, join, &none);
}

static void leave(collective_rank *r)
{
    est_group_free(r->group);
    r->group = NULL;
}

void collective_leave(collective_test *t)
{
    collective_run(t, leave, NULL);
}

typedef struct task {
    collective_rank *r;
    collective_fn    fn;
    est_thread       thread;
} task;

static void *run(void *arg)
{
    task *one = arg;

    one->fn(one->r);
    return NULL;
}

void collective_run(collective_test *t, collective_fn fn, void *arg)
{
    task tasks[COLLECTIVE_RANKS_MAX];

    for (int i = 0; i < t->n; i++) {
        t->ranks[i].arg      = arg;
        t->ranks[i].error[0] = '\0';
        tasks[i]             = (task){ &t->ranks[i], fn, { 0 } };
        net_check(est_thread_start(&tasks[i].thread, "rank", run, &tasks[i]));
    }
    for (int i = 0; i < t->n; i++) est_thread_join(&tasks[i].thread);
    for (int i = 0; i < t->n; i++) {
        if (t->ranks[i].error[0] != '\0') fail_msg("rank %d of %d: %s", i, t->n, t->ranks[i].error);
    }
}

void collective_fail(collective_rank *r, const char *fmt, ...)
{
    va_list args;

    if (r->error[0] != '\0') return;
    va_start(args, fmt);
    vsnprintf(r->error, sizeof r->error, fmt, args);
    va_end(args);
}

void collective_check(collective_rank *r, est_status status)
{
    if (status != EST_OK) collective_fail(r, "%s: %s", est_status_name(status), est_error_message());
}

void collective_expect(collective_rank *r, est_status got, est_status want, const char *text)
{
    if (got != want) {
        collective_fail(r, "%s instead of %s: %s", est_status_name(got), est_status_name(want), est_error_message());
    } else if (strstr(est_error_message(), text) == NULL) {
        collective_fail(r, "\"%s\" does not say \"%s\"", est_error_message(), text);
    }
}

est_status collective_finish(est_status begun, est_work **work)
{
    return begun == EST_OK ? est_work_wait(*work) : begun;
}
