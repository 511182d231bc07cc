/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of lines. The first byte chooses the options, the rest is the file. Lines read one by one, many at
 * once and after going back to their places must be the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "format/lines.h"

#define LINES_MAX 64
#define MANY      5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seen {
    est_lines_position at;
    size_t             size;
    uint32_t           crc;
} seen;

static void require(bool holds)
{
    if (!holds) abort();
}

static void require_line(est_str line, const seen *want)
{
    require(line.size == want->size && est_crc32c(line.data, line.size) == want->crc);
}

static void read_again(est_lines *lines, const seen *all, int n)
{
    for (int i = n - 1; i >= 0; i -= 1 + n / 4) {
        est_str got[MANY];
        size_t  count;

        require(est_lines_seek(lines, all[i].at) == EST_OK);
        require(est_lines_next_many(lines, got, MANY, &count) == EST_OK);
        for (size_t k = 0; k < count && i + (int)k < n; k++) {
            require_line(got[k], &all[i + (int)k]);
            require(est_lines_number(lines, got[k]) == all[i + (int)k].at.line + 1);
        }
    }
}

static void read_file(const char *path, const est_lines_read_options *options)
{
    est_lines *lines;
    est_str    line;
    seen       all[LINES_MAX];
    int        n = 0;

    if (est_lines_open(path, options, &lines) != EST_OK) return;
    while (n < LINES_MAX) {
        all[n].at = est_lines_tell(lines);
        if (est_lines_next(lines, &line) != EST_OK) break;
        all[n].size = line.size;
        all[n].crc  = est_crc32c(line.data, line.size);
        n++;
    }
    read_again(lines, all, n);
    est_lines_close(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int  fd;

    if (size < 1) return 0;
    fd = memfd_create("lines", 0);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data + 1, size - 1) == (ssize_t)(size - 1)) {
        read_file(path, &(est_lines_read_options){ .compression    = (est_compression)(data[0] & 3),
                                                   .buffer_bytes   = (data[0] & 4) != 0 ? 1 : 0,
                                                   .quoted         = (data[0] & 8) != 0,
                                                   .trim           = (data[0] & 32) != 0,
                                                   .delimiter      = (data[0] & 64) != 0 ? '\t' : 0,
                                                   .line_bytes_max = (data[0] & 16) != 0 ? 100 : 1 << 16 });
    }
    close(fd);
    return 0;
}
