/* SPDX-License-Identifier: Apache-2.0 */
#include "support/source_test.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "support/test.h"

#define COMPONENTS_MAX 4

static char directory[64];

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* --- files -------------------------------------------------------------------------------------------------------- */

int source_setup(void **state)
{
    (void)state;
    est_test_dir(directory);
    return 0;
}

int source_teardown(void **state)
{
    DIR           *dir = opendir(directory);
    struct dirent *entry;

    (void)state;
    if (dir == NULL) return 1;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (remove(source_path(entry->d_name)) != 0) return 1;
    }
    closedir(dir);
    return rmdir(directory);
}

const char *source_path(const char *name)
{
    static char paths[8][sizeof directory + 256];
    static int  turn;
    char       *path = paths[turn++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

void source_write(const char *name, const void *bytes, size_t size)
{
    size_t length = strlen(name);
    bool   zipped = length > 3 && strcmp(name + length - 3, ".gz") == 0;
    gzFile file   = gzopen(source_path(name), zipped ? "wb" : "wbT");

    assert_non_null(file);
    if (size > 0) assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

void source_write_text(const char *name, const char *text)
{
    source_write(name, text, strlen(text));
}

void source_write_records(const char *name, const char *records)
{
    size_t               length = strlen(name);
    bool                 zipped = length > 3 && strcmp(name + length - 3, ".gz") == 0;
    est_tfrecord_writer *writer = NULL;

    check(est_tfrecord_create(source_path(name),
                              EST_TFRECORD_WRITE(.compression = zipped ? EST_COMPRESSION_GZIP : EST_COMPRESSION_NONE),
                              &writer));
    while (*records != '\0') {
        size_t size = strcspn(records, "|");

        check(est_tfrecord_write(writer, records, size));
        records += size + 1;
    }
    check(est_tfrecord_finish(writer));
}

char *source_read(const char *name, size_t *size)
{
    char *bytes = NULL;

    check(est_file_read(source_path(name), &bytes, size));
    return bytes;
}

/* --- datasets ----------------------------------------------------------------------------------------------------- */

est_iterator *source_open(est_dataset *dataset)
{
    est_iterator *rows = NULL;

    check(est_dataset_finish(dataset, &dataset));
    assert_true(est_dataset_components(dataset) <= COMPONENTS_MAX);
    check(est_iterator_create(dataset, &rows));
    est_dataset_free(dataset);
    return rows;
}

/* Appends the next element. */
static est_status next_text(est_iterator *rows, est_strbuf *out)
{
    est_field  element[COMPONENTS_MAX] = { 0 };
    est_status status                  = est_iterator_next(rows, element);

    if (status != EST_OK) return status;
    if (est_tensor_dtype(element[0].values) == EST_STRING) {
        const est_str *text = est_tensor_data(element[0].values);

        est_strbuf_append_bytes(out, text->data, text->size);
        est_strbuf_append(out, "|");
    } else {
        est_strbuf_printf(out, "%" PRId64 "|", *(const int64_t *)est_tensor_data(element[0].values));
    }
    est_element_clear(element, COMPONENTS_MAX);
    return EST_OK;
}

static est_status all_text(est_iterator *rows, est_strbuf *out)
{
    est_status status;

    while ((status = next_text(rows, out)) == EST_OK) {}
    return status;
}

void source_next(est_iterator *rows, const char *want)
{
    est_strbuf text = { 0 };

    while (text.size < strlen(want)) check(next_text(rows, &text));
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

void source_end(est_iterator *rows)
{
    est_field element[COMPONENTS_MAX];

    for (int i = 0; i < 2; i++) assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
}

/* Yields all of `want`; saves after n elements and goes on with a new iterator put there. False: there are fewer. */
static bool yields_from(const est_dataset *dataset, int n, const char *want)
{
    est_iterator *rows = NULL, *again = NULL;
    est_tensor   *position = NULL;
    est_strbuf    text = { 0 }, rest = { 0 };
    est_status    status = EST_OK;
    size_t        before;

    check(est_iterator_create(dataset, &rows));
    for (int i = 0; i < n && status == EST_OK; i++) status = next_text(rows, &text);
    before = text.size;
    check(est_iterator_save(rows, &position));
    assert_int_equal(all_text(rows, &text), EST_OUT_OF_RANGE);
    assert_string_equal(est_strbuf_text(&text), want);
    check(est_iterator_create(dataset, &again));
    check(est_iterator_restore(again, position));
    assert_int_equal(all_text(again, &rest), EST_OUT_OF_RANGE);
    assert_string_equal(est_strbuf_text(&rest), want + before);
    assert_int_equal(est_iterator_get_stats(again).elements, est_iterator_get_stats(rows).elements);
    est_strbuf_clear(&text);
    est_strbuf_clear(&rest);
    est_tensor_free(position);
    est_iterator_free(rows);
    est_iterator_free(again);
    return status == EST_OK;
}

void source_yields(est_dataset *dataset, const char *want)
{
    check(est_dataset_finish(dataset, &dataset));
    for (int n = 0; yields_from(dataset, n, want); n++) {}
    est_dataset_free(dataset);
}

void source_fails(est_dataset *dataset, const char *want, est_status status, const char *message)
{
    est_iterator *rows = NULL;
    est_strbuf    text = { 0 };

    check(est_dataset_finish(dataset, &dataset));
    if (est_iterator_create(dataset, &rows) == EST_OK) {
        assert_int_equal(all_text(rows, &text), status);
        assert_int_equal(all_text(rows, &text), status); /* it only repeats */
    }
    if (strstr(est_error_message(), message) == NULL) fail_msg("\"%s\" is not in \"%s\"", message, est_error_message());
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
    est_iterator_free(rows);
    est_dataset_free(dataset);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void source_yields_sorted(est_dataset *dataset, const char *want)
{
    est_iterator *rows = source_open(dataset);
    est_strbuf    text = { 0 }, sorted = { 0 };
    char         *list[256], *save     = NULL;
    size_t        n = 0;

    assert_int_equal(all_text(rows, &text), EST_OUT_OF_RANGE);
    for (char *at = text.size > 0 ? strtok_r(text.data, "|", &save) : NULL; at != NULL;
         at       = strtok_r(NULL, "|", &save)) {
        assert_true(n < 256);
        list[n++] = at;
    }
    qsort(list, n, sizeof *list, compare_texts);
    for (size_t i = 0; i < n; i++) est_strbuf_printf(&sorted, "%s|", list[i]);
    assert_string_equal(est_strbuf_text(&sorted), want);
    est_strbuf_clear(&text);
    est_strbuf_clear(&sorted);
    est_iterator_free(rows);
}

void source_refused(est_dataset *dataset, const char *message)
{
    est_dataset *out = NULL;

    assert_int_equal(est_dataset_finish(dataset, &out), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), message) == NULL) fail_msg("\"%s\" is not in \"%s\"", message, est_error_message());
}

void source_rewritten(est_dataset *dataset, const char *before, void (*write)(const char *name, const char *contents),
                      const char *name, const char *contents, const char *after)
{
    static const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } }; /* as a copy may have it */

    est_tensor   *position = NULL;
    est_iterator *rows     = NULL;

    check(est_dataset_finish(dataset, &dataset));
    check(est_iterator_create(dataset, &rows));
    source_next(rows, before);
    check(est_iterator_save(rows, &position));
    est_iterator_free(rows);
    write(name, contents);
    assert_int_equal(utimensat(AT_FDCWD, source_path(name), long_ago, 0), 0);
    check(est_iterator_create(dataset, &rows));
    if (after != NULL) {
        check(est_iterator_restore(rows, position));
        source_next(rows, after);
        source_end(rows);
    } else {
        assert_int_equal(est_iterator_restore(rows, position), EST_FAILED_PRECONDITION);
        assert_non_null(strstr(est_error_message(), source_path(name)));
        assert_non_null(strstr(est_error_message(), "has changed since"));
    }
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(dataset);
}

/* A life of a dataset, with the elements counted. */
static est_status live(est_dataset *(*make)(void), int64_t *elements)
{
    est_dataset  *dataset = NULL;
    est_iterator *rows = NULL, *again = NULL;
    est_tensor   *position                = NULL;
    est_field     element[COMPONENTS_MAX] = { 0 };
    est_status    status                  = est_dataset_finish(make(), &dataset);

    if (status == EST_OK) status = est_iterator_create(dataset, &rows);
    for (int i = 0; i < 3 && status == EST_OK; i++) {
        status = est_iterator_next(rows, element);
        est_element_clear(element, COMPONENTS_MAX);
    }
    if (status == EST_OK) status = est_iterator_save(rows, &position);
    if (status == EST_OK) status = est_iterator_create(dataset, &again);
    if (status == EST_OK) status = est_iterator_restore(again, position);
    while (status == EST_OK) {
        status = est_iterator_next(again, element);
        est_element_clear(element, COMPONENTS_MAX);
    }
    if (status == EST_OUT_OF_RANGE) {
        *elements = est_iterator_get_stats(again).elements;
        status    = EST_OK;
    }
    est_tensor_free(position);
    est_iterator_free(rows);
    est_iterator_free(again);
    est_dataset_free(dataset);
    return status;
}

void source_memory_out(est_dataset *(*make)(void))
{
    int64_t want = 0;

    check(live(make, &want));
    assert_true(want > 3);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        int64_t    elements = 0;
        est_status status;

        fault_arm(&f);
        status = live(make, &elements);
        fault_check_lenient(&f, status);
        if (status == EST_OK) assert_int_equal(elements, want); /* nobody needed that one */
    }
}
