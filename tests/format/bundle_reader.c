/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading in blocks by several threads gives what one thread gives; checking without reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/file.h"
#include "format/bundle.h"
#include "format/bundle_index.h"
#include "support/dir_test.h"
#include "support/test.h"

#define ROWS 3000001 /* a little over two blocks of int32; slices start within blocks */

static char folder[64], prefix[96], data_path[160];

static int make_checkpoint(void **state)
{
    est_bundle_writer *writer;
    est_tensor        *all, *part;
    est_shape          full     = EST_SHAPE(ROWS);
    est_bundle_slice   slice[2] = { EST_BUNDLE_SLICE(0, 1000), EST_BUNDLE_SLICE(1000, ROWS - 1000) };

    (void)state;
    est_test_dir(folder);
    snprintf(prefix, sizeof prefix, "%s/c", folder);
    snprintf(data_path, sizeof data_path, "%s.data-00000-of-00001", prefix);
    assert_int_equal(est_tensor_create(EST_I32, full, &all), EST_OK);
    for (int32_t i = 0; i < ROWS; i++) ((int32_t *)est_tensor_mutable_data(all))[i] = i;
    assert_int_equal(est_bundle_writer_create(prefix, 0, &writer), EST_OK);
    assert_int_equal(est_bundle_add(writer, "whole", all), EST_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(est_tensor_rows(all, slice[i].start[0], slice[i].length[0], &part), EST_OK);
        assert_int_equal(est_bundle_add_slice(writer, "sliced", &full, &slice[i], part), EST_OK);
        est_tensor_free(part);
    }
    assert_int_equal(est_bundle_finish(writer), EST_OK);
    est_bundle_writer_free(writer);
    est_tensor_free(all);
    return 0;
}

static int remove_checkpoint(void **state)
{
    char index[160];

    (void)state;
    snprintf(index, sizeof index, "%s.index", prefix);
    unlink(index);
    unlink(data_path);
    return rmdir(folder);
}

static void expect_rows(const est_bundle *bundle, const char *name, int64_t first, int64_t n)
{
    est_bundle_slice slice = EST_BUNDLE_SLICE(first, n);
    est_tensor      *got;

    assert_int_equal(est_bundle_read(bundle, name, &slice, &got), EST_OK);
    for (int64_t i = 0; i < n; i++) assert_true(((const int32_t *)est_tensor_data(got))[i] == first + i);
    est_tensor_free(got);
}

TEST(threads)
{
    for (int threads = 0; threads <= 3; threads++) {
        est_pool   *pool = NULL;
        est_bundle *bundle;

        if (threads > 0) assert_int_equal(est_pool_create(threads, &pool), EST_OK);
        assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
        est_bundle_set_pool(bundle, pool);
        expect_rows(bundle, "whole", 0, ROWS);
        expect_rows(bundle, "sliced", 0, ROWS); /* a small piece, then a large one into the middle */
        expect_rows(bundle, "sliced", 1000, ROWS - 1000);
        expect_rows(bundle, "sliced", 999, ROWS - 2000);
        assert_int_equal(est_bundle_verify(bundle, "whole"), EST_OK);
        assert_int_equal(est_bundle_verify(bundle, "sliced"), EST_OK);
        est_bundle_close(bundle);
        est_pool_free(pool);
    }
}

static void change_byte(int64_t at)
{
    FILE *file = fopen(data_path, "r+b");
    int   c;

    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(c ^ 8, file), EOF);
    fclose(file);
}

/* One changed byte, in the first, a middle and the last block, and at their ends. */
TEST(change)
{
    static const int64_t places[] = { 0, (4 << 20) - 1, 4 << 20, 10000000, 4 * (int64_t)ROWS - 1 };
    est_bundle          *bundle;
    est_pool            *pool;

    assert_int_equal(est_pool_create(2, &pool), EST_OK);
    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    est_bundle_set_pool(bundle, pool);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        est_tensor *got = NULL;

        change_byte(places[i]);
        assert_int_equal(est_bundle_read(bundle, "whole", NULL, &got), EST_DATA_LOSS);
        assert_int_equal(est_bundle_verify(bundle, "whole"), EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), "\"whole\" at offset 0"));
        assert_int_equal(est_bundle_verify(bundle, "sliced"), EST_OK);
        assert_null(got);
        change_byte(places[i]);
    }
    est_bundle_close(bundle);
    est_pool_free(pool);
}

/* --- mapping ------------------------------------------------------------------------------------------------------ */

/* Rows of a tensor, mapped if they can be. */
static void expect_mapped(const est_bundle *bundle, const char *name, int64_t first, int64_t n, bool can_be)
{
    est_bundle_slice slice = EST_BUNDLE_SLICE(first, n);
    est_mapping      mapping;

    assert_int_equal(est_bundle_map(bundle, name, n < ROWS ? &slice : NULL, true, &mapping), EST_OK);
    assert_int_equal(mapping.pages != NULL, can_be);
    for (int64_t i = 0; i < n && can_be; i++) assert_true(((const int32_t *)mapping.data)[i] == first + i);
    est_mapping_clear(&mapping);
    assert_null(mapping.pages);
}

TEST(map)
{
    est_bundle *bundle;

    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    expect_mapped(bundle, "whole", 0, ROWS, true);
    expect_mapped(bundle, "whole", 12345, 100000, true); /* one run of it */
    expect_mapped(bundle, "whole", 5, EST_BUNDLE_MAP_MIN / 4 - 1, false);
    expect_mapped(bundle, "sliced", 0, ROWS, false); /* in two pieces */
    expect_mapped(bundle, "sliced", 999, 100000, false);
    expect_mapped(bundle, "sliced", 1000, ROWS - 1000, true);
    expect_mapped(bundle, "sliced", 2001, 100000, true);
    est_bundle_close(bundle);
}

/* What is written stays in this process. */
TEST(mapped_pages_are_private)
{
    est_bundle *bundle;
    est_mapping a, b;

    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    assert_int_equal(est_bundle_map(bundle, "whole", NULL, true, &a), EST_OK);
    assert_int_equal(est_bundle_map(bundle, "whole", NULL, true, &b), EST_OK);
    ((int32_t *)a.data)[7] = -1;
    assert_int_equal(((const int32_t *)b.data)[7], 7);
    est_mapping_clear(&a);
    assert_int_equal(est_bundle_verify(bundle, "whole"), EST_OK);
    est_mapping_clear(&b);
    est_bundle_close(bundle);
}

TEST(damage_is_found_when_it_is_mapped_unless_told_otherwise)
{
    est_bundle *bundle;
    est_mapping mapping;

    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    change_byte(10000000);
    assert_int_equal(est_bundle_map(bundle, "whole", NULL, true, &mapping), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "\"whole\" at offset 0: wrong checksum"));
    assert_null(mapping.pages);
    assert_int_equal(est_bundle_map(bundle, "whole", NULL, false, &mapping), EST_OK);
    assert_int_equal(((const int32_t *)mapping.data)[2500000], 2500000 ^ 8);
    est_mapping_clear(&mapping);
    change_byte(10000000);
    est_bundle_close(bundle);
}

TEST(every_failure_to_map_is_an_error)
{
    est_bundle *bundle;
    bool        fired = true;

    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    for (int64_t n = 1; fired; n++) {
        est_mapping mapping;
        est_status  status;

        est_fault_arm(n);
        status = est_bundle_map(bundle, "whole", NULL, true, &mapping);
        fired  = est_fault_fired();
        assert_int_equal(status != EST_OK, fired);
        assert_int_equal(mapping.pages == NULL, fired);
        est_mapping_clear(&mapping);
    }
    est_fault_arm(0);
    est_bundle_close(bundle);
}

/* Behind 3 bytes: packed at an odd offset, or aligned as memory of its own is. */
TEST(numbers_are_mapped_where_they_are_aligned)
{
    static const uint8_t bytes[3] = { 1, 2, 3 };
    est_bundle_writer   *writer;
    est_tensor          *small, *large;
    char                 path[160], file[200];

    snprintf(path, sizeof path, "%s/odd", folder);
    assert_int_equal(est_tensor_create_from(EST_U8, EST_SHAPE(3), bytes, &small), EST_OK);
    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE(100000), &large), EST_OK);
    for (int i = 0; i < 2; i++) {
        est_bundle *bundle;
        est_mapping mapping;

        assert_int_equal(est_bundle_writer_create(path, i * EST_BUNDLE_ALIGNMENT, &writer), EST_OK);
        assert_int_equal(est_bundle_add(writer, "a", small), EST_OK);
        assert_int_equal(est_bundle_add(writer, "b", large), EST_OK);
        assert_int_equal(est_bundle_finish(writer), EST_OK);
        est_bundle_writer_free(writer);
        assert_int_equal(est_bundle_open(path, &bundle), EST_OK);
        assert_int_equal(est_bundle_map(bundle, "b", NULL, true, &mapping), EST_OK);
        assert_int_equal(mapping.pages != NULL, i == 1);
        assert_int_equal((uintptr_t)mapping.data % EST_BUNDLE_ALIGNMENT, 0);
        est_mapping_clear(&mapping);
        est_bundle_close(bundle);
    }
    est_tensor_free(small);
    est_tensor_free(large);
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s%s", path,
                 (const char *const[]){ ".index", ".data-00000-of-00001", ".data-00000-of-00002" }[i]);
        assert_int_equal(est_file_remove(file), EST_OK);
    }
}

TEST(check_files)
{
    est_bundle *bundle;
    char        moved[200];

    snprintf(moved, sizeof moved, "%s.moved", data_path);
    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    assert_int_equal(est_bundle_check_files(bundle), EST_OK);
    assert_int_equal(rename(data_path, moved), 0);
    assert_int_equal(est_bundle_check_files(bundle), EST_NOT_FOUND);
    assert_int_equal(est_bundle_verify(bundle, "whole"), EST_NOT_FOUND);
    assert_int_equal(rename(moved, data_path), 0);
    assert_int_equal(est_bundle_verify(bundle, "nobody"), EST_NOT_FOUND);
    assert_int_equal(truncate(data_path, 8 * (off_t)ROWS - 1), 0); /* the last test */
    assert_int_equal(est_bundle_check_files(bundle), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "\"sliced\""));
    assert_int_equal(est_bundle_verify(bundle, "whole"), EST_OK);
    for (int verify = 0; verify < 2; verify++) {
        est_bundle_slice slice = EST_BUNDLE_SLICE(1000, ROWS - 1000);
        est_mapping      mapping;

        assert_int_equal(est_bundle_map(bundle, "sliced", &slice, verify == 1, &mapping), EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), "the file ends before it does"));
    }
    est_bundle_close(bundle);
}

/* --- indexes made by hand ----------------------------------------------------------------------------------------- */

typedef struct handmade {
    char             prefix[96], index_path[128], data_path[128];
    est_bundle_index index;
} handmade;

static handmade handmade_begin(const void *data, size_t size)
{
    handmade h = { 0 };

    snprintf(h.prefix, sizeof h.prefix, "%s/h", folder);
    snprintf(h.index_path, sizeof h.index_path, "%s.index", h.prefix);
    snprintf(h.data_path, sizeof h.data_path, "%s.data-00000-of-00001", h.prefix);
    assert_int_equal(est_file_replace(h.data_path, data, size), EST_OK);
    return h;
}

static void handmade_add(handmade *h, const char *name, const est_bundle_entry *entry)
{
    assert_int_equal(est_bundle_index_add(&h->index, (est_str){ name, strlen(name) }, entry, NULL), EST_OK);
}

static est_bundle *handmade_open(handmade *h)
{
    est_bundle *bundle;

    assert_int_equal(est_bundle_index_save(&h->index, 1, h->index_path), EST_OK);
    assert_int_equal(est_bundle_open(h->prefix, &bundle), EST_OK);
    return bundle;
}

static void handmade_end(handmade *h, est_bundle *bundle)
{
    est_bundle_close(bundle);
    est_bundle_index_clear(&h->index);
    unlink(h->index_path);
    unlink(h->data_path);
}

/* Right checksums, but bytes that are no bool, and sizes that do not fit the shape. */
TEST(wrong_values)
{
    static const uint8_t bytes[8] = { 0, 1, 2 };
    handmade             h        = handmade_begin(bytes, sizeof bytes);
    est_bundle_entry     entry    = { .name = "bools", .dtype = EST_BOOL, .shape = EST_SHAPE(3), .size = 3 };
    est_bundle          *bundle;
    est_tensor          *got = NULL;

    entry.crc = est_crc32c_mask(est_crc32c_extend(0, bytes, 3));
    handmade_add(&h, "bools", &entry);
    entry     = (est_bundle_entry){ .name = "long", .dtype = EST_F32, .shape = EST_SHAPE(1), .size = 8 };
    entry.crc = est_crc32c_mask(est_crc32c_extend(0, bytes, 8));
    handmade_add(&h, "long", &entry);
    entry.name  = "short";
    entry.shape = EST_SHAPE(3);
    handmade_add(&h, "short", &entry);
    bundle = handmade_open(&h);
    assert_int_equal(est_bundle_read(bundle, "bools", NULL, &got), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "element 2 of \"bools\" is 2"));
    assert_int_equal(est_bundle_verify(bundle, "bools"), EST_DATA_LOSS);
    assert_int_equal(est_bundle_read(bundle, "long", NULL, &got), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "\"long\" has 8 bytes"));
    assert_int_equal(est_bundle_verify(bundle, "long"), EST_DATA_LOSS);
    assert_int_equal(est_bundle_read(bundle, "short", NULL, &got), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "\"short\" has 8 bytes"));
    assert_null(got);
    handmade_end(&h, bundle);
}

/* A tensor of n x 4 bytes in n slices, all on the same data. Returns the seconds of the processor to read it. */
static double read_slices(int n, est_status want)
{
    static const uint8_t bytes[4] = { 1, 2, 3, 4 };
    handmade             h        = handmade_begin(bytes, sizeof bytes);
    est_bundle_entry     piece    = { .name = "a", .dtype = EST_U8, .shape = EST_SHAPE(4, 1), .size = 4 };
    est_strbuf           key      = { 0 };
    est_tensor          *got      = NULL;
    est_bundle          *bundle;
    clock_t              start;

    piece.crc = est_crc32c_mask(est_crc32c_extend(0, bytes, 4));
    for (int i = 0; i < n; i++) {
        est_bundle_slice slice = EST_BUNDLE_SLICE(0, -1, i, 1);
        est_bundle_entry full  = {
             .name = "a", .dtype = EST_U8, .shape = EST_SHAPE(4, n), .slices = &slice, .n_slices = 1
        };

        if (want != EST_OK && i == n - 1)
            slice = EST_BUNDLE_SLICE(0, 4, n / 2, 1); /* spelt otherwise: it is there twice */
        est_strbuf_reset(&key);
        est_bundle_slice_key(&key, "a", &slice);
        assert_int_equal(est_bundle_index_add_slices(&h.index, &full), EST_OK);
        assert_int_equal(est_bundle_index_add(&h.index, (est_str){ key.data, key.size }, &piece, NULL), EST_OK);
    }
    bundle = handmade_open(&h);
    start  = clock();
    assert_int_equal(est_bundle_read(bundle, "a", NULL, &got), want);
    start = clock() - start;
    for (int i = 0; got != NULL && i < 4 * n; i++)
        assert_int_equal(((const uint8_t *)est_tensor_data(got))[i], 1 + i / n);
    est_tensor_free(got);
    est_strbuf_clear(&key);
    handmade_end(&h, bundle);
    return (double)start / CLOCKS_PER_SEC;
}

/* Four times the slices take about four times as long: not every one is compared with every other. */
TEST(many_slices)
{
    assert_true(read_slices(40000, EST_OK) < 9 * read_slices(10000, EST_OK));
    read_slices(1000, EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "overlap"));
}

int main(void)
{
    return est_test_run(make_checkpoint, remove_checkpoint);
}
