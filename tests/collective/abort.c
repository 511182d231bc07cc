/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong in a group: aborts, ranks that are lost or leave, deadlines, operations that do not fit together; and
 * who may join. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "support/collective_test.h"

enum { BEFORE, BEGUN, NET_GONE, N_STAGES };

typedef struct scene {
    int               victim, stage;
    size_t            count;
    est_communication communication;
    pthread_mutex_t   lock; /* guards gone */
    pthread_cond_t    changed;
    bool              gone; /* the victim has done it */
} scene;

static void tell_gone(scene *s)
{
    pthread_mutex_lock(&s->lock);
    s->gone = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void await_gone(scene *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->gone) est_cond_wait_ns(&s->changed, &s->lock, 1000000000);
    pthread_mutex_unlock(&s->lock);
}

static est_status reduce(est_rank_group *group, float *data, size_t count, est_communication communication)
{
    est_work *work;

    return collective_finish(est_all_reduce(group, data, count, EST_F32, EST_REDUCE_OP_SUM,
                                            &(est_collective_options){ .communication = communication }, &work),
                             &work);
}

/* The victim ends the group before it begins, or when it has; the rank after it does not begin before that, so that
 * nobody can be done. */
static void play(collective_rank *r)
{
    scene     *s    = r->arg;
    float     *data = calloc(s->count, sizeof *data);
    est_work  *work = NULL;
    int64_t    start;
    est_status status;
    char       text[64];

    snprintf(text, sizeof text, "rank %d (worker:%d) %s", s->victim, s->victim,
             s->stage == NET_GONE ? "was lost: " : "aborted: out of luck");
    if (r->rank == s->victim) {
        if (s->stage != BEFORE) {
            collective_check(r, est_all_reduce(r->group, data, s->count, EST_F32, EST_REDUCE_OP_SUM,
                                               &(est_collective_options){ .communication = s->communication }, &work));
        }
        if (s->stage == NET_GONE) {
            est_net_free(r->net);
            r->net = NULL;
        } else {
            est_group_abort(r->group, "out of luck");
            est_group_abort(r->group, "second thoughts");
        }
        tell_gone(s);
        start = est_machine_ns();
        if (work != NULL) {
            status = est_work_wait(work);
            if (status != EST_ABORTED) collective_fail(r, "%s instead of ABORTED", est_status_name(status));
        }
    } else {
        if (r->rank == (s->victim + 1) % r->test->n) await_gone(s);
        start  = est_machine_ns();
        status = reduce(r->group, data, s->count, s->communication);
        /* A rank that had all it needed from the victim does not need it any more; the next one tells. */
        if (s->stage == BEFORE || status != EST_OK) collective_expect(r, status, EST_ABORTED, text);
    }
    if (s->stage != NET_GONE || r->rank != s->victim) {
        collective_expect(r, reduce(r->group, data, s->count, s->communication), EST_ABORTED, text);
        collective_expect(r, est_group_status(r->group), EST_ABORTED, text);
    }
    if ((double)(est_machine_ns() - start) / 1e9 > COLLECTIVE_SOON_SECS) collective_fail(r, "it took too long");
    free(data);
}

TEST(stages)
{
    static const size_t            counts[]     = { 100, 1000000 };
    static const est_communication algorithms[] = { EST_COMMUNICATION_RING, EST_COMMUNICATION_HALVING,
                                                    EST_COMMUNICATION_DIRECT };

    for (int n = 2; n <= 4; n++) {
        for (int k = 0; k < n * N_STAGES * 6; k++) {
            scene           s = { .victim        = k % n,
                                  .stage         = k / n % N_STAGES,
                                  .count         = counts[k / n / N_STAGES % 2],
                                  .communication = algorithms[k / n / N_STAGES / 2] };
            collective_test t;

            net_check(est_lock_init(&s.lock));
            net_check(est_cond_init(&s.changed));
            collective_start(&t, "tcp", n);
            collective_join(&t, NULL);
            collective_run(&t, play, &s);
            collective_stop(&t);
            pthread_cond_destroy(&s.changed);
            pthread_mutex_destroy(&s.lock);
        }
    }
}

/* Operations one after the other until the group ends; rank 1 ends it from another thread, in the middle of whatever is
 * under way. */
static void *abort_soon(void *arg)
{
    collective_rank *r = arg;

    while (est_group_operations(r->group) < 5) sched_yield();
    est_group_abort(r->group, "in the middle");
    return NULL;
}

static void until_end(collective_rank *r)
{
    size_t     count = 300000;
    float     *data  = calloc(count, sizeof *data);
    est_thread other;
    est_status status;

    if (r->rank == 1) collective_check(r, est_thread_start(&other, "abort", abort_soon, r));
    do status = reduce(r->group, data, count, EST_COMMUNICATION_RING);
    while (status == EST_OK);
    collective_expect(r, status, EST_ABORTED, "rank 1 (worker:1) aborted: in the middle");
    if (r->rank == 1) est_thread_join(&other);
    free(data);
}

TEST(middle)
{
    for (int round = 0; round < 5; round++) {
        collective_test t;

        collective_start(&t, "tcp", 3);
        collective_join(&t, NULL);
        collective_run(&t, until_end, NULL);
        collective_stop(&t);
    }
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

static void wait_in_vain(collective_rank *r)
{
    static const size_t counts[] = { 10, 1000000 };
    size_t              count    = counts[*(int *)r->arg];
    float              *data     = calloc(count, sizeof *data);
    est_work           *work;
    est_status          status;

    if (r->rank == 0) {
        status = collective_finish(est_all_reduce(r->group, data, count, EST_F32, EST_REDUCE_OP_SUM,
                                                  &(est_collective_options){ .deadline_secs = 0.05 }, &work),
                                   &work);
        collective_expect(r, status, EST_DEADLINE_EXCEEDED,
                          "all_reduce 1 of generation 1 waited for rank 1 (worker:1) for 0.05 s");
        collective_expect(r, reduce(r->group, data, count, EST_COMMUNICATION_AUTO), EST_ABORTED,
                          "waited for rank 1 (worker:1)");
    } else {
        int64_t until = est_machine_ns() + (int64_t)(NET_TEST_SECS * 1e9);

        while (est_group_status(r->group) == EST_OK && est_machine_ns() < until) sched_yield();
        collective_expect(r, est_group_status(r->group), EST_ABORTED, "rank 0 (worker:0): all_reduce 1");
    }
    free(data);
}

TEST(deadline)
{
    for (int size = 0; size < 2; size++) {
        collective_test t;

        collective_start(&t, "tcp", 2);
        collective_join(&t, NULL);
        collective_run(&t, wait_in_vain, &size);
        collective_stop(&t);
    }
}

/* --- different operations ----------------------------------------------------------------------------------------- */

static void differ(collective_rank *r)
{
    float      data[20] = { 0 };
    size_t     count    = r->rank == 0 ? 10 : 20;
    est_status status   = reduce(r->group, data, count, EST_COMMUNICATION_DIRECT);

    if (status == EST_ABORTED) { /* the other one noticed first */
        collective_expect(r, status, EST_ABORTED, "must begin the same operations");
    } else {
        collective_expect(r, status, EST_FAILED_PRECONDITION, "must begin the same operations");
    }
}

TEST(differ)
{
    collective_test t;

    collective_start(&t, "tcp", 2);
    collective_join(&t, NULL);
    collective_run(&t, differ, NULL);
    collective_stop(&t);
}

static void refuse(collective_rank *r)
{
    float     data[4] = { 0 };
    est_work *work;

    collective_expect(r, reduce(r->group, data, 4, EST_COMMUNICATION_NCCL), EST_UNIMPLEMENTED,
                      "nccl is between GPUs of workers");
    collective_expect(r, est_all_reduce(r->group, data, 4, EST_I32, EST_REDUCE_OP_SUM, NULL, &work),
                      EST_INVALID_ARGUMENT, "int32 cannot be reduced");
    collective_expect(r, est_broadcast(r->group, data, 4, 2, NULL, &work), EST_INVALID_ARGUMENT,
                      "rank 2 of a group of 2");
    collective_check(r, reduce(r->group, data, 4, EST_COMMUNICATION_AUTO)); /* nothing has happened */
}

TEST(refused)
{
    collective_test   t;
    est_communication c;

    collective_start(&t, "tcp", 2);
    collective_join(&t, NULL);
    collective_run(&t, refuse, NULL);
    collective_stop(&t);
    net_check(est_communication_find("ring", &c));
    assert_int_equal(c, EST_COMMUNICATION_RING);
    assert_string_equal(est_communication_name(c), "ring");
    assert_non_null(strstr(est_communication_text(c), "round"));
    net_expect(est_communication_find("mpi", &c), EST_INVALID_ARGUMENT, "no communication \"mpi\"");
}

/* The table ends with a rule that takes everything, and small ones come first. */
TEST(choose)
{
    int                        n;
    const est_collective_rule *rules = est_collective_rules(&n);

    assert_int_equal(rules[n - 1].n_max, 0);
    assert_int_equal(rules[n - 1].bytes_max, 0);
    for (int i = 0; i < n - 1; i++) {
        int          ranks    = rules[i].n_max > 0 ? rules[i].n_max : 100;
        size_t       bytes    = rules[i].bytes_max > 0 ? rules[i].bytes_max : 1 << 30;
        est_topology topology = rules[i].topology != EST_TOPOLOGY_ANY ? rules[i].topology : EST_TOPOLOGY_APART;

        assert_int_equal(est_collective_choose(ranks, bytes, topology), rules[i].choice);
    }
    assert_int_equal(est_collective_choose(2, 4 << 10, EST_TOPOLOGY_APART), EST_COMMUNICATION_DIRECT);
    assert_int_equal(est_collective_choose(100, 100 << 10, EST_TOPOLOGY_APART), EST_COMMUNICATION_HALVING);
    assert_int_equal(est_collective_choose(2, 1 << 30, EST_TOPOLOGY_APART), EST_COMMUNICATION_RING);
}

/* --- leaving ------------------------------------------------------------------------------------------------------ */

/* Whoever is done leaves at once; the others are not disturbed. */
static void work_and_leave(collective_rank *r)
{
    size_t counts[] = { 10, 200000, 3000 };

    for (int i = 0; i < 3; i++) {
        float *data = calloc(counts[i], sizeof *data);

        collective_check(r, reduce(r->group, data, counts[i], EST_COMMUNICATION_AUTO));
        free(data);
    }
    est_group_free(r->group);
    r->group = NULL;
}

TEST(leave)
{
    collective_test t;

    collective_start(&t, "tcp", 4);
    for (uint64_t generation = 1; generation <= 20; generation++) {
        collective_join(&t, &(est_group_options){ .generation = generation });
        collective_run(&t, work_and_leave, NULL);
    }
    collective_stop(&t);
}

/* Rank 0 sends to rank 1 and is gone before rank 2, which has it from rank 1, begins. */
static void pass_on(collective_rank *r)
{
    int64_t                data    = r->rank == 0 ? 5 : 0;
    est_collective_options options = { .communication = EST_COMMUNICATION_RING };
    est_work              *work;

    if (r->rank == 2) collective_await_lost(r, 1);
    collective_check(r, collective_finish(est_broadcast(r->group, &data, sizeof data, 0, &options, &work), &work));
    if (data != 5) collective_fail(r, "it got %d", (int)data);
    if (r->rank == 0) {
        est_group_free(r->group);
        r->group = NULL;
    } else {
        collective_await_lost(r, 1);
        collective_check(r, est_group_status(r->group));
    }
}

TEST(left_early)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, NULL);
    collective_run(&t, pass_on, NULL);
    collective_stop(&t);
}

static void stay(collective_rank *r)
{
    float data[10] = { 0 };

    if (r->rank == 0) {
        est_group_free(r->group);
        r->group = NULL;
    } else {
        collective_expect(r, reduce(r->group, data, 10, EST_COMMUNICATION_AUTO), EST_ABORTED, "rank 0 (worker:0)");
    }
}

TEST(left)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, NULL);
    collective_run(&t, stay, NULL);
    collective_stop(&t);
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

static est_status join_as(collective_rank *r, uint64_t generation, double secs, const est_rank *list, int n)
{
    est_group_options options = collective_options(r,
                                                   &(est_group_options){ .generation = generation, .join_secs = secs });

    if (list != NULL) options.ranks = list;
    if (n > 0) options.n = n;
    return est_group_create(r->mailbox, r->net, &options, &r->group);
}

/* Rank *arg does not come. */
static void join_without(collective_rank *r)
{
    int  missing = *(int *)r->arg;
    char text[96];

    if (r->rank == missing) return;
    snprintf(text, sizeof text, "generation 1 is not complete after 0.3 s; missing: rank %d (worker:%d) at %s", missing,
             missing, r->test->addresses[missing]);
    collective_expect(r, join_as(r, 1, 0.3, NULL, 0), EST_DEADLINE_EXCEEDED, "missing: ");
    if (r->test->n == 2) collective_expect(r, EST_DEADLINE_EXCEEDED, EST_DEADLINE_EXCEEDED, text);
}

TEST(missing)
{
    for (int missing = 0; missing < 2; missing++) {
        collective_test t;

        collective_start(&t, "tcp", 2);
        collective_run(&t, join_without, &missing);
        collective_join(&t, &(est_group_options){ .generation = 2 });
        collective_stop(&t);
    }
}

static void continue_without_2(collective_rank *r)
{
    est_work *work;
    int64_t   one = r->rank + 1;

    if (r->rank == 2) {
        est_group_abort(r->group, "it is tired");
        return;
    }
    collective_expect(r, collective_finish(est_barrier(r->group, NULL, &work), &work), EST_ABORTED,
                      "rank 2 (worker:2) aborted: it is tired");
    est_group_free(r->group);
    r->group = NULL;
    collective_check(r, join_as(r, 2, 0, NULL, 2));
    if (r->group == NULL) return;
    collective_check(
        r, collective_finish(est_all_reduce(r->group, &one, 1, EST_I64, EST_REDUCE_OP_SUM, NULL, &work), &work));
    if (one != 3) collective_fail(r, "1 + 2 = %d", (int)one);
}

/* Rank 2, of the old generation, wants in again. */
static void come_late(collective_rank *r)
{
    if (r->rank != 2) return;
    est_group_free(r->group);
    r->group = NULL;
    collective_expect(r, join_as(r, 1, 0, NULL, 0), EST_FAILED_PRECONDITION, "generation 1 is over");
    collective_expect(r, join_as(r, 2, 0, NULL, 0), EST_FAILED_PRECONDITION, "another list of ranks for generation 2");
}

TEST(generations)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, NULL);
    collective_run(&t, continue_without_2, NULL);
    collective_run(&t, come_late, NULL);
    collective_leave(&t);
    collective_join(&t, &(est_group_options){ .generation = 3 }); /* all together again */
    collective_stop(&t);
}

/* The list says which incarnation of rank 1 is meant, or of rank 0; it is another. */
static void join_other_incarnation(collective_rank *r)
{
    int        who     = *(int *)r->arg;
    est_rank   list[2] = { r->test->list[0], r->test->list[1] };
    est_status status;

    if (r->rank != who) list[who].incarnation = 77;
    status = join_as(r, 1, 0.5, list, 2);
    if (r->rank == 1) {
        collective_expect(r, status, EST_FAILED_PRECONDITION, "another process of the task");
    } else if (status == EST_OK) {
        collective_fail(r, "it was let in");
    }
}

TEST(incarnation)
{
    for (int who = 0; who < 2; who++) {
        collective_test t;

        collective_start(&t, "tcp", 2);
        collective_run(&t, join_other_incarnation, &who);
        collective_stop(&t);
    }
}

/* Another process in the place of rank 1, which is there. */
TEST(doubled)
{
    collective_test t, other;

    collective_start(&t, "tcp", 2);
    collective_start(&other, "tcp", 2);
    collective_join(&t, NULL);
    net_expect(join_as(&other.ranks[1], 1, 0, t.list, 2), EST_FAILED_PRECONDITION,
               "rank 1 (worker:1) of generation 1 is another process of the task");
    collective_stop(&other);
    net_check(est_group_status(t.ranks[0].group));
    collective_stop(&t);
}

/* Rank 1 comes, does not find rank 2 and goes, and comes again; rank 0 waits all the while. */
static void come_again(collective_rank *r)
{
    scene *s = r->arg;

    if (r->rank == 1) {
        collective_expect(r, join_as(r, 1, 0.2, NULL, 0), EST_DEADLINE_EXCEEDED, "rank 2 (worker:2)");
        tell_gone(s);
    }
    if (r->rank == 2) { /* or rank 0 would take the group for complete */
        await_gone(s);
        collective_await_lost(&r->test->ranks[0], 1);
    }
    collective_check(r, join_as(r, 1, 0, NULL, 0));
}

TEST(come_again)
{
    scene           s = { 0 };
    collective_test t;

    net_check(est_lock_init(&s.lock));
    net_check(est_cond_init(&s.changed));
    collective_start(&t, "tcp", 3);
    collective_run(&t, come_again, &s);
    collective_stop(&t);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
}

/* A group that is being made ends when one of its ranks wants it to, and an older one cannot be made after that. The
 * last rank does not come, so that the others wait. */
static void come_and_end(collective_rank *r)
{
    est_group_options options = collective_options(r, &(est_group_options){ .generation = 7 });
    int64_t           start   = est_machine_ns();

    if (r->rank == 2) {
        est_mailbox_end(r->test->ranks[0].mailbox, 7, "somebody has come");
        return;
    }
    collective_expect(r, est_group_create(r->mailbox, r->net, &options, &r->group), EST_ABORTED, "somebody has come");
    if ((double)(est_machine_ns() - start) / 1e9 > COLLECTIVE_SOON_SECS) collective_fail(r, "it took too long");
    if (r->rank == 1) return;
    options.generation = 6;
    collective_expect(r, est_group_create(r->mailbox, r->net, &options, &r->group), EST_ABORTED, "somebody has come");
}

TEST(end)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_run(&t, come_and_end, NULL);
    collective_join(&t, &(est_group_options){ .generation = 8 });
    est_mailbox_end(t.ranks[1].mailbox, 7, "an old one");
    for (int i = 0; i < t.n; i++) net_check(est_group_status(t.ranks[i].group));
    est_mailbox_end(t.ranks[1].mailbox, 8, "enough");
    net_expect(est_group_status(t.ranks[1].group), EST_ABORTED, "enough");
    collective_stop(&t);
}

int main(void)
{
    int failed = est_test_run(net_test_setup, net_test_teardown);

    collective_apart = true;
    return failed + est_test_run(net_test_setup, net_test_teardown);
}
