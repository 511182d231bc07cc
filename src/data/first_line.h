/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line of a file: where a CSV file has its header. */
#ifndef EST_DATA_FIRST_LINE_H
#define EST_DATA_FIRST_LINE_H

#include <stdbool.h>

#include "base/strbuf.h"

/* Appends the first line of a file, compressed or not, without its end, to `out`. `quoted`: a line end inside double
 * quotes does not end it. A file without a line is an error. */
EST_MUST_CHECK est_status est_first_line_read(const char *path, bool quoted, est_strbuf *out);

#endif
