/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a device: memory is the process's own. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/device.h"

static void *cpu_alloc(const est_device *device, size_t bytes)
{
    (void)device;
    return est_alloc_aligned(bytes);
}

static void *cpu_zalloc(const est_device *device, size_t bytes)
{
    (void)device;
    return est_zalloc_aligned(bytes);
}

static void cpu_free(const est_device *device, void *p)
{
    (void)device;
    est_free_aligned(p);
}

static est_status cpu_copy(const est_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes > 0) memcpy(to, from, bytes);
    return EST_OK;
}

static void cpu_memory(const est_device *device, size_t *available, size_t *total)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)device;
    *available = (size_t)sysconf(_SC_AVPHYS_PAGES) * page;
    *total     = (size_t)sysconf(_SC_PHYS_PAGES) * page;
}

const est_device est_device_cpu = {
    .kind          = "CPU",
    .description   = "the processors of this machine",
    .alignment     = EST_ALIGNMENT,
    .alloc         = cpu_alloc,
    .zalloc        = cpu_zalloc,
    .free          = cpu_free,
    .alloc_staging = cpu_alloc,
    .free_staging  = cpu_free,
    .copy_in       = cpu_copy,
    .copy_out      = cpu_copy,
    .memory        = cpu_memory,
};
