/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums between GPUs by NCCL. */
#ifndef EST_CUDA_NCCL_CUH
#define EST_CUDA_NCCL_CUH

#include "device/plugin.h"

const est_device_sums *est_nccl_sums(const est_plugin_host *functions);

#endif
