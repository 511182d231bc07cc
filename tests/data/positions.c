/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions that were damaged: any flipped bit and any cut of the position of a chain with every kind of state is refused
 * or goes on with something, and never harms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "support/data_test.h"

static const est_component components[] = {
    { .name = "word", .dtype = EST_STRING, .shape = { 1, { -1 } } },
    { .name = "number", .dtype = EST_I64, .shape = { 1, { -1 } } },
};

static est_status make_row(int64_t row, int i, est_tensor **out)
{
    static const est_str words[] = { { "a", 1 }, { "bc", 2 }, { "", 0 } };

    if (i == 0) return est_tensor_create_from(EST_STRING, EST_SHAPE(row % 4), words, out);
    return est_tensor_i64(EST_SHAPE(row % 4), (const int64_t[]){ row, -row, 0 }, out);
}

static est_dataset *rows_of(int64_t n, const char *path)
{
    return est_test_rows(components, 2, n, make_row, path);
}

static est_dataset *make_ragged(void)
{
    return est_dataset_unbatch(
        est_dataset_unbatch(est_dataset_batch(rows_of(6, "rows.csv"), 4, EST_BATCH(.rows = EST_ROWS_RAGGED))));
}

static est_dataset *make_deep(void)
{
    est_dataset *d = est_dataset_concatenate(rows_of(3, "a.csv"), est_dataset_skip(rows_of(5, "b.csv"), 2));

    d = est_dataset_repeat(est_dataset_shuffle(est_dataset_unbatch(est_dataset_cache(d, NULL)), 2, 7), EST_FOREVER);
    d = est_dataset_zip(est_dataset_shard(d, 2, 1), est_dataset_repeat(est_dataset_range(0, 5, 1), EST_FOREVER));
    return est_dataset_take(est_dataset_shuffle(est_dataset_batch(est_dataset_enumerate(d, 0), 2, NULL), 2, 8), 14);
}

/* The position of the dataset after a few elements, the caller's. */
static est_tensor *position_of(est_dataset *dataset, int64_t after)
{
    est_iterator *rows = est_test_iterate(dataset);
    est_tensor   *position;

    est_free(est_test_elements(rows, dataset, after));
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    return position;
}

static void try_position(est_dataset *dataset, const void *bytes, int64_t n)
{
    est_iterator *rows       = est_test_iterate(dataset);
    est_field     element[4] = { 0 };
    est_tensor   *position;

    assert_int_equal(est_tensor_create_from(EST_U8, EST_SHAPE(n), bytes, &position), EST_OK);
    if (est_iterator_restore(rows, position) == EST_OK) {
        for (int k = 0; k < 3 && est_iterator_next(rows, element) == EST_OK; k++) est_element_clear(element, 4);
    }
    est_iterator_free(rows);
    est_tensor_free(position);
}

static void check_damage(est_test_make make, int64_t after)
{
    est_dataset *dataset  = est_test_finish(make());
    est_tensor  *position = position_of(dataset, after);
    uint8_t     *bytes    = est_tensor_data(position);
    int64_t      n        = est_tensor_count(position);

    for (int64_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            try_position(dataset, bytes, n);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
        try_position(dataset, bytes, i);
    }
    est_tensor_free(position);
    est_dataset_free(dataset);
}

static void test_damage(void **state)
{
    (void)state;
    check_damage(make_ragged, 2);
    check_damage(make_deep, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_damage) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
