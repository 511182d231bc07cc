/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files exchanged with TensorFlow and TensorBoard: every kind of event and of summary, in both forms. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "estoc/events.h"
#include "format/event.h"
#include "format/summary.h"
#include "support/interop.h"

#define N_VALUES 1000

/* --- theirs, read by us ------------------------------------------------------------------------------------------- */

static void say_number(est_strbuf *out, double value)
{
    if (isnan(value))
        est_strbuf_append(out, " nan"); /* without its sign */
    else
        est_strbuf_printf(out, " %.17g", value);
}

static void say_histogram(est_strbuf *out, est_str message)
{
    est_histogram_view view;

    interop_check(est_histogram_parse(message, &view));
    assert_int_equal(view.n_limits, view.n_buckets);
    say_number(out, view.min);
    say_number(out, view.max);
    say_number(out, view.num);
    say_number(out, view.sum);
    say_number(out, view.sum_squares);
    for (size_t i = 0; i < view.n_buckets; i++) {
        say_number(out, view.limit[i]);
        say_number(out, view.bucket[i]);
    }
    est_histogram_view_clear(&view);
}

/* One line a value: its tag, its plugin, what it is. */
static void say_value(est_strbuf *out, const est_summary_value *value)
{
    est_image_view image;

    est_strbuf_printf(out, "\n  %.*s %.*s", (int)value->tag.size, value->tag.data, (int)value->plugin.size,
                      value->plugin.data);
    switch (value->kind) {
    case EST_SUMMARY_SCALAR:
        est_strbuf_append(out, " scalar");
        say_number(out, value->number);
        break;
    case EST_SUMMARY_HISTOGRAM:
        est_strbuf_append(out, " histogram");
        say_histogram(out, value->message);
        break;
    case EST_SUMMARY_IMAGE:
        interop_check(est_image_parse(value->message, &image));
        est_strbuf_printf(out, " image %d %d %d %zu", image.height, image.width, image.channels, image.encoded.size);
        break;
    case EST_SUMMARY_TENSOR:
        est_strbuf_append(out, " tensor");
        say_number(out, value->number);
        est_strbuf_printf(out, " '%.*s' %zu", (int)value->text.size, value->text.data, value->message.size);
        break;
    default: est_strbuf_printf(out, " kind %d", (int)value->kind); break;
    }
}

static void say_event(est_strbuf *out, const est_event *event)
{
    est_summary_cursor cursor;
    est_summary_value  value;
    est_session_log    log;
    bool               found = false;

    say_number(out, event->wall_time);
    est_strbuf_printf(out, " %" PRId64 " %d", event->step, (int)event->kind);
    switch (event->kind) {
    case EST_EVENT_SUMMARY:
        est_summary_cursor_init(&cursor, event->bytes);
        do {
            interop_check(est_summary_cursor_next(&cursor, &found, &value));
            if (found) say_value(out, &value);
        } while (found);
        break;
    case EST_EVENT_SESSION_LOG:
        interop_check(est_session_log_parse(event->bytes, &log));
        est_strbuf_printf(out, " %d '%.*s' '%.*s'", (int)log.status, (int)log.checkpoint_path.size,
                          log.checkpoint_path.data, (int)log.msg.size, log.msg.data);
        break;
    case EST_EVENT_FILE_VERSION: est_strbuf_printf(out, " %.*s", (int)event->bytes.size, event->bytes.data); break;
    default: est_strbuf_printf(out, " %zu", event->bytes.size); break;
    }
}

TEST(read)
{
    interop_blobs files;

    interop_ask("write");
    interop_blobs_read("files", &files);
    for (size_t i = 0; i < files.n; i++) {
        est_event_reader *reader;
        est_event         event;
        est_strbuf        said = { 0 }, text = { 0 };
        est_status        status;
        char              name[300];

        snprintf(name, sizeof name, "%.*s", (int)files.at[i].size, files.at[i].data);
        interop_check(est_event_reader_open(interop_path(name), &reader));
        while ((status = est_event_next(reader, &event)) == EST_OK) {
            est_strbuf_reset(&text);
            say_event(&text, &event);
            interop_blob(&said, est_strbuf_text(&text), text.size);
        }
        if (status != EST_OUT_OF_RANGE) interop_check(status);
        est_event_reader_close(reader);
        est_strbuf_clear(&text);
        snprintf(name, sizeof name, "said.%zu", i);
        interop_save(name, &said);
    }
    interop_blobs_clear(&files);
    interop_ask("check_read");
}

/* Every value of a summary by the public reader, over a whole directory: what TensorBoard makes of it. */
static void say_entries(const char *dir)
{
    est_events     *events = NULL;
    est_event_entry entry;
    est_strbuf      said = { 0 };
    est_status      status;
    char            name[300];

    interop_check(est_events_open(interop_path(dir), &events));
    while ((status = est_events_next(events, &entry)) == EST_OK) {
        est_tensor *tensor = NULL;

        if (entry.tag.data == NULL || entry.kind == EST_ENTRY_AUDIO) continue;
        interop_check(est_entry_tensor(&entry, &tensor));
        snprintf(name, sizeof name, "%" PRId64 " %d %.*s", entry.step, (int)entry.kind, (int)entry.tag.size,
                 entry.tag.data);
        interop_tensor(&said, name, tensor);
        est_tensor_free(tensor);
    }
    if (status != EST_OUT_OF_RANGE) interop_check(status);
    assert_false(est_events_is_cut(events, NULL, NULL));
    est_events_close(events);
    snprintf(name, sizeof name, "entries.%s", dir);
    interop_save(name, &said);
}

TEST(entries)
{
    interop_ask("write");
    say_entries("v1");
    say_entries("v2");
    interop_ask("check_entries");
}

/* --- ours, read by them ------------------------------------------------------------------------------------------- */

static void write_event(est_event_writer *writer, int64_t step, est_event_kind kind, est_wire_writer *w)
{
    est_event event = { .wall_time = 1700000000.5 + (double)step, .step = step, .kind = kind };

    interop_check(est_wire_writer_status(w));
    event.bytes = (est_str){ (const char *)w->data, w->size };
    interop_check(est_event_write(writer, &event));
    est_wire_writer_reset(w);
}

static void write_session_log(est_event_writer *writer, int64_t step, est_session_log log)
{
    est_wire_writer w = { 0 };

    est_session_log_put(&w, &log);
    write_event(writer, step, EST_EVENT_SESSION_LOG, &w);
    est_wire_writer_clear(&w);
}

/* A GraphDef of one node, as an event and inside a MetaGraphDef. */
static void write_graphs(est_event_writer *writer)
{
    est_wire_writer w = { 0 };

    for (int meta = 0; meta < 2; meta++) {
        size_t graph = meta ? est_wire_begin(&w, 2) : 0;
        size_t node  = est_wire_begin(&w, 1);

        est_wire_put_string(&w, 1, "n");
        est_wire_put_string(&w, 2, "NoOp");
        est_wire_end(&w, node);
        if (meta) est_wire_end(&w, graph);
        write_event(writer, 0, meta ? EST_EVENT_META_GRAPH : EST_EVENT_GRAPH, &w);
    }
    est_wire_writer_clear(&w);
}

static void write_summaries(est_event_writer *writer, est_str picture)
{
    est_wire_writer w = { 0 };
    est_histogram  *h;
    double          values[N_VALUES];

    for (int i = 0; i < N_VALUES; i++) values[i] = i * 0.37 - 100;
    interop_check(est_histogram_create(&h));
    for (int i = 0; i < N_VALUES; i++) est_histogram_add(h, values[i]);
    est_summary_put_histogram(&w, "weights", h);
    write_event(writer, 10, EST_EVENT_SUMMARY, &w);
    est_histogram_reset(h);
    est_histogram_add(h, 0);
    est_histogram_add(h, 1e-300);
    est_histogram_add(h, -1e30);
    est_summary_put_histogram(&w, "extremes", h);
    est_histogram_reset(h);
    est_summary_put_histogram(&w, "nothing", h);
    est_histogram_free(h);
    est_summary_put_scalar(&w, "loss", 0.5F);
    est_summary_put_scalar(&w, "zero", 0);
    est_summary_put_scalar_v2(&w, "v2/loss", 0.5F);
    est_summary_put_histogram_v2(&w, "v2/weights", values, N_VALUES, 30);
    est_summary_put_text(&w, "note", (est_str){ "hello", 5 });
    est_summary_put_image(&w, "picture", 2, 3, 3, picture);
    est_summary_put_image_v2(&w, "v2/picture", 2, 3, picture);
    write_event(writer, 10, EST_EVENT_SUMMARY, &w);
    est_summary_put_scalar(&w, "loss", 0.25F);
    est_summary_put_scalar(&w, "zero", -INFINITY);
    write_event(writer, (int64_t)1 << 40, EST_EVENT_SUMMARY, &w);
    est_wire_writer_clear(&w);
}

TEST(write)
{
    est_event_writer *writer;
    interop_blobs     picture;
    char             *path;

    interop_ask("write"); /* also a picture, encoded */
    interop_blobs_read("picture", &picture);
    interop_check(est_dir_create(interop_path("ours")));
    interop_check(est_event_file_path(interop_path("ours"), 1700000000, "host", ".v2", &path));
    interop_check(est_event_writer_create(path, 1700000000.25, &writer));
    est_free(path);
    write_session_log(writer, 1, (est_session_log){ .status = EST_SESSION_START });
    write_graphs(writer);
    write_summaries(writer, picture.at[0]);
    write_session_log(writer, 20,
                      (est_session_log){ .status = EST_SESSION_CHECKPOINT, .checkpoint_path = { "m-20", 4 } });
    write_session_log(writer, 20, (est_session_log){ .status = EST_SESSION_STOP, .msg = { "done", 4 } });
    interop_check(est_event_writer_close(writer));
    interop_blobs_clear(&picture);
    interop_ask("check_written");
}

int main(void)
{
    return INTEROP_MAIN("event");
}
