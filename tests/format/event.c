/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files and summaries: the file of TensorFlow in tests/golden/format read, and made again byte by byte; round
 * trips of every kind; histograms; every cut and flipped byte noticed. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/event.h"
#include "format/summary.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format/tensorflow.events"
#define TIME   1700000000.25

static char path[64];

static int make_path(void **state)
{
    int fd;

    (void)state;
    snprintf(path, sizeof path, "/tmp/est-event-XXXXXX");
    fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_str str(const char *text)
{
    return (est_str){ text, strlen(text) };
}

static void expect_str(est_str got, const char *want)
{
    assert_int_equal(got.size, strlen(want));
    assert_memory_equal(got.data, want, got.size);
}

/* Writes the summary in `w` as an event and empties it. */
static est_status write_summary(est_event_writer *writer, int64_t step, est_wire_writer *w)
{
    est_event  event  = { .wall_time = TIME, .step = step, .kind = EST_EVENT_SUMMARY };
    est_status status = est_wire_writer_status(w);

    event.bytes = (est_str){ (const char *)w->data, w->size };
    if (status == EST_OK) status = est_event_write(writer, &event);
    est_wire_writer_reset(w);
    return status;
}

static est_summary_value only_value(const est_event *event)
{
    est_summary_cursor cursor;
    est_summary_value  value, second;
    bool               found;

    assert_int_equal(event->kind, EST_EVENT_SUMMARY);
    est_summary_cursor_init(&cursor, event->bytes);
    check(est_summary_cursor_next(&cursor, &found, &value));
    assert_true(found);
    check(est_summary_cursor_next(&cursor, &found, &second));
    assert_false(found);
    return value;
}

/* --- TensorFlow's file -------------------------------------------------------------------------------------------- */

static void next(est_event_reader *reader, est_event *event)
{
    check(est_event_next(reader, event));
    assert_true(event->wall_time == TIME);
}

TEST(read_tensorflow)
{
    est_event_reader  *reader;
    est_event          event;
    est_summary_value  value;
    est_histogram_view histogram;
    est_image_view     image;
    est_session_log    log;

    check(est_event_reader_open(GOLDEN, &reader));
    next(reader, &event);
    assert_int_equal(event.kind, EST_EVENT_FILE_VERSION);
    expect_str(event.bytes, "brain.Event:2");
    next(reader, &event);
    assert_int_equal(event.step, 10);
    value = only_value(&event);
    expect_str(value.tag, "loss");
    assert_int_equal(value.kind, EST_SUMMARY_SCALAR);
    assert_true(value.number == 0.5);
    next(reader, &event);
    value = only_value(&event);
    assert_int_equal(value.kind, EST_SUMMARY_HISTOGRAM);
    check(est_histogram_parse(value.message, &histogram));
    assert_true(histogram.num == 10 && histogram.min == -3.5 && histogram.max == 1e30);
    est_histogram_view_clear(&histogram);
    next(reader, &event);
    value = only_value(&event);
    assert_int_equal(value.kind, EST_SUMMARY_TENSOR);
    expect_str(value.plugin, "text");
    expect_str(value.text, "hello");
    assert_true(isnan(value.number));
    next(reader, &event);
    value = only_value(&event);
    assert_int_equal(value.kind, EST_SUMMARY_IMAGE);
    check(est_image_parse(value.message, &image));
    assert_true(image.height == 2 && image.width == 3 && image.channels == 1);
    assert_memory_equal(image.encoded.data, "\x89PNG", 4);
    next(reader, &event);
    assert_int_equal(event.kind, EST_EVENT_SESSION_LOG);
    check(est_session_log_parse(event.bytes, &log));
    assert_int_equal(log.status, EST_SESSION_CHECKPOINT);
    expect_str(log.checkpoint_path, "model.ckpt-12");
    next(reader, &event);
    value = only_value(&event);
    expect_str(value.tag, "v2/loss");
    expect_str(value.plugin, "scalars");
    assert_true(value.number == 0.25);
    next(reader, &event);
    expect_str(only_value(&event).text, "hello again");
    assert_int_equal(est_event_next(reader, &event), EST_OUT_OF_RANGE);
    est_event_reader_close(reader);
}

/* What `record` of TensorFlow's file (one summary value) is when we write it. */
static void rewrite(est_event *event, est_wire_writer *w)
{
    static const double values[] = { -3.5, -1e-13, 0, 0, 1e-12, 0.25, 0.25, 1, 2, 1e30 };
    est_summary_value   value;
    est_image_view      image;
    est_session_log     log;
    est_histogram      *histogram;

    if (event->kind == EST_EVENT_SESSION_LOG) {
        check(est_session_log_parse(event->bytes, &log));
        est_session_log_put(w, &log);
    } else if (event->kind == EST_EVENT_SUMMARY) {
        value = only_value(event);
        switch (value.kind) {
        case EST_SUMMARY_SCALAR: est_summary_put_scalar(w, "loss", 0.5F); break;
        case EST_SUMMARY_HISTOGRAM:
            check(est_histogram_create(&histogram));
            for (int i = 0; i < 10; i++) est_histogram_add(histogram, values[i]);
            est_summary_put_histogram(w, "weights", histogram);
            est_histogram_free(histogram);
            break;
        case EST_SUMMARY_IMAGE:
            check(est_image_parse(value.message, &image));
            est_summary_put_image(w, "picture/image/0", 2, 3, 1, image.encoded);
            break;
        default: return; /* tensors: TensorFlow leaves data_class out */
        }
    } else {
        return;
    }
    event->bytes = (est_str){ (const char *)w->data, w->size };
}

TEST(write_as_tensorflow)
{
    est_tfrecord_reader *records;
    est_wire_writer      w = { 0 }, message = { 0 };
    est_str              record;
    est_event            event;
    int                  n = 0;

    check(est_tfrecord_open(GOLDEN, NULL, &records));
    while (est_tfrecord_next(records, &record) == EST_OK) {
        check(est_event_parse(record, &event));
        rewrite(&event, &w);
        est_event_put(&message, &event);
        assert_int_equal(message.size, record.size);
        assert_memory_equal(message.data, record.data, record.size);
        est_wire_writer_reset(&w);
        est_wire_writer_reset(&message);
        n++;
    }
    assert_int_equal(n, 8);
    est_tfrecord_close(records);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&message);
}

/* --- round trips -------------------------------------------------------------------------------------------------- */

static est_status write_all_kinds(void)
{
    est_event_writer *writer    = NULL;
    est_wire_writer   w         = { 0 };
    est_event         graph     = { .wall_time = TIME, .kind = EST_EVENT_GRAPH, .bytes = str("\x22\x03\x08\x86\x01") };
    est_session_log   log       = { .status = EST_SESSION_START, .checkpoint_path = str(""), .msg = str("go") };
    const double      values[4] = { 1, 2, 3, 4 };
    est_status        status    = est_event_writer_create(path, TIME, &writer);

    if (status != EST_OK) return status;
    status = est_event_write(writer, &graph);
    if (status == EST_OK) {
        est_event start = { .wall_time = TIME, .step = -1, .kind = EST_EVENT_SESSION_LOG };

        est_session_log_put(&w, &log);
        status      = est_wire_writer_status(&w);
        start.bytes = (est_str){ (const char *)w.data, w.size };
        if (status == EST_OK) status = est_event_write(writer, &start);
        est_wire_writer_reset(&w);
    }
    est_summary_put_scalar(&w, "zero", 0);
    est_summary_put_scalar(&w, "nan", NAN);
    est_summary_put_scalar_v2(&w, "two", 0.125F);
    est_summary_put_text(&w, "text", str("**bold**"));
    est_summary_put_image_v2(&w, "image", 4, 5, str("png"));
    est_summary_put_histogram_v2(&w, "histogram", values, 4, 3);
    if (status == EST_OK) status = write_summary(writer, 5, &w);
    est_wire_writer_clear(&w);
    if (status != EST_OK) {
        est_status closed = est_event_writer_close(writer);

        (void)closed; /* the first failure counts */
        return status;
    }
    return est_event_writer_close(writer);
}

/* EST_OK only when everything was there. */
static est_status read_all_kinds(void)
{
    static const struct {
        const char      *tag, *plugin, *text;
        est_summary_kind kind;
        double           number;
    } want[6] = {
        { "zero", "", "", EST_SUMMARY_SCALAR, 0 },           { "nan", "", "", EST_SUMMARY_SCALAR, NAN },
        { "two", "scalars", "", EST_SUMMARY_TENSOR, 0.125 }, { "text", "text", "**bold**", EST_SUMMARY_TENSOR, NAN },
        { "image", "images", "", EST_SUMMARY_TENSOR, NAN },  { "histogram", "histograms", "", EST_SUMMARY_TENSOR, NAN },
    };
    est_event_reader  *reader = NULL;
    est_event          event;
    est_session_log    log;
    est_summary_cursor cursor;
    est_summary_value  value;
    bool               found;
    est_status         status = est_event_reader_open(path, &reader);

    for (int i = 0; i < 4 && status == EST_OK; i++) {
        status = est_event_next(reader, &event);
        if (status != EST_OK) break;
        assert_int_equal(event.kind, ((const int[]){ 3, 4, 7, 5 })[i]);
        assert_int_equal(event.step, ((const int[]){ 0, 0, -1, 5 })[i]);
        if (i == 1) expect_str(event.bytes, "\x22\x03\x08\x86\x01");
        if (i == 2) check(est_session_log_parse(event.bytes, &log));
        if (i == 2) expect_str(log.msg, "go");
    }
    if (status == EST_OK) est_summary_cursor_init(&cursor, event.bytes);
    for (int i = 0; i < 6 && status == EST_OK; i++) {
        check(est_summary_cursor_next(&cursor, &found, &value));
        assert_true(found);
        expect_str(value.tag, want[i].tag);
        expect_str(value.plugin, want[i].plugin);
        expect_str(value.text, want[i].text);
        assert_int_equal(value.kind, want[i].kind);
        assert_true(value.number == want[i].number || (isnan(value.number) && isnan(want[i].number)));
    }
    if (status == EST_OK && est_event_next(reader, &event) != EST_OUT_OF_RANGE) status = EST_DATA_LOSS;
    est_event_reader_close(reader);
    return status;
}

TEST(round_trip)
{
    est_event_writer *writer;
    est_event         bad = { .wall_time = NAN };
    char             *name;

    check(write_all_kinds());
    check(read_all_kinds());
    check(est_event_writer_create(path, TIME, &writer));
    assert_int_equal(est_event_write(writer, &bad), EST_INVALID_ARGUMENT);
    check(est_event_writer_close(writer));
    check(est_event_file_path("runs/x", 1700000000, "host", ".v2", &name));
    assert_string_equal(name, "runs/x/events.out.tfevents.1700000000.host.v2");
    est_free(name);
    check(est_event_file_path("d", 12, "h", "", &name));
    assert_string_equal(name, "d/events.out.tfevents.0000000012.h");
    est_free(name);
}

/* --- histograms --------------------------------------------------------------------------------------------------- */

TEST(histogram_limits)
{
    est_histogram     *h;
    est_wire_writer    w     = { 0 };
    est_event          event = { .kind = EST_EVENT_SUMMARY };
    est_histogram_view view;
    double             total = 0;

    check(est_histogram_create(&h));
    assert_true(h->limit[0] == -DBL_MAX && h->limit[1550] == DBL_MAX && h->limit[775] == 0);
    assert_true(h->limit[776] == 1e-12 && h->limit[1549] == 9.920775621859783e19);
    for (int i = 0; i < EST_HISTOGRAM_BUCKETS; i++) assert_true(h->limit[i] == -h->limit[1550 - i]);

    est_summary_put_histogram(&w, "empty", h); /* (DBL_MAX, 0) and nothing else */
    event.bytes = (est_str){ (const char *)w.data, w.size };
    check(est_histogram_parse(only_value(&event).message, &view));
    assert_int_equal(view.n_limits, 1);
    assert_true(view.limit[0] == DBL_MAX && view.bucket[0] == 0 && view.num == 0);
    est_histogram_view_clear(&view);

    est_histogram_add(h, NAN);
    est_histogram_add(h, INFINITY);
    est_histogram_add(h, DBL_MAX);
    est_histogram_add(h, -DBL_MAX);
    for (int i = 0; i < 1551; i++) est_histogram_add(h, h->limit[i] * 0.999);
    assert_int_equal(h->n_not_finite, 2);
    assert_true(h->num == 1553);
    for (int i = 0; i < EST_HISTOGRAM_BUCKETS; i++) total += h->bucket[i];
    assert_true(total == 1553);
    est_histogram_free(h);
    est_wire_writer_clear(&w);
}

TEST(histogram_rows)
{
    const double values[] = { 1, 2, 2.5, 3, 4, NAN };
    double       row[3][3];

    est_histogram_rows(values, 6, row, 3);
    assert_true(row[0][0] == 1 && row[0][1] == 2 && row[0][2] == 1);
    assert_true(row[1][2] == 2 && row[2][2] == 2 && row[2][1] == 4);
    est_histogram_rows(values, 1, row, 3);
    assert_true(row[0][0] == 1 && row[0][1] == 1 && row[0][2] == 0 && row[2][2] == 1);
    est_histogram_rows(values, 0, row, 3);
    assert_true(row[2][1] == 0 && row[2][2] == 0);
}

TEST(histogram_tensor)
{
    est_histogram *h;
    est_tensor    *tensor;

    check(est_histogram_create(&h));
    check(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ -1, 0, 5 }, &tensor));
    check(est_histogram_add_tensor(h, tensor));
    est_tensor_free(tensor);
    assert_true(h->num == 3 && h->sum == 4 && h->sum_squares == 26 && h->min == -1 && h->max == 5);
    check(est_tensor_create(EST_STRING, EST_SHAPE(1), &tensor));
    assert_int_equal(est_histogram_add_tensor(h, tensor), EST_INVALID_ARGUMENT);
    est_tensor_free(tensor);
    est_histogram_free(h);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static void put_file(const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

TEST(every_cut_and_flip)
{
    char  *bytes;
    size_t size;

    check(write_all_kinds());
    check(est_file_read(path, &bytes, &size));
    for (size_t n = 0; n < size; n++) {
        put_file(bytes, n);
        assert_int_not_equal(read_all_kinds(), EST_OK); /* DATA_LOSS, or OUT_OF_RANGE at a record's end */
    }
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        put_file(bytes, size);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(read_all_kinds(), EST_DATA_LOSS);
    }
    est_free(bytes);
}

TEST(memory_failures)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = write_all_kinds();
        if (status == EST_OK) status = read_all_kinds();
        fault_check(&f, status);
    }
}

int main(void)
{
    return est_test_run(make_path, remove_path);
}
