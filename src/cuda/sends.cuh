/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies from the host of a queue. A step of a model over many features has dozens of small ones, each of which costs the
 * host some microseconds: they are gathered in memory that the GPU sees, and one kernel takes them to their places. */
#ifndef EST_CUDA_SENDS_CUH
#define EST_CUDA_SENDS_CUH

#include <cuda_runtime.h>
#include <stddef.h>

typedef struct est_sends est_sends;

/* NULL: no memory. The kernels go to the stream. */
est_sends *est_sends_create(cudaStream_t stream);
void       est_sends_free(est_sends *sends); /* NULL is fine; after all that the stream does */

/* Copies now or at the next flush; `from` has been read when it returns. 0 or a cudaError. */
int est_sends_add(est_sends *sends, void *to, const void *from, size_t bytes);

/* Enqueues what was gathered: before anything else is enqueued. */
int est_sends_flush(est_sends *sends);

#endif
