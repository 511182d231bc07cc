/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a file as memory. They are the page cache's until they are written to: processes that map the same file
 * share them, and what is written stays in the process that wrote it. Any thread. */
#ifndef EST_BASE_MAPPING_H
#define EST_BASE_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"

/* A zeroed struct has no pages. */
typedef struct est_mapping {
    void  *data; /* the byte that was asked for */
    void  *pages;
    size_t size; /* of the pages */
} est_mapping;

/* Maps `size` (> 0) bytes of an open file from `offset` on; `path` is for the error. The caller has checked that the
 * file has them: bytes that a file loses later are a SIGBUS when they are read. The descriptor may be closed. */
EST_MUST_CHECK est_status est_mapping_init(est_mapping *mapping, int fd, const char *path, int64_t offset, size_t size);
void                      est_mapping_clear(est_mapping *mapping);

#endif
