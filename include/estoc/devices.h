/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of this process: its CPU, and GPUs where libestoc_cuda.so finds some.
 *
 * Operations are pinned to a device with est_graph_device; est_session_options says which devices a session uses.
 * "/device:GPU:*" is every GPU of the session: a variable that is pinned to it has a copy on each, and an operation
 * runs on each that needs its result. Any thread. */
#ifndef ESTOC_DEVICES_H
#define ESTOC_DEVICES_H

#include "estoc/tensor.h"

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

/* A copy of a tensor of numbers in the memory of a device, "/gpu:0"; "/cpu:0": a reference to the tensor itself. A
 * session that computes on the device uses it where it lies: a batch that is fed again costs no copy. Its elements are
 * not the host's to touch (est_tensor_data gives NULL); est_tensor_to_host copies them back, or gives a reference to a
 * tensor that is the host's already. */
EST_API EST_MUST_CHECK est_status est_tensor_to_device(est_tensor *tensor, const char *device, est_tensor **out);
EST_API EST_MUST_CHECK est_status est_tensor_to_host(est_tensor *tensor, est_tensor **out);

/* Where the elements are: "/device:GPU:0", "/device:CPU:0"; NULL without a tensor or room. */
EST_API const char *est_tensor_device_name(const est_tensor *tensor, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
