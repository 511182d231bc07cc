/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a device: memory is the process's own. */
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) memcpy(to, from, bytes);
}

const est_device est_device_cpu = {
    .alloc   = est_alloc_aligned,
    .zalloc  = est_zalloc_aligned,
    .free    = est_free_aligned,
    .reserve = est_reserve,
    .release = est_unreserve,
    .copy_in = copy,
};
