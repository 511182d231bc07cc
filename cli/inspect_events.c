/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of event files: a line for every value of a summary and for every other event.
 *
 * A process that writes events leaves half of one at the end of the file now and then: that is a note, and no
 * damage. */
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "command.h"
#include "estoc/events.h"
#include "format/event.h"
#include "format/summary.h"
#include "format/tensor_proto.h"
#include "inspect.h"
#include "output.h"

#define TEXT_MAX 60 /* characters of a text in the table */
#define TAG_MAX  80

typedef struct view {
    const inspect_options *options;
    const char            *path;
    const char            *file; /* its name, when a directory is shown; else NULL */
    tool_table             table;
    est_strbuf             line, value;
    int64_t                n; /* rows so far */
} view;

/* --- values ------------------------------------------------------------------------------------------------------- */

static void put_number(view *v, double number, bool is_f32)
{
    if (v->options->json) {
        is_f32 ? tool_append_json_f32(&v->value, (float)number) : tool_append_json_f64(&v->value, number);
    } else {
        is_f32 ? tool_append_f32(&v->value, (float)number) : tool_append_f64(&v->value, number);
    }
}

static void put_text(view *v, est_str text)
{
    if (v->options->json) {
        tool_append_json_bytes(&v->value, text);
    } else {
        tool_append_printable(&v->value, text, TEXT_MAX);
    }
}

/* One number with its name: "count=3 " or {"count": 3, */
static void put_named(view *v, const char *name, double number, bool first)
{
    if (v->options->json) {
        est_strbuf_printf(&v->value, "%s\"%s\": ", first ? "{" : ", ", name);
    } else {
        est_strbuf_printf(&v->value, "%s%s=", first ? "" : " ", name);
    }
    if (number == floor(number) && fabs(number) < 1e15) {
        est_strbuf_printf(&v->value, "%.0f", number);
    } else if (!v->options->json) {
        est_strbuf_printf(&v->value, "%.6g", number);
    } else {
        put_number(v, number, false);
    }
}

static void put_end(view *v)
{
    if (v->options->json) est_strbuf_append(&v->value, "}");
}

static est_status put_histogram(view *v, est_str message)
{
    est_histogram_view h;

    EST_TRY(est_histogram_parse(message, &h));
    put_named(v, "count", h.num, true);
    put_named(v, "min", h.min, false);
    put_named(v, "max", h.max, false);
    put_named(v, "mean", h.num > 0 ? h.sum / h.num : NAN, false);
    put_end(v);
    est_histogram_view_clear(&h);
    return EST_OK;
}

/* The second form: rows of (left, right, count). The mean is that of the middles of the buckets, so it has another
 * name. */
static void put_histogram_rows(view *v, const est_tensor *tensor)
{
    const double *rows  = est_tensor_data(tensor);
    int64_t       n     = est_tensor_shape(tensor)->dim[0];
    double        count = 0, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        count += rows[3 * i + 2];
        sum += (rows[3 * i] + rows[3 * i + 1]) / 2 * rows[3 * i + 2];
    }
    put_named(v, "count", count, true);
    put_named(v, "min", n > 0 ? rows[0] : NAN, false);
    put_named(v, "max", n > 0 ? rows[3 * n - 2] : NAN, false);
    put_named(v, "mean_of_buckets", count > 0 ? sum / count : NAN, false);
    put_end(v);
}

static est_status put_image(view *v, est_str message)
{
    est_image_view image;

    EST_TRY(est_image_parse(message, &image));
    put_named(v, "height", image.height, true);
    put_named(v, "width", image.width, false);
    put_named(v, "channels", image.channels, false);
    put_named(v, "bytes", (double)image.encoded.size, false);
    put_end(v);
    return EST_OK;
}

/* The second form: strings that are the width, the height and the encoded pictures. */
static void put_image_strings(view *v, const est_tensor *tensor)
{
    const est_str *strings = est_tensor_data(tensor);
    int64_t        n       = est_tensor_count(tensor);
    double         bytes   = 0;

    for (int64_t i = 2; i < n; i++) bytes += (double)strings[i].size;
    for (int k = 0; k < 2; k++) {
        if (v->options->json) {
            est_strbuf_append(&v->value, k == 0 ? "{\"width\": " : ", \"height\": ");
            tool_append_json_bytes(&v->value, strings[k]);
        } else {
            est_strbuf_append(&v->value, k == 0 ? "width=" : " height=");
            tool_append_printable(&v->value, strings[k], 10);
        }
    }
    put_named(v, "images", (double)(n - 2), false);
    put_named(v, "bytes", bytes, false);
    put_end(v);
}

static est_status put_tensor_header(view *v, est_str message)
{
    est_tensor_proto_header header;
    char                    shape[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_tensor_proto_parse_header(message, &header));
    if (v->options->json) {
        est_strbuf_printf(&v->value, "{\"dtype\": \"%s\", \"shape\": ", tool_dtype_name(header.dtype));
        tool_append_json_shape(&v->value, &header.shape);
        est_strbuf_append(&v->value, "}");
    } else {
        est_strbuf_printf(&v->value, "%s %s", tool_dtype_name(header.dtype), est_shape_text(&header.shape, shape));
    }
    return EST_OK;
}

/* The nodes of a GraphDef: its fields 1. */
static est_status put_graph(view *v, est_str message)
{
    est_wire_reader r;
    est_wire_field  field;
    int64_t         n = 0;

    est_wire_reader_init(&r, "GraphDef", message.data, message.size);
    while (est_wire_next(&r, &field)) n += field.number == 1;
    EST_TRY(est_wire_finish(&r));
    put_named(v, "nodes", (double)n, true);
    put_end(v);
    return EST_OK;
}

static est_status put_session_log(view *v, est_str message)
{
    static const char *const names[] = { "unspecified", "start", "stop", "checkpoint" };
    est_session_log          log;
    const char              *name;

    EST_TRY(est_session_log_parse(message, &log));
    name = (unsigned)log.status < sizeof names / sizeof names[0] ? names[log.status] : "unknown";
    if (v->options->json) {
        est_strbuf_printf(&v->value, "{\"status\": \"%s\", \"checkpoint_path\": ", name);
        tool_append_json_bytes(&v->value, log.checkpoint_path);
        est_strbuf_append(&v->value, ", \"message\": ");
        tool_append_json_bytes(&v->value, log.msg);
        est_strbuf_append(&v->value, "}");
        return EST_OK;
    }
    est_strbuf_append(&v->value, name);
    if (log.checkpoint_path.size > 0) est_strbuf_append(&v->value, " ");
    tool_append_printable(&v->value, log.checkpoint_path, 0);
    if (log.msg.size > 0) est_strbuf_append(&v->value, " ");
    tool_append_printable(&v->value, log.msg, TEXT_MAX);
    return EST_OK;
}

/* A histogram or picture in the second form. */
static est_status put_tensor(view *v, const est_event_entry *entry)
{
    est_tensor *tensor;

    EST_TRY(est_tensor_proto_parse(entry->bytes, &tensor));
    entry->kind == EST_ENTRY_HISTOGRAM ? put_histogram_rows(v, tensor) : put_image_strings(v, tensor);
    est_tensor_free(tensor);
    return EST_OK;
}

static est_status put_entry(view *v, const est_event_entry *entry)
{
    bool second = entry->plugin.size > 0; /* form */

    switch (entry->kind) {
    case EST_ENTRY_SCALAR: put_number(v, entry->number, (double)(float)entry->number == entry->number); return EST_OK;
    case EST_ENTRY_TEXT:
    case EST_ENTRY_VERSION: put_text(v, entry->text); return EST_OK;
    case EST_ENTRY_HISTOGRAM: return second ? put_tensor(v, entry) : put_histogram(v, entry->bytes);
    case EST_ENTRY_IMAGE: return second ? put_tensor(v, entry) : put_image(v, entry->bytes);
    case EST_ENTRY_TENSOR: return put_tensor_header(v, entry->bytes);
    case EST_ENTRY_GRAPH: return put_graph(v, entry->bytes);
    case EST_ENTRY_SESSION: return put_session_log(v, entry->bytes);
    default: break;
    }
    put_named(v, "bytes", (double)entry->bytes.size, true);
    put_end(v);
    return EST_OK;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static const char *kind_name(const est_event_entry *entry)
{
    static const char *const names[] = {
        [EST_ENTRY_SCALAR] = "scalar",   [EST_ENTRY_TEXT] = "text",     [EST_ENTRY_HISTOGRAM] = "histogram",
        [EST_ENTRY_IMAGE] = "image",     [EST_ENTRY_TENSOR] = "tensor", [EST_ENTRY_AUDIO] = "audio",
        [EST_ENTRY_VERSION] = "version", [EST_ENTRY_GRAPH] = "graph",   [EST_ENTRY_META_GRAPH] = "metagraph",
        [EST_ENTRY_SESSION] = "session", [EST_ENTRY_LOG] = "log",       [EST_ENTRY_RUN_METADATA] = "run metadata",
    };

    if (entry->kind != EST_ENTRY_OTHER) return names[entry->kind];
    return entry->tag.data != NULL ? "unknown" : "nothing";
}

static est_status json_row(view *v, const est_event_entry *entry)
{
    est_strbuf *line = &v->line;

    est_strbuf_append(line, "{");
    if (v->file != NULL) {
        est_strbuf_append(line, "\"file\": ");
        tool_append_json_text(line, v->file);
        est_strbuf_append(line, ", ");
    }
    est_strbuf_printf(line, "\"step\": %" PRId64 ", \"wall_time\": ", entry->step);
    tool_append_json_f64(line, entry->wall_time);
    est_strbuf_printf(line, ", \"kind\": \"%s\"", kind_name(entry));
    if (entry->tag.data != NULL) {
        est_strbuf_append(line, ", \"tag\": ");
        est_strbuf_append_json(line, entry->tag.data, entry->tag.size);
    }
    est_strbuf_append(line, ", \"value\": ");
    est_strbuf_append_bytes(line, est_strbuf_text(&v->value), v->value.size);
    est_strbuf_append(line, "}\n");
    return tool_write(line);
}

/* Prints a row; the value is emptied. */
static est_status show_row(view *v, const est_event_entry *entry)
{
    est_status status = est_strbuf_status(&v->value);

    if (status == EST_OK && v->options->json) {
        status = json_row(v, entry);
    } else if (status == EST_OK) {
        tool_append_time(&v->line, entry->wall_time);
        tool_table_cell(&v->table, "%" PRId64, entry->step);
        tool_table_cell(&v->table, "%s", est_strbuf_text(&v->line));
        est_strbuf_reset(&v->line);
        tool_table_text(&v->table, entry->tag, TAG_MAX);
        tool_table_cell(&v->table, "%s", kind_name(entry));
        tool_table_cell(&v->table, "%s", est_strbuf_text(&v->value));
        status = tool_table_row(&v->table);
    }
    est_strbuf_reset(&v->value);
    v->n++;
    return status;
}

static bool is_wanted(const view *v, est_str tag)
{
    est_strbuf text = { 0 };
    bool       wanted;

    if (v->options->tag == NULL) return true;
    if (tag.data == NULL) return false;
    est_strbuf_append_bytes(&text, tag.data, tag.size);
    wanted = fnmatch(v->options->tag, est_strbuf_text(&text), 0) == 0;
    est_strbuf_clear(&text);
    return wanted;
}

static est_status show_entry(view *v, const est_event_entry *entry)
{
    est_status status = put_entry(v, entry);

    if (status == EST_OK) return show_row(v, entry);
    return est_fail_context(status, "%s: event %" PRIu64 " at byte %" PRIu64, entry->path, entry->record,
                            entry->offset);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static est_status show_entries(view *v, est_events *events)
{
    est_event_entry entry;
    est_status      status;
    uint64_t        record, offset;

    while (v->n < v->options->limit) {
        status = est_events_next(events, &entry);
        if (status == EST_OUT_OF_RANGE) {
            if (est_events_is_cut(events, &record, &offset)) {
                tool_note(&tool_inspect,
                          "note: %s ends within event %" PRIu64 " at byte %" PRIu64
                          "; it is still being written, or was truncated",
                          v->path, record, offset);
            }
            return EST_OK;
        }
        EST_TRY(status);
        if (is_wanted(v, entry.tag)) EST_TRY(show_entry(v, &entry));
    }
    return EST_OK;
}

static est_status show_file(view *v, const char *path)
{
    static const char *const names[] = { "step", "wall time", "tag", "kind", "value" };
    est_events              *events;
    est_status               status, end;

    v->path = path;
    EST_TRY(est_events_open(path, &events));
    v->table = (tool_table){ .right = 1 };
    if (!v->options->json) tool_table_begin(&v->table, names, 5);
    status = show_entries(v, events);
    end    = EST_OK;
    if (!v->options->json && status != EST_CANCELLED) {
        est_error error; /* what is before the damage is printed before it is reported */

        est_error_take(status, &error);
        end = tool_table_end(&v->table);
        if (status != EST_OK) status = est_error_raise(&error);
    }
    tool_table_clear(&v->table);
    est_events_close(events);
    return status != EST_OK ? status : end;
}

static est_status show_directory(view *v)
{
    est_strbuf path = { 0 };
    char     **names;
    est_status status;

    EST_TRY(inspect_names(v->options->path, inspect_is_event_name, &names));
    status = names[0] != NULL ? EST_OK
                              : est_fail(EST_NOT_FOUND, "%s: no event file is in this directory", v->options->path);
    for (char **name = names; *name != NULL && status == EST_OK; name++) {
        est_strbuf_reset(&path);
        est_strbuf_printf(&path, "%s/%s", v->options->path, *name);
        v->file = *name;
        if (!v->options->json) {
            est_strbuf_printf(&v->line, "%s# ", name == names ? "" : "\n");
            tool_append_printable(&v->line, (est_str){ *name, strlen(*name) }, 0);
            est_strbuf_append(&v->line, "\n");
            status = tool_write(&v->line);
        }
        if (status == EST_OK) status = est_strbuf_status(&path);
        if (status == EST_OK) status = show_file(v, est_strbuf_text(&path));
    }
    inspect_names_free(names);
    est_strbuf_clear(&path);
    return status;
}

est_status inspect_events(const inspect_options *options)
{
    view       v = { .options = options };
    est_status status;

    status = est_dir_exists(options->path) ? show_directory(&v) : show_file(&v, options->path);
    est_strbuf_clear(&v.line);
    est_strbuf_clear(&v.value);
    return status;
}
