/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation fails, one a run, while two ranks do one operation of each kind: both end, soon, and with a reason.
 * Leaks are for the sanitizer to see. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"
#include "collective/work.h"
#include "support/collective_test.h"
#include "support/fault_loop.h"

typedef struct run {
    fault_loop *loop;
    int64_t     n; /* of the bell: the fault point that fails */
    est_status  status[2];
} run;

static est_status reduce_packed(est_rank_group *group, float *data)
{
    est_reduced tensors[] = { { data, 10, EST_F32 }, { data + 10, 500, EST_F32 }, { data + 510, 30, EST_F32 } };

    return est_all_reduce_packed(group, tensors, 3, 1000, EST_REDUCE_OP_MEAN, NULL);
}

static est_status reduce_rows(est_rank_group *group, float *data)
{
    int64_t          indices[] = { 5, 3, 5 };
    est_indexed_rows rows = { indices, data, 3 }, out = { 0 };
    est_status       status = est_all_reduce_rows(group, &rows, 4, EST_F32, EST_REDUCE_OP_SUM, NULL, &out);

    est_indexed_rows_clear(&out);
    return status;
}

static est_status gather(est_rank_group *group, float *data)
{
    est_gathered all = { 0 };
    est_work    *work;
    est_status   status;

    status = collective_finish(
        est_all_gather_uneven(group, data, 100 + (size_t)est_group_rank(group), &all, NULL, &work), &work);
    est_gathered_clear(&all);
    return status;
}

static est_status all_kinds(est_rank_group *group, float *data, size_t count)
{
    est_work *work;

    EST_TRY(collective_finish(est_all_reduce(group, data, 100, EST_F32, EST_REDUCE_OP_SUM, NULL, &work), &work));
    EST_TRY(collective_finish(est_all_reduce(group, data, count, EST_F32, EST_REDUCE_OP_SUM, NULL, &work), &work));
    EST_TRY(collective_finish(est_broadcast(group, data, 100, 1, NULL, &work), &work));
    EST_TRY(collective_finish(est_all_gather(group, data, 100, data + 1000, NULL, &work), &work));
    EST_TRY(collective_finish(est_barrier(group, NULL, &work), &work));
    EST_TRY(gather(group, data));
    EST_TRY(reduce_packed(group, data));
    return reduce_rows(group, data);
}

static void body(collective_rank *r)
{
    run    *one   = r->arg;
    size_t  count = 300000;
    float  *data  = calloc(count, sizeof *data);
    int64_t start = est_machine_ns();

    if (r->rank == 0) fault_arm(one->loop);
    one->status[r->rank] = all_kinds(r->group, data, count);
    /* A failure that its rank alone has seen is for the rank to tell: as whoever uses a group does. */
    if (one->status[r->rank] != EST_OK) est_group_abort(r->group, "it gives up");
    if ((double)(est_machine_ns() - start) / 1e9 > COLLECTIVE_SOON_SECS) collective_fail(r, "it took too long");
    free(data);
}

static void expect_clean(est_status status)
{
    if (status == EST_OK || status == EST_RESOURCE_EXHAUSTED || status == EST_ABORTED) return;
    fail_msg("%s", est_status_name(status));
}

TEST(allocations)
{
    collective_test t;

    collective_start(&t, "tcp", 2);
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 29) {
        run one = { .loop = &f };

        collective_join(&t, &(est_group_options){ .generation = (uint64_t)f.n });
        collective_run(&t, body, &one);
        if (fault_end(&f)) {
            expect_clean(one.status[0]);
            expect_clean(one.status[1]);
        } else {
            assert_int_equal(one.status[0], EST_OK);
            assert_int_equal(one.status[1], EST_OK);
        }
        collective_leave(&t);
    }
    collective_stop(&t);
}

/* Waits until the other rank sleeps, so that it has to be rung; then that fails, or what else is sent. */
static void ring_and_fail(collective_rank *r)
{
    run      *one   = r->arg;
    int64_t   start = est_machine_ns(), until = start + (int64_t)(COLLECTIVE_SOON_SECS * 1e9);
    float     data[100] = { 0 };
    est_work *work;

    if (r->rank == 0) {
        while (est_mark_get(&r->group->commons.ranks[1].asleep) == 0 && est_machine_ns() < until) sched_yield();
        est_fault_arm(one->n);
    }
    one->status[r->rank] = collective_finish(
        est_all_reduce(r->group, data, 100, EST_F32, EST_REDUCE_OP_SUM, NULL, &work), &work);
    if (one->status[r->rank] != EST_OK) est_group_abort(r->group, "it gives up");
    if (est_machine_ns() > until) collective_fail(r, "it took too long");
}

/* A bell that nobody hears would leave the other rank asleep: the group fails. Which point it is, and whether the other
 * sleeps when its turn comes, is as it happens: until it was that one. */
TEST(bell)
{
    collective_test t;
    bool            rung = false;

    collective_start(&t, "tcp", 2);
    for (uint64_t generation = 1; !rung; generation++) {
        run one = { .n = 1 + (int64_t)(generation % 4) };

        assert_true(generation < 1000);
        collective_join(&t, &(est_group_options){ .generation = generation });
        assert_non_null(t.ranks[0].group->commons.ranks);
        collective_run(&t, ring_and_fail, &one);
        rung = est_fault_fired() && strcmp(est_fault_name(), "net.ask") == 0;
        est_fault_arm(0);
        expect_clean(one.status[0]);
        expect_clean(one.status[1]);
        collective_leave(&t);
    }
    collective_stop(&t);
}

static int setup(void **state)
{
    est_log_set_level(EST_LOG_OFF);
    return net_test_setup(state);
}

int main(void)
{
    return est_test_run(setup, net_test_teardown);
}
