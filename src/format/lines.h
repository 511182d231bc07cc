/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of text files, plain or compressed. A line ends with LF or CRLF, which are not part of it; the last one may end
 * with the file. A UTF-8 byte order mark at the start is skipped. Empty lines are lines.
 *
 *     while ((status = est_lines_next_many(lines, rows, 512, &n)) == EST_OK) use(rows, n);
 *     if (status == EST_OUT_OF_RANGE) status = EST_OK;     (the end, not an error)
 *
 * With `quoted`, a line break between double quotes belongs to the record, as RFC 4180 has it. Quotes open only where a
 * field begins, and a doubled one inside does not close them, as in format/csv.h. A quote that is not closed before the
 * file ends, or within line_bytes_max, opens nothing: its line is handed out as it is, for the parser to refuse, and
 * the next line begins a record. One thread at a time. */
#ifndef EST_FORMAT_LINES_H
#define EST_FORMAT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"
#include "estoc/tensor.h"
#include "estoc/tfrecord.h"
#include "format/byte_source.h"

/* A zeroed struct is a valid one. */
typedef struct est_lines_read_options {
    est_compression compression;    /* 0: detected from the first bytes */
    size_t          buffer_bytes;   /* 0: 1 MiB; read at a time */
    size_t          line_bytes_max; /* 0: 64 MiB; a longer line is EST_RESOURCE_EXHAUSTED */
    bool            quoted;         /* a line break between double quotes does not end a record */
    char            delimiter;      /* 0: ','; with quoted: between fields */
    bool            trim;           /* with quoted: a field begins behind the blanks and tabs before it */
} est_lines_read_options;

/* A place between two lines. */
typedef struct est_lines_position {
    uint64_t offset; /* bytes before it, of the uncompressed contents */
    uint64_t line;   /* physical lines before it */
    uint64_t open;   /* with quoted: a line break between quotes before this offset is known not to be closed */
} est_lines_position;

typedef struct est_lines est_lines;

/* Opens a file at its first line. `path` and the options are copied; `options` may be NULL. */
EST_MUST_CHECK est_status est_lines_open(const char *path, const est_lines_read_options *options, est_lines **out);

/* NULL is fine. */
void est_lines_close(est_lines *lines);

/* The next line, borrowed until the next call with this reader; EST_OUT_OF_RANGE (without a message) at the end. After
 * a failure the reader stays before the line that failed. */
EST_MUST_CHECK est_status est_lines_next(est_lines *lines, est_str *line);

/* The next lines, at most max (>= 1), all borrowed until the next call with this reader; *n tells how many. There are
 * fewer than max only before the end, before a line that fails (the next call tells how), or when max of them are
 * longer than the buffer; never 0. EST_OUT_OF_RANGE as above. */
EST_MUST_CHECK est_status est_lines_next_many(est_lines *lines, est_str *out, size_t max, size_t *n);

/* Whether est_lines_next would not block on the writer of a pipe: it has a whole line, the end or a failure. Reads the
 * available bytes, up to the buffer size, and returns true beyond that; lines of earlier calls are invalid then. */
bool est_lines_is_ready(est_lines *lines);

/* The number (from 1) of the physical line that a line of the last call starts at: for messages; it counts line
 * breaks. */
uint64_t est_lines_number(const est_lines *lines, est_str line);

/* Where the reader is: before the line that est_lines_next would return. */
est_lines_position est_lines_tell(const est_lines *lines);

/* Seeks to a position of est_lines_tell in this file. In a compressed file this reads everything before it. */
EST_MUST_CHECK est_status est_lines_seek(est_lines *lines, est_lines_position position);

/* What it reads from: for marks. It is moved by this reader alone. */
est_byte_source *est_lines_source(est_lines *lines);

const char *est_lines_path(const est_lines *lines); /* borrowed until it is closed */

#endif
