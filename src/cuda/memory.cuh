/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU. */
#ifndef EST_CUDA_MEMORY_CUH
#define EST_CUDA_MEMORY_CUH

#include <stddef.h>

/* Of the GPU that is current (cudaSetDevice); NULL: there is not so much. */
void *est_cuda_alloc(int gpu, size_t bytes);

/* Nothing uses it any more. */
void est_cuda_free(int gpu, void *p);

#endif
