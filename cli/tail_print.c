/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc tail`: what was found, as text or as JSON. */
#include <inttypes.h>
#include <string.h>

#include "output.h"
#include "tail.h"

/* --- text --------------------------------------------------------------------------------------------------------- */

static void append_age(est_strbuf *out, double seconds)
{
    if (seconds < 0) seconds = 0; /* another machine's clock */
    if (seconds < 120) {
        est_strbuf_printf(out, "%.0f s", seconds);
    } else if (seconds < 120 * 60) {
        est_strbuf_printf(out, "%.0f min", seconds / 60);
    } else if (seconds < 48 * 3600) {
        est_strbuf_printf(out, "%.1f h", seconds / 3600);
    } else {
        est_strbuf_printf(out, "%.0f days", seconds / 86400);
    }
}

static void append_text(est_strbuf *out, const char *text)
{
    tool_append_printable(out, (est_str){ text, strlen(text) }, 0);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void text_checkpoints(est_strbuf *out, const tail_standing *s, double now)
{
    est_strbuf_append(out, "checkpoint  ");
    if (s->latest[0] == '\0') {
        est_strbuf_append(out, "none");
    } else {
        append_text(out, file_name(s->latest));
        if (s->latest_step >= 0) est_strbuf_printf(out, ", step %" PRId64, s->latest_step);
        est_strbuf_append(out, ", saved ");
        append_age(out, now - s->latest_saved);
        est_strbuf_append(out, " ago");
    }
    est_strbuf_append(out, "\nkept        ");
    for (int i = 0; i < s->state.n_paths; i++) {
        est_strbuf_append(out, i > 0 ? ", " : "");
        append_text(out, file_name(s->state.paths[i]));
        if (!s->kept_exist[i]) est_strbuf_append(out, " (missing)");
    }
    est_strbuf_append(out, s->state.n_paths > 0 ? "\n" : "none\n");
}

static void text_exports(est_strbuf *out, const tail_standing *s)
{
    for (int i = 0; i < s->n_exports; i++) {
        est_strbuf_append(out, i == 0 ? "exports     export/" : "            export/");
        append_text(out, s->exports[i].exporter);
        est_strbuf_append(out, "/");
        append_text(out, s->exports[i].newest);
        if (s->exports[i].n > 1) est_strbuf_printf(out, " and %d before it", s->exports[i].n - 1);
        est_strbuf_append(out, "\n");
    }
    if (s->n_exports == 0) est_strbuf_append(out, "exports     none\n");
}

static void append_value(est_strbuf *out, double value, bool as_json)
{
    bool is_f32 = (double)(float)value == value;

    if (as_json) {
        is_f32 ? tool_append_json_f32(out, (float)value) : tool_append_json_f64(out, value);
    } else {
        is_f32 ? tool_append_f32(out, (float)value) : tool_append_f64(out, value);
    }
}

static est_status text_scalars(const tail_standing *s, double now)
{
    static const char *const columns[] = { "of", "tag", "value", "step", "age" };
    tool_table               table     = { .right = 1u << 3 };
    est_strbuf               cell      = { 0 };
    est_status               status    = EST_OK;

    tool_table_begin(&table, columns, 5);
    for (int i = 0; i < s->n_scalars; i++) {
        for (int k = 0; k < s->scalars[i].n && status == EST_OK; k++) {
            const tail_scalar *scalar = &s->scalars[i].data[k];

            tool_table_text(&table, (est_str){ s->scalars[i].name, strlen(s->scalars[i].name) }, 0);
            tool_table_text(&table, (est_str){ scalar->tag, strlen(scalar->tag) }, 0);
            append_value(&cell, scalar->value, false);
            tool_table_cell(&table, "%s", est_strbuf_text(&cell));
            est_strbuf_reset(&cell);
            tool_table_cell(&table, "%" PRId64, scalar->step);
            append_age(&cell, now - scalar->wall_time);
            tool_table_cell(&table, "%s", est_strbuf_text(&cell));
            est_strbuf_reset(&cell);
            status = tool_table_row(&table);
        }
    }
    if (status == EST_OK) status = tool_table_end(&table);
    est_strbuf_clear(&cell);
    tool_table_clear(&table);
    return status;
}

est_status tail_print_text(const tail_standing *s, const char *dir, double now)
{
    est_strbuf out = { 0 };
    est_status status;
    int        n = 0;

    est_strbuf_append(&out, "directory   ");
    append_text(&out, dir);
    est_strbuf_append(&out, "\ntrainer     ");
    append_text(&out, s->trainer[0] != '\0' ? s->trainer : "none");
    est_strbuf_append(&out, s->is_done ? "\ndone        yes" : "\ndone        no");
    if (s->is_done && s->done_step >= 0) est_strbuf_printf(&out, ", at step %" PRId64, s->done_step);
    est_strbuf_append(&out, "\n");
    text_checkpoints(&out, s, now);
    text_exports(&out, s);
    for (int i = 0; i < s->n_scalars; i++) n += s->scalars[i].n;
    est_strbuf_append(&out, n > 0 ? "\n" : "scalars     none\n");
    status = tool_write(&out);
    if (status == EST_OK && n > 0) status = text_scalars(s, now);
    est_strbuf_clear(&out);
    return status;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_time(est_strbuf *out, const char *name, double seconds, double now)
{
    est_strbuf_printf(out, ", \"%s\": ", name);
    tool_append_json_f64(out, seconds);
    est_strbuf_append(out, ", \"age_secs\": ");
    tool_append_json_f64(out, now - seconds);
}

static void json_step(est_strbuf *out, int64_t step)
{
    if (step >= 0) {
        est_strbuf_printf(out, "\"step\": %" PRId64, step);
    } else {
        est_strbuf_append(out, "\"step\": null");
    }
}

static void json_checkpoints(est_strbuf *out, const tail_standing *s, double now)
{
    est_strbuf_append(out, ",\n \"checkpoint\": ");
    if (s->latest[0] == '\0') {
        est_strbuf_append(out, "null");
    } else {
        est_strbuf_append(out, "{\"path\": ");
        tool_append_json_text(out, s->latest);
        est_strbuf_append(out, ", ");
        json_step(out, s->latest_step);
        json_time(out, "saved", s->latest_saved, now);
        est_strbuf_append(out, "}");
    }
    est_strbuf_append(out, ",\n \"kept\": [");
    for (int i = 0; i < s->state.n_paths; i++) {
        est_strbuf_append(out, i > 0 ? ", {\"path\": " : "{\"path\": ");
        tool_append_json_text(out, s->state.paths[i]);
        est_strbuf_printf(out, ", \"exists\": %s}", s->kept_exist[i] ? "true" : "false");
    }
    est_strbuf_append(out, "]");
}

static void json_exports(est_strbuf *out, const tail_standing *s)
{
    est_strbuf_append(out, ",\n \"exports\": [");
    for (int i = 0; i < s->n_exports; i++) {
        est_strbuf_append(out, i > 0 ? ", {\"exporter\": " : "{\"exporter\": ");
        tool_append_json_text(out, s->exports[i].exporter);
        est_strbuf_append(out, ", \"newest\": ");
        tool_append_json_text(out, s->exports[i].newest);
        est_strbuf_printf(out, ", \"count\": %d}", s->exports[i].n);
    }
    est_strbuf_append(out, "]");
}

static void json_scalars(est_strbuf *out, const tail_scalars *scalars, double now)
{
    tool_append_json_text(out, scalars->name);
    est_strbuf_append(out, ": {");
    for (int i = 0; i < scalars->n; i++) {
        est_strbuf_append(out, i > 0 ? ", " : "");
        tool_append_json_text(out, scalars->data[i].tag);
        est_strbuf_append(out, ": {\"value\": ");
        append_value(out, scalars->data[i].value, true);
        est_strbuf_printf(out, ", \"step\": %" PRId64, scalars->data[i].step);
        json_time(out, "wall_time", scalars->data[i].wall_time, now);
        est_strbuf_append(out, "}");
    }
    est_strbuf_append(out, "}");
}

est_status tail_print_json(const tail_standing *s, const char *dir, double now)
{
    est_strbuf out = { 0 };
    est_status status;

    est_strbuf_append(&out, "{\"directory\": ");
    tool_append_json_text(&out, dir);
    est_strbuf_append(&out, ",\n \"trainer\": ");
    if (s->trainer[0] != '\0') {
        tool_append_json_text(&out, s->trainer);
    } else {
        est_strbuf_append(&out, "null");
    }
    est_strbuf_append(&out, ",\n \"done\": ");
    if (s->is_done) {
        est_strbuf_append(&out, "{");
        json_step(&out, s->done_step);
        est_strbuf_append(&out, "}");
    } else {
        est_strbuf_append(&out, "null");
    }
    json_checkpoints(&out, s, now);
    json_exports(&out, s);
    est_strbuf_append(&out, ",\n \"scalars\": {");
    for (int i = 0; i < s->n_scalars; i++) {
        est_strbuf_append(&out, i > 0 ? ",\n  " : "\n  ");
        json_scalars(&out, &s->scalars[i], now);
    }
    est_strbuf_append(&out, "}}\n");
    status = tool_write(&out);
    est_strbuf_clear(&out);
    return status;
}
