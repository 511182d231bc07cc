/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading in blocks by several threads gives what one thread gives; checking without reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "format/bundle.h"

#define ROWS 3000001 /* a little over two blocks of int32; slices start within blocks */

static char folder[64], prefix[96], data_path[160];

static int make_checkpoint(void **state)
{
    est_bundle_writer *writer;
    est_tensor        *all, *part;
    est_shape          full     = EST_SHAPE(ROWS);
    est_bundle_slice   slice[2] = { EST_BUNDLE_SLICE(0, 1000), EST_BUNDLE_SLICE(1000, ROWS - 1000) };

    (void)state;
    snprintf(folder, sizeof folder, "%s/est-reader-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(prefix, sizeof prefix, "%s/c", folder);
    snprintf(data_path, sizeof data_path, "%s.data-00000-of-00001", prefix);
    assert_int_equal(est_tensor_create(EST_I32, full, &all), EST_OK);
    for (int32_t i = 0; i < ROWS; i++) ((int32_t *)est_tensor_data(all))[i] = i;
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

static void test_threads(void **state)
{
    (void)state;
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
static void test_change(void **state)
{
    static const int64_t places[] = { 0, (4 << 20) - 1, 4 << 20, 10000000, 4 * (int64_t)ROWS - 1 };
    est_bundle          *bundle;
    est_pool            *pool;

    (void)state;
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

static void test_check_files(void **state)
{
    est_bundle *bundle;
    char        moved[200];

    (void)state;
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
    est_bundle_close(bundle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_change),
        cmocka_unit_test(test_check_files),
    };

    return cmocka_run_group_tests(tests, make_checkpoint, remove_checkpoint);
}
