/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of a dataset's cache. The input is records, each behind two bytes with its size; the file is made
 * of them with the right checksums, so that what the records hold is what is tried. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "estoc/dataset.h"

#define ELEMENTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static void write_records(const char *path, const uint8_t *data, size_t size)
{
    est_tfrecord_writer *writer;

    require(est_tfrecord_create(path, NULL, &writer) == EST_OK);
    while (size >= 2) {
        size_t n = (size_t)data[0] << 8 | data[1];

        if (n > size - 2) n = size - 2;
        require(est_tfrecord_write(writer, data + 2, n) == EST_OK);
        data += 2 + n;
        size -= 2 + n;
    }
    require(est_tfrecord_finish(writer) == EST_OK);
}

/* Two components, one of them ragged, of which the cache says what they are. */
static est_dataset *cached(const char *path)
{
    est_dataset *d = est_dataset_enumerate(est_dataset_batch(est_dataset_range(0, 4, 1), 2, NULL), 0);

    return est_dataset_cache(est_dataset_batch(d, 2, EST_BATCH(.rows = EST_ROWS_RAGGED)), path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int    fd = -1;
    char          path[64];
    est_dataset  *dataset;
    est_iterator *rows;
    est_field     element[2];

    if (fd < 0) fd = memfd_create("cache", 0);
    require(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    write_records(path, data, size);
    require(est_dataset_finish(cached(path), &dataset) == EST_OK);
    if (est_iterator_create(dataset, &rows) == EST_OK) {
        for (int i = 0; i < ELEMENTS_MAX && est_iterator_next(rows, element) == EST_OK; i++) {
            est_element_clear(element, 2);
        }
        est_iterator_free(rows);
    }
    est_dataset_free(dataset);
    return 0;
}
