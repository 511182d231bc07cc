/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading event files: the summaries that training and evaluations write and TensorBoard shows, TensorFlow's own
 * included.
 *
 *     est_events     *events = NULL;
 *     est_event_entry entry;
 *     est_status      status = est_events_open("runs/digits/eval", &events);
 *
 *     while (status == EST_OK && (status = est_events_next(events, &entry)) == EST_OK) {
 *         if (entry.kind == EST_ENTRY_SCALAR) {
 *             printf("%" PRId64 " %.*s %g\n", entry.step, (int)entry.tag.size, entry.tag.data, entry.number);
 *         }
 *     }
 *     if (status == EST_OUT_OF_RANGE) status = EST_OK; // the end, not an error
 *     est_events_close(events);
 *
 * Scalars, histograms and images exist in two forms, the first (v1) of tf.compat.v1.summary, the second (v2) of
 * tf.summary. An entry has the same kind in both.
 *
 * Threading: one thread at a time for each reader. */
#ifndef ESTOC_EVENTS_H
#define ESTOC_EVENTS_H

#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum est_entry_kind {
    EST_ENTRY_OTHER = 0, /* empty or unknown */

    /* Values of summaries; they have a tag. */
    EST_ENTRY_SCALAR,    /* number */
    EST_ENTRY_TEXT,      /* text */
    EST_ENTRY_HISTOGRAM, /* est_entry_tensor() */
    EST_ENTRY_IMAGE,     /* est_entry_tensor() */
    EST_ENTRY_TENSOR,    /* est_entry_tensor() */
    EST_ENTRY_AUDIO,     /* bytes: an Audio message */

    /* Other events; they have no tag. */
    EST_ENTRY_VERSION,      /* text: "brain.Event:2", the first event of a file */
    EST_ENTRY_GRAPH,        /* bytes: a GraphDef */
    EST_ENTRY_META_GRAPH,   /* bytes: a MetaGraphDef */
    EST_ENTRY_SESSION,      /* bytes: a SessionLog: a start, a stop, a checkpoint */
    EST_ENTRY_RUN_METADATA, /* bytes: a TaggedRunMetadata */
    EST_ENTRY_LOG           /* bytes: a LogMessage; obsolete */
} est_entry_kind;

/* One value of a summary, or another event. All of it is borrowed until the next call with its reader. */
typedef struct est_event_entry {
    const char    *path;      /* of its file */
    uint64_t       record;    /* number of its event in the file, from 0: an event may have several values */
    uint64_t       offset;    /* byte offset of that event */
    double         wall_time; /* seconds since 1970 */
    int64_t        step;
    est_entry_kind kind;
    est_str        tag;         /* of a summary value; data NULL: another event */
    est_str        plugin;      /* of TensorBoard, in the second form: "scalars", "text"; empty in the first */
    double         number;      /* of a scalar, else NaN */
    est_str        text;        /* of a text or version, else empty */
    est_str        bytes;       /* its protobuf message: a TensorProto in the second form */
    uint64_t       reserved[4]; /* zeros: room for members to come */
} est_event_entry;

typedef struct est_events est_events;

/* Opens an event file; or all event files of a directory, one after the other by their names, which begin with the time
 * they were made at. Directories in it (the "eval" of a model directory) are not read. EST_NOT_FOUND: no event file. */
EST_API EST_MUST_CHECK est_status est_events_open(const char *path, est_events **out);

/* The next entry; EST_OUT_OF_RANGE (without a message) at the end. A file that is still being written, or whose writer
 * was killed, may end within an event: it is read up to there (est_events_is_cut), and after the last file a further
 * call checks for new data. EST_DATA_LOSS: a file is damaged; the error names file, event and byte. */
EST_API EST_MUST_CHECK est_status est_events_next(est_events *events, est_event_entry *out);

/* After EST_OUT_OF_RANGE: whether the last file ended within an event, and the number and byte offset of that event
 * (either may be NULL). */
EST_API bool est_events_is_cut(const est_events *events, uint64_t *record, uint64_t *offset);

/* NULL is fine. */
EST_API void est_events_close(est_events *events);

/* The tensor of a summary value, as tf.summary of TensorFlow 2 stores it, for both forms; the caller owns it.
 *   scalar     a scalar: float32 in the first form
 *   text       strings
 *   histogram  float64 [buckets, 3]: left edge, right edge, count; without empty buckets at both ends of the first form
 *   image      strings: width, height, encoded pictures (PNG)
 *   tensor     the tensor
 * EST_INVALID_ARGUMENT: it is another kind of entry. EST_DATA_LOSS: its bytes are damaged. */
EST_API EST_MUST_CHECK est_status est_entry_tensor(const est_event_entry *entry, est_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
