/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a device. The CPU is the only one: sessions, stores and kernels use the process's own memory directly,
 * so another device needs more than another struct of this kind. */
#ifndef EST_DEVICE_DEVICE_H
#define EST_DEVICE_DEVICE_H

#include "estoc/status.h"

typedef struct est_device {
    /* Aligned for the widest vector; NULL when out of memory. zalloc: all zeros; unused parts of a large block take no
     * memory. free accepts NULL. */
    void *(*alloc)(size_t bytes);
    void *(*zalloc)(size_t bytes);
    void (*free)(void *p);

    /* The same for memory that is zero and costs only where it is touched; release is told its size. */
    void *(*reserve)(size_t bytes);
    void (*release)(void *p, size_t bytes);

    void (*copy_in)(void *to, const void *from, size_t bytes);
} est_device;

extern const est_device est_device_cpu;

#endif
