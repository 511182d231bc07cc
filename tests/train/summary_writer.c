/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary writer: every kind of value read back, pictures pixel by pixel, when it flushes, and that a failing disk
 * is only a warning. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <zlib.h>

#include "base/clock.h"
#include "support/fault_loop.h"
#include "train/events_test.h"
#include "train/summary_writer.h"

#define WALL INT64_C(1700000000)

static est_manual_clock clock_at;

static int set_clock(void **state)
{
    (void)state;
    est_manual_clock_init(&clock_at, 0, WALL * EST_NS_PER_SEC);
    est_clock_set(&clock_at.clock);
    log_keep(EST_LOG_WARN);
    return 0;
}

static est_summary_writer *make_writer(const char *dir)
{
    est_summary_writer *writer;

    assert_ok(est_summary_writer_create(dir, "", &writer));
    return writer;
}

static void write_scalar(est_summary_writer *writer, int64_t step, double value)
{
    est_summary_begin(writer, step);
    est_summary_add_scalar(writer, "loss", value);
    est_summary_end(writer);
}

static void write_all(est_summary_writer *writer)
{
    static const int64_t values[] = { -2, 3, 4 };
    static const uint8_t pixels[] = { 0, 50, 100, 200 };
    const est_shape      shape    = EST_SHAPE(2, 2, 1, 1);

    est_summary_session_log(writer, EST_SESSION_START, "", 3);
    est_summary_graph(writer, 0, (est_str){ "GRAPH", 5 });
    est_summary_begin(writer, 7);
    est_summary_add_scalar(writer, "loss", 0.25);
    est_summary_add_histogram(writer, "weights", EST_I64, values, 3);
    est_summary_add_text(writer, "note", (est_str){ "**hi**", 6 });
    est_summary_add_images(writer, "one", EST_U8, &shape, pixels, 1);
    est_summary_add_images(writer, "more", EST_U8, &shape, pixels, 3);
    est_summary_end(writer);
    est_summary_begin(writer, 8); /* nothing to say: no event */
    est_summary_end(writer);
    est_summary_session_log(writer, EST_SESSION_CHECKPOINT, "model.ckpt-8", 8);
}

static const char written_text[] = "3: session 1 ; 0: kind 4 GRAPH; "
                                   "7: loss=0.25 weights=3 of -2..4 sum 5 note=text(**hi**) one/image=2x1x1 "
                                   "more/image/0=2x1x1 more/image/1=2x1x1; 8: session 3 model.ckpt-8";

TEST(events, .setup_func = set_clock)
{
    est_summary_writer *writer = make_writer(at("a/deep/dir"));
    char                path[PATH_MAX], host[HOST_NAME_MAX + 1] = "", name[PATH_MAX];

    assert_string_equal(est_summary_writer_path(writer), "");
    est_summary_flush(writer);
    est_summary_tick(writer);
    assert_false(est_file_exists(at("a"))); /* made by the first event */
    write_all(writer);
    snprintf(path, sizeof path, "%s", est_summary_writer_path(writer));
    assert_ok(est_summary_writer_status(writer));
    est_summary_writer_free(writer);
    est_summary_writer_free(NULL);
    assert_string_equal(events_of(path), written_text);
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s/events.out.tfevents.%010d.%s", at("a/deep/dir"), (int)WALL, host);
    assert_string_equal(path, name);

    writer = make_writer(at("a/deep/dir")); /* in the same second: another file, after the first */
    write_scalar(writer, 1, 5);
    snprintf(name, sizeof name, "%s/events.out.tfevents.%010d.%s", at("a/deep/dir"), (int)WALL + 1, host);
    assert_string_equal(est_summary_writer_path(writer), name);
    est_summary_writer_free(writer);
    assert_string_equal(events_of(path), written_text);
    assert_string_equal(events_of(name), "1: loss=5");
    assert_int_equal(log_count(EST_LOG_WARN, ""), 0);
}

TEST(flush, .setup_func = set_clock)
{
    est_summary_writer *writer = make_writer(at("flush"));
    const char         *path;

    write_scalar(writer, 1, 1);
    path = est_summary_writer_path(writer);
    assert_string_equal(events_of(path), "1: loss=1"); /* the first is seen at once */
    est_manual_clock_advance(&clock_at, 4 * EST_NS_PER_SEC);
    write_scalar(writer, 2, 2);
    est_summary_tick(writer);
    assert_string_equal(events_of(path), "1: loss=1");
    est_manual_clock_advance(&clock_at, 1 * EST_NS_PER_SEC);
    est_summary_tick(writer);
    assert_string_equal(events_of(path), "1: loss=1; 2: loss=2");
    est_manual_clock_advance(&clock_at, 5 * EST_NS_PER_SEC);
    write_scalar(writer, 3, 3); /* an event does it too */
    assert_string_equal(events_of(path), "1: loss=1; 2: loss=2; 3: loss=3");
    write_scalar(writer, 4, 4);
    est_summary_flush(writer);
    assert_string_equal(events_of(path), "1: loss=1; 2: loss=2; 3: loss=3; 4: loss=4");
    est_summary_session_log(writer, EST_SESSION_CHECKPOINT, "c", 5);
    write_scalar(writer, 5, 5); /* what is said of the step that was saved */
    assert_string_equal(events_of(path), "1: loss=1; 2: loss=2; 3: loss=3; 4: loss=4; 5: session 3 c; 5: loss=5");
    est_summary_writer_free(writer);
}

/* --- pictures ----------------------------------------------------------------------------------------------------- */

/* The pixels of the only picture of the only summary. */
static void decode(const char *path, uint8_t *out, size_t n_rows, size_t row)
{
    est_event_reader  *reader;
    est_event          event;
    est_summary_cursor cursor;
    est_summary_value  value;
    est_image_view     image;
    bool               found;
    uint8_t            plain[256];
    uLongf             n = sizeof plain;

    assert_ok(est_event_reader_open(path, &reader));
    assert_ok(est_event_next(reader, &event));
    assert_ok(est_event_next(reader, &event));
    est_summary_cursor_init(&cursor, event.bytes);
    assert_ok(est_summary_cursor_next(&cursor, &found, &value));
    assert_ok(est_image_parse(value.message, &image));
    assert_int_equal(uncompress(plain, &n, (const Bytef *)image.encoded.data + 8 + 25 + 8, image.encoded.size - 41),
                     Z_OK);
    assert_int_equal(n, n_rows * (row + 1));
    for (size_t y = 0; y < n_rows; y++) memcpy(out + y * row, plain + y * (row + 1) + 1, row);
    est_event_reader_close(reader);
}

typedef struct picture_case {
    float   in[4];
    uint8_t gray[4];
    uint8_t rgb[12]; /* of in, in / 2, in / 4 */
} picture_case;

/* What TensorFlow 2.15 makes of these. */
static const picture_case picture_cases[] = {
    { { 0, .25F, .5F, 1 }, { 0, 63, 127, 255 }, { 0, 0, 0, 63, 31, 15, 127, 63, 31, 255, 127, 63 } },
    { { -1, -.5F, 0, .5F }, { 1, 64, 128, 191 }, { 1, 64, 96, 64, 96, 112, 128, 128, 128, 191, 159, 143 } },
    { { NAN, .5F, 1, .2F }, { 255, 127, 255, 51 }, { 255, 0, 0, 127, 63, 31, 255, 127, 63, 51, 25, 12 } },
    { { 0, 1e-7F, 0, 0 }, { 0, 0, 0, 0 }, { 0 } },
    { { -.2F, 0, .7F, 1 }, { 102, 128, 216, 255 }, { 102, 115, 121, 128, 128, 128, 216, 172, 150, 255, 191, 159 } },
    { { INFINITY, -3, 0, 1 }, { 255, 1, 128, 170 }, { 255, 0, 0, 1, 64, 96, 128, 128, 128, 170, 149, 138 } },
};

TEST(pictures, .setup_func = set_clock)
{
    for (size_t i = 0; i < sizeof picture_cases / sizeof *picture_cases; i++) {
        const picture_case *c = &picture_cases[i];

        for (int channels = 1; channels <= 3; channels += 2) {
            est_shape           shape = EST_SHAPE(1, 2, 2, channels);
            est_summary_writer *writer;
            float               values[12];
            uint8_t             got[12];
            char                dir[32];

            for (int k = 0; k < 4 * channels; k++) values[k] = c->in[k / channels] / (float)(1 << k % channels);
            snprintf(dir, sizeof dir, "picture-%zu-%d", i, channels);
            writer = make_writer(at(dir));
            est_summary_begin(writer, 1);
            est_summary_add_images(writer, "t", EST_F32, &shape, values, 1);
            est_summary_end(writer);
            est_summary_flush(writer);
            decode(est_summary_writer_path(writer), got, 2, 2 * (size_t)channels);
            assert_memory_equal(got, channels == 1 ? c->gray : c->rgb, 4 * (size_t)channels);
            est_summary_writer_free(writer);
        }
    }
}

TEST(no_pictures, .setup_func = set_clock)
{
    est_summary_writer *writer = make_writer(at("none"));
    const est_shape     flat = EST_SHAPE(2, 2), five = EST_SHAPE(1, 2, 2, 5), empty = EST_SHAPE(1, 0, 2, 1);
    float               values[20] = { 0 };

    est_summary_begin(writer, 1);
    est_summary_add_images(writer, "flat", EST_F32, &flat, values, 1);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    assert_non_null(strstr(log_line(-1), "'flat' has shape [2,2], expected"));
    est_summary_add_images(writer, "five", EST_F32, &five, values, 1);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 2);
    est_summary_add_images(writer, "empty", EST_F32, &empty, values, 1);
    est_summary_end(writer);
    assert_string_equal(est_summary_writer_path(writer), "");
    est_summary_writer_free(writer);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

TEST(no_directory, .setup_func = set_clock)
{
    est_summary_writer *writer;

    put_bytes(at("plain"), "x", 1);
    writer = make_writer(at("plain/dir"));
    write_all(writer);
    write_all(writer);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1); /* once */
    assert_non_null(strstr(log_line(-1), "no more summaries are written"));
    assert_int_equal(est_summary_writer_status(writer), EST_ALREADY_EXISTS);
    est_summary_writer_free(writer);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
}

/* A file that cannot grow any more, as on a full disk. */
TEST(full_disk, .setup_func = set_clock)
{
    struct rlimit       before, small;
    est_summary_writer *writer = make_writer(at("full"));

    signal(SIGXFSZ, SIG_IGN);
    write_scalar(writer, 1, 1);
    est_summary_flush(writer);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){ 100, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 20; i++) {
        write_scalar(writer, i, 1);
        est_summary_flush(writer);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    assert_int_not_equal(est_summary_writer_status(writer), EST_OK);
    est_summary_writer_free(writer);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
}

/* Whatever fails, the writer does not, and what is in the file can be read. */
TEST(memory, .setup_func = set_clock)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_summary_writer *writer = NULL;
        est_status          status;

        fault_arm(&f);
        status = est_summary_writer_create(at("memory"), "", &writer);
        if (status == EST_OK) {
            write_all(writer);
            write_scalar(writer, 9, 9);
            status = est_summary_writer_status(writer);
        }
        est_summary_writer_free(writer);
        fault_check_lenient(&f, status);
        est_test_dir_remove(at("memory"));
    }
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
