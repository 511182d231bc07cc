/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a file as memory. */
#include "base/mapping.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"

est_status est_mapping_init(est_mapping *mapping, int fd, const char *path, int64_t offset, size_t size)
{
    int64_t within = offset % sysconf(_SC_PAGESIZE);
    size_t  bytes  = size + (size_t)within;
    void   *pages  = EST_FAULT_POINT("mapping.init")
                         ? (errno = ENOMEM, MAP_FAILED)
                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, offset - within);

    if (pages == MAP_FAILED) {
        return est_fail(est_status_from_errno(errno), "cannot map %zu bytes of %s: %s", size, path, strerror(errno));
    }
    *mapping = (est_mapping){ .data = (char *)pages + within, .pages = pages, .size = bytes };
    return EST_OK;
}

void est_mapping_clear(est_mapping *mapping)
{
    if (mapping->pages != NULL) munmap(mapping->pages, mapping->size);
    *mapping = (est_mapping){ 0 };
}
