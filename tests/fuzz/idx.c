/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of IDX files. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char        path[64];
    est_tensor *tensor;
    int         fd = memfd_create("idx", 0);

    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size && est_idx_read(path, &tensor) == EST_OK) {
        const char   *bytes = est_tensor_data(tensor);
        volatile char sink  = 0;

        for (size_t i = 0; i < est_tensor_bytes(tensor); i++) sink = (char)(sink ^ bytes[i]);
        est_tensor_free(tensor);
    }
    close(fd);
    return 0;
}
