/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line of a file. */
#include "data/first_line.h"

#include <sys/stat.h>

est_status est_first_line_read(const char *path, const est_lines_read_options *options, est_strbuf *out)
{
    struct stat about;
    est_lines  *lines;
    est_str     line;
    est_status  status;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s is not a regular file, and its first line would have to be read again; copy it to a file, "
                        "or give field_names in place of header",
                        path);
    }
    EST_TRY(est_lines_open(path, options, &lines));
    status = est_lines_next(lines, &line);
    if (status == EST_OUT_OF_RANGE) status = est_fail(EST_DATA_LOSS, "%s is empty, expected a header line", path);
    if (status == EST_OK) {
        est_strbuf_append_bytes(out, line.data, line.size);
        status = est_strbuf_status(out);
    }
    est_lines_close(lines);
    return status;
}
