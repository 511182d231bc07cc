/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of lookups in columns on the CPU and on GPUs share. */
#ifndef EST_OPS_GATHER_CONCAT_H
#define EST_OPS_GATHER_CONCAT_H

#include "graph/op.h"

/* The place of a failure on a GPU (est_error_word.place): the lookup, then the place among its indices. */
#define EST_JOIN_PLACE_BITS 40

/* In param[]: of EstGatherConcat how many lookups come first, and the address of its columns; of EstDedupSlice. */
enum { EST_JOIN_LOOKUPS, EST_JOIN_COLUMNS };
enum { EST_SLICE_COLUMN };

#define EST_GATHER_SUM_MAX 64 /* terms of EstGatherSum on a GPU */

#ifdef __cplusplus
extern "C" {
#endif

/* est_kernel.fail of lookups that are joined, or summed. */
est_status est_join_fail(const est_call *c, int64_t place, const int64_t value[2]);

#ifdef __cplusplus
}
#endif

#endif
