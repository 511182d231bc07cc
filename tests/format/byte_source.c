/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of plain and compressed files: views of every size, places, several gzip members, growth, and damage of every
 * byte. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "format/byte_source.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define CONTENTS 200000

static char    file[128]; /* a scratch file of this process */
static uint8_t contents[CONTENTS];

static const est_compression kinds[] = { EST_COMPRESSION_NONE, EST_COMPRESSION_ZLIB, EST_COMPRESSION_GZIP };

static void put_file(const void *bytes, size_t size, int flags)
{
    int fd = open(file, O_WRONLY | O_CREAT | flags, 0666);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

/* One compressed stream (or the bytes themselves) of contents[from, to); returns its size. */
static size_t pack(est_compression kind, size_t from, size_t to, uint8_t *out, size_t room)
{
    z_stream z = {
        .next_in = contents + from, .avail_in = (uInt)(to - from), .next_out = out, .avail_out = (uInt)room
    };

    if (kind == EST_COMPRESSION_NONE) {
        memcpy(out, contents + from, to - from);
        return to - from;
    }
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, kind == EST_COMPRESSION_GZIP ? EST_GZIP_WINDOW : EST_ZLIB_WINDOW,
                                  8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

/* The first n bytes of the contents as a file of so many streams. */
static void write_file(est_compression kind, size_t n, size_t streams)
{
    static uint8_t packed[CONTENTS + 4096];

    put_file("", 0, O_TRUNC);
    for (size_t i = 0; i < streams; i++) {
        put_file(packed, pack(kind, n * i / streams, n * (i + 1) / streams, packed, sizeof packed), O_APPEND);
    }
}

static est_byte_source *open_file(size_t buffer_bytes)
{
    est_byte_source *s;

    assert_int_equal(est_byte_source_open(file, &(est_byte_source_options){ .buffer_bytes = buffer_bytes }, &s),
                     EST_OK);
    return s;
}

static void expect_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

/* Walks to the end by views of many sizes and uneven steps. */
static void walk(est_byte_source *s, size_t n)
{
    size_t at = 0;

    for (int i = 0;; i++) {
        size_t  want = (size_t)(i * 37 % 300 + (i % 50 == 7 ? 5000 : 0)), step;
        est_str view;

        assert_int_equal(est_byte_source_need(s, want, &view), EST_OK);
        assert_int_equal(est_byte_source_tell(s), at);
        assert_true(view.size >= want || view.size == n - at);
        assert_true(view.size <= n - at);
        assert_memory_equal(view.data, contents + at, view.size);
        if (at == n) break;
        step = view.size < want ? view.size : want;
        est_byte_source_skip(s, step);
        at += step;
    }
}

TEST(views)
{
    static const size_t buffers[] = { 1, 1000, 0 };

    for (int k = 0; k < 3; k++) {
        for (size_t streams = 1; streams <= 3; streams += 2) {
            if (kinds[k] == EST_COMPRESSION_ZLIB && streams > 1) continue;
            write_file(kinds[k], CONTENTS, streams);
            for (int b = 0; b < 3; b++) {
                est_byte_source *s = open_file(buffers[b]);

                assert_int_equal(est_byte_source_compression(s), kinds[k]);
                assert_string_equal(est_byte_source_path(s), file);
                walk(s, CONTENTS);
                est_byte_source_close(s);
            }
        }
    }
}

TEST(read)
{
    static uint8_t got[CONTENTS + 1];

    for (int k = 0; k < 3; k++) {
        est_byte_source *s;
        est_str          view;
        size_t           n;

        write_file(kinds[k], CONTENTS, 1);
        s = open_file(1000);
        assert_int_equal(est_byte_source_need(s, 10, &view), EST_OK);
        assert_int_equal(est_byte_source_read(s, got, 5, &n), EST_OK); /* from the view */
        assert_int_equal(est_byte_source_read(s, got + 5, 50000, &n), EST_OK);
        assert_int_equal(n, 50000);
        assert_int_equal(est_byte_source_tell(s), 50005);
        assert_int_equal(est_byte_source_need(s, 10, &view), EST_OK);
        assert_memory_equal(view.data, contents + 50005, 10);
        assert_int_equal(est_byte_source_read(s, got + 50005, CONTENTS, &n), EST_OUT_OF_RANGE);
        assert_int_equal(n, CONTENTS - 50005);
        assert_memory_equal(got, contents, CONTENTS);
        assert_int_equal(est_byte_source_seek(s, 3), EST_OK);
        assert_int_equal(est_byte_source_read(s, got, 10, &n), EST_OK);
        assert_memory_equal(got, contents + 3, 10);
        assert_int_equal(est_byte_source_read(s, got, 0, &n), EST_OK);
        est_byte_source_close(s);
    }
}

TEST(places)
{
    for (int k = 0; k < 3; k++) {
        est_byte_source *s;
        est_str          view;
        uint64_t         at = 0;

        write_file(kinds[k], CONTENTS, kinds[k] == EST_COMPRESSION_GZIP ? 2 : 1);
        s = open_file(700);
        for (int i = 0; i < 60; i++) {
            at = (at * 31 + 7919) % (CONTENTS + 1);
            if (i % 4 == 3) at = est_byte_source_tell(s) / 2;
            assert_int_equal(est_byte_source_seek(s, at), EST_OK);
            assert_int_equal(est_byte_source_tell(s), at);
            assert_int_equal(est_byte_source_need(s, 300, &view), EST_OK);
            assert_true(view.size >= 300 || view.size == CONTENTS - at);
            assert_memory_equal(view.data, contents + at, view.size);
        }
        assert_int_equal(est_byte_source_seek(s, CONTENTS + 1), EST_OUT_OF_RANGE);
        expect_error("none at 200001");
        assert_int_equal(est_byte_source_seek(s, CONTENTS), EST_OK);
        assert_int_equal(est_byte_source_need(s, 1, &view), EST_OK);
        assert_int_equal(view.size, 0);
        est_byte_source_close(s);
    }
}

/* Has a mark of every place that steps of 97 bytes lead to; each is found again by a new source, and has the bytes
 * before it, however small the buffer is. */
TEST(marks)
{
    for (int k = 0; k < 3; k++) {
        for (int small = 0; small <= 1; small++) {
            est_byte_source *s, *again;
            est_str          view;

            write_file(kinds[k], 5000, 1);
            s     = open_file(small ? 64 : 0);
            again = open_file(small ? 64 : 0);
            for (size_t at = 0; at <= 5000; at += 97) {
                size_t               n    = at < EST_BYTE_SOURCE_PIECE ? at : EST_BYTE_SOURCE_PIECE;
                est_byte_source_mark mark = est_byte_source_get_mark(s), other;

                assert_int_equal(mark.offset, at);
                assert_int_equal(mark.piece, est_crc32c(contents + at - n, n));
                assert_int_equal(est_byte_source_seek_mark(again, &mark), EST_OK);
                other = est_byte_source_get_mark(again); /* without reading on */
                assert_int_equal(other.offset, at);
                assert_int_equal(other.piece, mark.piece);
                assert_int_equal(est_byte_source_need(again, 97, &view), EST_OK);
                assert_memory_equal(view.data, contents + at, view.size);
                mark.piece ^= 1;
                assert_int_equal(est_byte_source_seek_mark(again, &mark), EST_FAILED_PRECONDITION);
                expect_error("has changed since: the bytes before byte");
                assert_int_equal(est_byte_source_need(s, 97, &view), EST_OK);
                if (view.size >= 97) est_byte_source_skip(s, 97);
            }
            est_byte_source_close(again);
            est_byte_source_close(s);
        }
    }
}

/* A failed seek in a plain file leaves the reader where it was. */
TEST(failed_seek)
{
    est_byte_source *s;
    est_str          view;

    write_file(EST_COMPRESSION_NONE, 1000, 1);
    s = open_file(64);
    assert_int_equal(est_byte_source_need(s, 64, &view), EST_OK);
    assert_int_equal(est_byte_source_seek(s, 1001), EST_OUT_OF_RANGE);
    walk(s, 1000);
    est_byte_source_close(s);
}

TEST(growing_file)
{
    est_byte_source *s;
    est_str          view;

    for (int k = 0; k < 3; k += 2) {
        uint8_t packed[2000];

        write_file(kinds[k], 1000, 1);
        s = open_file(0);
        assert_int_equal(est_byte_source_need(s, 2000, &view), EST_OK);
        assert_int_equal(view.size, 1000);
        put_file(packed, pack(kinds[k], 1000, 1500, packed, sizeof packed), O_APPEND);
        assert_int_equal(est_byte_source_need(s, 2000, &view), EST_OK);
        assert_int_equal(view.size, 1500);
        assert_memory_equal(view.data, contents, 1500);
        est_byte_source_close(s);
    }
}

TEST(empty_and_small)
{
    static const char *const texts[] = { "", "x", "\x1f", "\x78", "xy" };

    for (size_t i = 0; i < 5; i++) {
        est_byte_source *s;
        est_str          view;

        put_file(texts[i], strlen(texts[i]), O_TRUNC);
        s = open_file(0);
        assert_int_equal(est_byte_source_compression(s), EST_COMPRESSION_NONE);
        assert_int_equal(est_byte_source_file_bytes(s), strlen(texts[i]));
        assert_int_equal(est_byte_source_need(s, 10, &view), EST_OK);
        assert_int_equal(view.size, strlen(texts[i]));
        est_byte_source_close(s);
    }
    put_file("", 0, O_TRUNC);
    for (int k = 0; k < 3; k++) {
        est_byte_source *s;
        est_str          view;

        assert_int_equal(est_byte_source_open(file, &(est_byte_source_options){ .compression = kinds[k] }, &s), EST_OK);
        assert_int_equal(est_byte_source_need(s, 1, &view), EST_OK);
        assert_int_equal(view.size, 0);
        est_byte_source_close(s);
    }
}

static bool say_plain(const uint8_t *bytes, size_t size)
{
    return size >= 12 && bytes[0] == 0x1f;
}

TEST(detection_can_be_overruled)
{
    est_byte_source *s;
    est_str          view;

    write_file(EST_COMPRESSION_GZIP, 1000, 1);
    assert_int_equal(est_byte_source_open(file, &(est_byte_source_options){ .is_plain = say_plain }, &s), EST_OK);
    assert_int_equal(est_byte_source_compression(s), EST_COMPRESSION_NONE);
    assert_int_equal(est_byte_source_need(s, 2, &view), EST_OK);
    assert_memory_equal(view.data, "\x1f\x8b", 2);
    est_byte_source_close(s);
}

static void expect_plain(const char *text)
{
    est_byte_source *s;
    est_str          view;

    put_file(text, strlen(text), O_TRUNC);
    s = open_file(0);
    assert_int_equal(est_byte_source_compression(s), EST_COMPRESSION_NONE);
    assert_int_equal(est_byte_source_need(s, strlen(text), &view), EST_OK);
    assert_int_equal(view.size, strlen(text));
    assert_memory_equal(view.data, text, view.size);
    est_byte_source_close(s);
}

/* The first two bytes of these could be of a zlib stream. */
TEST(text_that_looks_compressed)
{
    static char long_text[2000];

    for (size_t i = 0; i + 1 < sizeof long_text; i++) long_text[i] = (char)('0' + i * i % 43);
    expect_plain("x y\n1 2\n");
    expect_plain("x? y\n1 2\n");
    expect_plain("x}");
    expect_plain("x^");
    expect_plain("x^2,y\n1,2\n");
    for (char c = ' '; c < 127; c++) {
        char text[] = "x^.,y,z\n1,2,3\n4,5,6\n";

        text[2] = long_text[2] = c;
        expect_plain(text);
        memcpy(long_text, "x^", 2);
        expect_plain(long_text);
    }
}

/* Its header is "x^" too, and its bytes are text or not. */
TEST(fast_zlib_is_found)
{
    for (size_t n = 0; n < 2000; n = 2 * n + 1) {
        static uint8_t   packed[CONTENTS];
        uLongf           size = sizeof packed;
        est_byte_source *s;

        assert_int_equal(compress2(packed, &size, contents, n, 2), Z_OK);
        assert_int_equal(packed[1], '^');
        put_file(packed, size, O_TRUNC);
        s = open_file(0);
        assert_int_equal(est_byte_source_compression(s), EST_COMPRESSION_ZLIB);
        walk(s, n);
        est_byte_source_close(s);
    }
}

TEST(errors)
{
    est_byte_source *s;
    est_str          view;

    assert_int_equal(est_byte_source_open("/does/not/exist", NULL, &s), EST_NOT_FOUND);
    expect_error("/does/not/exist");
    assert_int_equal(est_byte_source_open(file, &(est_byte_source_options){ .compression = 9 }, &s),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_byte_source_open("/tmp", NULL, &s), EST_FAILED_PRECONDITION); /* a directory */
    expect_error("/tmp");
    put_file("not compressed", 14, O_TRUNC);
    assert_int_equal(est_byte_source_open(file, &(est_byte_source_options){ .compression = EST_COMPRESSION_GZIP }, &s),
                     EST_OK);
    assert_int_equal(est_byte_source_need(s, 1, &view), EST_DATA_LOSS);
    expect_error(file);
    expect_error("cannot decompress after byte 0");
    est_byte_source_close(s);
}

/* Damage of a gzip file, whose checksum covers all of its contents, is seen or does not matter. */
TEST(every_flip_and_cut)
{
    uint8_t packed[512];
    size_t  size;

    write_file(EST_COMPRESSION_GZIP, 300, 1);
    size = pack(EST_COMPRESSION_GZIP, 0, 300, packed, sizeof packed);
    for (size_t i = 0; i < 2 * size; i++) {
        bool             is_cut = i >= size;
        est_byte_source *s;
        est_str          view;
        est_status       status;

        if (!is_cut) packed[i] ^= (uint8_t)(1 << i % 8);
        put_file(packed, is_cut ? i - size : size, O_TRUNC);
        assert_int_equal(
            est_byte_source_open(
                file, &(est_byte_source_options){ .compression = EST_COMPRESSION_GZIP, .buffer_bytes = 64 }, &s),
            EST_OK);
        status = est_byte_source_need(s, 1000, &view);
        if (status == EST_OK) {
            assert_int_equal(view.size, i == size ? 0 : 300);
            assert_memory_equal(view.data, contents, view.size);
            assert_true(!is_cut || i == size);
        } else {
            assert_int_equal(status, EST_DATA_LOSS);
        }
        est_byte_source_close(s);
        if (!is_cut) packed[i] ^= (uint8_t)(1 << i % 8);
    }
}

/* How many bytes come before the file fails, asking for one more at a time. */
static size_t good_bytes(size_t buffer_bytes)
{
    est_byte_source *s = open_file(buffer_bytes);
    est_str          view;
    size_t           n = 0;

    while (est_byte_source_need(s, 1, &view) == EST_OK && view.size > 0) {
        assert_memory_equal(view.data, contents + n, view.size);
        n += view.size;
        est_byte_source_skip(s, view.size);
    }
    est_byte_source_close(s);
    return n;
}

/* Of a file cut short all comes that can be told, whatever the buffer. */
TEST(cut_files_give_the_same)
{
    static uint8_t packed[CONTENTS];
    size_t         size;

    memset(contents, 'x', 1000); /* long matches: output that zlib holds back */
    size = pack(EST_COMPRESSION_ZLIB, 0, 1000, packed, sizeof packed);
    for (size_t n = 2; n < size; n++) {
        put_file(packed, n, O_TRUNC);
        assert_int_equal(good_bytes(64), good_bytes(0));
    }
}

TEST(no_memory)
{
    write_file(EST_COMPRESSION_GZIP, 1000, 1);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_byte_source *s = NULL;
        est_str          view;
        est_status       status;

        fault_arm(&f);
        status = est_byte_source_open(file, &(est_byte_source_options){ .buffer_bytes = 64 }, &s);
        if (status == EST_OK) status = est_byte_source_need(s, 1000, &view);
        fault_check(&f, status);
        est_byte_source_close(s);
    }
}

TEST(read_faults)
{
    write_file(EST_COMPRESSION_ZLIB, CONTENTS, 1);
    FAULT_LOOP(f, FAULT_POINTS) {
        est_byte_source *s = NULL;
        est_str          view;
        est_status       status;

        fault_arm(&f);
        status = est_byte_source_open(file, NULL, &s);
        if (status == EST_OK) status = est_byte_source_need(s, CONTENTS + 1, &view);
        if (fault_end(&f)) assert_int_equal(status, EST_DATA_LOSS);
        if (s != NULL) {
            assert_int_equal(est_byte_source_need(s, CONTENTS + 1, &view), EST_OK); /* goes on after it */
            assert_int_equal(view.size, CONTENTS);
            assert_memory_equal(view.data, contents, CONTENTS);
        }
        est_byte_source_close(s);
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
    for (size_t i = 0; i < CONTENTS; i++) contents[i] = (uint8_t)(i * i / 7 + (i >> 5));
    snprintf(file, sizeof file, "/tmp/estoc-test-byte-source-%d", (int)getpid());
    return est_test_run(NULL, remove_file);
}
