/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of event files: every value of a summary, every other event, over one file or all of a directory. The two
 * forms of a value become one kind here; what a value holds is parsed when it is asked for. */
#include "estoc/events.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/file.h"
#include "format/event.h"
#include "format/summary.h"
#include "format/tensor_proto.h"

struct est_events {
    est_arena         *arena; /* paths */
    const char       **paths; /* [n], in order of names */
    int                n, at; /* at: of the file that is read */
    est_event_reader  *reader;
    est_event          event;
    est_summary_cursor values; /* of event, while in_summary */
    bool               in_summary;
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

static int is_event_file(const struct dirent *entry)
{
    return strstr(entry->d_name, "tfevents") != NULL;
}

static est_status list_directory(est_events *events, const char *dir)
{
    struct dirent **entries = NULL;
    int             n       = scandir(dir, &entries, is_event_file, alphasort);

    if (n < 0) return est_fail(est_status_from_errno(errno), "cannot list %s: %s", dir, strerror(errno));
    events->paths = est_arena_alloc(events->arena, (size_t)(n + 1) * sizeof *events->paths);
    for (int i = 0; i < n; i++) {
        if (events->paths != NULL) {
            events->paths[events->n] = est_arena_printf(events->arena, "%s/%s", dir, entries[i]->d_name);
            if (events->paths[events->n] != NULL) events->n++;
        }
        free(entries[i]); /* the C library's */
    }
    free(entries);
    if (events->paths == NULL || events->n < n) return est_no_memory();
    return n > 0 ? EST_OK : est_fail(EST_NOT_FOUND, "%s: no event file is in this directory", dir);
}

static est_status list_file(est_events *events, const char *path)
{
    events->paths = est_arena_alloc(events->arena, sizeof *events->paths);
    if (events->paths != NULL) events->paths[0] = est_arena_strdup(events->arena, path);
    if (events->paths == NULL || events->paths[0] == NULL) return est_no_memory();
    events->n = 1;
    return EST_OK;
}

est_status est_events_open(const char *path, est_events **out)
{
    est_events *events;
    est_status  status;

    EST_REQUIRE(path);
    EST_REQUIRE(out);
    events = est_zalloc(sizeof *events);
    if (events == NULL) return est_no_memory();
    events->arena = est_arena_create();
    status        = events->arena == NULL  ? est_no_memory()
                    : est_dir_exists(path) ? list_directory(events, path)
                                           : list_file(events, path);
    if (status == EST_OK) status = est_event_reader_open(events->paths[0], &events->reader);
    if (status != EST_OK) {
        est_events_close(events);
        return status;
    }
    *out = events;
    return EST_OK;
}

void est_events_close(est_events *events)
{
    if (events == NULL) return;
    est_event_reader_close(events->reader);
    est_arena_free(events->arena);
    est_free(events);
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

static bool is_plugin(const est_summary_value *value, const char *name)
{
    return value->plugin.size == strlen(name) && memcmp(value->plugin.data, name, value->plugin.size) == 0;
}

/* Whether a tensor is what the second form of a histogram or picture has. */
static bool fits(est_str message, est_dtype dtype, int rank, int64_t last, int64_t least)
{
    est_tensor_proto_header header;

    if (est_tensor_proto_parse_header(message, &header) != EST_OK) return false;
    return header.dtype == (int32_t)dtype && header.shape.rank == rank && header.shape.dim[0] >= least &&
           (last < 0 || header.shape.dim[rank - 1] == last);
}

static est_entry_kind kind_of_tensor(const est_summary_value *value)
{
    if (is_plugin(value, "text") && value->text.data != NULL) return EST_ENTRY_TEXT;
    if (!isnan(value->number) || is_plugin(value, "scalars")) return EST_ENTRY_SCALAR;
    if (is_plugin(value, "histograms") && fits(value->message, EST_F64, 2, 3, 0)) return EST_ENTRY_HISTOGRAM;
    if (is_plugin(value, "images") && fits(value->message, EST_STRING, 1, -1, 2)) return EST_ENTRY_IMAGE;
    return EST_ENTRY_TENSOR;
}

static est_entry_kind kind_of_value(const est_summary_value *value)
{
    switch (value->kind) {
    case EST_SUMMARY_SCALAR: return EST_ENTRY_SCALAR;
    case EST_SUMMARY_HISTOGRAM: return EST_ENTRY_HISTOGRAM;
    case EST_SUMMARY_IMAGE: return EST_ENTRY_IMAGE;
    case EST_SUMMARY_AUDIO: return EST_ENTRY_AUDIO;
    case EST_SUMMARY_TENSOR: return kind_of_tensor(value);
    case EST_SUMMARY_NONE: break;
    }
    return EST_ENTRY_OTHER;
}

static est_entry_kind kind_of_event(est_event_kind kind)
{
    switch (kind) {
    case EST_EVENT_FILE_VERSION: return EST_ENTRY_VERSION;
    case EST_EVENT_GRAPH: return EST_ENTRY_GRAPH;
    case EST_EVENT_META_GRAPH: return EST_ENTRY_META_GRAPH;
    case EST_EVENT_SESSION_LOG: return EST_ENTRY_SESSION;
    case EST_EVENT_RUN_METADATA: return EST_ENTRY_RUN_METADATA;
    case EST_EVENT_LOG_MESSAGE: return EST_ENTRY_LOG;
    case EST_EVENT_NONE:
    case EST_EVENT_SUMMARY: break;
    }
    return EST_ENTRY_OTHER;
}

/* An entry of the present event without anything of its own. */
static est_event_entry begin_entry(const est_events *events)
{
    est_tfrecord_position at = est_event_reader_tell(events->reader);

    return (est_event_entry){ .path      = events->paths[events->at],
                              .record    = at.record,
                              .offset    = at.offset,
                              .wall_time = events->event.wall_time,
                              .step      = events->event.step,
                              .plugin    = { "", 0 },
                              .number    = NAN,
                              .text      = { "", 0 },
                              .bytes     = { "", 0 } };
}

/* The next value of the summary; *found is false when it has no more. */
static est_status next_value(est_events *events, bool *found, est_event_entry *out)
{
    est_event_entry   entry = begin_entry(events);
    est_summary_value value;
    est_status        status = est_summary_cursor_next(&events->values, found, &value);

    if (status != EST_OK || !*found) events->in_summary = false;
    if (status != EST_OK) {
        return est_fail_context(status, "%s: event %" PRIu64 " at byte %" PRIu64, entry.path, entry.record,
                                entry.offset);
    }
    if (!*found) return EST_OK;
    entry.kind = kind_of_value(&value);
    entry.tag  = value.tag.data != NULL ? value.tag : (est_str){ "", 0 };
    if (value.kind == EST_SUMMARY_TENSOR) entry.plugin = value.plugin;
    entry.bytes = value.message;
    if (entry.kind == EST_ENTRY_SCALAR) entry.number = value.number;
    if (entry.kind == EST_ENTRY_TEXT) entry.text = value.text;
    *out = entry;
    return EST_OK;
}

static est_status next_file(est_events *events)
{
    est_event_reader *reader;

    EST_TRY(est_event_reader_open(events->paths[events->at + 1], &reader));
    est_event_reader_close(events->reader);
    events->reader = reader;
    events->at++;
    return EST_OK;
}

est_status est_events_next(est_events *events, est_event_entry *out)
{
    est_status status;
    bool       found;

    EST_REQUIRE(events);
    EST_REQUIRE(out);
    for (;;) {
        if (events->in_summary) {
            EST_TRY(next_value(events, &found, out));
            if (found) return EST_OK;
        }
        status = est_event_next(events->reader, &events->event);
        if (status == EST_OUT_OF_RANGE && events->at + 1 < events->n) {
            EST_TRY(next_file(events));
            continue;
        }
        EST_TRY(status);
        events->in_summary = events->event.kind == EST_EVENT_SUMMARY;
        if (!events->in_summary) break;
        est_summary_cursor_init(&events->values, events->event.bytes);
    }
    *out       = begin_entry(events);
    out->kind  = kind_of_event(events->event.kind);
    out->bytes = events->event.bytes;
    if (out->kind == EST_ENTRY_VERSION) out->text = out->bytes;
    return EST_OK;
}

bool est_events_is_cut(const est_events *events, uint64_t *record, uint64_t *offset)
{
    est_tfrecord_position at;

    if (events == NULL) return false;
    at = est_event_reader_tell(events->reader);
    if (record != NULL) *record = at.record;
    if (offset != NULL) *offset = at.offset;
    return est_event_reader_is_cut(events->reader);
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* Drops the empty buckets at both ends: *first to *end are left. */
static void trim(const est_histogram_view *h, size_t *first, size_t *end)
{
    *first = 0;
    *end   = h->n_buckets;
    while (*first < *end && h->bucket[*first] <= 0) ++*first;
    while (*end > *first && h->bucket[*end - 1] <= 0) --*end;
}

/* The first form of a histogram says where each bucket ends. The outer ones, which end at DBL_MAX, end where the values
 * do instead, as TensorBoard has it. */
static est_status histogram_rows(est_str message, est_tensor **out)
{
    est_histogram_view h;
    est_status         status = EST_OK;
    size_t             first, end;
    double            *row;

    EST_TRY(est_histogram_parse(message, &h));
    trim(&h, &first, &end);
    if (h.n_limits != h.n_buckets) {
        status = est_fail(EST_DATA_LOSS, "a histogram has %zu limits for %zu buckets", h.n_limits, h.n_buckets);
    }
    if (status == EST_OK) status = est_tensor_create(EST_F64, EST_SHAPE((int64_t)(end - first), 3), out);
    for (size_t i = first; status == EST_OK && i < end; i++) {
        row    = (double *)est_tensor_mutable_data(*out) + 3 * (i - first);
        row[0] = i > first ? h.limit[i - 1] : h.min;
        row[1] = i + 1 < end ? h.limit[i] : h.max;
        row[2] = h.bucket[i];
    }
    est_histogram_view_clear(&h);
    return status;
}

static est_status image_strings(est_str message, est_tensor **out)
{
    est_image_view image;
    char           width[16], height[16];
    est_str        strings[3] = { { width, 0 }, { height, 0 } };

    EST_TRY(est_image_parse(message, &image));
    strings[0].size = (size_t)snprintf(width, sizeof width, "%" PRId32, image.width);
    strings[1].size = (size_t)snprintf(height, sizeof height, "%" PRId32, image.height);
    strings[2]      = image.encoded;
    return est_tensor_create_from(EST_STRING, EST_SHAPE(3), strings, out);
}

est_status est_entry_tensor(const est_event_entry *entry, est_tensor **out)
{
    est_status status;
    float      number;

    EST_REQUIRE(entry);
    EST_REQUIRE(out);
    number = (float)entry->number;
    switch (entry->kind) {
    case EST_ENTRY_SCALAR:
        if (entry->bytes.size == 0) return est_tensor_f32(EST_SHAPE_SCALAR, &number, out);
        status = est_tensor_proto_parse(entry->bytes, out);
        break;
    case EST_ENTRY_HISTOGRAM:
        status = entry->plugin.size > 0 ? est_tensor_proto_parse(entry->bytes, out) : histogram_rows(entry->bytes, out);
        break;
    case EST_ENTRY_IMAGE:
        status = entry->plugin.size > 0 ? est_tensor_proto_parse(entry->bytes, out) : image_strings(entry->bytes, out);
        break;
    case EST_ENTRY_TEXT:
    case EST_ENTRY_TENSOR: status = est_tensor_proto_parse(entry->bytes, out); break;
    default:
        return est_fail(EST_INVALID_ARGUMENT, "%s: event %" PRIu64 " at byte %" PRIu64 " has no tensor", entry->path,
                        entry->record, entry->offset);
    }
    if (status == EST_OK) return EST_OK;
    return est_fail_context(status, "%s: event %" PRIu64 " at byte %" PRIu64, entry->path, entry->record,
                            entry->offset);
}
