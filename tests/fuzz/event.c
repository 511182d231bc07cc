/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parsers of events: the message, and what is inside it. (The framing around it is TFRecord's.) */
#include <stddef.h>
#include <stdint.h>

#include "format/event.h"
#include "format/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_summary(est_str message)
{
    est_summary_cursor cursor;
    est_summary_value  value;
    est_histogram_view histogram;
    est_image_view     image;
    volatile char      sink = 0;
    bool               found;

    est_summary_cursor_init(&cursor, message);
    while (est_summary_cursor_next(&cursor, &found, &value) == EST_OK && found) {
        for (size_t i = 0; i < value.tag.size; i++) sink = (char)(sink ^ value.tag.data[i]);
        for (size_t i = 0; i < value.text.size; i++) sink = (char)(sink ^ value.text.data[i]);
        if (est_histogram_parse(value.message, &histogram) == EST_OK) est_histogram_view_clear(&histogram);
        if (est_image_parse(value.message, &image) != EST_OK) continue;
        for (size_t i = 0; i < image.encoded.size; i++) sink = (char)(sink ^ image.encoded.data[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_event       event;
    est_session_log log;

    if (est_event_parse((est_str){ (const char *)data, size }, &event) != EST_OK) return 0;
    if (event.kind == EST_EVENT_SUMMARY) read_summary(event.bytes);
    if (event.kind == EST_EVENT_SESSION_LOG && est_session_log_parse(event.bytes, &log) != EST_OK) return 0;
    return 0;
}
