/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines: every ending, buffers of every size, quotes over line breaks, places and numbers, limits. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fault.h"
#include "format/lines.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define MANY 64

static char file[128]; /* a scratch file of this process */

static void put_file(const void *bytes, size_t size)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void put_text(const char *text)
{
    put_file(text, strlen(text));
}

static void expect_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

static est_lines *open_file(est_lines_read_options options)
{
    est_lines *lines;

    assert_int_equal(est_lines_open(file, &options, &lines), EST_OK);
    return lines;
}

static void expect_line(est_lines *lines, const char *want)
{
    est_str got;

    assert_int_equal(est_lines_next(lines, &got), EST_OK);
    assert_int_equal(got.size, strlen(want));
    assert_memory_equal(got.data, want, got.size);
}

/* The text is these lines, one by one and many at once, with buffers from tiny to large. */
static void expect_lines(const char *text, bool quoted, const char *const *want, size_t n)
{
    static const size_t buffers[] = { 1, 70, 0 };

    put_text(text);
    for (size_t b = 0; b < 3; b++) {
        for (size_t max = 1; max <= MANY; max = max * 3 + 1) {
            est_lines *lines = open_file((est_lines_read_options){ .buffer_bytes = buffers[b], .quoted = quoted });
            est_str    got[MANY];
            size_t     at = 0, count;
            est_status status;

            while ((status = est_lines_next_many(lines, got, max, &count)) == EST_OK) {
                assert_true(count >= 1 && count <= max);
                if (buffers[b] == 0) assert_true(count == max || at + count == n);
                for (size_t i = 0; i < count; i++, at++) {
                    assert_true(at < n);
                    assert_int_equal(got[i].size, strlen(want[at]));
                    assert_memory_equal(got[i].data, want[at], got[i].size);
                }
            }
            assert_int_equal(status, EST_OUT_OF_RANGE);
            assert_int_equal(at, n);
            assert_int_equal(est_lines_next_many(lines, got, max, &count), EST_OUT_OF_RANGE);
            assert_int_equal(est_lines_tell(lines).offset, strlen(text));
            est_lines_close(lines);
        }
    }
}

#define EXPECT_LINES(text, quoted, ...)                                                                                \
    expect_lines(text, quoted, (const char *const[]){ __VA_ARGS__ },                                                   \
                 sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

TEST(endings)
{
    expect_lines("", false, NULL, 0);
    expect_lines("\xef\xbb\xbf", false, NULL, 0);
    EXPECT_LINES("a", false, "a");
    EXPECT_LINES("a\n", false, "a");
    EXPECT_LINES("a\nb", false, "a", "b");
    EXPECT_LINES("\n", false, "");
    EXPECT_LINES("\n\n\na\n\n", false, "", "", "", "a", "");
    EXPECT_LINES("a\r\nb\r\n\r\nc\rd\re\r\n", false, "a", "b", "", "c\rd\re");
    EXPECT_LINES("a\r\r\nb\r", false, "a\r", "b\r");
    EXPECT_LINES("\xef\xbb\xbf"
                 "a\nb\n",
                 false, "a", "b");
    EXPECT_LINES("\xef\xbb"
                 "a\n\xef\xbb\xbf\n",
                 false,
                 "\xef\xbb"
                 "a",
                 "\xef\xbb\xbf");
    EXPECT_LINES("\"a\nb\"\n", false, "\"a", "b\"");
    EXPECT_LINES("0123456789012345678901234567890123456789012345678901234567890123456789\nshort\n"
                 "0123456789012345678901234567890123456789012345678901234567890123456789x\n\nlast",
                 false, "0123456789012345678901234567890123456789012345678901234567890123456789", "short",
                 "0123456789012345678901234567890123456789012345678901234567890123456789x", "", "last");
}

TEST(quoted)
{
    EXPECT_LINES("\"a\nb\"\nc\n", true, "\"a\nb\"", "c");
    EXPECT_LINES("x,\"a\r\n\r\nb\"\"\n\",y\r\nc,\"\"\n\"\"\"\n\"", true, "x,\"a\r\n\r\nb\"\"\n\",y", "c,\"\"",
                 "\"\"\"\n\"");
    EXPECT_LINES("\"0123456789012345678901234567890123456789\n012345678901234567890123456789\n0123\",x\ny", true,
                 "\"0123456789012345678901234567890123456789\n012345678901234567890123456789\n0123\",x", "y");
}

/* Quotes open only at the start of a field, and what comes after they are closed is of the same field. */
TEST(stray_quotes)
{
    EXPECT_LINES("a,5\" disk\nb,6\nc,\"x\ny\"\n", true, "a,5\" disk", "b,6", "c,\"x\ny\"");
    EXPECT_LINES("a\"b,\"c\nd\"e\"\nf\n", true, "a\"b,\"c\nd\"e\"", "f");
    EXPECT_LINES(" \"a\nb\"\n", true, " \"a", "b\"");
    EXPECT_LINES("a;\"b\nc\"\n", true, "a;\"b", "c\"");
}

/* A file of two lines with a quote open over their break is one record with these options. */
static void check_one_record(const char *text, est_lines_read_options options)
{
    est_lines *lines;
    est_str    line;

    put_text(text);
    options.quoted = true;
    lines          = open_file(options);
    expect_line(lines, text);
    assert_int_equal(est_lines_next(lines, &line), EST_OUT_OF_RANGE);
    est_lines_close(lines);
}

TEST(delimiter)
{
    check_one_record("a;\"b\nc\"", (est_lines_read_options){ .delimiter = ';' });
    check_one_record("a\t\"b\nc\"", (est_lines_read_options){ .delimiter = '\t', .trim = true });
    check_one_record("a\t\t\"b\nc\"\t ", (est_lines_read_options){ .delimiter = '\t', .trim = true });
    check_one_record("a, \t\"b\nc\" ", (est_lines_read_options){ .trim = true });
}

/* A quote that is not closed opens nothing: its line is one record, and those behind it are read. */
TEST(unclosed_quote)
{
    est_lines *lines;

    EXPECT_LINES("a\n\"b\nc\"\nd,\"e\nf\n", true, "a", "\"b\nc\"", "d,\"e", "f");
    EXPECT_LINES("\"a\r\nb\nc,\"\"d", true, "\"a", "b", "c,\"\"d");
    EXPECT_LINES("b\n\"a", true, "b", "\"a");
    EXPECT_LINES("a\"b,\"c\na\"b,\"c\na\"b,\"c\nd\n\"\"\n", true, "a\"b,\"c", "a\"b,\"c", "a\"b,\"c", "d", "\"\"");

    put_text("\"1\n2\n3\n\"\n\"5\"\n\"6\n7\"\n"); /* closed, but too far away */
    for (size_t buffer = 0; buffer < 2; buffer++) {
        lines = open_file((est_lines_read_options){ .quoted = true, .line_bytes_max = 4, .buffer_bytes = buffer });
        expect_line(lines, "\"1");
        expect_line(lines, "2");
        expect_line(lines, "3");
        est_lines_close(lines);
    }
}

/* So many of them are not looked for the closing one each: that would take minutes. */
TEST(many_unclosed)
{
    enum { N = 300000 };
    char      *text = malloc((size_t)N * 8 + 1);
    est_lines *lines;
    est_str    line;
    int64_t    n = 0;

    assert_non_null(text);
    for (int i = 0; i < N; i++) memcpy(text + 7 * i, "a\"b,\"c\n", 8);
    put_text(text);
    free(text);
    lines = open_file((est_lines_read_options){ .quoted = true });
    while (est_lines_next(lines, &line) == EST_OK) n++;
    assert_int_equal(n, N);
    est_lines_close(lines);
}

/* Lines before a bad one are handed out first. */
TEST(limit)
{
    est_lines *lines;
    est_str    got[4];
    size_t     n;

    put_text("123456789\n1234567890\n1234567890\n12345678901\n1\n");
    for (size_t buffer = 0; buffer < 2; buffer++) {
        lines = open_file((est_lines_read_options){ .line_bytes_max = 10, .buffer_bytes = buffer });
        for (size_t seen = 0; seen < 3; seen += n) assert_int_equal(est_lines_next_many(lines, got, 4, &n), EST_OK);
        assert_int_equal(est_lines_next_many(lines, got, 4, &n), EST_RESOURCE_EXHAUSTED);
        expect_error(file);
        expect_error("line 4 is longer than the limit of 10 bytes");
        assert_int_equal(est_lines_tell(lines).line, 3);
        est_lines_close(lines);
    }
    put_text("a\n123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890");
    lines = open_file((est_lines_read_options){ .line_bytes_max = 80, .buffer_bytes = 64 });
    expect_line(lines, "a");
    assert_int_equal(est_lines_next(lines, got), EST_RESOURCE_EXHAUSTED);
    est_lines_close(lines);
}

/* A file of n records of which some go over several lines; record i begins at line starts[i]. */
static void make_records(int n, char (*records)[40], uint64_t *starts, char *text)
{
    uint64_t line = 1;
    size_t   size = 0;

    for (int i = 0; i < n; i++) {
        starts[i] = line;
        snprintf(records[i], 40, i % 5 == 2 ? "%d,\"two\nlines\"" : i % 7 == 3 ? "%d,\"\n\n\"" : "%d,one", i);
        line += i % 5 == 2 ? 2 : i % 7 == 3 ? 3 : 1;
        size += (size_t)snprintf(text + size, 5000 - size, "%s\r\n", records[i]);
    }
}

static void check_places(est_lines_read_options options)
{
    static char        records[100][40], text[5000];
    uint64_t           starts[100];
    est_lines_position at[100];
    est_lines         *lines;
    est_str            got[100];
    size_t             n;

    make_records(100, records, starts, text);
    lines = open_file(options);
    for (int i = 0; i < 100; i++) {
        at[i] = est_lines_tell(lines);
        assert_int_equal(at[i].line + 1, starts[i]);
        expect_line(lines, records[i]);
    }
    for (int i = 99; i >= 0; i -= 7) {
        assert_int_equal(est_lines_seek(lines, at[i]), EST_OK);
        assert_int_equal(est_lines_next_many(lines, got, 100, &n), EST_OK);
        for (size_t k = 0; k < n; k++) {
            assert_memory_equal(got[k].data, records[i + (int)k], got[k].size);
            assert_int_equal(est_lines_number(lines, got[k]), starts[i + (int)k]);
        }
    }
    est_lines_close(lines);
}

TEST(places)
{
    static char records[100][40], text[5000], packed[5000];
    uint64_t    starts[100];
    z_stream    z = { .next_out = (Bytef *)packed, .avail_out = sizeof packed };

    make_records(100, records, starts, text);
    put_text(text);
    check_places((est_lines_read_options){ .quoted = true });
    check_places((est_lines_read_options){ .quoted = true, .buffer_bytes = 100 });
    z.next_in  = (Bytef *)text;
    z.avail_in = (uInt)strlen(text);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    put_file(packed, z.total_out);
    check_places((est_lines_read_options){ .quoted = true, .buffer_bytes = 100 });
}

TEST(back_to_the_mark)
{
    est_lines         *lines;
    est_lines_position begin;

    put_text("\xef\xbb\xbf"
             "a\nb\n");
    lines = open_file((est_lines_read_options){ 0 });
    begin = est_lines_tell(lines);
    expect_line(lines, "a");
    assert_int_equal(est_lines_tell(lines).offset, 5);
    assert_int_equal(est_lines_seek(lines, begin), EST_OK);
    expect_line(lines, "a");
    expect_line(lines, "b");
    est_lines_close(lines);
}

/* Who writes to a pipe gets every line read before the next one comes, however short it is. A byte more than it would
 * be waited for until the alarm. */
TEST(pipe)
{
    static const char *const texts[]  = { "\n", "7\n", "x\n", "x", "\n", "\"a\nb", "\"\n" };
    static const char *const wanted[] = { "", "7", "x", NULL, "x", NULL, "\"a\nb\"" };
    est_lines               *lines;
    int                      pipes[2];
    char                     path[32];

    alarm(60);
    for (size_t first = 0; first < 3; first++) {
        assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
        snprintf(path, sizeof path, "/dev/fd/%d", pipes[0]);
        for (size_t i = first; i < sizeof texts / sizeof texts[0]; i++) {
            assert_int_equal(write(pipes[1], texts[i], strlen(texts[i])), strlen(texts[i]));
            if (i == first) {
                assert_int_equal(est_lines_open(path, &(est_lines_read_options){ .quoted = true }, &lines), EST_OK);
            }
            assert_int_equal(est_lines_is_ready(lines), wanted[i] != NULL);
            if (wanted[i] != NULL) expect_line(lines, wanted[i]);
        }
        assert_false(est_lines_is_ready(lines));
        close(pipes[1]);
        assert_true(est_lines_is_ready(lines));
        assert_int_equal(est_lines_next(lines, &(est_str){ 0 }), EST_OUT_OF_RANGE);
        est_lines_close(lines);
        close(pipes[0]);
    }
    alarm(0);
}

TEST(no_file)
{
    est_lines *lines;

    assert_int_equal(est_lines_open("/does/not/exist", NULL, &lines), EST_NOT_FOUND);
    expect_error("/does/not/exist");
    est_lines_close(NULL);
}

/* Every flip and every cut of a file still gives lines that, put together, are the file. */
TEST(every_flip_and_cut)
{
    static const char good[] = "\xef\xbb\xbf"
                               "a,\"b\nc\"\r\nd,e\n\n\"f\"\"\"\ng";
    size_t            size   = sizeof good - 1;

    for (size_t i = 0; i < 9 * size; i++) {
        char       text[sizeof good];
        size_t     n = i < size ? i : size, total = 0, count;
        est_str    got[3];
        est_lines *lines;
        est_status status;

        memcpy(text, good, sizeof good);
        if (i >= size) text[(i - size) / 8] = (char)(text[(i - size) / 8] ^ 1 << i % 8);
        put_file(text, n);
        lines = open_file(
            (est_lines_read_options){ .quoted = true, .buffer_bytes = 1, .compression = EST_COMPRESSION_NONE });
        while ((status = est_lines_next_many(lines, got, 3, &count)) == EST_OK) {
            for (size_t k = 0; k < count; k++) total += got[k].size;
        }
        assert_true(status == EST_OUT_OF_RANGE || status == EST_INVALID_ARGUMENT);
        assert_true(total <= n);
        if (status == EST_OUT_OF_RANGE) assert_int_equal(est_lines_tell(lines).offset, n);
        est_lines_close(lines);
    }
}

/* A failure while lines were found already gives these; the next call meets the failure or gets over it. */
TEST(faults)
{
    static char text[4000], all[4000];

    for (int i = 0; i < 300; i++) snprintf(text + strlen(text), 32, "line %d\n", i);
    memset(text + 500, 'x', 700); /* one that does not fit the buffer */
    put_text(text);
    FAULT_LOOPS(f) {
        est_lines *lines = NULL;
        est_status status;
        est_str    got[7];
        size_t     count, size = 0;

        fault_arm(&f);
        status = est_lines_open(file, &(est_lines_read_options){ .buffer_bytes = 64 }, &lines);
        for (int failures = 0; lines != NULL && status != EST_OUT_OF_RANGE && failures < 3;) {
            status = est_lines_next_many(lines, got, 7, &count);
            failures += status != EST_OK;
            for (size_t k = 0; status == EST_OK && k < count; k++) {
                memcpy(all + size, got[k].data, got[k].size);
                size += got[k].size;
                all[size++] = '\n';
            }
        }
        assert_true(fault_end(&f) || lines != NULL);
        if (lines != NULL) {
            assert_int_equal(status, EST_OUT_OF_RANGE);
            assert_int_equal(size, strlen(text));
            assert_memory_equal(all, text, size);
        }
        est_lines_close(lines);
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
    snprintf(file, sizeof file, "/tmp/estoc-test-lines-%d", (int)getpid());
    return est_test_run(NULL, remove_file);
}
