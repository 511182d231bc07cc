/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a device: where tensors of a step live and how bytes get there and back.
 *
 * A device is one const struct of function pointers, listed in est_devices[]. The runtime asks it for the memory of
 * variables and of a step's slab, and copies feeds in and fetches out through it; kernels of an op are chosen by
 * device. The CPU is the device on which memory is the process's own: there copies are memcpy, and a feed is used where
 * it lies. */
#ifndef EST_DEVICE_DEVICE_H
#define EST_DEVICE_DEVICE_H

#include "estoc/status.h"

typedef struct est_device {
    const char *name;        /* as in device strings: "CPU" */
    const char *description; /* one line, for listings */

    /* Aligned for the widest vector; NULL when memory is out. zalloc: all zeros, and what of a large block is never
     * used takes no memory. free accepts NULL. */
    void *(*alloc)(size_t bytes);
    void *(*zalloc)(size_t bytes);
    void (*free)(void *p);

    /* The same for memory that is zero and costs only where it is touched; release is told its size. */
    void *(*reserve)(size_t bytes);
    void (*release)(void *p, size_t bytes);

    /* Between the process's memory and the device's; done when they return. */
    void (*copy_in)(void *to, const void *from, size_t bytes);
    void (*copy_out)(void *to, const void *from, size_t bytes);
} est_device;

extern const est_device est_device_cpu;

/* All devices this build knows, best first, ended by NULL. */
extern const est_device *const est_devices[];

#endif
