/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files: what TensorBoard reads. A TFRecord file of Event messages; the first says "brain.Event:2". One process
 * at a time writes into a directory.
 *
 * Threading: one thread at a time for each writer and reader. */
#ifndef EST_FORMAT_EVENT_H
#define EST_FORMAT_EVENT_H

#include <stdbool.h>

#include "estoc/tfrecord.h"
#include "format/wire.h"

/* The kind of an event; the numbers are those of the fields. */
typedef enum est_event_kind {
    EST_EVENT_NONE         = 0,
    EST_EVENT_FILE_VERSION = 3, /* text */
    EST_EVENT_GRAPH        = 4, /* a GraphDef */
    EST_EVENT_SUMMARY      = 5, /* a Summary: format/summary.h */
    EST_EVENT_LOG_MESSAGE  = 6, /* obsolete */
    EST_EVENT_SESSION_LOG  = 7, /* est_session_log */
    EST_EVENT_RUN_METADATA = 8, /* a TaggedRunMetadata */
    EST_EVENT_META_GRAPH   = 9  /* a MetaGraphDef */
} est_event_kind;

typedef struct est_event {
    double         wall_time; /* seconds since 1970 */
    int64_t        step;
    est_event_kind kind;
    est_str        bytes; /* the text or message */
} est_event;

/* Appends an Event message; reads one, with `bytes` borrowed from it. */
void                      est_event_put(est_wire_writer *w, const est_event *event);
EST_MUST_CHECK est_status est_event_parse(est_str message, est_event *out);

typedef enum est_session_status {
    EST_SESSION_UNSPECIFIED = 0,
    EST_SESSION_START       = 1, /* at this step: later events of earlier files no longer count */
    EST_SESSION_STOP        = 2,
    EST_SESSION_CHECKPOINT  = 3 /* saved to checkpoint_path */
} est_session_status;

typedef struct est_session_log {
    est_session_status status;
    est_str            checkpoint_path;
    est_str            msg;
} est_session_log;

void                      est_session_log_put(est_wire_writer *w, const est_session_log *log);
EST_MUST_CHECK est_status est_session_log_parse(est_str message, est_session_log *out);

/* "<dir>/events.out.tfevents.<seconds>.<host><suffix>", to be freed with est_free. `suffix` may be "". */
EST_MUST_CHECK est_status est_event_file_path(const char *dir, int64_t seconds, const char *host, const char *suffix,
                                              char **out);

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct est_event_writer est_event_writer;

/* Makes the file, with its first event already handed to the system. */
EST_MUST_CHECK est_status est_event_writer_create(const char *path, double wall_time, est_event_writer **out);

/* Appends an event. Its wall time must be finite: some readers drop a file with another. */
EST_MUST_CHECK est_status est_event_write(est_event_writer *writer, const est_event *event);

/* Writes all buffered events, so that readers see them. */
EST_MUST_CHECK est_status est_event_flush(est_event_writer *writer);

/* Flushes, closes the file and frees the writer, whatever is returned. NULL is fine. */
EST_MUST_CHECK est_status est_event_writer_close(est_event_writer *writer);

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct est_event_reader est_event_reader;

/* Events as they are stored; est_events (estoc/events.h) reads what is in them. */
EST_MUST_CHECK est_status est_event_reader_open(const char *path, est_event_reader **out);

/* The next event, borrowed until the next call; EST_OUT_OF_RANGE at the end. A file that is being written may end in
 * half an event: that is also the end for now, and a later call tries it again. */
EST_MUST_CHECK est_status est_event_next(est_event_reader *reader, est_event *event);

/* The place of the event that est_event_next gave last or failed at; at the end: of the one that would come next. */
est_tfrecord_position est_event_reader_tell(const est_event_reader *reader);

/* At the end: whether there is half an event. */
bool est_event_reader_is_cut(const est_event_reader *reader);

void est_event_reader_close(est_event_reader *reader); /* NULL is fine */

#endif
