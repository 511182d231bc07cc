/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of calls: order, calls that come back, numbers, and the lowest call that has not completed. */
#include "coordinator/coordinator.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

static est_scheduled *append(est_call_queue *q, int n_feeds)
{
    est_scheduled *call = est_call_queue_new(q, n_feeds);

    assert_non_null(call);
    est_call_queue_append(q, call);
    return call;
}

static void finish(est_call_queue *q, est_scheduled *call)
{
    est_call_queue_finish(q, call->number);
    est_call_queue_recycle(q, call);
}

TEST(first_in_first_out)
{
    est_call_queue q;
    est_scheduled *a, *b, *c;

    assert_ok(est_call_queue_init(&q));
    assert_null(est_call_queue_take(&q));
    a = append(&q, 0);
    b = append(&q, 2);
    c = append(&q, 1);
    assert_int_equal(q.n, 3);
    assert_ptr_equal(est_call_queue_take(&q), a);
    assert_ptr_equal(est_call_queue_take(&q), b);
    assert_ptr_equal(est_call_queue_take(&q), c);
    assert_null(est_call_queue_take(&q));
    assert_int_equal(a->number, 1);
    assert_int_equal(c->number, 3);
    assert_int_equal(q.oldest, 1);

    finish(&q, b);
    assert_int_equal(q.oldest, 1);
    finish(&q, a);
    assert_int_equal(q.oldest, 3);
    finish(&q, c);
    assert_int_equal(q.oldest, 4);
    est_call_queue_clear(&q);
}

/* Calls that come back, in any order, are taken again in the order of their numbers, and keep them. */
TEST(returned_calls)
{
    est_call_queue q;
    est_scheduled *calls[4], *late;

    assert_ok(est_call_queue_init(&q));
    for (int i = 0; i < 4; i++) append(&q, 0);
    late = append(&q, 0);
    for (int i = 0; i < 4; i++) calls[i] = est_call_queue_take(&q);
    assert_false(est_call_queue_has_returned(&q));
    est_call_queue_return(&q, calls[2]);
    assert_true(est_call_queue_has_returned(&q));
    est_call_queue_return(&q, calls[0]);
    est_call_queue_return(&q, calls[3]);
    finish(&q, calls[1]);
    assert_int_equal(q.oldest, 1);
    assert_int_equal(q.n, 4);
    assert_ptr_equal(est_call_queue_take(&q), calls[0]);
    assert_ptr_equal(est_call_queue_take(&q), calls[2]);
    assert_ptr_equal(est_call_queue_take(&q), calls[3]);
    assert_int_equal(calls[3]->number, 4);
    assert_false(est_call_queue_has_returned(&q)); /* `late` has no number yet */
    assert_ptr_equal(est_call_queue_take(&q), late);
    assert_int_equal(late->number, 5);

    est_call_queue_return(&q, late); /* to an empty queue */
    append(&q, 0);
    assert_ptr_equal(est_call_queue_take(&q), late);
    est_call_queue_recycle(&q, est_call_queue_drop(&q)); /* cancelled: it never had a number */
    assert_int_equal(q.n, 0);
    assert_int_equal(q.given, 5);
    finish(&q, calls[0]);
    finish(&q, calls[2]);
    finish(&q, calls[3]);
    finish(&q, late);
    assert_int_equal(q.oldest, 6);
    est_call_queue_clear(&q);
}

/* A call that takes long lets others complete, up to the window; ps tasks remember no more runs than that. */
TEST(window)
{
    est_call_queue q;
    est_scheduled *slow, *call;
    int64_t        n = 0;

    assert_ok(est_call_queue_init(&q));
    append(&q, 0);
    slow = est_call_queue_take(&q);
    for (;; n++) {
        append(&q, 0);
        call = est_call_queue_take(&q);
        if (call == NULL) break;
        finish(&q, call);
    }
    assert_int_equal(n, EST_CALL_WINDOW - 1);
    assert_int_equal(q.oldest, 1);
    finish(&q, slow);
    assert_int_equal(q.oldest, EST_CALL_WINDOW + 1);
    call = est_call_queue_take(&q);
    assert_non_null(call);
    assert_int_equal(call->number, EST_CALL_WINDOW + 1);
    finish(&q, call);
    assert_int_equal(q.oldest, EST_CALL_WINDOW + 2);
    est_call_queue_clear(&q);
}

/* Structs are used again; a longer call gets a new one. */
TEST(structs_are_kept)
{
    est_call_queue q;
    est_scheduled *call, *again;
    uint64_t       before;

    assert_ok(est_call_queue_init(&q));
    append(&q, 2);
    call = est_call_queue_take(&q);
    finish(&q, call);
    before = est_alloc_count();
    again  = est_call_queue_new(&q, 1);
    assert_ptr_equal(again, call);
    assert_int_equal(again->number, 0);
    assert_int_equal(again->max_feeds, 2);
    assert_true(est_alloc_count() == before);
    est_call_queue_recycle(&q, again);
    again = est_call_queue_new(&q, 3);
    assert_ptr_not_equal(again, call);
    est_call_queue_recycle(&q, again);
    est_call_queue_clear(&q);
}

TEST(failed_allocations)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_call_queue q = { 0 };
        est_status     status;

        fault_arm(&f);
        status = est_call_queue_init(&q);
        if (status == EST_OK) {
            est_scheduled *call = est_call_queue_new(&q, 2);

            if (call == NULL) status = est_no_memory();
            if (call != NULL) est_call_queue_recycle(&q, call);
        }
        fault_check(&f, status);
        est_call_queue_clear(&q);
    }
}
