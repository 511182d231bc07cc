/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle: a permutation, no order likelier than another, an order that only seed and pass make, and positions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/data_test.h"
#include "support/test.h"

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

/* Reads the dataset, which is taken, as numbers; returns how many there are, at most `max`. */
static int read_numbers(est_dataset *dataset, int64_t *out, int max)
{
    est_iterator *rows;
    est_field     element = { 0 };
    int           n       = 0;

    dataset = est_test_finish(dataset);
    rows    = est_test_iterate(dataset);
    while (n < max && est_iterator_next(rows, &element) == EST_OK) {
        out[n++] = *(const int64_t *)est_tensor_data(element.values);
        est_element_clear(&element, 1);
    }
    est_iterator_free(rows);
    est_dataset_free(dataset);
    return n;
}

static void is_permutation(const int64_t *numbers, int n)
{
    bool seen[1024] = { false };

    for (int i = 0; i < n; i++) {
        assert_in_range(numbers[i], 0, n - 1);
        assert_false(seen[numbers[i]]);
        seen[numbers[i]] = true;
    }
}

TEST(permutation)
{
    static const int64_t buffers[] = { 1, 2, 7, 99, 100, 101, INT64_MAX };
    int64_t              got[101];

    for (size_t b = 0; b < sizeof buffers / sizeof buffers[0]; b++) {
        int64_t buffer = buffers[b];

        assert_int_equal(read_numbers(est_dataset_shuffle(range(100), buffer, 5), got, 101), 100);
        is_permutation(got, 100);
        for (int i = 0; i < 100; i++) {
            if (buffer == 1) assert_int_equal(got[i], i);
            if (buffer <= 100) assert_true(got[i] <= i + buffer - 1); /* it was in the buffer by then */
        }
    }
    assert_int_equal(read_numbers(est_dataset_shuffle(range(0), 10, 5), got, 101), 0);
    est_test_refused(est_dataset_shuffle(range(3), 0, 1), "a buffer of 0 elements");
    est_test_refused(est_dataset_shuffle_once(range(3), -1, 1), "a buffer of -1 elements");
}

TEST(seeds)
{
    int64_t a[200], b[200];

    read_numbers(est_dataset_shuffle(range(200), 50, 5), a, 200);
    read_numbers(est_dataset_shuffle(range(200), 50, 5), b, 200);
    assert_memory_equal(a, b, sizeof a);
    read_numbers(est_dataset_shuffle(range(200), 50, 6), b, 200);
    assert_memory_not_equal(a, b, sizeof a);
    /* drawn ones: equal with a chance of less than 1 in 50^150 */
    read_numbers(est_dataset_shuffle(range(200), 50, 0), a, 200);
    read_numbers(est_dataset_shuffle(range(200), 50, 0), b, 200);
    assert_memory_not_equal(a, b, sizeof a);
}

/* A drawn seed belongs to the dataset: its iterators agree, and a position goes on in another one. */
TEST(drawn_seed)
{
    est_dataset  *first = est_test_finish(est_dataset_shuffle(range(60), 30, 0));
    est_dataset  *other = est_test_finish(est_dataset_shuffle(range(60), 30, 0));
    est_iterator *rows  = est_test_iterate(first);
    char         *a, *b;
    est_tensor   *position;

    a = est_test_elements(rows, first, 7);
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_free(a);
    a = est_test_elements(rows, first, EST_FOREVER);
    est_iterator_free(rows);
    rows = est_test_iterate(other);
    assert_int_equal(est_iterator_restore(rows, position), EST_OK);
    b = est_test_elements(rows, other, EST_FOREVER);
    assert_string_equal(a, b);
    est_free(b);
    est_iterator_free(rows);
    rows = est_test_iterate(first);
    est_free(est_test_elements(rows, first, 7));
    b = est_test_elements(rows, first, EST_FOREVER);
    assert_string_equal(a, b);
    est_free(a);
    est_free(b);
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(first);
    est_dataset_free(other);
}

TEST(passes)
{
    int64_t got[300];

    assert_int_equal(read_numbers(est_dataset_repeat(est_dataset_shuffle(range(100), 100, 5), 3), got, 300), 300);
    for (int pass = 0; pass < 3; pass++) is_permutation(got + 100 * pass, 100);
    assert_memory_not_equal(got, got + 100, 100 * sizeof got[0]);
    assert_memory_not_equal(got + 100, got + 200, 100 * sizeof got[0]);
    assert_memory_not_equal(got, got + 200, 100 * sizeof got[0]);
    assert_int_equal(read_numbers(est_dataset_repeat(est_dataset_shuffle_once(range(100), 100, 5), 3), got, 300), 300);
    is_permutation(got, 100);
    assert_memory_equal(got, got + 100, 100 * sizeof got[0]);
    assert_memory_equal(got, got + 200, 100 * sizeof got[0]);
}

/* How often each element is in each place, in 4000 passes over 10 elements. Each of the 10 rows of the table (and each
 * of its columns) adds up to the same, so chi-square has 81 degrees of freedom: mean 81, deviation sqrt(2 * 81) = 12.7.
 * A right shuffle is above 81 + 5 * 12.7 = 145 about once in 50000 seeds, and the seed is fixed. Leaving one swap out
 * gives thousands. */
TEST(uniform)
{
    enum { N = 10, PASSES = 4000 };
    static int64_t got[N * PASSES];
    static int     count[N][N];
    double         chi2 = 0, expected = (double)PASSES / N;

    assert_int_equal(read_numbers(est_dataset_repeat(est_dataset_shuffle(range(N), N, 1234), PASSES), got, N * PASSES),
                     N * PASSES);
    for (int i = 0; i < N * PASSES; i++) count[got[i]][i % N]++;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) chi2 += (count[i][j] - expected) * (count[i][j] - expected) / expected;
    }
    if (chi2 > 145) fail_msg("chi-square %g of 81 degrees of freedom", chi2);
    if (chi2 < 81 - 5 * 12.7) fail_msg("chi-square %g of 81 degrees of freedom: too even", chi2);
}

/* All 24 orders of 4 elements are equally likely: 23 degrees of freedom, deviation sqrt(46) = 6.8. */
TEST(orders)
{
    enum { PASSES = 12000 };
    static int64_t got[4 * PASSES];
    static int     count[256];
    double         chi2 = 0, expected = PASSES / 24.0;
    int            orders = 0;

    read_numbers(est_dataset_repeat(est_dataset_shuffle(range(4), 9, 99), PASSES), got, 4 * PASSES);
    for (int i = 0; i < PASSES; i++) {
        const int64_t *p = got + 4 * i;

        count[p[0] << 6 | p[1] << 4 | p[2] << 2 | p[3]]++;
    }
    for (int i = 0; i < 256; i++) {
        if (count[i] == 0) continue;
        orders++;
        chi2 += (count[i] - expected) * (count[i] - expected) / expected;
    }
    assert_int_equal(orders, 24);
    if (chi2 > 23 + 5 * 6.8) fail_msg("chi-square %g of 23 degrees of freedom", chi2);
}

/* --- positions and allocations ------------------------------------------------------------------------------------ */

static est_dataset *make_small(void)
{
    return est_dataset_shuffle(range(11), 4, 3);
}

static est_dataset *make_large(void)
{
    return est_dataset_shuffle(range(20), 1000, 3);
}

static est_dataset *make_deep(void)
{
    est_dataset *d = est_dataset_repeat(est_dataset_shuffle(range(7), 5, 3), EST_FOREVER);

    d = est_dataset_batch(est_dataset_shuffle(d, 3, 4), 2, NULL);
    return est_dataset_take(est_dataset_enumerate(est_dataset_shuffle_once(d, 4, 5), 0), 17);
}

static est_dataset *make_twice(void)
{
    return est_dataset_repeat(est_dataset_shuffle_once(est_dataset_shuffle(range(5), 3, 3), 3, 3), 3);
}

static const est_test_make makes[] = { make_small, make_large, make_deep, make_twice };

TEST(positions)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_positions(makes[i], 21);
}

TEST(allocations)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_allocations(makes[i], 6);
}

/* Elements that go through a shuffle cost no allocation beyond what made them. */
TEST(no_allocation)
{
    est_dataset  *dataset = est_test_finish(est_dataset_shuffle(range(1000), 100, 3));
    est_dataset  *plain   = est_test_finish(range(1000));
    est_iterator *rows = est_test_iterate(dataset), *plain_rows = est_test_iterate(plain);
    est_field     element = { 0 };
    uint64_t      before, with, without;

    assert_int_equal(est_iterator_next(rows, &element), EST_OK); /* fills the buffer */
    est_element_clear(&element, 1);
    before = est_alloc_count();
    for (int i = 0; i < 500; i++) {
        assert_int_equal(est_iterator_next(rows, &element), EST_OK);
        est_element_clear(&element, 1);
    }
    with   = est_alloc_count() - before;
    before = est_alloc_count();
    for (int i = 0; i < 500; i++) {
        assert_int_equal(est_iterator_next(plain_rows, &element), EST_OK);
        est_element_clear(&element, 1);
    }
    without = est_alloc_count() - before;
    assert_int_equal(with, without);
    est_iterator_free(rows);
    est_iterator_free(plain_rows);
    est_dataset_free(dataset);
    est_dataset_free(plain);
}
