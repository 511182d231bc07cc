/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints that stay while they are read. */
#include "train/pin.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "estoc/estoc.h"
#include "support/estimator_test.h"

typedef struct fixture {
    char dir[64], prefix[128], pins[128];
} fixture;

static void write_file(const char *prefix, const char *suffix, const char *text)
{
    char path[160];

    snprintf(path, sizeof path, "%s%s", prefix, suffix);
    assert_int_equal(est_file_replace(path, text, strlen(text)), EST_OK);
}

static void remove_file(const char *prefix, const char *suffix)
{
    char path[160];

    snprintf(path, sizeof path, "%s%s", prefix, suffix);
    assert_int_equal(est_file_remove(path), EST_OK);
}

/* What the file has; "": it is not there. */
static const char *text_of(const char *prefix, const char *suffix)
{
    static char text[64];
    char        path[EST_CHECKPOINT_PATH_MAX + 32], *bytes = NULL;
    size_t      size;

    snprintf(path, sizeof path, "%s%s", prefix, suffix);
    text[0] = '\0';
    if (est_file_read(path, &bytes, &size) == EST_OK) snprintf(text, sizeof text, "%s", bytes);
    est_free(bytes);
    return text;
}

static void set_up(fixture *f)
{
    est_test_dir(f->dir);
    snprintf(f->prefix, sizeof f->prefix, "%s/model.ckpt-7", f->dir);
    snprintf(f->pins, sizeof f->pins, "%s/eval/pinned", f->dir);
    write_file(f->prefix, ".index", "index");
    write_file(f->prefix, ".data-00000-of-00002", "first");
    write_file(f->prefix, ".data-00001-of-00002", "second");
    write_file(f->prefix, ".meta", "meta");
    write_file(f->prefix, "0.index", "another"); /* model.ckpt-70 */
}

/* All files of the checkpoint, and no others, stay when it is removed, until they are dropped. */
TEST(stays)
{
    static const char *const suffixes[] = { ".index", ".data-00000-of-00002", ".data-00001-of-00002", ".meta" };
    est_pin                  pin        = { 0 };
    fixture                  f;

    set_up(&f);
    assert_int_equal(est_pin_open(&pin, f.pins), EST_OK);
    assert_int_equal(est_pin_take(&pin, f.prefix), EST_OK);
    assert_string_equal(pin.of, f.prefix);
    assert_string_not_equal(pin.prefix, f.prefix);
    for (int i = 0; i < 4; i++) remove_file(f.prefix, suffixes[i]);
    assert_string_equal(text_of(pin.prefix, ".index"), "index");
    assert_string_equal(text_of(pin.prefix, ".data-00000-of-00002"), "first");
    assert_string_equal(text_of(pin.prefix, ".data-00001-of-00002"), "second");
    assert_string_equal(text_of(pin.prefix, ".meta"), "meta");
    assert_string_equal(text_of(pin.prefix, "0.index"), "");
    est_pin_drop(&pin);
    assert_string_equal(pin.of, "");
    assert_false(est_dir_exists(f.pins));
    assert_int_equal(est_pin_take(&pin, f.prefix), EST_NOT_FOUND); /* there is none any more */
    assert_string_equal(pin.of, "");
    est_pin_close(&pin);
    est_test_dir_remove(f.dir);
}

/* Errors name the checkpoint, as the links are gone when somebody reads them. */
TEST(blame)
{
    est_pin pin = { 0 };
    char    want[512];
    fixture f;

    set_up(&f);
    assert_int_equal(est_pin_blame(NULL, est_fail(EST_DATA_LOSS, "as it was")), EST_DATA_LOSS);
    assert_int_equal(est_pin_blame(&pin, est_fail(EST_DATA_LOSS, "as it was")), EST_DATA_LOSS);
    assert_string_equal(est_error_message(), "as it was");
    assert_string_equal(est_pin_name(&pin, "other"), "other");
    assert_string_equal(est_pin_name(NULL, "other"), "other");
    assert_int_equal(est_pin_open(&pin, f.pins), EST_OK);
    assert_int_equal(est_pin_take(&pin, f.prefix), EST_OK);
    assert_string_equal(est_pin_name(&pin, pin.prefix), f.prefix);
    assert_int_equal(est_pin_blame(&pin, est_fail(EST_DATA_LOSS, "%s.index: bad (%s)", pin.prefix, pin.prefix)),
                     EST_DATA_LOSS);
    snprintf(want, sizeof want, "%s.index: bad (%s)", f.prefix, f.prefix);
    assert_string_equal(est_error_message(), want);
    assert_int_equal(est_pin_blame(&pin, EST_OK), EST_OK);
    est_pin_close(&pin);
    est_test_dir_remove(f.dir);
}

/* What a process that was killed has left is removed by the next, and one pin takes the place of the other. */
TEST(left)
{
    est_pin pin = { 0 };
    char    other[128], prefix[EST_CHECKPOINT_PATH_MAX];
    fixture f;

    set_up(&f);
    assert_int_equal(est_pin_open(&pin, f.pins), EST_OK);
    assert_int_equal(est_pin_take(&pin, f.prefix), EST_OK);
    snprintf(prefix, sizeof prefix, "%s", pin.prefix);
    snprintf(other, sizeof other, "%s/model.ckpt-70", f.dir);
    assert_int_equal(est_pin_take(&pin, other), EST_OK);
    assert_string_equal(text_of(pin.prefix, ".index"), "another");
    assert_string_equal(text_of(prefix, ".index"), "");
    est_free(pin.dir); /* as kill does: the links stay */
    assert_true(est_dir_exists(f.pins));
    assert_int_equal(est_pin_open(&pin, f.pins), EST_OK);
    assert_false(est_dir_exists(f.pins));
    est_pin_close(&pin);
    est_test_dir_remove(f.dir);
}

/* Without a directory for links, and where none can be made, a checkpoint is read where it is. */
TEST(without_links)
{
    est_pin pin = { 0 };
    char    nowhere[160];
    fixture f;

    set_up(&f);
    assert_int_equal(est_pin_take(&pin, f.prefix), EST_OK);
    assert_string_equal(pin.prefix, f.prefix);
    est_pin_close(&pin);
    snprintf(nowhere, sizeof nowhere, "%s.meta/pinned", f.prefix); /* below a file */
    assert_int_equal(est_pin_open(&pin, nowhere), EST_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(est_pin_take(&pin, f.prefix), EST_OK);
        assert_string_equal(pin.prefix, f.prefix);
        assert_string_equal(pin.of, f.prefix);
        assert_true(pin.unlinked);
    }
    est_pin_close(&pin);
    assert_string_equal(text_of(f.prefix, ".meta"), "meta");
    est_test_dir_remove(f.dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return est_test_run(NULL, NULL);
}
