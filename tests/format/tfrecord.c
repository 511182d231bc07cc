/* SPDX-License-Identifier: Apache-2.0
 *
 * TFRecord files: known bytes, files that TensorFlow wrote, round trips of every compression, positions, and damage of
 * every byte. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "estoc/tfrecord.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format/"

static char file[128]; /* a scratch file of this process */

static const est_compression kinds[] = { EST_COMPRESSION_NONE, EST_COMPRESSION_ZLIB, EST_COMPRESSION_GZIP };

/* Record i of the round trips: sizes from nothing to larger than the buffers in use. */
static est_str record_of(int i)
{
    static char bytes[70000];
    size_t      size = i % 7 == 3 ? 66000 : (size_t)(i * 37 % 300);

    for (size_t k = 0; k < size; k++) bytes[k] = (char)((size_t)i + k * k / 5);
    return (est_str){ bytes, size };
}

static void write_file(est_compression compression, int n)
{
    est_tfrecord_writer *w;

    assert_int_equal(
        est_tfrecord_create(file, EST_TFRECORD_WRITE(.compression = compression, .buffer_bytes = 1000), &w), EST_OK);
    for (int i = 0; i < n; i++) {
        est_str record = record_of(i);

        assert_int_equal(est_tfrecord_write(w, record.data, record.size), EST_OK);
        if (i % 5 == 2) assert_int_equal(est_tfrecord_flush(w), EST_OK);
    }
    assert_int_equal(est_tfrecord_finish(w), EST_OK);
}

static void put_file(const void *bytes, size_t size)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void expect_record(est_tfrecord_reader *r, int i)
{
    est_str want = record_of(i), got;

    assert_int_equal(est_tfrecord_next(r, &got), EST_OK);
    assert_int_equal(got.size, want.size);
    assert_memory_equal(got.data, want.data, want.size);
}

static void expect_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

TEST(known_bytes)
{
    static const uint8_t foo[] = {
        3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 'f', 'o', 'o', 0x61, 0x8a, 0xbe, 0xfe
    };
    est_tfrecord_writer *w;
    est_tfrecord_reader *r;
    est_str              record;
    char                *bytes;
    size_t               size;

    assert_int_equal(est_tfrecord_create(file, NULL, &w), EST_OK);
    assert_int_equal(est_tfrecord_write(w, "foo", 3), EST_OK);
    assert_int_equal(est_tfrecord_finish(w), EST_OK);
    assert_int_equal(est_file_read(file, &bytes, &size), EST_OK);
    assert_int_equal(size, sizeof foo);
    assert_memory_equal(bytes, foo, sizeof foo);
    est_free(bytes);

    assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OK);
    assert_int_equal(record.size, 3);
    assert_memory_equal(record.data, "foo", 3);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
    est_tfrecord_close(r);
}

/* TensorFlow's three files hold the same records. */
TEST(files_of_tensorflow)
{
    static const char *const names[] = { GOLDEN "examples.tfrecord.zlib", GOLDEN "examples.tfrecord.gzip" };
    est_tfrecord_reader     *plain, *packed;
    est_str                  a, b;

    for (int k = 0; k < 2; k++) {
        int n = 0;

        assert_int_equal(est_tfrecord_open(GOLDEN "examples.tfrecord", NULL, &plain), EST_OK);
        assert_int_equal(est_tfrecord_open(names[k], NULL, &packed), EST_OK);
        while (est_tfrecord_next(plain, &a) == EST_OK) {
            assert_int_equal(est_tfrecord_next(packed, &b), EST_OK);
            assert_int_equal(a.size, b.size);
            assert_memory_equal(a.data, b.data, a.size);
            n++;
        }
        assert_int_equal(n, 10);
        assert_int_equal(est_tfrecord_next(packed, &b), EST_OUT_OF_RANGE);
        est_tfrecord_close(plain);
        est_tfrecord_close(packed);
    }
}

TEST(round_trips)
{
    static const size_t buffers[] = { 1, 100, 65536, 0 };

    for (int k = 0; k < 3; k++) {
        write_file(kinds[k], 40);
        for (int b = 0; b < 4; b++) {
            est_tfrecord_reader *r;
            est_str              record;

            assert_int_equal(est_tfrecord_open(file, EST_TFRECORD_READ(.buffer_bytes = buffers[b]), &r), EST_OK);
            for (int i = 0; i < 40; i++) expect_record(r, i);
            assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
            est_tfrecord_close(r);
        }
    }
}

TEST(positions)
{
    for (int k = 0; k < 3; k++) {
        est_tfrecord_position at[41];
        est_tfrecord_reader  *r;
        est_str               record;

        write_file(kinds[k], 40);
        assert_int_equal(est_tfrecord_open(file, EST_TFRECORD_READ(.buffer_bytes = 700), &r), EST_OK);
        for (int i = 0; i < 40; i++) {
            at[i] = est_tfrecord_tell(r);
            assert_int_equal(at[i].record, i);
            expect_record(r, i);
        }
        at[40] = est_tfrecord_tell(r);
        for (int i = 0; i < 200; i++) {
            int to = i * 17 % 41;

            assert_int_equal(est_tfrecord_seek(r, at[to]), EST_OK);
            for (int j = to; j < 40 && j < to + 3; j++) expect_record(r, j);
            if (to == 40) assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
        }
        at[40].offset++;
        assert_int_equal(est_tfrecord_seek(r, at[40]), EST_OUT_OF_RANGE);
        est_tfrecord_close(r);
    }
}

TEST(empty_files)
{
    for (int k = -1; k < 3; k++) {
        est_tfrecord_reader *r;
        est_str              record;

        if (k < 0)
            put_file("", 0);
        else
            write_file(kinds[k], 0);
        assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
        assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
        est_tfrecord_close(r);
    }
    for (int k = 0; k < 3; k++) { /* with a named kind too */
        est_tfrecord_reader *r;
        est_str              record;

        put_file("", 0);
        assert_int_equal(est_tfrecord_open(file, EST_TFRECORD_READ(.compression = kinds[k]), &r), EST_OK);
        assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
        est_tfrecord_close(r);
    }
}

/* A plain file whose first length looks like the magic number of gzip. */
TEST(detection_asks_the_checksum_first)
{
    static const char    bytes[0x8b1f];
    est_tfrecord_writer *w;
    est_tfrecord_reader *r;
    est_str              record;

    assert_int_equal(est_tfrecord_create(file, NULL, &w), EST_OK);
    assert_int_equal(est_tfrecord_write(w, bytes, sizeof bytes), EST_OK);
    assert_int_equal(est_tfrecord_finish(w), EST_OK);
    assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OK);
    assert_int_equal(record.size, sizeof bytes);
    est_tfrecord_close(r);
}

/* Two gzip files one after the other are one. */
TEST(two_streams)
{
    est_tfrecord_reader *r;
    est_str              record;
    char                *bytes, *twice;
    size_t               size;

    write_file(EST_COMPRESSION_GZIP, 4);
    assert_int_equal(est_file_read(file, &bytes, &size), EST_OK);
    twice = malloc(2 * size);
    memcpy(twice, bytes, size);
    memcpy(twice + size, bytes, size);
    put_file(twice, 2 * size);
    assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
    for (int i = 0; i < 8; i++) expect_record(r, i % 4);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OUT_OF_RANGE);
    est_tfrecord_close(r);
    est_free(bytes);
    free(twice);
}

/* Reads a file of records "one", "two", "three"; they come right and in order, or an error does. Returns how many. */
static int read_three(est_status *status)
{
    static const char *const want[] = { "one", "two", "three" };
    est_tfrecord_reader     *r;
    est_str                  record;
    int                      n = 0;

    *status = est_tfrecord_open(file, EST_TFRECORD_READ(.record_bytes_max = 1 << 20), &r);
    if (*status != EST_OK) return 0;
    while ((*status = est_tfrecord_next(r, &record)) == EST_OK) {
        assert_true(n < 3);
        assert_int_equal(record.size, strlen(want[n]));
        assert_memory_equal(record.data, want[n], record.size);
        n++;
    }
    est_tfrecord_close(r);
    return n;
}

static void write_three(est_compression compression, char **bytes, size_t *size)
{
    est_tfrecord_writer *w;

    assert_int_equal(est_tfrecord_create(file, EST_TFRECORD_WRITE(.compression = compression), &w), EST_OK);
    assert_int_equal(est_tfrecord_write(w, "one", 3), EST_OK);
    assert_int_equal(est_tfrecord_write(w, "two", 3), EST_OK);
    assert_int_equal(est_tfrecord_write(w, "three", 5), EST_OK);
    assert_int_equal(est_tfrecord_finish(w), EST_OK);
    assert_int_equal(est_file_read(file, bytes, size), EST_OK);
}

TEST(every_flip)
{
    for (int k = 0; k < 3; k++) {
        char  *bytes;
        size_t size;

        write_three(kinds[k], &bytes, &size);
        for (size_t at = 0; at < size; at++) {
            for (int bit = 0; bit < 8; bit++) {
                est_status status;
                int        n;

                bytes[at] ^= (char)(1 << bit);
                put_file(bytes, size);
                n = read_three(&status);
                bytes[at] ^= (char)(1 << bit);
                if (kinds[k] == EST_COMPRESSION_NONE) {
                    assert_int_equal(status, EST_DATA_LOSS);
                    assert_int_equal(n, at < 19 ? 0 : at < 38 ? 1 : 2);
                } else { /* gzip's time and system say nothing about the contents */
                    assert_true(status == EST_DATA_LOSS || (status == EST_OUT_OF_RANGE && n == 3));
                }
            }
        }
        est_free(bytes);
    }
}

TEST(every_cut)
{
    for (int k = 0; k < 3; k++) {
        char  *bytes;
        size_t size;

        write_three(kinds[k], &bytes, &size);
        for (size_t cut = 0; cut < size; cut++) {
            est_status status;
            int        n;

            put_file(bytes, cut);
            n = read_three(&status);
            if (kinds[k] == EST_COMPRESSION_NONE) assert_int_equal(n, cut < 19 ? 0 : cut < 38 ? 1 : 2);
            if (cut == 0 || (kinds[k] == EST_COMPRESSION_NONE && (cut == 19 || cut == 38))) {
                assert_int_equal(status, EST_OUT_OF_RANGE); /* whole records are a whole file */
            } else {
                assert_int_equal(status, EST_DATA_LOSS);
            }
        }
        est_free(bytes);
    }
}

TEST(errors_say_where)
{
    est_tfrecord_reader *r;
    est_str              record;
    char                *bytes;
    size_t               size;

    write_three(EST_COMPRESSION_NONE, &bytes, &size);
    bytes[19 + 13] ^= 1;
    put_file(bytes, size);
    assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_DATA_LOSS);
    expect_error(file);
    expect_error("record 1 at byte 19: damaged: the checksum of its 3 bytes is wrong");
    assert_int_equal(est_tfrecord_tell(r).offset, 19);
    est_tfrecord_close(r);

    /* A length that is wrong from the start is most likely none. */
    put_file("age,trade,hours\n", 16);
    assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_DATA_LOSS);
    expect_error("record 0 at byte 0: damaged: the checksum of its length is wrong; is this a TFRecord file?");
    est_tfrecord_close(r);

    put_file(bytes, 25);
    assert_int_equal(est_tfrecord_open(file, NULL, &r), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_DATA_LOSS);
    expect_error("record 1 at byte 19: cut short: its header has 6 of 12 bytes");
    bytes[19 + 13] ^= 1;
    put_file(bytes, size); /* the rest arrives */
    assert_int_equal(est_tfrecord_next(r, &record), EST_OK);
    assert_memory_equal(record.data, "two", 3);
    est_tfrecord_close(r);
    est_free(bytes);

    assert_int_equal(est_tfrecord_open("/does/not/exist", NULL, &r), EST_NOT_FOUND);
    expect_error("/does/not/exist");
}

TEST(limit)
{
    est_tfrecord_reader *r;
    est_str              record;

    write_file(EST_COMPRESSION_NONE, 4); /* the last one has 66000 bytes */
    assert_int_equal(est_tfrecord_open(file, EST_TFRECORD_READ(.record_bytes_max = 65999), &r), EST_OK);
    for (int i = 0; i < 3; i++) expect_record(r, i);
    assert_int_equal(est_tfrecord_next(r, &record), EST_RESOURCE_EXHAUSTED);
    expect_error("record 3");
    expect_error("has 66000 bytes, the limit is 65999");
    est_tfrecord_close(r);
}

/* A length with a right checksum and little behind it. */
TEST(long_promise)
{
    est_tfrecord_reader *r;
    est_tfrecord_writer *w;
    est_str              record;
    char                *bytes;
    size_t               size;

    assert_int_equal(est_tfrecord_create(file, NULL, &w), EST_OK);
    bytes = calloc(1, 3000000);
    assert_int_equal(est_tfrecord_write(w, bytes, 3000000), EST_OK);
    free(bytes);
    assert_int_equal(est_tfrecord_finish(w), EST_OK);
    assert_int_equal(est_file_read(file, &bytes, &size), EST_OK);
    put_file(bytes, 100);
    est_free(bytes);
    assert_int_equal(est_tfrecord_open(file, EST_TFRECORD_READ(.buffer_bytes = 64), &r), EST_OK);
    assert_int_equal(est_tfrecord_next(r, &record), EST_DATA_LOSS);
    expect_error("cut short: 100 of 3000016 bytes are there");
    est_tfrecord_close(r);
}

TEST(bad_options)
{
    est_tfrecord_read_options  bare   = { .buffer_bytes = 1 };
    est_tfrecord_write_options bare_w = { .level = 1 };
    est_tfrecord_reader       *r;
    est_tfrecord_writer       *w;

    assert_int_equal(est_tfrecord_open(file, &bare, &r), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tfrecord_create(file, &bare_w, &w), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tfrecord_create(file, EST_TFRECORD_WRITE(.level = 10), &w), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tfrecord_create("/does/not/exist", NULL, &w), EST_NOT_FOUND);
    est_tfrecord_close(NULL);
    est_tfrecord_abandon(NULL);
}

TEST(no_memory)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_tfrecord_writer *w = NULL;
        est_tfrecord_reader *r = NULL;
        est_str              record;
        est_status           status;

        fault_arm(&f);
        status = est_tfrecord_create(file, EST_TFRECORD_WRITE(.compression = EST_COMPRESSION_GZIP), &w);
        if (status == EST_OK) status = est_tfrecord_write(w, record_of(3).data, record_of(3).size);
        if (status == EST_OK) {
            status = est_tfrecord_finish(w);
            w      = NULL;
        }
        if (status == EST_OK) status = est_tfrecord_open(file, EST_TFRECORD_READ(.buffer_bytes = 64), &r);
        if (status == EST_OK) status = est_tfrecord_next(r, &record);
        fault_check(&f, status);
        est_tfrecord_abandon(w);
        est_tfrecord_close(r);
    }
}

static int remove_file(void **state)
{
    (void)state;
    unlink(file);
    return 0;
}

int main(void)
{
    snprintf(file, sizeof file, "/tmp/estoc-test-tfrecord-%d", (int)getpid());
    return est_test_run(NULL, remove_file);
}
