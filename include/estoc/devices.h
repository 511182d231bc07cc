/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of this process: its CPU, and GPUs where libestoc_cuda.so finds some.
 *
 * Operations are pinned to a device with est_graph_device; est_session_options says which devices a session uses. Any
 * thread. */
#ifndef ESTOC_DEVICES_H
#define ESTOC_DEVICES_H

#include "estoc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_device_info {
    char     name[64];         /* "/device:GPU:0" */
    char     description[160]; /* for people: "NVIDIA H200, compute capability 9.0" */
    uint64_t memory_bytes;     /* that it has in all */
    uint64_t free_bytes;       /* of that, free now */
    uint64_t reserved[4];      /* zeros: room for members to come */
} est_device_info;

/* Fills in the first `max` devices, CPU first, and returns how many there are (tf.config.list_physical_devices). The
 * first call opens libestoc_cuda.so, whose GPUs are those that CUDA_VISIBLE_DEVICES leaves. out NULL: only counts. */
EST_API int est_device_list(est_device_info *out, int max);

/* Why there is no GPU, in one line; "": there is one. */
EST_API const char *est_device_missing(void);

#ifdef __cplusplus
}
#endif

#endif
