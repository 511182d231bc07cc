/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of this process. Any thread. */
#ifndef EST_DEVICE_DEVICES_H
#define EST_DEVICE_DEVICES_H

#include "device/device.h"
#include "estoc/devices.h"

#define EST_DEVICES_MAX 17 /* the CPU and 16 more */

/* The CPU first, then those of the plug-in (device/plugin.h), which the first call opens. Returns how many. */
int est_devices(const est_device *const **out);

/* That of a kind, whatever its case, and number; NULL: there is none. */
const est_device *est_device_find(const char *kind, int number);

/* "/device:GPU:0" */
const char *est_device_name(const est_device *device, char *out, size_t size);
#define EST_DEVICE_NAME_MAX 64

/* Uses these devices beside the CPU, in place of those of the plug-in, which is not opened. For tests, before the first
 * call of any function here; borrowed for good. */
void est_devices_use(const est_device *const *devices, int n);

#endif
