/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted ids, as EstSortIds makes them and kernels of the CPU and of GPUs read them: 40 bits for the id and 24 for its
 * place in the list, in a word. So ids that are equal are in the order of their places. Rows of a table come first; ids
 * below 0 follow, then what stands for no id. Ids with more bits are rows of no table, and taken for the greatest. */
#ifndef EST_KERNELS_SORTED_IDS_H
#define EST_KERNELS_SORTED_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/both.h"

#define EST_PLACE_BITS 24
#define EST_ID_DROPPED (UINT64_MAX >> EST_PLACE_BITS)  /* in place of an id that stands for none */
#define EST_ID_MOST    ((int64_t)(EST_ID_DROPPED / 2)) /* of those from 0 up */

EST_BOTH uint64_t est_sorted_key(int64_t id, bool dropped, int64_t place)
{
    int64_t  clipped = id < -EST_ID_MOST ? -EST_ID_MOST : id > EST_ID_MOST ? EST_ID_MOST : id;
    uint64_t bits    = clipped >= 0 ? (uint64_t)clipped : EST_ID_DROPPED - (uint64_t)-clipped;

    return (dropped ? EST_ID_DROPPED : bits) << EST_PLACE_BITS | (uint64_t)place;
}

/* The id, or what is greater than every row: equal for equal ids; EST_ID_DROPPED. */
EST_BOTH uint64_t est_sorted_row(uint64_t key)
{
    return key >> EST_PLACE_BITS;
}

EST_BOTH int32_t est_sorted_place(uint64_t key)
{
    return (int32_t)(key & ((1u << EST_PLACE_BITS) - 1));
}

#endif
