/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing over a checkpoint of the same name: the old one or the new one is there at every moment (B3). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "format/bundle.h"
#include "format/bundle_index.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

/* Stands in for the C library's, to count. */
static int n_removals;

int unlink(const char *path)
{
    n_removals++;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int fd, const char *path, int flags)
{
    n_removals++;
    return (int)syscall(SYS_unlinkat, fd, path, flags);
}

static char folder[64], prefix[96];

static int make_folder(void **state)
{
    (void)state;
    est_test_dir(folder);
    snprintf(prefix, sizeof prefix, "%s/c", folder);
    return 0;
}

/* Whether the folder has the file; removes it when told to. */
static bool has(const char *suffix, bool take)
{
    char path[160];
    bool there;

    snprintf(path, sizeof path, "%s%s", prefix, suffix);
    there = est_file_exists(path);
    if (take) unlink(path);
    return there;
}

static void remove_files(void)
{
    has(".index", true);
    has(".data-00000-of-00001", true);
    has(".data-00000-of-00002", true);
}

static int remove_folder(void **state)
{
    int left = rmdir(folder); /* fails when a test left a file */

    (void)state;
    remove_files();
    if (left != 0) (void)rmdir(folder);
    return left;
}

static est_status write_value(float value)
{
    est_bundle_writer *writer = NULL;
    est_tensor        *tensor = NULL;
    est_status         status = est_tensor_f32(EST_SHAPE(1), &value, &tensor);

    if (status == EST_OK) status = est_bundle_writer_create(prefix, 0, &writer);
    if (status == EST_OK) status = est_bundle_add(writer, "v", tensor);
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_bundle_writer_free(writer);
    est_tensor_free(tensor);
    return status;
}

static float read_value(void)
{
    est_bundle *bundle;
    est_tensor *tensor;
    float       value;

    assert_int_equal(est_bundle_open(prefix, &bundle), EST_OK);
    assert_int_equal(est_bundle_read(bundle, "v", NULL, &tensor), EST_OK);
    value = *(const float *)est_tensor_data(tensor);
    est_tensor_free(tensor);
    est_bundle_close(bundle);
    return value;
}

TEST(names)
{
    for (int i = 0; i < 4; i++) {
        assert_int_equal(write_value((float)i), EST_OK);
        assert_true(read_value() == (float)i);
        assert_int_equal(has(".data-00000-of-00001", false), i % 2 == 0);
        assert_int_equal(has(".data-00000-of-00002", false), i % 2 == 1);
    }
    remove_files();
}

/* Four data files of a merge give way to one. */
TEST(over_a_merged_one)
{
    const char *const parts[2] = { "a", "b" };
    char              paths[2][128];

    for (int i = 0; i < 2; i++) {
        est_bundle_writer *writer;
        est_tensor        *tensor;

        snprintf(paths[i], sizeof paths[i], "%s-%s", prefix, parts[i]);
        assert_int_equal(est_tensor_f32(EST_SHAPE(1), &(float){ 1 }, &tensor), EST_OK);
        assert_int_equal(est_bundle_writer_create(paths[i], 0, &writer), EST_OK);
        assert_int_equal(est_bundle_add(writer, parts[i], tensor), EST_OK);
        assert_int_equal(est_bundle_finish(writer), EST_OK);
        est_bundle_writer_free(writer);
        est_tensor_free(tensor);
    }
    assert_int_equal(est_bundle_merge((const char *const[]){ paths[0], paths[1] }, 2, prefix), EST_OK);
    assert_true(has(".data-00001-of-00002", false));
    assert_int_equal(write_value(5), EST_OK);
    assert_true(read_value() == 5);
    assert_false(has(".data-00001-of-00002", false));
    assert_false(has(".data-00000-of-00002", false));
    remove_files();
}

/* A header may say any number of data files: only those that are there are removed, and no others. */
TEST(over_many_shards)
{
    est_bundle_index index = { 0 };
    est_bundle_entry entry = { .name = "v", .dtype = EST_F32, .shape = EST_SHAPE(0) };
    char             path[128];

    snprintf(path, sizeof path, "%s.index", prefix);
    assert_int_equal(est_bundle_index_add(&index, (est_str){ "v", 1 }, &entry, NULL), EST_OK);
    assert_int_equal(est_bundle_index_save(&index, 20000, path), EST_OK);
    est_bundle_index_clear(&index);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { ".data-00007-of-20000", ".data-00007-of-20001", "-1.data-00007-of-20000" };

        snprintf(path, sizeof path, "%s%s", prefix, names[i]);
        assert_int_equal(est_file_replace(path, "", 0), EST_OK);
    }
    n_removals = 0;
    assert_int_equal(write_value(5), EST_OK);
    assert_true(n_removals < 5);
    assert_true(read_value() == 5);
    assert_false(has(".data-00007-of-20000", true));
    assert_true(has(".data-00007-of-20001", true));
    assert_true(has("-1.data-00007-of-20000", true));
    remove_files();
}

/* An old index that cannot be read now may be a good one: it is not saved over. A damaged one is. */
TEST(over_an_unreadable_one)
{
    char path[128];

    snprintf(path, sizeof path, "%s.index", prefix);
    assert_int_equal(symlink(path, path), 0); /* a loop: opening fails, also for root */
    assert_int_equal(write_value(5), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), strerror(ELOOP)));
    assert_int_equal(unlink(path), 0);
    assert_false(has(".data-00000-of-00001", false));
    assert_int_equal(est_file_replace(path, "damaged", 7), EST_OK);
    assert_int_equal(write_value(6), EST_OK);
    assert_true(read_value() == 6);
    remove_files();
}

/* Every allocation and every system call fails once: the old value stays, or the new one is there and only its
 * directory was not synced. */
TEST(failures)
{
    for (fault_kind kind = FAULT_ALLOCATIONS; kind <= FAULT_POINTS; kind++) {
        int n_new = 0;

        FAULT_LOOP(f, kind) {
            est_status status;

            assert_int_equal(write_value(1), EST_OK);
            fault_arm(&f);
            status = write_value(2);
            (void)fault_end(&f);
            if (status == EST_OK) assert_true(read_value() == 2);
            if (status != EST_OK && read_value() != 1) n_new++;
            remove_files();
        }
        assert_int_equal(n_new, 1);
    }
}

int main(void)
{
    return est_test_run(make_folder, remove_folder);
}
