/* SPDX-License-Identifier: Apache-2.0
 *
 * tfrecords: several files, compressed or not, by whatever many threads; where a record is from; damaged files. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "data/stage.h"
#include "estoc/log.h"
#include "support/source_test.h"
#include "support/test.h"

#define RECORD_EXTRA 16 /* bytes around each in a file */

static int setup(void **state)
{
    est_log_set_level(EST_LOG_ERROR); /* bad rows are warned about */
    if (source_setup(state) != 0) return 1;
    source_write_records("r-0", "a0|a1|a2|");
    source_write_records("r-1", "");
    source_write_records("r-2.gz", "c0|c1|");
    source_write_records("r-3", "d0||d2|");
    return 0;
}

static est_dataset *records(const char *pattern, const est_interleave_options *options)
{
    return est_dataset_tfrecords(est_dataset_files(source_path(pattern)), options);
}

TEST(files)
{
    source_yields(records("r-*", NULL), "a0|a1|a2|c0|c1|d0||d2|");
    for (int workers = 0; workers <= 1; workers++) {
        source_yields(records("r-*", EST_INTERLEAVE(.workers = workers)), "a0|a1|a2|c0|c1|d0||d2|");
        source_yields(records("r-*", EST_INTERLEAVE(.cycle = 4, .workers = workers)), "a0|c0|d0|a1|c1||a2|d2|");
        source_yields(records("r-*", EST_INTERLEAVE(.cycle = 2, .block = 2, .workers = workers)),
                      "a0|a1|a2|c0|c1|d0||d2|");
        source_yields(records("r-1", EST_INTERLEAVE(.cycle = 3, .workers = workers)), "");
    }
    source_yields_sorted(records("r-[012]*", EST_INTERLEAVE(.cycle = 2, .workers = 1, .unordered = true)),
                         "a0|a1|a2|c0|c1|");
}

TEST(component)
{
    est_dataset *dataset = NULL;

    assert_int_equal(est_dataset_finish(records("r-*", NULL), &dataset), EST_OK);
    assert_int_equal(est_dataset_components(dataset), 1);
    assert_string_equal(est_dataset_component(dataset, 0)->name, "record");
    assert_int_equal(est_dataset_component(dataset, 0)->dtype, EST_STRING);
    assert_int_equal(est_dataset_component(dataset, 0)->shape.rank, 0);
    est_dataset_free(dataset);
}

/* Where each record is from, also when it was read ahead and went through a saved position. */
TEST(origin)
{
    const struct {
        const char *name;
        int64_t     at;
    } want[] = { { "r-0", 0 }, { "r-2.gz", 0 }, { "r-0", 1 }, { "r-2.gz", 1 }, { "r-0", 2 } };

    for (int workers = 0; workers <= 1; workers++) {
        est_dataset    *dataset  = NULL;
        est_pass       *pass     = NULL;
        est_iter       *it       = NULL;
        int64_t         bad_rows = 0;
        est_element    *element  = est_element_new(1);
        est_wire_writer w        = { 0 };
        est_wire_reader r;
        est_wire_field  field;

        assert_int_equal(
            est_dataset_finish(records("r-{0,2.gz}", EST_INTERLEAVE(.cycle = 2, .workers = workers)), &dataset),
            EST_OK);
        assert_int_equal(est_pass_create(&pass), EST_OK);
        assert_int_equal(est_iter_open(dataset, pass, &bad_rows, 0, &it), EST_OK);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(est_iter_next(it, element), EST_OK);
            assert_string_equal(element->origin.path, source_path(want[i].name));
            assert_int_equal(element->origin.at, want[i].at);
            assert_false(element->origin.line);
            est_element_clear(element->field, 1);
            if (i != 2) continue;
            assert_int_equal(est_iter_save(it, &w, 1), EST_OK);
            est_iter_close(it);
            assert_int_equal(est_iter_open(dataset, pass, &bad_rows, 0, &it), EST_OK);
            est_wire_reader_init(&r, "test", w.data, w.size);
            assert_true(est_wire_next(&r, &field));
            assert_int_equal(est_iter_restore(it, est_wire_bytes(&r, &field)), EST_OK);
        }
        est_element_free(element, 1);
        est_wire_writer_clear(&w);
        est_iter_close(it);
        est_pass_free(pass);
        est_dataset_free(dataset);
    }
}

static est_dataset *of_paths(const char *const *paths, int n, const est_interleave_options *options)
{
    est_str      texts[4];
    est_tensor  *tensor = NULL;
    est_dataset *dataset;

    for (int i = 0; i < n; i++) texts[i] = (est_str){ paths[i], strlen(paths[i]) };
    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(n), texts, &tensor), EST_OK);
    dataset = est_dataset_tfrecords(est_dataset_slices(EST_NAMED_TENSORS({ "path", tensor })), options);
    est_tensor_free(tensor);
    return dataset;
}

TEST(missing_file)
{
    const char *paths[] = { source_path("r-0"), source_path("nowhere") };

    for (int workers = 0; workers <= 1; workers++) {
        source_fails(of_paths(paths, 2, EST_INTERLEAVE(.workers = workers)), "a0|a1|a2|", EST_NOT_FOUND, paths[1]);
        source_fails(of_paths(paths, 2, EST_INTERLEAVE(.cycle = 2, .workers = workers)), "a0|", EST_NOT_FOUND,
                     paths[1]);
    }
}

TEST(refused)
{
    est_str      zero   = { "a\0b", 3 };
    est_tensor  *tensor = NULL;
    est_dataset *dataset;

    source_refused(est_dataset_tfrecords(est_dataset_range(0, 1, 1), NULL), "it needs paths of files");
    source_refused(est_dataset_tfrecords(NULL, NULL), "no dataset was given");
    source_refused(records("r-*", EST_INTERLEAVE(.cycle = -1)), "stage tfrecords: cycle -1");
    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &zero, &tensor), EST_OK);
    dataset = est_dataset_tfrecords(est_dataset_slices(EST_NAMED_TENSORS({ "path", tensor })), NULL);
    est_tensor_free(tensor);
    source_fails(dataset, "", EST_INVALID_ARGUMENT, "zero byte");
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

/* The file "d-0" as it should be: five records, then "d-1" behind it. */
static const char *const good[] = { "one", "two-two", "three", "", "fivefive" };

static size_t make_damaged_files(char *bytes)
{
    char  *read;
    size_t size;

    source_write_records("d-0", "one|two-two|three||fivefive|");
    source_write_records("d-1", "next|");
    read = source_read("d-0", &size);
    memcpy(bytes, read, size);
    est_free(read);
    return size;
}

/* Which record a byte belongs to; *header tells whether to its header. */
static int record_of(size_t at, bool *header)
{
    size_t start = 0;

    *header = false;
    for (int i = 0; i < 5; i++) {
        size_t end = start + strlen(good[i]) + RECORD_EXTRA;

        if (at < end) {
            *header = at < start + 12;
            return i;
        }
        start = end;
    }
    return 5;
}

/* Every byte flipped: only that record is missing, or from it on when it cannot be told where it ends. */
TEST(flipped_bytes)
{
    char   bytes[256];
    size_t size = make_damaged_files(bytes);

    for (size_t at = 0; at < size; at++) {
        bool header;
        int  bad = record_of(at, &header);
        char want[128], message[64];

        want[0] = '\0';
        for (int i = 0; i < 5; i++) {
            if (i == bad && header) break;
            if (i != bad) snprintf(want + strlen(want), sizeof want - strlen(want), "%s|", good[i]);
        }
        snprintf(want + strlen(want), sizeof want - strlen(want), "next|");
        bytes[at] = (char)(bytes[at] ^ 0x40);
        source_write("d-0", bytes, size);
        bytes[at] = (char)(bytes[at] ^ 0x40);
        for (int workers = 0; workers <= 1; workers++) {
            source_yields(records("d-[01]", EST_INTERLEAVE(.bad_rows_max = EST_FOREVER, .workers = workers)), want);
        }
        want[0] = '\0';
        for (int i = 0; i < bad; i++) snprintf(want + strlen(want), sizeof want - strlen(want), "%s|", good[i]);
        snprintf(message, sizeof message, "d-0: record %d at byte", bad);
        source_fails(records("d-[01]", NULL), want, EST_DATA_LOSS, message);
    }
}

/* Cut at every byte: what is whole comes out. */
TEST(cut_files)
{
    char   bytes[256];
    size_t size = make_damaged_files(bytes);

    for (size_t at = 0; at < size; at++) {
        bool   header;
        char   want[128];
        size_t used = 0;
        int    n    = record_of(at, &header);

        want[0] = '\0';
        for (int i = 0; i < n; i++) {
            snprintf(want + strlen(want), sizeof want - strlen(want), "%s|", good[i]);
            used += strlen(good[i]) + RECORD_EXTRA;
        }
        source_write("d-0", bytes, at);
        if (used != at) source_fails(records("d-0", NULL), want, EST_DATA_LOSS, "cut short");
        snprintf(want + strlen(want), sizeof want - strlen(want), "next|");
        source_yields(records("d-[01]", EST_INTERLEAVE(.bad_rows_max = EST_FOREVER)), want);
    }
}

/* A compressed file with any byte flipped ends, somewhere, with its first records or fewer. */
TEST(flipped_compressed)
{
    char  *bytes;
    size_t size;

    source_write_records("z.gz", "one|two-two|three||fivefive|");
    bytes = source_read("z.gz", &size);
    for (size_t at = 0; at < size; at++) {
        est_iterator *rows;
        est_field     element[1] = { 0 };
        est_status    status;
        FILE         *file = fopen(source_path("z.gz"), "wb");

        assert_non_null(file);
        bytes[at] = (char)(bytes[at] ^ 0x40);
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        bytes[at] = (char)(bytes[at] ^ 0x40);
        assert_int_equal(fclose(file), 0);
        rows = source_open(records("z.gz", EST_INTERLEAVE(.bad_rows_max = EST_FOREVER)));
        while ((status = est_iterator_next(rows, element)) == EST_OK) est_element_clear(element, 1);
        assert_int_equal(status, EST_OUT_OF_RANGE);
        assert_true(est_iterator_get_stats(rows).elements <= 5);
        est_iterator_free(rows);
    }
    est_free(bytes);
}

/* Damages the last byte of record i. */
static void damage(char *bytes, int i)
{
    size_t end = 0;

    for (int k = 0; k <= i; k++) end += strlen(good[k]) + RECORD_EXTRA;
    bytes[end - 1] = (char)(bytes[end - 1] ^ 1);
}

TEST(bad_rows_max)
{
    char          bytes[256];
    size_t        size     = make_damaged_files(bytes);
    est_tensor   *position = NULL;
    est_dataset  *dataset  = NULL;
    est_iterator *rows     = NULL;
    est_field     element[1];

    damage(bytes, 1);
    damage(bytes, 3);
    source_write("d-0", bytes, size);
    source_yields(records("d-[01]", EST_INTERLEAVE(.bad_rows_max = 2)), "one|three|fivefive|next|");
    source_fails(records("d-[01]", EST_INTERLEAVE(.bad_rows_max = 1)), "one|three|", EST_DATA_LOSS,
                 "more than 1 bad rows in one pass (bad_rows_max, data.bad_rows of a job file): ");
    assert_non_null(strstr(est_error_message(), "d-0: record 3 at byte"));

    /* The count goes on after restoring. */
    assert_int_equal(est_dataset_finish(records("d-[01]", EST_INTERLEAVE(.bad_rows_max = 1)), &dataset), EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    source_next(rows, "one|three|");
    assert_int_equal(est_iterator_get_stats(rows).bad_rows, 1);
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_restore(rows, position), EST_OK);
    assert_int_equal(est_iterator_get_stats(rows).bad_rows, 1);
    assert_int_equal(est_iterator_next(rows, element), EST_DATA_LOSS);
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(dataset);
}

/* With threads a failure may be known before its turn. Saving then fails with it, and reading goes on up to it; a
 * position that was saved before it was known restores. */
TEST(saving_before_a_failure)
{
    char          bytes[256];
    size_t        size     = make_damaged_files(bytes);
    est_tensor   *position = NULL;
    est_iterator *rows;
    est_field     element[1];

    damage(bytes, 3);
    source_write("d-0", bytes, size);
    for (int before = 0; before <= 2; before++) {
        est_status status;

        rows = source_open(records("d-0", EST_INTERLEAVE(.workers = before > 0, .unordered = before > 1)));
        source_next(rows, "one|");
        status = est_iterator_save(rows, &position);
        if (status == EST_OK) {
            est_iterator_free(rows);
            rows = source_open(records("d-0", NULL));
            assert_int_equal(est_iterator_restore(rows, position), EST_OK);
            est_tensor_free(position);
        } else {
            assert_true(before > 0 && status == EST_DATA_LOSS);
            assert_non_null(strstr(est_error_message(), "d-0: record 3 at byte"));
        }
        source_next(rows, "two-two|three|");
        assert_int_equal(est_iterator_next(rows, element), EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), "d-0: record 3 at byte"));
        est_iterator_free(rows);
    }
}

/* What is left out of a file, its end as well, is counted when its turn comes: threads and positions change nothing. */
TEST(counts)
{
    static const struct {
        const char *next;
        int64_t     bad_rows; /* then */
    } want[] = { { "one|", 0 }, { "next|", 0 }, { "three|", 1 } };
    char        bytes[256];
    size_t      size     = make_damaged_files(bytes);
    est_tensor *position = NULL;

    damage(bytes, 1);
    bytes[3 + RECORD_EXTRA + 7 + RECORD_EXTRA + 5 + RECORD_EXTRA] ^= 1; /* the length of record 3 */
    source_write("d-0", bytes, size);
    for (int kind = 0; kind < 4; kind++) {
        for (int at = 0; at <= 3; at++) {
            const est_interleave_options *o = EST_INTERLEAVE(.cycle = 2, .workers = kind % 2, .bad_rows_max = 2);
            est_dataset  *dataset = kind < 2 ? records("d-[01]", o) : est_dataset_prefetch(records("d-[01]", o), 9);
            est_iterator *rows;

            assert_int_equal(est_dataset_finish(dataset, &dataset), EST_OK);
            assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
            for (int i = 0; i < 3; i++) {
                if (i == at) {
                    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
                    est_iterator_free(rows);
                    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
                    assert_int_equal(est_iterator_restore(rows, position), EST_OK);
                    est_tensor_free(position);
                }
                source_next(rows, want[i].next);
                assert_int_equal(est_iterator_get_stats(rows).bad_rows, want[i].bad_rows);
            }
            source_end(rows);
            assert_int_equal(est_iterator_get_stats(rows).bad_rows, 2);
            est_iterator_free(rows);
            est_dataset_free(dataset);
        }
        source_fails(records("d-[01]", EST_INTERLEAVE(.cycle = 2, .workers = kind % 2, .bad_rows_max = 1)),
                     "one|next|three|", EST_DATA_LOSS, "more than 1 bad rows in one pass");
    }
}

/* The rest of a file is lost at the last place of a block that was read ahead, and nothing further is read: with blocks
 * that take long, which those of large records do, two are. The position knows that the rest is lost. */
TEST(lost_at_the_end_of_a_block)
{
    enum { BLOCK = 32, RECORDS = 2 * BLOCK, SIZE = 1 << 17 };
    static est_manual_clock still;
    int64_t                 limit    = est_machine_ns() + 20 * EST_NS_PER_SEC;
    char                   *record   = est_zalloc(SIZE), *bytes;
    est_tensor             *position = NULL;
    est_dataset            *dataset  = NULL;
    est_iterator           *rows     = NULL;
    est_field               element[1];
    est_tfrecord_writer    *writer;
    size_t                  size;

    assert_int_equal(est_tfrecord_create(source_path("l"), NULL, &writer), EST_OK);
    for (int i = 0; i < RECORDS; i++) assert_int_equal(est_tfrecord_write(writer, record, SIZE), EST_OK);
    assert_int_equal(est_tfrecord_finish(writer), EST_OK);
    bytes = source_read("l", &size);
    bytes[(RECORDS - 1) * (size_t)(SIZE + RECORD_EXTRA)] ^= 1; /* the length of the last */
    source_write("l", bytes, size);
    est_free(bytes);
    est_free(record);

    est_manual_clock_init(&still, 0, 0); /* so that no block is cut short */
    est_clock_set(&still.clock);
    assert_int_equal(est_dataset_finish(records("l", EST_INTERLEAVE(.workers = 1, .bad_rows_max = 9)), &dataset),
                     EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_next(rows, element), EST_OK);
    est_element_clear(element, 1);
    do { /* until the second block is there */
        est_tensor_free(position);
        position = NULL;
        assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    } while (est_tensor_count(position) < (RECORDS - 2) * (int64_t)SIZE && est_machine_ns() < limit);
    est_iterator_free(rows);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_restore(rows, position), EST_OK);
    for (int i = 1; i < RECORDS - 1; i++) {
        assert_int_equal(est_iterator_next(rows, element), EST_OK);
        est_element_clear(element, 1);
    }
    assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
    assert_int_equal(est_iterator_get_stats(rows).bad_rows, 1);
    est_clock_set(NULL);
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(dataset);
    assert_int_equal(unlink(source_path("l")), 0);
}

/* New data under an old name must not be read from the middle of a row; more data behind the old is more data. */
TEST(rewritten)
{
    static const char *const names[] = { "s", "s.gz" };
    static const struct {
        const char *contents, *after;
    } again[] = {
        { "one|two|three|", "three|" },
        { "one|two|three|four|", "three|four|" },
        { "one|TWO|three|", NULL },
        { "1|2|3|4|5|6|7|8|", NULL },
        { "one|", NULL },   /* the position is beyond its end */
        { "one|two|", "" }, /* the position is its end by now */
        { "one|two|3|", "3|" },
        { "", NULL },
    };

    for (int n = 0; n < 2; n++) {
        for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
            source_write_records(names[n], "one|two|three|");
            source_rewritten(records(names[n], NULL), "one|two|", source_write_records, names[n], again[i].contents,
                             again[i].after);
        }
        assert_int_equal(unlink(source_path(names[n])), 0);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_interleave_options memory_options;

static est_dataset *make_for_memory(void)
{
    return records("r-*", &memory_options);
}

TEST(memory_out)
{
    for (int kind = 0; kind <= 2; kind++) {
        memory_options           = *EST_INTERLEAVE(.cycle = 3, .bad_rows_max = EST_FOREVER);
        memory_options.workers   = kind > 0;
        memory_options.unordered = kind > 1;
        source_memory_out(make_for_memory);
    }
}

int main(void)
{
    return est_test_run(setup, source_teardown);
}
