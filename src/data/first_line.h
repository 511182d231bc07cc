/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line of a file: where a CSV file has its header. */
#ifndef EST_DATA_FIRST_LINE_H
#define EST_DATA_FIRST_LINE_H

#include "base/strbuf.h"
#include "format/lines.h"

/* Appends the first line of a file, without its end, to `out`. An empty file is an error, and so is one that is not a
 * regular file, since it cannot be read twice. */
EST_MUST_CHECK est_status est_first_line_read(const char *path, const est_lines_read_options *options, est_strbuf *out);

#endif
