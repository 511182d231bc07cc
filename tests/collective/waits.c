/* SPDX-License-Identifier: Apache-2.0
 *
 * What the status view of a task says while it waits for other ranks, and what wakes one that waits. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "cluster/wait_table.h"
#include "collective/work.h"
#include "support/collective_test.h"

/* Waits until `who` is shown to wait for `for_whom`, and for what. */
static void await_shown(collective_rank *r, const char *who, const char *for_whom, const char *why)
{
    int64_t  until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);
    est_wait waits[EST_WAITS_MAX];

    while (est_machine_ns() < until) {
        int n = est_waits_of(who, waits, EST_WAITS_MAX);

        for (int i = 0; i < n; i++) {
            if (strcmp(waits[i].for_whom, for_whom) == 0 && strcmp(waits[i].why, why) == 0) return;
        }
        (void)sched_yield();
    }
    collective_fail(r, "%s is not shown to wait for %s: %s", who, for_whom, why);
}

/* Rank 0 begins only when the others are seen to wait: the next one of the ring for it, the last one for that. */
static void reduce_late(collective_rank *r)
{
    const est_collective_options ring   = { .communication = EST_COMMUNICATION_RING };
    float                        data[] = { 1, 2, 3 };
    est_work                    *work   = NULL;

    if (r->rank == 0) {
        await_shown(r, "worker:1", "worker:0", "all_reduce 1 of generation 7");
        await_shown(r, "worker:2", "worker:1", "all_reduce 1 of generation 7");
    }
    collective_check(
        r, collective_finish(est_all_reduce(r->group, data, 3, EST_F32, EST_REDUCE_OP_SUM, &ring, &work), &work));
    if (data[2] != 9) collective_fail(r, "the sum is %g", (double)data[2]);
}

static void expect_none(int n)
{
    est_wait waits[EST_WAITS_MAX];
    char     who[16];

    for (int i = 0; i < n; i++) {
        snprintf(who, sizeof who, "worker:%d", i);
        assert_int_equal(est_waits_of(who, waits, EST_WAITS_MAX), 0);
    }
}

TEST(operation)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, &(est_group_options){ .generation = 7 });
    collective_run(&t, reduce_late, NULL);
    expect_none(3);
    collective_stop(&t);
}

static void join_late(collective_rank *r)
{
    est_group_options options = collective_options(r, &(est_group_options){ .generation = 3 });

    if (r->rank == 1) await_shown(r, "worker:0", "worker:1", "to join generation 3");
    collective_check(r, est_group_create(r->mailbox, r->net, &options, &r->group));
}

TEST(join)
{
    collective_test t;

    collective_start(&t, "tcp", 2);
    collective_run(&t, join_late, NULL);
    expect_none(2);
    collective_stop(&t);
}

static est_mark reached;

/* While rank 0 tells the log whom it waits for, the last rank joins. */
static collective_rank *reporting;

static void join_meanwhile(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    int64_t until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);
    bool    here  = false;

    (void)user;
    (void)level;
    (void)wall_ns;
    if (strstr(line, "to join generation 3") == NULL) return;
    est_mark_set(&reached, 1);
    while (!here && est_machine_ns() < until) {
        pthread_mutex_lock(&reporting->mailbox->lock);
        for (est_rank_group *g = reporting->mailbox->groups; g != NULL; g = g->next_group) here |= g->peers[1].joined;
        pthread_mutex_unlock(&reporting->mailbox->lock);
        (void)sched_yield();
    }
    if (!here) collective_fail(reporting, "rank 1 has not joined");
}

static void join_during_report(collective_rank *r)
{
    est_group_options options = collective_options(r, &(est_group_options){ .generation = 3 });
    int64_t           until   = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);

    if (r->rank == 0) reporting = r;
    options.join_secs = r->rank == 0 ? 4 : NET_TEST_SECS; /* a report after a quarter */
    while (r->rank == 1 && est_mark_get(&reached) == 0 && est_machine_ns() < until) (void)sched_yield();
    collective_check(r, est_group_create(r->mailbox, r->net, &options, &r->group));
}

TEST(join_during_report)
{
    collective_test t;

    est_mark_set(&reached, 0);
    est_log_set_sink(join_meanwhile, NULL);
    collective_start(&t, "tcp", 2);
    collective_run(&t, join_during_report, NULL);
    est_log_set_sink(NULL, NULL);
    expect_none(2);
    collective_stop(&t);
}

static void reduce_lost(collective_rank *r)
{
    float     data[] = { 1 };
    est_work *work   = NULL;

    if (r->rank == 0) {
        await_shown(r, "worker:1", "worker:0", "all_reduce 1 of generation 1");
        est_group_abort(r->group, "enough");
        return;
    }
    collective_expect(
        r, collective_finish(est_all_reduce(r->group, data, 1, EST_F32, EST_REDUCE_OP_SUM, NULL, &work), &work),
        EST_ABORTED, "enough");
}

TEST(abort)
{
    collective_test t;

    for (int i = 0; i < 2; i++) { /* through shared memory, and not */
        collective_apart = i > 0;
        collective_start(&t, "tcp", 2);
        collective_join(&t, NULL);
        collective_run(&t, reduce_lost, NULL);
        expect_none(2);
        collective_stop(&t);
    }
}

/* Rank 0 has looked whether rank 1 is ready, and has not gone to sleep yet, when that rings: it must look again. */
static void bell_between(collective_rank *r)
{
    const est_collective_options shared = { .communication = EST_COMMUNICATION_SHARED };
    int64_t                      until  = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);
    float                        data[] = { 1, 2, 3 };
    est_work                    *work   = NULL;
    bool                         again  = false;

    while (r->rank == 1 && est_mark_get(&reached) == 0 && est_machine_ns() < until) (void)sched_yield();
    collective_check(r, est_all_reduce(r->group, data, 3, EST_F32, EST_REDUCE_OP_SUM, &shared, &work));
    if (work == NULL) return;
    if (r->rank == 0) {
        pthread_mutex_lock(&r->group->mailbox->lock);
        while (work->running) { /* the network thread may still be in it */
            pthread_mutex_unlock(&r->group->mailbox->lock);
            (void)sched_yield();
            pthread_mutex_lock(&r->group->mailbox->lock);
        }
        work->awaited = work->running = true;
        work->again                   = false;
        pthread_mutex_unlock(&r->group->mailbox->lock);
        est_mark_set(&reached, 1);
        while (!again && est_machine_ns() < until) {
            pthread_mutex_lock(&r->group->mailbox->lock);
            again = work->again;
            pthread_mutex_unlock(&r->group->mailbox->lock);
            (void)sched_yield();
        }
        if (!again) collective_fail(r, "a bell was not heard");
        pthread_mutex_lock(&r->group->mailbox->lock);
        work->running = false;
        pthread_mutex_unlock(&r->group->mailbox->lock);
    }
    collective_check(r, est_work_wait(work));
    if (data[2] != 6) collective_fail(r, "the sum is %g", (double)data[2]);
}

TEST(bell)
{
    collective_test t;

    collective_apart = false;
    est_mark_set(&reached, 0);
    collective_start(&t, "tcp", 2);
    collective_join(&t, &(est_group_options){ .generation = 7 });
    collective_run(&t, bell_between, NULL);
    collective_stop(&t);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
