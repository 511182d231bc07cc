/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the TFRecord reader. The first byte chooses the compression and the size of the buffer, the rest is the file.
 * What is read twice, once whole and once by going back to every position, must be the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "estoc/tfrecord.h"

#define RECORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seen {
    est_tfrecord_position at;
    size_t                size;
    uint32_t              crc;
} seen;

static void require(bool holds)
{
    if (!holds) abort();
}

static void read_again(est_tfrecord_reader *r, const seen *records, int n)
{
    for (int i = n - 1; i >= 0; i -= 1 + n / 4) {
        est_str record;

        require(est_tfrecord_seek(r, records[i].at) == EST_OK);
        require(est_tfrecord_next(r, &record) == EST_OK);
        require(record.size == records[i].size && est_crc32c(record.data, record.size) == records[i].crc);
    }
}

static void read_file(const char *path, const est_tfrecord_read_options *options)
{
    est_tfrecord_reader *r;
    est_str              record;
    seen                 records[RECORDS_MAX];
    int                  n = 0;

    if (est_tfrecord_open(path, options, &r) != EST_OK) return;
    while (n < RECORDS_MAX) {
        records[n].at = est_tfrecord_tell(r);
        require(records[n].at.record == (uint64_t)n);
        if (est_tfrecord_next(r, &record) != EST_OK) break;
        records[n].size = record.size;
        records[n].crc  = est_crc32c(record.data, record.size);
        n++;
    }
    read_again(r, records, n);
    est_tfrecord_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int  fd;

    if (size < 1) return 0;
    fd = memfd_create("tfrecord", 0);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data + 1, size - 1) == (ssize_t)(size - 1)) {
        read_file(path, EST_TFRECORD_READ(.compression  = (est_compression)(data[0] & 3),
                                          .buffer_bytes = (data[0] & 4) != 0 ? 1 : 0, .record_bytes_max = 1 << 16));
    }
    close(fd);
    return 0;
}
