/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on standard output, or in a file in its place: text with checked writes, JSON, tables.
 *
 * A text is put together in an est_strbuf and then written. Writing to a pipe whose reader has gone gives
 * EST_CANCELLED, which ends the command and is not an error.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_OUTPUT_H
#define EST_CLI_OUTPUT_H

#include "base/strbuf.h"
#include "estoc/tensor.h"

/* From here on output goes to this file, whose name is borrowed. */
EST_MUST_CHECK est_status tool_output_to(const char *path);

/* Writes the text and empties it; also reports failures of the text. */
EST_MUST_CHECK est_status tool_write(est_strbuf *text);

/* Flushes the buffer and reports failed writes since the start. */
EST_MUST_CHECK est_status tool_flush(void);

/* --- values as text ----------------------------------------------------------------------------------------------- */

/* The shortest decimal that reads back as the same number, always with a point or an exponent. NaN and infinities are
 * nan, inf, -inf; in JSON the strings "NaN", "Infinity", "-Infinity". */
void tool_append_f32(est_strbuf *out, float value);
void tool_append_f64(est_strbuf *out, double value);
void tool_append_json_f32(est_strbuf *out, float value);
void tool_append_json_f64(est_strbuf *out, double value);

/* Bytes as a JSON string when they are UTF-8 without a 0, else as {"b64": "..."}. */
void tool_append_json_bytes(est_strbuf *out, est_str bytes);
void tool_append_base64(est_strbuf *out, est_str bytes); /* without quotes */
void tool_append_json_text(est_strbuf *out, const char *text);

/* [2,3]; null when the rank is not known; null in the place of a dimension that is not known. */
void tool_append_json_shape(est_strbuf *out, const est_shape *shape);

/* Text for a terminal: bytes that could move the cursor, and those that are no UTF-8, become \xNN. At most `max`
 * characters, the last ones "..." when some are left out; 0: all. */
void tool_append_printable(est_strbuf *out, est_str text, size_t max);

/* Element i of a tensor: a number, true or false, a string. */
void tool_append_element(est_strbuf *out, const est_tensor *tensor, int64_t i, bool as_json);

/* 2023-11-14T22:13:20.250Z */
void tool_append_time(est_strbuf *out, double seconds_since_1970);

bool tool_is_utf8(est_str bytes);

/* The name of TensorFlow's DataType number, "float16" as well as those that tensors here can have. */
const char *tool_dtype_name(int dtype);

/* --- tables ------------------------------------------------------------------------------------------------------- */

#define TOOL_COLUMNS_MAX 12

/* Rows of cells, aligned. Many rows are printed in parts, so that memory is bounded: a later part may be wider. A
 * zeroed struct with `right` set is an empty table. */
typedef struct tool_table {
    unsigned   right; /* bit c: column c is aligned to the right */
    int        n_columns;
    int        at;      /* column of the next cell */
    size_t     n_rows;  /* not yet printed */
    est_strbuf cells;   /* each ends in a 0 */
    est_strbuf scratch; /* the cell under construction */
    size_t     width[TOOL_COLUMNS_MAX];
} tool_table;

/* Begins a table with its head: n column names. */
void tool_table_begin(tool_table *table, const char *const *names, int n);

/* Adds a cell to the row; text is made printable and cut to `max` characters (0: not cut). */
void tool_table_cell(tool_table *table, const char *fmt, ...) EST_PRINTF(2, 3);
void tool_table_text(tool_table *table, est_str text, size_t max);

/* Ends the row: cells that are missing stay empty. */
EST_MUST_CHECK est_status tool_table_row(tool_table *table);

/* Prints what is left. */
EST_MUST_CHECK est_status tool_table_end(tool_table *table);
void                      tool_table_clear(tool_table *table);

#endif
