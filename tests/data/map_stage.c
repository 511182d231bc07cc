/* SPDX-License-Identifier: Apache-2.0
 *
 * map: what the function makes, in order with any number of workers; its errors and bad rows in their place, with the
 * file and line they are from; positions. Work is made longer by counting. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "estoc/log.h"
#include "support/data_test.h"
#include "support/test.h"

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static int64_t number_of(const est_field *field)
{
    return *(const int64_t *)est_tensor_data(field->values);
}

/* Keeps the core busy for a number of rounds that only the value says. */
static void busy(int64_t value)
{
    uint64_t          x = (uint64_t)value * 0x9e3779b97f4a7c15u;
    volatile uint64_t sink;

    x ^= x >> 31;
    for (uint64_t rounds = x % 4 == 0 ? x % 50000 : x % 500; rounds > 0; rounds--) x = x * 6364136223846793005u + 1;
    sink = x;
    (void)sink;
}

static est_status square(void *user, const est_field *in, est_field *out)
{
    int64_t value = number_of(in);

    (void)user;
    busy(value);
    value *= value;
    return est_tensor_i64(EST_SHAPE_SCALAR, &value, &out->values);
}

/* Fails for every multiple of 7 but 0, after it has filled the result. */
static est_status square_but_sevenths(void *user, const est_field *in, est_field *out)
{
    int64_t value = number_of(in);

    EST_TRY(square(user, in, out));
    if (value % 7 != 0 || value == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " is a multiple of seven", value);
}

/* --- what comes out ----------------------------------------------------------------------------------------------- */

TEST(order)
{
    for (int workers = 0; workers <= 8; workers++) {
        est_dataset  *d       = est_dataset_map(est_dataset_range(0, 300, 1), square, EST_MAP(.workers = workers));
        est_dataset  *all     = est_test_finish(d);
        est_iterator *rows    = est_test_iterate(all);
        est_field     element = { 0 };

        for (int64_t i = 0; i < 300; i++) {
            check(est_iterator_next(rows, &element));
            assert_int_equal(number_of(&element), i * i);
            est_element_clear(&element, 1);
        }
        assert_int_equal(est_iterator_next(rows, &element), EST_OUT_OF_RANGE);
        est_iterator_free(rows);
        est_dataset_free(all);
    }
    est_test_yields(est_dataset_map(est_dataset_range(0, 4, 1), square, NULL), "0 ; 1 ; 4 ; 9");
    est_test_yields(est_dataset_map(est_dataset_range(0, 4, 1), square, EST_MAP(.workers = EST_AUTO)), "0 ; 1 ; 4 ; 9");
    est_test_yields(est_dataset_map(est_dataset_range(0, 0, 1), square, EST_MAP(.workers = 2)), "");
}

TEST(unordered)
{
    est_dataset  *d         = est_dataset_range(0, 200, 1);
    est_dataset  *all       = est_test_finish(est_dataset_map(d, square, EST_MAP(.workers = 4, .unordered = true)));
    est_iterator *rows      = est_test_iterate(all);
    est_field     element   = { 0 };
    int           seen[200] = { 0 };

    for (int i = 0; i < 200; i++) {
        int64_t root = 0;

        check(est_iterator_next(rows, &element));
        while (root * root < number_of(&element)) root++;
        assert_in_range(root, 0, 199);
        seen[root]++;
        est_element_clear(&element, 1);
    }
    assert_int_equal(est_iterator_next(rows, &element), EST_OUT_OF_RANGE);
    for (int i = 0; i < 200; i++) assert_int_equal(seen[i], 1);
    est_iterator_free(rows);
    est_dataset_free(all);
}

static const est_component pair[] = { { .name = "text", .dtype = EST_STRING, .shape = { 0 } },
                                      { .name = "twice", .dtype = EST_I64, .shape = { 1, { 2 } } } };

static est_status make_pair(void *user, const est_field *in, est_field *out)
{
    int64_t value = number_of(in), twice[2] = { value, value };
    char    text[16];
    int     size = snprintf(text, sizeof text, "%s%" PRId64, (const char *)user, value);

    EST_TRY(est_tensor_i64(EST_SHAPE(2), twice, &out[1].values));
    return est_tensor_string(text, (size_t)size, &out[0].values);
}

TEST(components)
{
    est_component own[2] = { pair[0], pair[1] };
    char          name[] = "text";
    est_dataset  *d;

    own[0].name = name;
    d           = est_dataset_map(est_dataset_range(5, 7, 1), make_pair,
                                  EST_MAP(.components = { own, 2 }, .user = "n", .workers = 2));
    memset(name, 'x', 3); /* they were copied */
    d = est_test_finish(d);
    assert_int_equal(est_dataset_components(d), 2);
    assert_int_equal(est_dataset_find(d, "text"), 0);
    assert_int_equal(est_dataset_find(d, "twice"), 1);
    est_test_yields(d, "\"n5\" | [5 5] ; \"n6\" | [6 6]");
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

static est_status number_row(int64_t row, int i, est_tensor **out)
{
    (void)i;
    return est_tensor_i64(EST_SHAPE_SCALAR, &row, out);
}

/* Numbers that say they are lines of a file. */
static est_dataset *lines_of_numbers(int64_t n)
{
    static const est_component component = { .name = "value", .dtype = EST_I64, .shape = { 0 } };

    return est_test_rows(&component, 1, n, number_row, "numbers.txt");
}

TEST(error_in_place)
{
    for (int workers = 0; workers <= 4; workers++) {
        est_dataset *all = est_test_finish(
            est_dataset_map(lines_of_numbers(50), square_but_sevenths, EST_MAP(.workers = workers)));
        est_iterator *rows    = est_test_iterate(all);
        est_field     element = { 0 };

        for (int64_t i = 0; i < 7; i++) {
            check(est_iterator_next(rows, &element));
            assert_int_equal(number_of(&element), i * i);
            est_element_clear(&element, 1);
        }
        assert_int_equal(est_iterator_next(rows, &element), EST_INVALID_ARGUMENT);
        assert_string_equal(est_error_message(), "numbers.txt:8: 7 is a multiple of seven");
        est_iterator_free(rows);
        est_dataset_free(all);
    }
}

static est_status give_wrong_type(void *user, const est_field *in, est_field *out)
{
    float x = 1;

    (void)user;
    (void)in;
    return est_tensor_f32(EST_SHAPE_SCALAR, &x, &out->values);
}

static est_status give_nothing(void *user, const est_field *in, est_field *out)
{
    (void)user;
    (void)in;
    (void)out;
    return EST_OK;
}

static est_status end_it(void *user, const est_field *in, est_field *out)
{
    (void)user;
    (void)in;
    (void)out;
    return EST_OUT_OF_RANGE;
}

TEST(wrong_results)
{
    /* Not a matter of rows: no bad_rows_max helps. */
    est_test_breaks(est_dataset_map(lines_of_numbers(3), give_wrong_type, EST_MAP(.bad_rows_max = EST_FOREVER)),
                    EST_INVALID_ARGUMENT, "component value: a float32 tensor");
    est_test_breaks(est_dataset_map(lines_of_numbers(3), give_nothing, EST_MAP(.workers = 2)), EST_INVALID_ARGUMENT,
                    "component value: no tensor");
    est_test_breaks(est_dataset_map(lines_of_numbers(3), end_it, EST_MAP(.bad_rows_max = 5)), EST_FAILED_PRECONDITION,
                    "cannot end a dataset");
}

/* What failed before has nothing to do with it. */
static est_status fail_silently(void *user, const est_field *in, est_field *out)
{
    (void)user;
    (void)in;
    (void)out;
    return EST_ABORTED;
}

TEST(failure_without_a_message)
{
    for (int workers = 0; workers <= 1; workers++) {
        assert_int_equal(est_fail(EST_NOT_FOUND, "an old story"), EST_NOT_FOUND);
        est_test_breaks(est_dataset_map(est_dataset_range(0, 3, 1), fail_silently, EST_MAP(.workers = workers)),
                        EST_ABORTED, "the function of a map returned ABORTED");
        assert_null(strstr(est_error_message(), "old story"));
    }
}

/* Two callbacks inside at once. */
typedef struct rendezvous {
    pthread_mutex_t lock;
    pthread_cond_t  cond;
    int             n; /* inside so far */
} rendezvous;

static est_status meet(void *user, const est_field *in, est_field *out)
{
    rendezvous *m     = user;
    int64_t     limit = est_machine_ns() + 20 * EST_NS_PER_SEC;
    bool        met;

    out->values = est_tensor_ref(in->values);
    pthread_mutex_lock(&m->lock);
    m->n++;
    pthread_cond_broadcast(&m->cond);
    while (m->n < 2 && est_machine_ns() < limit) est_cond_wait_ns(&m->cond, &m->lock, EST_NS_PER_SEC);
    met = m->n >= 2;
    pthread_mutex_unlock(&m->lock);
    return met ? EST_OK : est_fail(EST_DEADLINE_EXCEEDED, "nobody else came");
}

TEST(workers_at_once)
{
    rendezvous m;

    m.n = 0;
    check(est_lock_init(&m.lock));
    check(est_cond_init(&m.cond));
    est_test_yields(est_dataset_map(est_dataset_range(0, 4, 1), meet, EST_MAP(.user = &m, .workers = 2)),
                    "0 ; 1 ; 2 ; 3");
    pthread_cond_destroy(&m.cond);
    pthread_mutex_destroy(&m.lock);
}

TEST(refused)
{
    est_test_refused(est_dataset_map(est_dataset_range(0, 3, 1), NULL, NULL), "a function is needed");
    est_test_refused(est_dataset_map(est_dataset_range(0, 3, 1), square, EST_MAP(.workers = -4)), "-4 workers");
    est_test_refused(est_dataset_map(est_dataset_range(0, 3, 1), square, EST_MAP(.bad_rows_max = -9)), "bad_rows_max");
    est_test_refused(est_dataset_map(est_dataset_range(0, 3, 1), square, &(est_map_options){ .workers = 1 }),
                     "make it with EST_MAP");
    est_test_refused(est_dataset_map(est_dataset_range(0, 3, 1), square, EST_MAP(.components = { pair, 0 })),
                     "component");
}

/* --- bad rows ----------------------------------------------------------------------------------------------------- */

TEST(bad_rows)
{
    for (int workers = 0; workers <= 4; workers++) {
        for (int64_t max = 1; max <= 8; max++) { /* of 7, 14, ... 49 */
            est_dataset  *all     = est_test_finish(est_dataset_map(lines_of_numbers(50), square_but_sevenths,
                                                                    EST_MAP(.workers = workers, .bad_rows_max = max)));
            est_iterator *rows    = est_test_iterate(all);
            est_field     element = { 0 };
            est_status    status  = EST_OK;
            int64_t       n       = 0;
            char          text[96];

            while ((status = est_iterator_next(rows, &element)) == EST_OK) {
                assert_int_equal(number_of(&element), (n + (n - 1) / 6) * (n + (n - 1) / 6));
                est_element_clear(&element, 1);
                n++;
            }
            assert_int_equal(est_iterator_get_stats(rows).bad_rows, max < 7 ? max : 7);
            if (max < 7) {
                assert_int_equal(status, EST_INVALID_ARGUMENT);
                assert_int_equal(n, 7 * (max + 1) - max); /* all good ones before the row too many */
                snprintf(text, sizeof text, "numbers.txt:%" PRId64 ": %" PRId64 " is a multiple", 7 * (max + 1) + 1,
                         7 * (max + 1));
                if (strstr(est_error_message(), text) == NULL) fail_msg("%s", est_error_message());
                assert_non_null(strstr(est_error_message(), "bad_rows_max"));
            } else {
                assert_int_equal(status, EST_OUT_OF_RANGE);
                assert_int_equal(n, 43);
            }
            est_iterator_free(rows);
            est_dataset_free(all);
        }
    }
}

static est_status refuse(void *user, const est_field *in, est_field *out)
{
    (void)in;
    (void)out;
    return est_fail(*(est_status *)user, "refused");
}

TEST(bad_rows_status)
{
    est_status as = EST_DATA_LOSS;

    est_test_yields(est_dataset_map(est_dataset_range(0, 9, 1), refuse,
                                    EST_MAP(.user = &as, .bad_rows_max = EST_FOREVER, .workers = 2)),
                    "");
    as = EST_UNAVAILABLE; /* this one is not about rows */
    est_test_breaks(est_dataset_map(est_dataset_range(0, 9, 1), refuse,
                                    EST_MAP(.user = &as, .bad_rows_max = EST_FOREVER, .workers = 2)),
                    EST_UNAVAILABLE, "refused");
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

static est_dataset *make_workers(void)
{
    return est_dataset_map(est_dataset_range(0, 12, 1), square, EST_MAP(.workers = 3));
}

static est_dataset *make_bad(void)
{
    est_dataset *d = est_dataset_map(lines_of_numbers(40), square_but_sevenths,
                                     EST_MAP(.workers = 2, .bad_rows_max = EST_FOREVER));

    return est_dataset_prefetch(d, 2);
}

static est_dataset *make_calm(void)
{
    return est_dataset_map(lines_of_numbers(20), square_but_sevenths, EST_MAP(.bad_rows_max = 2));
}

TEST(positions)
{
    est_test_positions(make_workers, 13);
    est_test_positions(make_bad, 36);
    est_test_positions(make_calm, 19);
}

/* The limit counts across a position: rows left out before it, and those found but not handed out. */
TEST(limit_goes_on)
{
    for (int64_t k = 0; k < 19; k++) { /* the limit of 2 is passed at 21 */
        est_dataset *all = est_test_finish(
            est_dataset_map(lines_of_numbers(30), square_but_sevenths, EST_MAP(.workers = 2, .bad_rows_max = 2)));
        est_iterator *rows     = est_test_iterate(all);
        char         *start    = est_test_elements(rows, all, k);
        est_tensor   *position = NULL;
        est_iterator *again;
        est_field     element = { 0 };
        est_status    status;
        int64_t       n = k;

        check(est_iterator_save(rows, &position));
        est_iterator_free(rows);
        again = est_test_iterate(all);
        check(est_iterator_restore(again, position));
        while ((status = est_iterator_next(again, &element)) == EST_OK) {
            est_element_clear(&element, 1);
            n++;
        }
        assert_int_equal(status, EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "numbers.txt:22: 21"));
        assert_int_equal(n, 19);
        assert_int_equal(est_iterator_get_stats(again).bad_rows, 2);
        est_iterator_free(again);
        est_tensor_free(position);
        est_free(start);
        est_dataset_free(all);
    }
}

TEST(allocations)
{
    est_test_allocations(make_workers, 6);
    est_test_allocations(make_bad, 12);
    est_test_allocations(make_calm, 12);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR); /* bad rows are warned about */
    return est_test_run(NULL, NULL);
}
