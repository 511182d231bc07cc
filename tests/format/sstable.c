/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted string tables: known bytes, round trips over many blocks, and every cut and flipped byte noticed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "format/sstable.h"
#include "support/fault_loop.h"
#include "support/test.h"

static est_str str(const char *text)
{
    return (est_str){ text, strlen(text) };
}

/* The index of a checkpoint with b float[3], global_step, names string[3] and w float[2,3], as LevelDB reads it. */
static const unsigned char golden[198] = {
    0x00, 0x00, 0x06, 0x08, 0x01, 0x1a, 0x02, 0x08, 0x01, 0x00, 0x01, 0x0f, 0x62, 0x08, 0x01, 0x12, 0x04, 0x12,
    0x02, 0x08, 0x03, 0x28, 0x0c, 0x35, 0x73, 0x5b, 0x89, 0x71, 0x00, 0x0b, 0x0d, 0x67, 0x6c, 0x6f, 0x62, 0x61,
    0x6c, 0x5f, 0x73, 0x74, 0x65, 0x70, 0x08, 0x09, 0x12, 0x00, 0x20, 0x0c, 0x28, 0x08, 0x35, 0xbb, 0xd7, 0x9f,
    0x11, 0x00, 0x05, 0x11, 0x6e, 0x61, 0x6d, 0x65, 0x73, 0x08, 0x07, 0x12, 0x04, 0x12, 0x02, 0x08, 0x03, 0x20,
    0x14, 0x28, 0x0c, 0x35, 0x10, 0xad, 0xc4, 0x3f, 0x00, 0x01, 0x15, 0x77, 0x08, 0x01, 0x12, 0x08, 0x12, 0x02,
    0x08, 0x02, 0x12, 0x02, 0x08, 0x03, 0x20, 0x20, 0x28, 0x18, 0x35, 0x7a, 0xeb, 0xf5, 0xab, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x5d, 0x18, 0xe9, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
    0x00, 0xc0, 0xf2, 0xa1, 0xb0, 0x00, 0x01, 0x02, 0x78, 0x00, 0x71, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
    0x00, 0x00, 0xa9, 0xdf, 0x38, 0xaa, 0x76, 0x08, 0x83, 0x01, 0x0e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb,
};

static const est_str golden_keys[5]   = { { "", 0 }, { "b", 1 }, { "global_step", 11 }, { "names", 5 }, { "w", 1 } };
static const est_str golden_values[5] = {
    { "\x08\x01\x1a\x02\x08\x01", 6 },
    { "\x08\x01\x12\x04\x12\x02\x08\x03\x28\x0c\x35\x73\x5b\x89\x71", 15 },
    { "\x08\x09\x12\x00\x20\x0c\x28\x08\x35\xbb\xd7\x9f\x11", 13 },
    { "\x08\x07\x12\x04\x12\x02\x08\x03\x20\x14\x28\x0c\x35\x10\xad\xc4\x3f", 17 },
    { "\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x20\x20\x28\x18\x35\x7a\xeb\xf5\xab", 21 },
};

/* Walks the table and compares with what is wanted. EST_OK only when all of it was there and right. */
static est_status walk(est_str table, const est_str *keys, const est_str *values, int n)
{
    est_sstable_cursor cursor;
    est_str            key, value;
    bool               found  = true;
    int                i      = 0;
    est_status         status = est_sstable_cursor_init(&cursor, "test.index", table);

    while (status == EST_OK) {
        status = est_sstable_cursor_next(&cursor, &found, &key, &value);
        if (status != EST_OK || !found) break;
        assert_true(i < n);
        assert_int_equal(key.size, keys[i].size);
        assert_memory_equal(key.data, keys[i].data, key.size);
        assert_int_equal(value.size, values[i].size);
        assert_memory_equal(value.data, values[i].data, value.size);
        i++;
    }
    if (status == EST_OK) assert_int_equal(i, n);
    est_sstable_cursor_clear(&cursor);
    return status;
}

TEST(known_bytes)
{
    est_sstable_builder builder;
    est_str             bytes;

    est_sstable_builder_init(&builder, 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(est_sstable_builder_add(&builder, golden_keys[i], golden_values[i]), EST_OK);
    }
    assert_int_equal(est_sstable_builder_finish(&builder, &bytes), EST_OK);
    assert_int_equal(bytes.size, sizeof golden);
    assert_memory_equal(bytes.data, golden, sizeof golden);
    est_sstable_builder_clear(&builder);

    assert_int_equal(walk((est_str){ (const char *)golden, sizeof golden }, golden_keys, golden_values, 5), EST_OK);
}

TEST(empty)
{
    est_sstable_builder builder;
    est_str             bytes;

    est_sstable_builder_init(&builder, 0);
    assert_int_equal(est_sstable_builder_finish(&builder, &bytes), EST_OK);
    assert_int_equal(walk(bytes, NULL, NULL, 0), EST_OK);
    est_sstable_builder_clear(&builder);
}

/* Long keys that share much, bytes above 0x7f, empty values, blocks of a few entries. */
TEST(many_blocks)
{
    enum { N = 3000 };
    est_str            *keys = calloc(N, sizeof *keys), *values = calloc(N, sizeof *values);
    est_sstable_builder builder;
    est_str             bytes;
    const size_t        block_sizes[] = { 1, 100, 4096, 0 };

    for (int i = 0; i < N; i++) {
        char text[80];
        int  n    = snprintf(text, sizeof text, "%s/layer_%04d/kernel", i < N / 2 ? "dnn" : "\xff\xfe", i);
        keys[i]   = (est_str){ strdup(text), (size_t)n };
        n         = snprintf(text, sizeof text, "%*d", i % 60, i);
        values[i] = (est_str){ strdup(text), i % 7 == 0 ? 0 : (size_t)n };
    }
    for (size_t b = 0; b < sizeof block_sizes / sizeof *block_sizes; b++) {
        est_sstable_builder_init(&builder, block_sizes[b]);
        for (int i = 0; i < N; i++) assert_int_equal(est_sstable_builder_add(&builder, keys[i], values[i]), EST_OK);
        assert_int_equal(est_sstable_builder_finish(&builder, &bytes), EST_OK);
        assert_int_equal(walk(bytes, keys, values, N), EST_OK);
        est_sstable_builder_clear(&builder);
    }
    for (int i = 0; i < N; i++) {
        free((void *)(uintptr_t)keys[i].data);
        free((void *)(uintptr_t)values[i].data);
    }
    free(keys);
    free(values);
}

TEST(order_is_checked)
{
    est_sstable_builder builder;

    est_sstable_builder_init(&builder, 1); /* across blocks too */
    assert_int_equal(est_sstable_builder_add(&builder, str("b"), str("1")), EST_OK);
    assert_int_equal(est_sstable_builder_add(&builder, str("a"), str("2")), EST_INVALID_ARGUMENT);
    assert_int_equal(est_sstable_builder_add(&builder, str("b"), str("2")), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"b\" comes after \"b\""));
    assert_int_equal(est_sstable_builder_add(&builder, str("ba"), str("2")), EST_OK);
    est_sstable_builder_clear(&builder);
}

/* A table whose blocks hold one entry each, so that all kinds of bytes are met. */
TEST(every_cut_and_flip)
{
    const size_t block_sizes[] = { 0, 1 };

    for (size_t b = 0; b < 2; b++) {
        est_sstable_builder builder;
        est_str             bytes;
        int                 n_same = 0;

        est_sstable_builder_init(&builder, block_sizes[b]);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(est_sstable_builder_add(&builder, golden_keys[i], golden_values[i]), EST_OK);
        }
        assert_int_equal(est_sstable_builder_finish(&builder, &bytes), EST_OK);
        for (size_t n = 0; n < bytes.size; n++) {
            char *copy = malloc(bytes.size); /* of its own size, so that the sanitizer sees a read past the cut */

            memcpy(copy, bytes.data, n);
            copy = realloc(copy, n > 0 ? n : 1);
            assert_int_equal(walk((est_str){ copy, n }, golden_keys, golden_values, 5), EST_DATA_LOSS);
            free(copy);
        }
        for (size_t bit = 0; bit < 8 * bytes.size; bit++) {
            char      *copy = malloc(bytes.size);
            est_status status;

            memcpy(copy, bytes.data, bytes.size);
            copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
            status        = walk((est_str){ copy, bytes.size }, golden_keys, golden_values, 5);
            if (status == EST_OK) {
                n_same++; /* 0e written as 8e 00: walk() saw the same entries */
            } else {
                assert_int_equal(status, EST_DATA_LOSS);
            }
            free(copy);
        }
        assert_true(n_same <= 1);
        est_sstable_builder_clear(&builder);
    }
}

TEST(snappy_is_refused)
{
    char     copy[sizeof golden];
    uint32_t crc;

    memcpy(copy, golden, sizeof golden);
    copy[0x71] = 1; /* the type of the data block, and a checksum to match */
    crc        = est_crc32c_mask(est_crc32c(copy, 0x72));
    for (int i = 0; i < 4; i++) copy[0x72 + i] = (char)(crc >> 8 * i);
    assert_int_equal(walk((est_str){ copy, sizeof copy }, golden_keys, golden_values, 5), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "snappy"));
    assert_non_null(strstr(est_error_message(), "test.index"));
}

TEST(memory_failures)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_sstable_builder builder;
        est_str             bytes;
        est_status          status = EST_OK;

        fault_arm(&f);
        est_sstable_builder_init(&builder, 20);
        for (int i = 0; i < 5 && status == EST_OK; i++) {
            status = est_sstable_builder_add(&builder, golden_keys[i], golden_values[i]);
        }
        if (status == EST_OK) status = est_sstable_builder_finish(&builder, &bytes);
        if (status == EST_OK) status = walk(bytes, golden_keys, golden_values, 5);
        est_sstable_builder_clear(&builder);
        fault_check(&f, status);
    }
}
