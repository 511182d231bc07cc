/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of many lists in order, with their places (kernels/sorted_ids.h). */
#ifndef EST_CUDA_SORT_CUH
#define EST_CUDA_SORT_CUH

#include "cuda/batch.cuh"
#include "kernels/sorted_ids.h"

typedef struct est_sort {
    const void    *ids;
    const int32_t *row_of; /* per place: below 0: the id is dropped; NULL: none is, but for padding (est_is_pad) */
    uint64_t      *key[2]; /* the first gets the sorted ids; the second is room for as many */
    int64_t        n;
    bool           wide; /* int64 */
} est_sort;

/* Sorts n lists. Returns 0 or a cudaError. */
int est_sort_launch(const est_call *c, const est_sort *calls, int n);

#endif
