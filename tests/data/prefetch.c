/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch: the same elements, made ahead by another thread; errors in their place; positions with what was made
 * ahead. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "support/data_test.h"
#include "support/test.h"

TEST(elements)
{
    for (int64_t n = 1; n < 9; n++) {
        est_test_yields(est_dataset_prefetch(est_dataset_range(0, 7, 1), n), "0 ; 1 ; 2 ; 3 ; 4 ; 5 ; 6");
        est_test_yields(est_dataset_prefetch(est_dataset_range(0, 0, 1), n), "");
    }
    est_test_yields(est_dataset_repeat(est_dataset_prefetch(est_dataset_range(0, 3, 1), 2), 3),
                    "0 ; 1 ; 2 ; 0 ; 1 ; 2 ; 0 ; 1 ; 2");
    est_test_yields(est_dataset_prefetch(est_dataset_prefetch(est_dataset_range(0, 3, 1), 1), 100), "0 ; 1 ; 2");
}

TEST(refused)
{
    est_test_refused(est_dataset_prefetch(est_dataset_range(0, 3, 1), 0), "prefetch: 0 elements ahead");
    est_test_refused(est_dataset_prefetch(est_dataset_range(0, 3, 1), 100000000), "expected 1 to 100000");
    est_test_refused(est_dataset_prefetch(est_dataset_range(0, 3, 0), 1), "is not a range");
    est_test_refused(est_dataset_prefetch(NULL, 1), "no dataset");
}

/* --- what another thread does ------------------------------------------------------------------------------------- */

/* A generator of numbers that notes who calls it and how often, and fails at some number. */
typedef struct numbers {
    pthread_mutex_t lock;
    pthread_cond_t  cond;
    int64_t         next;
    int64_t         fail_at;
    bool            called_by_us;
    pthread_t       us;
} numbers;

static est_status numbers_next(void *state, est_field *element)
{
    numbers *n = state;
    int64_t  value;

    pthread_mutex_lock(&n->lock);
    value = n->next++;
    if (pthread_equal(pthread_self(), n->us)) n->called_by_us = true;
    pthread_cond_signal(&n->cond);
    pthread_mutex_unlock(&n->lock);
    if (value == n->fail_at) return est_fail(EST_UNAVAILABLE, "number %" PRId64 " is out", value);
    return est_tensor_i64(EST_SHAPE_SCALAR, &value, &element->values);
}

static est_dataset *numbers_dataset(numbers *n)
{
    const est_component component = { .name = "value", .dtype = EST_I64, .shape = EST_SHAPE_SCALAR };

    *n = (numbers){ .fail_at = -1, .us = pthread_self() };
    assert_int_equal(est_lock_init(&n->lock), EST_OK);
    assert_int_equal(est_cond_init(&n->cond), EST_OK);
    return est_dataset_generator((est_components){ &component, 1 }, EST_GENERATOR(.next = numbers_next, .user = n));
}

static void numbers_destroy(numbers *n)
{
    pthread_cond_destroy(&n->cond);
    pthread_mutex_destroy(&n->lock);
}

TEST(ahead)
{
    numbers       n;
    est_dataset  *dataset = est_test_finish(est_dataset_prefetch(numbers_dataset(&n), 5));
    est_iterator *rows    = est_test_iterate(dataset);
    int64_t       limit   = est_machine_ns() + 20 * EST_NS_PER_SEC;
    est_field     element = { 0 };

    assert_int_equal(n.next, 0);
    assert_int_equal(est_iterator_next(rows, &element), EST_OK);
    est_element_clear(&element, 1);
    pthread_mutex_lock(&n.lock);
    while (n.next < 5 && est_machine_ns() < limit) est_cond_wait_ns(&n.cond, &n.lock, EST_NS_PER_SEC);
    assert_in_range(n.next, 5, 6); /* one taken, five ahead; never more */
    pthread_mutex_unlock(&n.lock);
    est_iterator_free(rows); /* its thread waits for room */
    assert_false(n.called_by_us);
    assert_in_range(n.next, 5, 6);
    est_dataset_free(dataset);
    numbers_destroy(&n);
}

TEST(error_in_place)
{
    for (int64_t at = 0; at < 6; at++) {
        numbers       n;
        est_dataset  *dataset = est_test_finish(est_dataset_prefetch(numbers_dataset(&n), 3));
        est_iterator *rows    = est_test_iterate(dataset);
        est_field     element = { 0 };
        est_tensor   *position;
        char          text[48];

        n.fail_at = at;
        for (int64_t i = 0; i < at; i++) {
            assert_int_equal(est_iterator_next(rows, &element), EST_OK);
            assert_int_equal(*(const int64_t *)est_tensor_data(element.values), i);
            est_element_clear(&element, 1);
        }
        snprintf(text, sizeof text, "number %" PRId64 " is out", at);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(est_iterator_next(rows, &element), EST_UNAVAILABLE);
            assert_non_null(strstr(est_error_message(), text));
        }
        assert_int_equal(est_iterator_save(rows, &position), EST_UNAVAILABLE);
        est_iterator_free(rows);
        est_dataset_free(dataset);
        numbers_destroy(&n);
    }
}

/* An error that waits behind elements is in the position, and comes in its place. */
TEST(error_ahead)
{
    numbers       n;
    est_dataset  *dataset = est_test_finish(est_dataset_prefetch(numbers_dataset(&n), 4));
    est_iterator *rows    = est_test_iterate(dataset);
    int64_t       limit   = est_machine_ns() + 20 * EST_NS_PER_SEC;
    est_field     element = { 0 };
    est_tensor   *position;

    n.fail_at = 2;
    assert_int_equal(est_iterator_next(rows, &element), EST_OK);
    est_element_clear(&element, 1);
    pthread_mutex_lock(&n.lock);
    while (n.next < 3 && est_machine_ns() < limit) est_cond_wait_ns(&n.cond, &n.lock, EST_NS_PER_SEC);
    pthread_mutex_unlock(&n.lock);
    assert_int_equal(est_iterator_save(rows, &position), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "number 2 is out"));
    assert_int_equal(est_iterator_next(rows, &element), EST_OK); /* it goes on up to the error */
    assert_int_equal(*(const int64_t *)est_tensor_data(element.values), 1);
    est_element_clear(&element, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(est_iterator_next(rows, &element), EST_UNAVAILABLE);
        assert_non_null(strstr(est_error_message(), "number 2 is out"));
    }
    est_iterator_free(rows);
    est_dataset_free(dataset);
    numbers_destroy(&n);
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

static est_dataset *make_deep(void)
{
    est_dataset *d = est_dataset_prefetch(est_dataset_range(0, 20, 1), 3);

    d = est_dataset_shuffle(d, 5, 7);
    d = est_dataset_prefetch(est_dataset_repeat(d, 2), 4);
    return est_dataset_prefetch(est_dataset_batch(d, 3, NULL), 2);
}

static est_dataset *make_plain(void)
{
    return est_dataset_prefetch(est_dataset_range(0, 9, 1), 3);
}

TEST(positions)
{
    est_test_positions(make_plain, 10);
    est_test_positions(make_deep, 15);
}

TEST(other_shape_refused)
{
    est_dataset  *of[4]   = { est_test_finish(make_plain()), est_test_finish(est_dataset_range(0, 9, 1)),
                              est_test_finish(
                                  est_dataset_prefetch(est_dataset_enumerate(est_dataset_range(0, 9, 1), 0), 3)),
                              est_test_finish(est_dataset_prefetch(est_dataset_take(est_dataset_range(0, 9, 1), 9), 3)) };
    const char   *says[4] = { NULL, "a stage prefetch where this one has range", "",
                              "a stage range where this one has take" };
    est_iterator *rows    = est_test_iterate(of[0]);
    est_tensor   *position;
    char         *text = est_test_elements(rows, of[0], 2);

    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    for (int i = 1; i < 4; i++) {
        est_iterator *other  = est_test_iterate(of[i]);
        est_status    status = est_iterator_restore(other, position);

        assert_int_not_equal(status, EST_OK);
        if (strstr(est_error_message(), says[i]) == NULL) fail_msg("%s", est_error_message());
        est_iterator_free(other);
    }
    est_free(text);
    est_tensor_free(position);
    est_iterator_free(rows);
    for (int i = 0; i < 4; i++) est_dataset_free(of[i]);
}

TEST(allocations)
{
    est_test_allocations(make_plain, 5);
    est_test_allocations(make_deep, 4);
}
