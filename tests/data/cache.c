/* SPDX-License-Identifier: Apache-2.0
 *
 * cache, in memory and in a file: what was made once is not made again, an unfinished pass leaves nothing, a damaged or
 * foreign file is refused, several iterators at once, and positions whether or not the cache is there when they are
 * restored. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/data_test.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

static char folder[64];
static char path[96];

static int make_folder(void **state)
{
    (void)state;
    est_test_dir(folder);
    snprintf(path, sizeof path, "%s/rows.cache", folder);
    return 0;
}

/* Fails when something else than the cache was left in the folder. */
static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int files_in_folder(void)
{
    DIR                 *dir = opendir(folder);
    const struct dirent *entry;
    int                  n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* --- rows that are counted ---------------------------------------------------------------------------------------- */

static atomic_int rows_made;

static const est_component components[] = {
    { .name = "words", .dtype = EST_STRING, .shape = { 1, { -1 } } },
    { .name = "number", .dtype = EST_I64 },
};

static est_status make_row(int64_t row, int i, est_tensor **out)
{
    static const est_str words[] = { { "a", 1 }, { "bc", 2 }, { "", 0 } };

    if (i == 0) return est_tensor_create_from(EST_STRING, EST_SHAPE(row % 3), words, out);
    atomic_fetch_add(&rows_made, 1);
    return est_tensor_i64(EST_SHAPE_SCALAR, &row, out);
}

#define ROWS 5
#define ALL  "empty[0] | 0 ; [\"a\"] | 1 ; [\"a\" \"bc\"] | 2 ; empty[0] | 3 ; [\"a\"] | 4"

static est_dataset *counted(void)
{
    return est_test_rows(components, 2, ROWS, make_row, "rows.csv");
}

/* An iterator of the (borrowed) dataset yields `want` and makes this many rows for it. */
static void pass_makes(est_dataset *dataset, const char *want, int made)
{
    int           before = rows_made;
    est_iterator *rows   = est_test_iterate(dataset);
    char         *text   = est_test_elements(rows, dataset, EST_FOREVER);

    assert_string_equal(text, want);
    assert_int_equal(rows_made - before, made);
    est_free(text);
    est_iterator_free(rows);
}

/* Reads n elements and stops. */
static void begin_pass(est_dataset *dataset, int64_t n)
{
    est_iterator *rows = est_test_iterate(dataset);

    est_free(est_test_elements(rows, dataset, n));
    est_iterator_free(rows);
}

/* --- what both do ------------------------------------------------------------------------------------------------- */

static void check_passes(const char *where)
{
    est_dataset *dataset = est_test_finish(est_dataset_cache(counted(), where));

    begin_pass(dataset, 3);
    begin_pass(dataset, ROWS); /* all of them, but the end was not seen */
    pass_makes(dataset, ALL, ROWS);
    pass_makes(dataset, ALL, 0);
    begin_pass(dataset, 3);
    pass_makes(dataset, ALL, 0);
    est_dataset_free(dataset);
}

static void check_repeat(const char *where)
{
    est_dataset *dataset = est_test_finish(est_dataset_repeat(est_dataset_cache(counted(), where), 3));

    pass_makes(dataset, ALL " ; " ALL " ; " ALL, ROWS);
    est_dataset_free(dataset);
}

/* What is random before a cache happens once. */
static void check_order_kept(const char *where)
{
    est_dataset  *dataset = est_dataset_cache(est_dataset_shuffle(est_dataset_range(0, 30, 1), 30, 0), where);
    est_iterator *rows;
    char         *text[3];

    dataset = est_test_finish(est_dataset_repeat(dataset, 3));
    rows    = est_test_iterate(dataset);
    for (int i = 0; i < 3; i++) text[i] = est_test_elements(rows, dataset, 30);
    assert_string_equal(text[0], text[1]);
    assert_string_equal(text[0], text[2]);
    for (int i = 0; i < 3; i++) est_free(text[i]);
    est_iterator_free(rows);
    est_dataset_free(dataset);
}

/* Passes that never come to the end make the same elements each time, whatever their turn. */
static void check_unfinished(const char *where)
{
    est_dataset  *dataset = est_dataset_cache(est_dataset_shuffle(est_dataset_range(0, 30, 1), 30, 7), where);
    est_iterator *rows;
    char         *text[2];

    dataset = est_test_finish(est_dataset_repeat(est_dataset_take(dataset, 20), 2));
    rows    = est_test_iterate(dataset);
    for (int i = 0; i < 2; i++) text[i] = est_test_elements(rows, dataset, 20);
    assert_string_equal(text[0], text[1]);
    for (int i = 0; i < 2; i++) est_free(text[i]);
    est_iterator_free(rows);
    est_dataset_free(dataset);
}

/* Two iterators that take turns, both before anything is kept. */
static void check_two_at_once(const char *where)
{
    est_dataset  *dataset = est_test_finish(est_dataset_cache(counted(), where));
    est_iterator *rows[2] = { est_test_iterate(dataset), est_test_iterate(dataset) };
    char         *text;

    for (int i = 0; i < 2; i++) est_free(est_test_elements(rows[i], dataset, 1 + i));
    text = est_test_elements(rows[0], dataset, EST_FOREVER);
    assert_string_equal(text, strstr(ALL, "[\"a\"] | 1"));
    est_free(text);
    text = est_test_elements(rows[1], dataset, EST_FOREVER);
    assert_string_equal(text, strstr(ALL, "[\"a\" \"bc\"] | 2"));
    est_free(text);
    for (int i = 0; i < 2; i++) est_iterator_free(rows[i]);
    pass_makes(dataset, ALL, 0);
    est_dataset_free(dataset);
}

/* Errors behind a cache still know where the rows came from. */
static est_status dislike_number_2(void *user, const est_field *element, bool *keep)
{
    *keep = true;
    if (*(const int64_t *)est_tensor_data(element[1].values) != 2 || *(int *)user == 0) return EST_OK;
    return est_fail(EST_INTERNAL, "number 2");
}

static void check_origin(const char *where)
{
    int          dislike = 0;
    est_dataset *dataset = est_test_finish(
        est_dataset_filter(est_dataset_cache(counted(), where), dislike_number_2, &dislike));

    pass_makes(dataset, ALL, ROWS);
    dislike = 1;
    est_test_breaks(dataset, EST_INTERNAL, "rows.csv:3: number 2");
}

static est_status dislike_odd(void *user, const est_field *in, est_field *out)
{
    int64_t value = *(const int64_t *)est_tensor_data(in->values);

    (void)user;
    if (value % 2 != 0) return est_fail(EST_INVALID_ARGUMENT, "%d is odd", (int)value);
    out->values = est_tensor_ref(in->values);
    return EST_OK;
}

/* A position in the first pass reads its elements again, and does not count their bad rows again; whatever reads ahead.
 * There are more elements than can be read ahead of the sixth: before the pass ends there is no file to read from. */
static void check_bad_rows(const char *where)
{
    for (int kind = 0; kind < 4; kind++) {
        est_dataset  *d = est_dataset_map(est_dataset_range(0, 60, 1), dislike_odd,
                                          EST_MAP(.workers = kind % 2, .bad_rows_max = EST_FOREVER));
        est_iterator *rows;
        est_tensor   *position = NULL;

        if (where != NULL) unlink(where);
        d    = est_dataset_cache(kind % 2 != 0 ? est_dataset_prefetch(d, 5) : d, where);
        d    = est_test_finish(kind > 1 ? est_dataset_prefetch(d, 3) : d);
        rows = est_test_iterate(d);
        for (int64_t i = 0; i < 5; i++) {
            est_free(est_test_elements(rows, d, 1));
            assert_int_equal(est_iterator_get_stats(rows).bad_rows, i);
            check(est_iterator_save(rows, &position));
            est_iterator_free(rows);
            rows = est_test_iterate(d);
            check(est_iterator_restore(rows, position));
            assert_int_equal(est_iterator_get_stats(rows).bad_rows, i);
            est_tensor_free(position);
        }
        est_free(est_test_elements(rows, d, 1));
        assert_int_equal(est_iterator_get_stats(rows).bad_rows, 5);
        est_free(est_test_elements(rows, d, EST_FOREVER));
        assert_int_equal(est_iterator_get_stats(rows).bad_rows, 30);
        est_iterator_free(rows);
        est_dataset_free(d);
    }
}

static void check_empty(const char *where)
{
    est_dataset *dataset = est_test_finish(est_dataset_cache(est_dataset_range(0, 0, 1), where));

    pass_makes(dataset, "", 0);
    pass_makes(dataset, "", 0);
    est_dataset_free(dataset);
}

static void (*const checks[])(const char *where) = { check_bad_rows,    check_passes, check_repeat, check_order_kept,
                                                     check_two_at_once, check_origin, check_empty };

#define IN_FOLDER .setup_func = make_folder, .teardown_func = remove_folder

TEST(memory, IN_FOLDER)
{
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) checks[i](NULL);
}

TEST(file, IN_FOLDER)
{
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        checks[i](path);
        assert_int_equal(files_in_folder(), 1);
        assert_int_equal(unlink(path), 0);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

TEST(file_appears_when_complete, IN_FOLDER)
{
    est_dataset  *dataset = est_test_finish(est_dataset_cache(counted(), path));
    est_iterator *rows    = est_test_iterate(dataset);

    est_free(est_test_elements(rows, dataset, ROWS));
    assert_false(est_file_exists(path));
    est_free(est_test_elements(rows, dataset, 1));
    assert_true(est_file_exists(path));
    assert_int_equal(files_in_folder(), 1);
    est_iterator_free(rows);
    est_dataset_free(dataset);

    dataset = est_test_finish(est_dataset_cache(counted(), path)); /* as a later run */
    pass_makes(dataset, ALL, 0);
    est_dataset_free(dataset);
    assert_int_equal(unlink(path), 0);

    dataset = est_test_finish(est_dataset_cache(counted(), path));
    begin_pass(dataset, ROWS);
    assert_int_equal(files_in_folder(), 0);
    est_dataset_free(dataset);
}

TEST(unfinished, IN_FOLDER)
{
    check_unfinished(NULL);
    check_unfinished(path);
    assert_int_equal(files_in_folder(), 0);
}

TEST(file_refused, IN_FOLDER)
{
    char missing[128];

    est_test_yields(est_dataset_cache(est_dataset_range(0, 2, 1), path), "0 ; 1");
    est_test_breaks(
        est_dataset_cache(counted(), path), EST_INVALID_ARGUMENT,
        "a cache of the components \"value\" int64 [], where the dataset has \"words\" string [?], \"number\" "
        "int64 []; delete the file");
    est_test_breaks(est_dataset_cache(est_dataset_batch(est_dataset_range(0, 2, 1), 2, NULL), path),
                    EST_INVALID_ARGUMENT, path);
    check(est_file_replace(path, "not a cache, but longer than a header", 37));
    est_test_breaks(est_dataset_cache(counted(), path), EST_DATA_LOSS, path);
    check(est_file_replace(path, "", 0));
    est_test_breaks(est_dataset_cache(counted(), path), EST_DATA_LOSS, "is cut short");
    snprintf(missing, sizeof missing, "%s/no/such", folder);
    est_test_breaks(est_dataset_cache(counted(), missing), EST_NOT_FOUND, missing);
    est_test_refused(est_dataset_cache(counted(), ""), "the path is empty");
    est_test_refused(est_dataset_cache(est_dataset_skip(counted(), -1), path), "stage skip");
    est_test_refused(est_dataset_cache(est_dataset_skip(counted(), -1), NULL), "stage skip");
}

static void write_records(const est_str *records, int n)
{
    est_tfrecord_writer *writer;

    check(est_tfrecord_create(path, NULL, &writer));
    for (int i = 0; i < n; i++) check(est_tfrecord_write(writer, records[i].data, records[i].size));
    check(est_tfrecord_finish(writer));
}

TEST(file_of_others, IN_FOLDER)
{
    est_wire_writer w = { 0 };

    write_records(&(est_str){ "\x0a\x01x", 3 }, 1);
    est_test_breaks(est_dataset_cache(counted(), path), EST_INVALID_ARGUMENT, "but not the cache of a dataset");
    est_wire_put_string(&w, 1, "estoc dataset cache");
    est_wire_put_u64(&w, 2, 9);
    write_records(&(est_str){ (const char *)w.data, w.size }, 1);
    est_test_breaks(est_dataset_cache(counted(), path), EST_INVALID_ARGUMENT, "version 9 of the cache's format");
    est_wire_writer_clear(&w);
}

/* Records left out, twice there, or after the end. */
TEST(file_of_wrong_records, IN_FOLDER)
{
    est_tfrecord_reader *reader;
    est_str              record[4];
    int                  n = 0;

    est_test_yields(est_dataset_cache(est_dataset_range(0, 2, 1), path), "0 ; 1");
    check(est_tfrecord_open(path, NULL, &reader));
    while (n < 4 && est_tfrecord_next(reader, &record[n]) == EST_OK) {
        char *copy = est_alloc(record[n].size);

        memcpy(copy, record[n].data, record[n].size);
        record[n++].data = copy;
    }
    est_tfrecord_close(reader);
    assert_int_equal(n, 4);
    write_records(record, 3);
    est_test_breaks(est_dataset_cache(est_dataset_range(0, 2, 1), path), EST_DATA_LOSS, "its last record is missing");
    write_records((const est_str[]){ record[0], record[1], record[3] }, 3);
    est_test_breaks(est_dataset_cache(est_dataset_range(0, 2, 1), path), EST_DATA_LOSS,
                    "has 1 elements where it says 2");
    write_records((const est_str[]){ record[0], record[1], record[2], record[3], record[2] }, 5);
    est_test_breaks(est_dataset_cache(est_dataset_range(0, 2, 1), path), EST_DATA_LOSS,
                    "a record follows the last one");
    write_records((const est_str[]){ record[0], record[0], record[3] }, 3);
    est_test_breaks(est_dataset_cache(est_dataset_range(0, 2, 1), path), EST_INVALID_ARGUMENT,
                    "element 0 of the cache");
    for (int i = 0; i < 4; i++) est_free((void *)(uintptr_t)record[i].data);
}

/* Every byte is under a checksum, and the end is marked: no damage goes unnoticed. */
TEST(file_damaged, IN_FOLDER)
{
    est_dataset *dataset = est_test_finish(est_dataset_cache(counted(), path));
    char        *bytes;
    size_t       size;

    pass_makes(dataset, ALL, ROWS);
    check(est_file_read(path, &bytes, &size));
    for (size_t i = 0; i < size; i++) {
        for (int kind = 0; kind < 2; kind++) { /* a flipped bit, a cut */
            FILE         *file = fopen(path, "wb");
            est_iterator *rows = NULL;
            est_field     element[2];
            est_status    status;

            assert_non_null(file);
            bytes[i] ^= 4;
            assert_int_equal(fwrite(bytes, 1, kind == 0 ? size : i, file), kind == 0 ? size : i);
            bytes[i] ^= 4;
            fclose(file);
            status = est_iterator_create(dataset, &rows);
            while (status == EST_OK && (status = est_iterator_next(rows, element)) == EST_OK) {
                est_element_clear(element, 2);
            }
            assert_int_equal(status, EST_DATA_LOSS);
            assert_non_null(strstr(est_error_message(), "delete the file"));
            est_iterator_free(rows);
        }
    }
    est_free(bytes);
    est_dataset_free(dataset);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void *read_all(void *arg)
{
    est_dataset  *dataset = arg;
    est_iterator *rows    = NULL;
    est_field     element[2];
    int64_t       sum = 0;

    for (int pass = 0; pass < 5; pass++) {
        if (est_iterator_create(dataset, &rows) != EST_OK) return NULL;
        while (est_iterator_next(rows, element) == EST_OK) {
            sum += *(const int64_t *)est_tensor_data(element[1].values);
            est_element_clear(element, 2);
        }
        est_iterator_free(rows);
    }
    return sum == 5 * (ROWS * (ROWS - 1) / 2) ? dataset : NULL;
}

static void check_threads(const char *where)
{
    est_dataset *dataset = est_test_finish(est_dataset_cache(counted(), where));
    pthread_t    threads[4];
    void        *result;

    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_all, dataset), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, dataset);
    }
    pass_makes(dataset, ALL, 0);
    est_dataset_free(dataset);
}

TEST(threads, IN_FOLDER)
{
    check_threads(NULL);
    check_threads(path);
    assert_int_equal(files_in_folder(), 1);
}

/* --- positions and allocations ------------------------------------------------------------------------------------ */

static est_dataset *make_memory(void)
{
    return est_dataset_repeat(est_dataset_cache(counted(), NULL), 2);
}

static est_dataset *make_file(void)
{
    return est_dataset_repeat(est_dataset_cache(counted(), path), 2);
}

/* As in a new run on another machine. */
static est_dataset *make_new_file(void)
{
    unlink(path);
    return make_file();
}

static est_dataset *make_deep(void)
{
    est_dataset *d = est_dataset_cache(est_dataset_shuffle(counted(), 3, 5), NULL);

    return est_dataset_repeat(est_dataset_shuffle(est_dataset_cache(d, path), 2, 6), 3);
}

static const est_test_make makes[] = { make_memory, make_new_file, make_file, make_deep };

TEST(positions, IN_FOLDER)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) {
        est_test_positions(makes[i], 16);
        unlink(path);
    }
}

TEST(allocations, IN_FOLDER)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) {
        est_test_allocations(makes[i], 12);
        assert_true(files_in_folder() <= 1);
        unlink(path);
    }
}

static est_dataset *make_shorter(void)
{
    return est_dataset_repeat(est_dataset_cache(est_test_rows(components, 2, 2, make_row, NULL), NULL), 2);
}

TEST(position_beyond, IN_FOLDER)
{
    est_dataset  *dataset = est_test_finish(make_memory()), *shorter = est_test_finish(make_shorter());
    est_iterator *rows = est_test_iterate(dataset);
    est_tensor   *position;

    est_free(est_test_elements(rows, dataset, 4));
    check(est_iterator_save(rows, &position));
    est_iterator_free(rows);
    rows = est_test_iterate(shorter);
    assert_int_equal(est_iterator_restore(rows, position), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "4 elements after the start of stage cache, which has only 2"));
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(dataset);
    est_dataset_free(shorter);
}

/* Every fault point of replacing a file, while the pass completes: an error, and no file is left. */
TEST(commit_fails, IN_FOLDER)
{
    FAULT_LOOP(f, FAULT_POINTS) {
        est_dataset  *dataset = est_test_finish(est_dataset_cache(counted(), path));
        est_iterator *rows    = est_test_iterate(dataset);
        est_field     element[2];
        est_status    status;

        est_free(est_test_elements(rows, dataset, ROWS));
        fault_arm(&f);
        status = est_iterator_next(rows, element);
        fault_end(&f);
        assert_true(f.fired ? status != EST_OK && status != EST_OUT_OF_RANGE : status == EST_OUT_OF_RANGE);
        est_iterator_free(rows);
        assert_true(files_in_folder() <= 1);
        unlink(path);
        est_dataset_free(dataset);
    }
}
