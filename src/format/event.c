/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files.
 *
 *   Event       1 wall_time (double) | 2 step | one of 3 .. 9, see est_event_kind
 *   SessionLog  1 status | 2 checkpoint_path | 3 msg */
#include "format/event.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "format/tfrecord.h"

#define FILE_VERSION "brain.Event:2"

struct est_event_writer {
    char                *path;
    est_tfrecord_writer *records;
    est_wire_writer      message; /* reused */
};

struct est_event_reader {
    char                 *path;
    est_tfrecord_reader  *records;
    est_tfrecord_position at;     /* of the last event */
    bool                  is_cut; /* the end was within an event */
};

/* --- messages ----------------------------------------------------------------------------------------------------- */

void est_event_put(est_wire_writer *w, const est_event *event)
{
    if (event->wall_time != 0) est_wire_put_f64(w, 1, event->wall_time);
    if (event->step != 0) est_wire_put_i64(w, 2, event->step);
    if (event->kind != EST_EVENT_NONE) {
        est_wire_put_bytes(w, (uint32_t)event->kind, event->bytes.data, event->bytes.size);
    }
}

est_status est_event_parse(est_str message, est_event *out)
{
    est_event       event = { .bytes = { "", 0 } };
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "Event", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == 1) {
            event.wall_time = est_wire_f64(&r, &field);
        } else if (field.number == 2) {
            event.step = est_wire_i64(&r, &field);
        } else if (field.number >= EST_EVENT_FILE_VERSION && field.number <= EST_EVENT_META_GRAPH) {
            event.kind  = (est_event_kind)field.number;
            event.bytes = est_wire_bytes(&r, &field);
        }
    }
    EST_TRY(est_wire_finish(&r));
    *out = event;
    return EST_OK;
}

void est_session_log_put(est_wire_writer *w, const est_session_log *log)
{
    if (log->status != EST_SESSION_UNSPECIFIED) est_wire_put_i64(w, 1, log->status);
    if (log->checkpoint_path.size > 0) est_wire_put_bytes(w, 2, log->checkpoint_path.data, log->checkpoint_path.size);
    if (log->msg.size > 0) est_wire_put_bytes(w, 3, log->msg.data, log->msg.size);
}

est_status est_session_log_parse(est_str message, est_session_log *out)
{
    est_session_log log = { .checkpoint_path = { "", 0 }, .msg = { "", 0 } };
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "SessionLog", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case 1: log.status = (est_session_status)est_wire_i32(&r, &field); break;
        case 2: log.checkpoint_path = est_wire_bytes(&r, &field); break;
        case 3: log.msg = est_wire_bytes(&r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    *out = log;
    return EST_OK;
}

est_status est_event_file_path(const char *dir, int64_t seconds, const char *host, const char *suffix, char **out)
{
    est_strbuf path = { 0 };

    est_strbuf_printf(&path, "%s/events.out.tfevents.%010" PRId64 ".%s%s", dir, seconds, host, suffix);
    return est_strbuf_take(&path, out);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void writer_free(est_event_writer *writer)
{
    est_wire_writer_clear(&writer->message);
    est_free(writer->path);
    est_free(writer);
}

static est_status begin_file(est_event_writer *writer, double wall_time)
{
    est_event version = { .wall_time = wall_time, .kind = EST_EVENT_FILE_VERSION };

    version.bytes = (est_str){ FILE_VERSION, sizeof FILE_VERSION - 1 };
    EST_TRY(est_event_write(writer, &version));
    return est_event_flush(writer);
}

est_status est_event_writer_create(const char *path, double wall_time, est_event_writer **out)
{
    est_event_writer *writer = est_zalloc(sizeof *writer);
    est_status        status;

    if (writer != NULL) writer->path = est_strdup(path);
    if (writer == NULL || writer->path == NULL) {
        est_free(writer);
        return est_no_memory();
    }
    status = est_tfrecord_create(path, EST_TFRECORD_WRITE(.buffer_bytes = (size_t)64 << 10), &writer->records);
    if (status == EST_OK) {
        status = begin_file(writer, wall_time);
        if (status != EST_OK) est_tfrecord_abandon(writer->records);
    }
    if (status != EST_OK) {
        writer_free(writer);
        return status;
    }
    *out = writer;
    return EST_OK;
}

est_status est_event_write(est_event_writer *writer, const est_event *event)
{
    if (!isfinite(event->wall_time)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: an event at the time %g", writer->path, event->wall_time);
    }
    est_wire_writer_reset(&writer->message);
    est_event_put(&writer->message, event);
    EST_TRY(est_wire_writer_status(&writer->message));
    return est_tfrecord_write(writer->records, writer->message.data, writer->message.size);
}

est_status est_event_flush(est_event_writer *writer)
{
    return est_tfrecord_flush(writer->records);
}

est_status est_event_writer_close(est_event_writer *writer)
{
    est_status status;

    if (writer == NULL) return EST_OK;
    status = est_tfrecord_finish(writer->records);
    writer_free(writer);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

est_status est_event_reader_open(const char *path, est_event_reader **out)
{
    est_event_reader *reader = est_zalloc(sizeof *reader);
    est_status        status;

    if (reader != NULL) reader->path = est_strdup(path);
    if (reader == NULL || reader->path == NULL) {
        est_free(reader);
        return est_no_memory();
    }
    status = est_tfrecord_open(path, EST_TFRECORD_READ(.compression = EST_COMPRESSION_NONE), &reader->records);
    if (status != EST_OK) {
        est_event_reader_close(reader);
        return status;
    }
    *out = reader;
    return EST_OK;
}

est_status est_event_next(est_event_reader *reader, est_event *event)
{
    est_str    record;
    est_status status;

    reader->at     = est_tfrecord_tell(reader->records);
    status         = est_tfrecord_next(reader->records, &record);
    reader->is_cut = status == EST_DATA_LOSS && est_tfrecord_is_cut(reader->records);
    if (reader->is_cut) return EST_OUT_OF_RANGE;
    EST_TRY(status);
    status = est_event_parse(record, event);
    if (status == EST_OK) return EST_OK;
    return est_fail_context(status, "%s: event %" PRIu64 " at byte %" PRIu64, reader->path, reader->at.record,
                            reader->at.offset);
}

est_tfrecord_position est_event_reader_tell(const est_event_reader *reader)
{
    return reader->at;
}

bool est_event_reader_is_cut(const est_event_reader *reader)
{
    return reader->is_cut;
}

void est_event_reader_close(est_event_reader *reader)
{
    if (reader == NULL) return;
    est_tfrecord_close(reader->records);
    est_free(reader->path);
    est_free(reader);
}
