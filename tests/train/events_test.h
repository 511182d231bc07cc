/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that write event files: what is in them, as text. */
#ifndef EST_TESTS_EVENTS_TEST_H
#define EST_TESTS_EVENTS_TEST_H

#include "format/event.h"
#include "format/summary.h"
#include "train/saver_test.h"

static char events_text[1 << 16];

static inline void put_text(const char *format, ...)
{
    size_t  size = strlen(events_text);
    va_list args;

    va_start(args, format);
    vsnprintf(events_text + size, sizeof events_text - size, format, args);
    va_end(args);
}

static inline void put_summary_text(est_str message)
{
    est_summary_cursor cursor;
    est_summary_value  value;
    est_histogram_view histogram;
    est_image_view     image;
    bool               found = true;

    est_summary_cursor_init(&cursor, message);
    for (;;) {
        assert_ok(est_summary_cursor_next(&cursor, &found, &value));
        if (!found) return;
        put_text(" %.*s", (int)value.tag.size, value.tag.data);
        switch (value.kind) {
        case EST_SUMMARY_SCALAR: put_text("=%g", value.number); break;
        case EST_SUMMARY_HISTOGRAM:
            assert_ok(est_histogram_parse(value.message, &histogram));
            put_text("=%g of %g..%g sum %g", histogram.num, histogram.min, histogram.max, histogram.sum);
            est_histogram_view_clear(&histogram);
            break;
        case EST_SUMMARY_IMAGE:
            assert_ok(est_image_parse(value.message, &image));
            put_text("=%dx%dx%d", image.height, image.width, image.channels);
            break;
        default:
            put_text("=%.*s(%.*s)", (int)value.plugin.size, value.plugin.data, (int)value.text.size, value.text.data);
        }
    }
}

/* The events of a file but the first: "step: tag=value ...;". */
static inline const char *events_of(const char *path)
{
    est_event_reader *reader;
    est_event         event;
    est_session_log   log;
    est_status        status;

    events_text[0] = '\0';
    assert_ok(est_event_reader_open(path, &reader));
    assert_ok(est_event_next(reader, &event));
    assert_int_equal(event.kind, EST_EVENT_FILE_VERSION);
    while ((status = est_event_next(reader, &event)) == EST_OK) {
        put_text("%s%d:", events_text[0] != '\0' ? "; " : "", (int)event.step);
        if (event.kind == EST_EVENT_SUMMARY) {
            put_summary_text(event.bytes);
        } else if (event.kind == EST_EVENT_SESSION_LOG) {
            assert_ok(est_session_log_parse(event.bytes, &log));
            put_text(" session %d %.*s", (int)log.status, (int)log.checkpoint_path.size, log.checkpoint_path.data);
        } else {
            put_text(" kind %d %.*s", (int)event.kind, (int)event.bytes.size, event.bytes.data);
        }
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    est_event_reader_close(reader);
    return events_text;
}

#endif
