/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on standard output. */
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "format/number.h"

#define TABLE_ROWS_MAX 1000 /* kept before they are printed */

/* The reason of the first failure: later calls see only that there was one. */
static int output_error;

static const char *output_name = "standard output";

static est_status report_output(void)
{
    est_status status;

    if (!ferror(stdout)) return EST_OK;
    if (output_error == 0) output_error = errno;
    if (output_error == EPIPE) return EST_CANCELLED;
    status = est_status_from_errno(output_error);
    if (status == EST_OK) status = EST_UNKNOWN;
    return est_fail(status, "cannot write to %s: %s", output_name, strerror(output_error));
}

est_status tool_output_to(const char *path)
{
    output_name = path;
    if (freopen(path, "w", stdout) != NULL) return EST_OK;
    return est_fail(est_status_from_errno(errno), "cannot write to %s: %s", path, strerror(errno));
}

est_status tool_write(est_strbuf *text)
{
    EST_TRY(est_strbuf_status(text));
    if (!ferror(stdout)) {
        errno = 0;
        fwrite(est_strbuf_text(text), 1, text->size, stdout);
    }
    est_strbuf_reset(text);
    return report_output();
}

est_status tool_flush(void)
{
    if (!ferror(stdout)) {
        errno = 0;
        fflush(stdout);
    }
    return report_output();
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static void append_number(est_strbuf *out, double value, bool is_f32, bool as_json)
{
    char text[EST_NUMBER_TEXT_MAX];

    if (as_json && !isfinite(value)) {
        est_strbuf_append(out, isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else {
        est_strbuf_append(out, is_f32 ? est_number_f32_text((float)value, text) : est_number_f64_text(value, text));
    }
}

void tool_append_f32(est_strbuf *out, float value)
{
    append_number(out, value, true, false);
}

void tool_append_f64(est_strbuf *out, double value)
{
    append_number(out, value, false, false);
}

void tool_append_json_f32(est_strbuf *out, float value)
{
    append_number(out, value, true, true);
}

void tool_append_json_f64(est_strbuf *out, double value)
{
    append_number(out, value, false, true);
}

void tool_append_json_shape(est_strbuf *out, const est_shape *shape)
{
    if (shape->rank < 0) {
        est_strbuf_append(out, "null");
        return;
    }
    est_strbuf_append(out, "[");
    for (int i = 0; i < shape->rank; i++) {
        if (i > 0) est_strbuf_append(out, ",");
        if (shape->dim[i] < 0) {
            est_strbuf_append(out, "null");
        } else {
            est_strbuf_printf(out, "%" PRId64, shape->dim[i]);
        }
    }
    est_strbuf_append(out, "]");
}

void tool_append_element(est_strbuf *out, const est_tensor *tensor, int64_t i, bool as_json)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: append_number(out, ((const float *)data)[i], true, as_json); break;
    case EST_F64: append_number(out, ((const double *)data)[i], false, as_json); break;
    case EST_I32: est_strbuf_printf(out, "%" PRId32, ((const int32_t *)data)[i]); break;
    case EST_I64: est_strbuf_printf(out, "%" PRId64, ((const int64_t *)data)[i]); break;
    case EST_U8: est_strbuf_printf(out, "%d", ((const uint8_t *)data)[i]); break;
    case EST_BOOL: est_strbuf_append(out, ((const uint8_t *)data)[i] ? "true" : "false"); break;
    case EST_STRING: tool_append_json_bytes(out, ((const est_str *)data)[i]); break;
    default: est_strbuf_append(out, "null"); break;
    }
}

/* --- text --------------------------------------------------------------------------------------------------------- */

bool tool_is_utf8(est_str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.data;

    for (size_t i = 0; i < bytes.size;) {
        size_t size = est_utf8_size(p + i, bytes.size - i);

        if (size == 0) return false;
        i += size;
    }
    return true;
}

void tool_append_base64(est_strbuf *out, est_str bytes)
{
    static const char    digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p        = (const unsigned char *)bytes.data;

    for (size_t i = 0; i < bytes.size && !out->failed; i += 3) {
        size_t   n     = bytes.size - i < 3 ? bytes.size - i : 3;
        uint32_t group = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        char     text[4];

        for (size_t k = 0; k < 4; k++) text[k] = k <= n ? digits[group >> (18 - 6 * k) & 63] : '=';
        est_strbuf_append_bytes(out, text, sizeof text);
    }
}

void tool_append_json_bytes(est_strbuf *out, est_str bytes)
{
    if (tool_is_utf8(bytes) && (bytes.size == 0 || memchr(bytes.data, 0, bytes.size) == NULL)) {
        est_strbuf_append_json(out, bytes.data, bytes.size);
        return;
    }
    est_strbuf_append(out, "{\"b64\": \"");
    tool_append_base64(out, bytes);
    est_strbuf_append(out, "\"}");
}

void tool_append_json_text(est_strbuf *out, const char *text)
{
    est_strbuf_append_json(out, text, strlen(text));
}

void tool_append_printable(est_strbuf *out, est_str text, size_t max)
{
    const unsigned char *p = (const unsigned char *)text.data;
    size_t               n = 0, cut_at = out->size;

    for (size_t i = 0; i < text.size && !out->failed;) {
        size_t size  = est_utf8_size(p + i, text.size - i);
        bool   shown = size > 0 && !est_utf8_is_control(p + i, size);
        size_t wide  = shown ? 1 : 4;

        if (max > 0 && n + wide > max) {
            out->size = cut_at; /* of a buffer that has been appended to */
            est_strbuf_append(out, "...");
            return;
        }
        if (shown) {
            est_strbuf_append_bytes(out, p + i, size);
        } else {
            est_strbuf_printf(out, "\\x%02x", p[i]);
        }
        n += wide;
        i += shown ? size : 1;
        if (max > 0 && n <= max - 3) cut_at = out->size;
    }
}

void tool_append_time(est_strbuf *out, double seconds_since_1970)
{
    double    whole = floor(seconds_since_1970);
    int       millis;
    time_t    seconds;
    struct tm parts;
    char      text[32];

    if (!(fabs(seconds_since_1970) < 1e11)) { /* the year 5138; also NaN */
        tool_append_f64(out, seconds_since_1970);
        return;
    }
    millis  = (int)((seconds_since_1970 - whole) * 1000);
    seconds = (time_t)whole;
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    est_strbuf_printf(out, "%s.%03dZ", text, millis);
}

const char *tool_dtype_name(int dtype)
{
    static const char *const others[] = {
        [5] = "int16",       [6] = "int8",      [8] = "complex64", [11] = "qint8",   [12] = "quint8",
        [13] = "qint32",     [14] = "bfloat16", [15] = "qint16",   [16] = "quint16", [17] = "uint16",
        [18] = "complex128", [19] = "float16",  [21] = "variant",  [22] = "uint32",  [23] = "uint64"
    };

    if (dtype >= 0 && dtype < (int)(sizeof others / sizeof others[0]) && others[dtype] != NULL) return others[dtype];
    return est_dtype_name((est_dtype)dtype);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* Columns that the text takes on a terminal: one a character. */
static size_t text_width(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void end_cell(tool_table *table)
{
    const char *text  = est_strbuf_text(&table->scratch);
    size_t      width = text_width(text);

    if (width > table->width[table->at]) table->width[table->at] = width;
    est_strbuf_append_bytes(&table->cells, text, table->scratch.size + 1);
    table->cells.failed |= table->scratch.failed;
    est_strbuf_reset(&table->scratch);
    table->at++;
}

void tool_table_begin(tool_table *table, const char *const *names, int n)
{
    table->n_columns = n;
    for (int c = 0; c < n; c++) tool_table_cell(table, "%s", names[c]);
    table->at     = 0;
    table->n_rows = 1;
}

void tool_table_cell(tool_table *table, const char *fmt, ...)
{
    char    text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    est_strbuf_append(&table->scratch, text);
    end_cell(table);
}

void tool_table_text(tool_table *table, est_str text, size_t max)
{
    tool_append_printable(&table->scratch, text, max);
    end_cell(table);
}

static void print_cell(est_strbuf *out, const char *text, size_t width, bool right, bool last)
{
    size_t blank = width - text_width(text);

    if (right) est_strbuf_printf(out, "%*s", (int)blank, "");
    est_strbuf_append(out, text);
    if (!right && !last) est_strbuf_printf(out, "%*s", (int)blank, "");
    if (!last) est_strbuf_append(out, "  ");
}

static est_status print_rows(tool_table *table)
{
    est_strbuf  out    = { 0 };
    const char *cell   = est_strbuf_text(&table->cells);
    est_status  status = est_strbuf_status(&table->cells);

    for (size_t r = 0; r < table->n_rows && status == EST_OK; r++) {
        for (int c = 0; c < table->n_columns; c++) {
            print_cell(&out, cell, table->width[c], table->right >> c & 1, c == table->n_columns - 1);
            cell += strlen(cell) + 1;
        }
        while (out.size > 0 && out.data[out.size - 1] == ' ') out.data[--out.size] = '\0';
        est_strbuf_append(&out, "\n");
        status = tool_write(&out);
    }
    est_strbuf_clear(&out);
    est_strbuf_reset(&table->cells);
    table->n_rows = 0;
    return status;
}

est_status tool_table_row(tool_table *table)
{
    while (table->at < table->n_columns) tool_table_cell(table, "%s", "");
    table->at = 0;
    table->n_rows++;
    return table->n_rows < TABLE_ROWS_MAX ? EST_OK : print_rows(table);
}

est_status tool_table_end(tool_table *table)
{
    return print_rows(table);
}

void tool_table_clear(tool_table *table)
{
    est_strbuf_clear(&table->cells);
    est_strbuf_clear(&table->scratch);
}
