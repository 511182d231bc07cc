/* SPDX-License-Identifier: Apache-2.0
 *
 * Crews. */
#include "support/membership_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cluster/wait_table.h"
#include "support/nn_test.h"
#include "support/port_test.h"

void crew_make(crew *c, int n, const est_membership_options *options)
{
    const char *workers[CREW_MAX];

    memset(c, 0, sizeof *c);
    c->n            = n;
    c->n_members    = n;
    c->silence_secs = CREW_SILENCE_SECS;
    c->options      = options != NULL ? *options : (est_membership_options){ 0 };
    if (c->options.connect_secs == 0) c->options.connect_secs = CREW_SECS;
    if (c->options.rejoin_secs == 0) c->options.rejoin_secs = CREW_SECS;
    if (c->options.deadline_secs == 0) c->options.deadline_secs = 2 * CREW_SECS;
    c->options.n = n;
    for (int i = 0; i < n; i++) {
        snprintf(c->tasks[i], sizeof c->tasks[i], "worker:%d", i);
        snprintf(c->addresses[i], sizeof c->addresses[i], "127.0.0.1:%d", port_take(&c->ports[i]));
        c->list[i]    = (est_rank){ .task = c->tasks[i], .address = c->addresses[i] };
        c->members[i] = (crew_member){ .crew = c, .number = i };
        workers[i]    = c->addresses[i];
    }
    assert_ok(est_cluster_create(
        (est_jobs){ (const est_job[]){ { .name = "worker", .addresses = { workers, n } } }, 1 }, &c->cluster));
}

void crew_free(crew *c)
{
    for (int i = 0; i < c->n_members; i++) {
        crew_stop(c, i);
        close(c->ports[i]);
    }
    est_cluster_free(c->twin_cluster);
    est_cluster_free(c->cluster);
}

static void start(crew_member *m, const est_cluster *cluster)
{
    est_membership_options options = m->crew->options;
    est_rank               list[CREW_MAX];

    memcpy(list, m->crew->list, sizeof list);
    list[m->number].address = est_cluster_address(cluster, "worker", m->number);
    options.tasks           = list;
    options.self            = m->number;
    assert_ok(est_server_create(cluster, "worker", m->number,
                                EST_SERVER(.transport = "tcp", .threads = 1, .silence_secs = m->crew->silence_secs),
                                &m->server));
    assert_ok(est_membership_create(m->server, &options, &m->membership));
}

void crew_start(crew *c, int number)
{
    start(&c->members[number], c->cluster);
}

void crew_start_twin(crew *c, int number)
{
    const char *workers[CREW_MAX];

    assert_true(c->n_members == c->n && c->n < CREW_MAX);
    snprintf(c->twin_address, sizeof c->twin_address, "127.0.0.1:%d", port_take(&c->ports[c->n]));
    for (int i = 0; i < c->n; i++) workers[i] = i == number ? c->twin_address : c->addresses[i];
    assert_ok(est_cluster_create(
        (est_jobs){ (const est_job[]){ { .name = "worker", .addresses = { workers, c->n } } }, 1 }, &c->twin_cluster));
    c->members[c->n] = (crew_member){ .crew = c, .number = number };
    c->n_members     = c->n + 1;
    est_sleep_ns(2 * EST_NS_PER_SEC / 1000); /* an incarnation begins with the time in milliseconds */
    start(&c->members[c->n], c->twin_cluster);
}

void crew_start_all(crew *c)
{
    for (int i = 0; i < c->n; i++) crew_start(c, i);
}

void crew_stop(crew *c, int number)
{
    crew_member *m = &c->members[number];

    est_membership_free(m->membership);
    est_server_free(m->server);
    m->membership = NULL;
    m->server     = NULL;
}

typedef struct running {
    crew_member *member;
    crew_fn      fn;
    est_thread   thread;
} running;

static void *run(void *arg)
{
    running *r = arg;

    r->fn(r->member);
    return NULL;
}

void crew_run(crew *c, unsigned who, crew_fn fn, void *arg)
{
    running all[CREW_MAX];

    for (int i = 0; i < c->n_members; i++) {
        if ((who >> i & 1) == 0) continue;
        c->members[i].arg      = arg;
        c->members[i].error[0] = '\0';
        all[i]                 = (running){ &c->members[i], fn, { 0 } };
        assert_ok(est_thread_start(&all[i].thread, "member", run, &all[i]));
    }
    for (int i = 0; i < c->n_members; i++) {
        if ((who >> i & 1) != 0) est_thread_join(&all[i].thread);
    }
    for (int i = 0; i < c->n_members; i++) {
        if ((who >> i & 1) != 0 && c->members[i].error[0] != '\0')
            fail_msg("%s, member %d of %d: %s", c->tasks[c->members[i].number], i, c->n_members, c->members[i].error);
    }
}

void crew_fail(crew_member *m, const char *fmt, ...)
{
    va_list args;

    if (m->error[0] != '\0') return;
    va_start(args, fmt);
    vsnprintf(m->error, sizeof m->error, fmt, args);
    va_end(args);
}

void crew_check(crew_member *m, est_status status)
{
    if (status != EST_OK) crew_fail(m, "%s: %s", est_status_name(status), est_error_message());
}

void crew_expect(crew_member *m, est_status got, est_status want, const char *text)
{
    if (got != want) {
        crew_fail(m, "%s instead of %s: %s", est_status_name(got), est_status_name(want), est_error_message());
    } else if (strstr(est_error_message(), text) == NULL) {
        crew_fail(m, "\"%s\" does not say \"%s\"", est_error_message(), text);
    }
}

void crew_await_wait(crew_member *m, const char *for_whom)
{
    int64_t until = est_now_ns() + (int64_t)(CREW_SECS * (double)EST_NS_PER_SEC);

    while (est_now_ns() < until) {
        est_wait waits[EST_WAITS_MAX];
        int      n = est_waits_of(m->crew->tasks[m->number], waits, EST_WAITS_MAX);

        for (int i = 0; i < n; i++) {
            if (strstr(waits[i].for_whom, for_whom) != NULL) return;
        }
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    crew_fail(m, "it does not wait for %s", for_whom);
}

est_status crew_count(const crew_member *m, float *sum)
{
    est_work *work;

    *sum = 1;
    EST_TRY(est_all_reduce(m->view.group, sum, 1, EST_F32, EST_REDUCE_OP_SUM, NULL, &work));
    return est_work_wait(work);
}
