/* SPDX-License-Identifier: Apache-2.0
 *
 * EST_BOTH declares a function of the CPU that kernels of GPUs call as well. */
#ifndef EST_BASE_BOTH_H
#define EST_BASE_BOTH_H

#ifdef __CUDACC__
#define EST_BOTH static inline __host__ __device__
#else
#define EST_BOTH static inline
#endif

#endif
