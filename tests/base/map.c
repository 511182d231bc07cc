/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash maps against a plain model of the same operations, order of walking, reuse without allocation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/map.h"
#include "base/random.h"
#include "support/fault_loop.h"
#include "support/test.h"

static int values[5000];

static const char *name_of(int i)
{
    static char name[32];

    snprintf(name, sizeof name, "layer_%d/kernel", i);
    return name;
}

TEST(empty_map)
{
    est_map     map = { 0 };
    uint32_t    at  = 0;
    const char *key;
    void       *value;

    assert_null(est_map_get(&map, "x"));
    assert_null(est_map_remove(&map, "x"));
    assert_false(est_map_next(&map, &at, &key, &value));
    est_map_clear(&map);
}

TEST(put_and_get)
{
    est_map     map = { 0 };
    uint32_t    at  = 0;
    const char *key;
    void       *value;
    int         n = 0;

    for (int i = 0; i < 5000; i++) assert_int_equal(est_map_put(&map, name_of(i), &values[i]), EST_OK);
    assert_int_equal(map.n, 5000);
    for (int i = 0; i < 5000; i++) assert_ptr_equal(est_map_get(&map, name_of(i)), &values[i]);
    assert_null(est_map_get(&map, "layer_5000/kernel"));
    assert_null(est_map_get(&map, ""));

    assert_int_equal(est_map_put(&map, name_of(7), &values[0]), EST_OK); /* a new value, the same place */
    assert_int_equal(map.n, 5000);
    while (est_map_next(&map, &at, &key, &value)) {
        assert_string_equal(key, name_of(n));
        assert_ptr_equal(value, &values[n == 7 ? 0 : n]);
        n++;
    }
    assert_int_equal(n, 5000);
    est_map_clear(&map);
    assert_null(est_map_get(&map, name_of(1)));
}

TEST(keys_are_bytes)
{
    est_map map = { 0 };

    assert_int_equal(est_map_put_bytes(&map, "a\0b", 3, &values[1]), EST_OK);
    assert_int_equal(est_map_put_bytes(&map, "a\0c", 3, &values[2]), EST_OK);
    assert_int_equal(est_map_put_bytes(&map, NULL, 0, &values[3]), EST_OK);
    assert_ptr_equal(est_map_get_bytes(&map, "a\0b", 3), &values[1]);
    assert_ptr_equal(est_map_get_bytes(&map, "a\0c", 3), &values[2]);
    assert_ptr_equal(est_map_get(&map, ""), &values[3]);
    assert_null(est_map_get(&map, "a"));
    est_map_clear(&map);
}

/* Random puts and removes against an array that says what should be there. */
TEST(against_a_model)
{
    est_map    map        = { 0 };
    void      *model[300] = { NULL };
    est_random random     = { .key = 4 };
    uint32_t   n          = 0;

    for (int step = 0; step < 60000; step++) {
        uint32_t words[2];
        int      i;

        est_random_fill_u32(&random, 2 * step, 2, words);
        i = (int)(words[0] % 300);
        if (words[1] % 3 != 0) {
            n += model[i] == NULL;
            model[i] = &values[words[1] % 5000];
            assert_int_equal(est_map_put(&map, name_of(i), model[i]), EST_OK);
        } else {
            assert_ptr_equal(est_map_remove(&map, name_of(i)), model[i]);
            n -= model[i] != NULL;
            model[i] = NULL;
        }
        assert_int_equal(map.n, n);
        i = (int)(words[0] / 300 % 300);
        assert_ptr_equal(est_map_get(&map, name_of(i)), model[i]);
    }
    assert_true(map.n_slots <= 1024); /* removed entries do not pile up */
    est_map_clear(&map);
}

TEST(removing_while_walking)
{
    est_map     map = { 0 };
    uint32_t    at  = 0;
    const char *key;
    void       *value;
    int         seen = 0;

    for (int i = 0; i < 100; i++) assert_int_equal(est_map_put(&map, name_of(i), &values[i]), EST_OK);
    while (est_map_next(&map, &at, &key, &value)) {
        char copy[32];

        snprintf(copy, sizeof copy, "%s", key);
        if (seen++ % 2 == 0) assert_ptr_equal(est_map_remove(&map, copy), value);
    }
    assert_int_equal(seen, 100);
    assert_int_equal(map.n, 50);
    for (int i = 0; i < 100; i++) assert_int_equal(est_map_get(&map, name_of(i)) != NULL, i % 2);
    est_map_clear(&map);
}

TEST(memory_out)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_map map    = { 0 };
        int     put    = 0;
        int     failed = 0;

        fault_arm(&f);
        for (int i = 0; i < 40; i++) {
            if (est_map_put(&map, name_of(i), &values[i]) == EST_OK) {
                put++;
            } else {
                failed++;
                assert_null(est_map_get(&map, name_of(i)));
            }
        }
        assert_int_equal(map.n, put);
        est_map_clear(&map);
        assert_int_equal(failed, fault_end(&f) ? 1 : 0);
    }
}

/* --- integers ----------------------------------------------------------------------------------------------------- */

/* What a sparse gradient does: number the distinct rows in order of appearance. */
TEST(numbering_rows)
{
    static const int64_t rows[] = { 5, 9, 5, -1, INT64_MAX, 9, INT64_MIN, 0, 0, 5 };
    static const int64_t want[] = { 0, 1, 0, 2, 3, 1, 4, 5, 5, 0 };
    est_i64_map          map    = { 0 };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t slot = est_i64_map_find_or_insert(&map, rows[i], map.n);

        assert_true(slot >= 0);
        assert_int_equal(map.slots[slot].value, want[i]);
    }
    assert_int_equal(map.n, 6);
    assert_int_equal(est_i64_map_find(&map, 1), -1);
    assert_true(est_i64_map_find(&map, INT64_MIN) >= 0);
    est_i64_map_clear(&map);
    assert_int_equal(est_i64_map_find(&map, 5), -1);
}

TEST(many_integers)
{
    est_i64_map map = { 0 };

    for (int64_t stride = 1; stride < INT64_C(1) << 45; stride <<= 11) { /* also keys that share low zero bits */
        est_i64_map_reset(&map);
        for (int64_t i = 0; i < 20000; i++) assert_true(est_i64_map_find_or_insert(&map, i * stride, ~i) >= 0);
        assert_int_equal(map.n, 20000);
        for (int64_t i = 0; i < 20000; i++) {
            int64_t slot = est_i64_map_find(&map, i * stride);

            assert_true(slot >= 0);
            assert_int_equal(map.slots[slot].value, ~i);
        }
        assert_int_equal(est_i64_map_find(&map, -stride), -1);
    }
    est_i64_map_clear(&map);
}

TEST(reuse_without_allocation)
{
    est_i64_map map = { 0 };
    uint64_t    before;

    assert_int_equal(est_i64_map_reserve(&map, 1000), EST_OK);
    before = est_alloc_count();
    for (int round = 0; round < 500; round++) {
        est_i64_map_reset(&map);
        assert_int_equal(map.n, 0);
        for (int64_t i = 0; i < 1000; i++) {
            int64_t key = i * 7 + round;

            assert_int_equal(est_i64_map_find(&map, key), -1);
            assert_int_equal(map.slots[est_i64_map_find_or_insert(&map, key, i)].value, i);
            assert_int_equal(map.slots[est_i64_map_find_or_insert(&map, key, -1)].value, i);
        }
    }
    assert_int_equal(est_alloc_count(), before);
    est_i64_map_clear(&map);
}

TEST(integers_memory_out)
{
    est_i64_map map = { 0 };

    est_fault_arm_alloc(1);
    assert_int_equal(est_i64_map_find_or_insert(&map, 1, 1), -1);
    assert_int_equal(map.n, 0);
    for (int64_t i = 0; i < 12; i++) assert_true(est_i64_map_find_or_insert(&map, i, i) >= 0); /* full now */
    est_fault_arm_alloc(1);
    assert_true(est_i64_map_find_or_insert(&map, 3, 0) >= 0); /* is there: needs no memory */
    assert_int_equal(est_i64_map_find_or_insert(&map, 100, 0), -1);
    assert_true(est_fault_fired());
    for (int64_t i = 0; i < 12; i++) assert_int_equal(map.slots[est_i64_map_find(&map, i)].value, i);
    assert_int_equal(est_i64_map_reserve(&map, INT64_MAX), EST_RESOURCE_EXHAUSTED);
    est_i64_map_clear(&map);
    est_fault_arm_alloc(0);
}
