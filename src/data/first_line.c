/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line of a file. */
#include "data/first_line.h"

#include "format/lines.h"

est_status est_first_line_read(const char *path, bool quoted, est_strbuf *out)
{
    est_lines *lines;
    est_str    line;
    est_status status;

    EST_TRY(
        est_lines_open(path, &(est_lines_read_options){ .buffer_bytes = (size_t)64 << 10, .quoted = quoted }, &lines));
    status = est_lines_next(lines, &line);
    if (status == EST_OUT_OF_RANGE) status = est_fail(EST_DATA_LOSS, "%s is empty, its first line is wanted", path);
    if (status == EST_OK) {
        est_strbuf_append_bytes(out, line.data, line.size);
        status = est_strbuf_status(out);
    }
    est_lines_close(lines);
    return status;
}
