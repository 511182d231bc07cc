/* SPDX-License-Identifier: Apache-2.0
 *
 * What libestoc_cuda.so shows: one function, est_cuda_plugin, which returns this. It calls nothing of libestoc but what
 * it is given pointers to, and it is of the same build: EST_PLUGIN_BUILD is a fingerprint of the headers that both are
 * compiled with (CMakeLists.txt), and another one is refused. */
#ifndef EST_DEVICE_PLUGIN_H
#define EST_DEVICE_PLUGIN_H

#include "device/device.h"

/* What the plug-in calls: the functions of est_fail, so that its failures have texts as all others. */
typedef struct est_plugin_host {
    est_status (*fail_at)(const char *file, int line, est_status status, const char *fmt, ...) EST_PRINTF(4, 5);
} est_plugin_host;

typedef struct est_plugin {
    const char              *build;     /* EST_PLUGIN_BUILD */
    int                      n_devices; /* 0: none, and `missing` says why */
    const est_device *const *devices;   /* in order of their numbers */
    const char              *missing;   /* "the NVIDIA driver is not installed (libcuda.so.1)" */
} est_plugin;

typedef const est_plugin *est_plugin_fn(const est_plugin_host *host); /* host: borrowed for good */
#define EST_PLUGIN_SYMBOL "est_cuda_plugin"

#endif
